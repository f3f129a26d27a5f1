"""What holds later states of the project is removed from an image before anybody works in it, or becomes a flag."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from beyondswe.sandbox.docker import start_sandbox
from beyondswe.sandbox.engine import Engine, labels
from beyondswe.sandbox.environment import prepare
from beyondswe.sandbox.leftovers import decide, name_pattern, sort_out
from beyondswe.sandbox.types import Environment, Limits

WORK = "/srv/work"
SECRET = "the-later-answer"
LIMITS = Limits(cpus=1, memory=512 << 20)

# The answer in every place where it can be told for what it is.
SCRIPT = rf"""
set -e
mkdir -p {WORK}/my_pkg; cd {WORK}
git init -q -b main; git config user.name a; git config user.email a@x
echo 'VALUE = 1' > my_pkg/core.py; echo kept > kept.patch; touch my_pkg/__init__.py
printf 'build/\n__pycache__/\n' > .gitignore; git add -A; git commit -qm base; git rev-parse HEAD > /srv/base
echo 'VALUE = "{SECRET}"' > my_pkg/core.py
python -m compileall -q my_pkg; git diff > /opt/later.patch; cp /opt/later.patch fix.diff
mkdir -p build/lib; cp -r my_pkg build/lib/
git commit -qam later
git clone -q . /opt/clone; git clone -q --bare . /opt/mirror.git; git clone -q --depth 1 file://{WORK} /srv/shallow
git -C /opt/clone worktree add -q /opt/beside; mkdir /opt/parts; cp -r .git/objects /opt/parts/objects
git bundle create -q /var/tmp/x.bundle main; git repack -qad; cp .git/objects/pack/*.pack /var/tmp/some.pack
for file in core.py.orig core.py~ core.py.bak .core.py.swp core.py.rej; do cp my_pkg/core.py /opt/$file; done
cp my_pkg/core.py my_pkg/core.py.orig
mkdir -p /root/.cache/pip /home/dev/.cache/uv /root/.cache/pypoetry/virtualenvs /opt/wheels
for home in /root/.cache/pip /home/dev/.cache/uv; do cp my_pkg/core.py $home/; done
for name in my_pkg-2.0-py3-none-any.whl My.Pkg-2.0.tar.gz my-pkg-2.0.zip; do cp my_pkg/core.py /opt/wheels/$name; done
echo other > /opt/wheels/my_pkg_extras-1.0-py3-none-any.whl; echo other > /opt/other.patch
site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); echo $site > /srv/site
cp -r my_pkg $site/; mkdir $site/my_pkg-2.0.dist-info; echo 'my_pkg/core.py,,' > $site/my_pkg-2.0.dist-info/RECORD
mkdir /opt/my-pkg-2.0; cp my_pkg/core.py /opt/my-pkg-2.0/
git checkout -q -B main HEAD~1
"""


@pytest.fixture(scope="module")
def prepared(
    engine: Engine, base_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Environment]:
    container = engine.api.create_container(
        base_image,
        entrypoint=["bash", "-c", SCRIPT],
        host_config={"NetworkMode": "none", "Ulimits": engine.ulimits()},
    )["Id"]
    engine.api.start(container)
    assert engine.api.wait(container)["StatusCode"] == 0, engine.api.logs(container)
    tag = uuid.uuid4().hex[:12]
    changes = [f"LABEL {key}={value}" for key, value in labels(role="test").items()]
    engine.api.commit(container, "beyondswe-test/leftovers", tag, changes=changes)
    engine.api.remove_container(container)
    image = f"beyondswe-test/leftovers:{tag}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BEYONDSWE_CACHE", str(tmp_path_factory.mktemp("cache")))
        environment = prepare(engine, image, workdir=WORK, base_commit="main", names=["My-Pkg"])
        yield environment
    engine.api.remove_image(environment.image, force=True)
    engine.api.remove_image(image, force=True)


@pytest.mark.engine
def test_nothing_of_the_answer_is_left_but_what_is_flagged(engine: Engine, prepared: Environment) -> None:
    sandbox = start_sandbox(engine, prepared.image, workdir=WORK, limits=LIMITS)
    try:
        site = sandbox.run("cat /srv/site", timeout=20).stdout.decode().strip()
        found = sandbox.run(f"grep -rl {SECRET} /opt /srv /var /root /home /tmp {site}/my_pkg", timeout=60)
        kept = sandbox.run("cd /opt; ls wheels other.patch /root/.cache; ls -d */; ls /var/tmp", timeout=20)
        tree = sandbox.run("cat kept.patch; git status --porcelain; ls", timeout=20)
    finally:
        sandbox.stop()
    flagged = sorted(path.partition(":")[2] for path in prepared.flags)
    assert flagged == sorted(["/opt/my-pkg-2.0", f"{site}/my_pkg"])
    assert all(any(path.startswith(place) for place in flagged) for path in found.stdout.decode().split())
    assert {"other.patch", "my_pkg_extras-1.0-py3-none-any.whl", "pypoetry"} <= set(
        kept.stdout.decode().split()
    )
    for gone in ("clone", "mirror.git", "beside", "some.pack", "x.bundle", "parts/objects"):
        assert gone not in kept.stdout.decode(), gone
    assert tree.stdout.decode().split() == ["kept", "build", "kept.patch", "my_pkg"]
    assert any("/opt/clone" in note for note in prepared.notes)


def test_other_projects_and_the_system_are_left_alone() -> None:
    paths = [
        "/usr/share/doc/thing/fix.patch",
        "/opt/venv/lib/python3.11/site-packages/pkg/a.orig",
        "/usr/lib/python3.11/ensurepip/_bundled/tool-1.0-py3-none-any.whl",
        "/opt/tool-belt-1.0.tar.gz",
        "/opt/notes.orig",
        "/w/tracked.patch",
        "/w/.git/objects",
    ]
    assert (
        list(sort_out(paths, top="/w", work="/w", tracked=["tracked.patch", "core.py"], names=["tool"])) == []
    )


def test_a_work_tree_that_an_installation_refers_to_stays_and_is_told() -> None:
    found = [("store", "/opt/it/.git/objects", "same"), ("reference", "/site/it.pth", "/opt/it\n")]
    decision = decide(found, top="/w", tracked=[])
    assert decision.remove == ["/opt/it/.git"]
    assert decision.flags == ["leftover:/opt/it"]
    unreferenced = decide(found[:1], top="/w", tracked=[])
    assert unreferenced.remove == ["/opt/it/.git", "/opt/it"]


def test_a_home_folder_is_not_removed_for_the_repository_in_it() -> None:
    decision = decide([("store", "/root/.git/objects", "same")], top="/w", tracked=[])
    assert (decision.remove, decision.flags) == (["/root/.git"], ["leftover:/root"])


def test_names_match_in_all_their_spellings() -> None:
    assert name_pattern("My.Pkg_x") == "my[-_.]pkg[-_.]x"

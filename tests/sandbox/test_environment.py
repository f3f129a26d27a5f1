"""An environment is made ready once, and everything later starts from it."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from beyondswe.errors import DataError, EngineError
from beyondswe.sandbox import history
from beyondswe.sandbox.docker import start_sandbox
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.environment import prepare
from beyondswe.sandbox.job import run_to_end
from beyondswe.sandbox.removal import finish_removals
from beyondswe.sandbox.types import Environment, Limits

pytestmark = pytest.mark.engine

WORK = "/srv/work"
LIMITS = Limits(cpus=1, memory=512 << 20)

SCRIPT = f"""
set -e
mkdir -p {WORK}; cd {WORK}
git init -q -b main
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x
echo one > a.txt; git add -A; git commit -qm base; git rev-parse HEAD > /srv/base
echo two > a.txt; git commit -qam later; git branch later; git checkout -q -B main HEAD~1
echo built > built.txt; cp a.txt a.txt.orig; mkdir -p /root/.cache/pip
chown -R 1000:1000 {WORK}
"""


@pytest.fixture(scope="module")
def images(engine: Engine, base_image: str) -> Iterator[dict[str, str]]:
    """Images of an instance: with a repository, and with an empty folder; and everything prepared from them."""
    made = {}
    for name, script in {"repository": SCRIPT, "empty": f"mkdir -p {WORK}"}.items():
        container = engine.api.create_container(
            base_image,
            entrypoint=["sh", "-c", script],
            host_config={"NetworkMode": "none", "Ulimits": engine.ulimits()},
            labels={"io.beyondswe.run": "of-an-earlier-life"},
        )["Id"]
        engine.api.start(container)
        assert engine.api.wait(container)["StatusCode"] == 0, engine.api.logs(container)
        changes = [
            'ENTRYPOINT ["echo", "entry point"]',
            'CMD ["command"]',
            "ENV COLOUR=blue",
            "WORKDIR /srv",
            *(["USER 1000"] if name == "repository" else []),
        ]
        made[name] = (
            f"beyondswe-test/{name}:{uuid.uuid4().hex[:12]}"  # tagged: else it goes with its children
        )
        repository, _, tag = made[name].partition(":")
        engine.api.commit(container, repository, tag, changes=changes)
        engine.api.remove_container(container)
    base = run_to_end(engine, made["repository"], command=["cat", "/srv/base"], limits=LIMITS, timeout=30)
    made["base"] = base.stdout.decode().strip()
    yield made
    finish_removals()
    ids = [
        engine.api.inspect_image(made[name])["Id"].removeprefix("sha256:") for name in ("repository", "empty")
    ]
    for image in engine.api.images(filters={"label": "io.beyondswe.role=prepared"}):
        if engine.api.inspect_image(image["Id"])["Parent"].removeprefix("sha256:") in ids:
            engine.api.remove_image(image["Id"], force=True)
    for name in ("repository", "empty"):
        engine.api.remove_image(made[name], force=True)


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of this module's own."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("BEYONDSWE_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def environment(engine: Engine, images: dict[str, str]) -> Environment:
    return prepare(
        engine,
        images["repository"],
        workdir=WORK,
        base_commit=images["base"],
        pre_commands=[
            "echo set-up > set-up.txt",
            "COLOUR=$COLOUR-ish; [[ $COLOUR == blue-ish ]] && echo hi > a.txt",
        ],
        extra_files={"docs.md": b"# about\n"},
        run_labels={"run": "r1"},
    )


def in_sandbox(engine: Engine, environment: Environment, command: str) -> str:
    sandbox = start_sandbox(engine, environment.image, workdir=environment.workdir, limits=LIMITS)
    try:
        done = sandbox.run(command, timeout=60)
        assert done.exit_code == 0, done.stderr.decode()
        return done.stdout.decode()
    finally:
        sandbox.stop()


def snapshot_files(environment: Environment, tree: str) -> list[str]:
    git_dir = str(environment.snapshot.git_dir)
    listing = subprocess.run(
        ["git", "--git-dir", git_dir, "ls-tree", "-r", "--name-only", tree],
        check=True,
        capture_output=True,
        text=True,
    )
    return listing.stdout.split()


def test_history_is_cut_and_commands_have_run(
    engine: Engine, environment: Environment, images: dict[str, str]
) -> None:
    shown = in_sandbox(
        engine,
        environment,
        "git log --all --format=%s; git branch; git status --porcelain; cat docs.md set-up.txt a.txt; id -u",
    )
    assert shown.splitlines() == [
        "base",
        "* main",
        *(" M a.txt", "?? built.txt", "?? docs.md", "?? set-up.txt"),
        *("# about", "set-up", "hi", "1000"),
    ]
    sandbox = start_sandbox(engine, environment.image, workdir=WORK, limits=LIMITS)
    try:
        history.check(sandbox)
        assert sandbox.run("stat -c %u docs.md .git", timeout=20).stdout.split() == [b"1000", b"1000"]
        assert sandbox.changed_paths() == []
    finally:
        sandbox.stop()


def test_the_snapshot_is_the_tree_that_the_agent_finds(environment: Environment) -> None:
    everything = ["a.txt", "built.txt", "docs.md", "set-up.txt"]
    assert snapshot_files(environment, environment.snapshot.tree) == everything
    assert snapshot_files(environment, environment.snapshot.base_tree) == ["a.txt"]


def test_leftovers_are_removed_and_noted(environment: Environment) -> None:
    assert f"removed {WORK}/a.txt.orig: left over and not tracked" in environment.notes
    assert "removed /root/.cache/pip: a package cache" in environment.notes
    assert environment.flags == ()


def test_the_image_keeps_its_configuration_and_loses_entry_point_and_owner(
    engine: Engine, environment: Environment, images: dict[str, str]
) -> None:
    config = engine.api.inspect_image(environment.image)["Config"]
    before = engine.api.inspect_image(images["repository"])["Config"]
    assert set(config["Env"]) == set(before["Env"])
    assert (config["User"], config["WorkingDir"]) == ("1000", "/srv")
    assert not config["Entrypoint"]
    assert not config["Cmd"]
    assert not config.get("OpenStdin")
    assert config["Labels"]["io.beyondswe.role"] == "prepared"
    assert config["Labels"]["io.beyondswe.owner"] == ""
    assert config["Labels"]["io.beyondswe.run"] == ""
    assert environment.user == "1000"
    source = engine.api.inspect_image(images["repository"])
    assert environment.image_digest == (source["RepoDigests"] or [source["Id"]])[0]


def test_the_second_time_costs_nothing(
    engine: Engine, environment: Environment, images: dict[str, str]
) -> None:
    begun = time.monotonic()
    again = prepare(
        engine,
        images["repository"],
        workdir=WORK,
        base_commit=images["base"],
        pre_commands=[
            "echo set-up > set-up.txt",
            "COLOUR=$COLOUR-ish; [[ $COLOUR == blue-ish ]] && echo hi > a.txt",
        ],
        extra_files={"docs.md": b"# about\n"},
        run_labels={"run": "r2"},
    )
    assert time.monotonic() - begun < 1  # no container was started: two questions to the engine
    assert again == environment


def test_other_commands_are_another_environment(
    engine: Engine, environment: Environment, images: dict[str, str]
) -> None:
    other = prepare(engine, images["repository"], workdir=WORK, base_commit=images["base"])
    assert other.image != environment.image
    assert "set-up.txt" not in snapshot_files(other, other.snapshot.tree)


def test_a_missing_snapshot_is_made_again_with_its_image(
    engine: Engine, images: dict[str, str], cache: Path
) -> None:
    first = prepare(engine, images["repository"], workdir=WORK, base_commit=images["base"])
    first.snapshot.git_dir.parent.rename(cache / "gone")
    again = prepare(engine, images["repository"], workdir=WORK, base_commit=images["base"])
    assert again.snapshot.tree == first.snapshot.tree
    assert again.snapshot.git_dir.is_dir()
    ids = {image["Id"] for image in engine.api.images(all=True)}
    assert first.image not in ids  # nothing can start from it any more


def test_an_empty_folder_becomes_a_repository_with_its_document(
    engine: Engine, images: dict[str, str]
) -> None:
    made = prepare(
        engine,
        images["empty"],
        workdir=WORK,
        base_commit="",
        extra_files={"repo_document.md": b"# build it\n"},
    )
    assert (
        in_sandbox(engine, made, "git log --format=%s; git status --porcelain; ls")
        == "snapshot\nrepo_document.md\n"
    )
    assert made.snapshot.base_tree == made.snapshot.tree


def test_two_processes_that_prepare_the_same_make_it_once(
    engine: Engine, images: dict[str, str], cache: Path, tmp_path: Path
) -> None:
    program = f"""
import sys
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.environment import prepare
made = prepare(Engine.connect(), {images["repository"]!r}, workdir={WORK!r}, base_commit={images["base"]!r},
               pre_commands=["date +%N > when.txt; sleep 1"])
print(made.image, made.snapshot.tree)
"""
    racers = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    results = {racer.communicate(timeout=120)[0] for racer in racers}
    assert [racer.returncode for racer in racers] == [0, 0]
    assert len(results) == 1


def left(engine: Engine, run: str) -> list[object]:
    return list(engine.api.containers(all=True, filters={"label": f"io.beyondswe.run={run}"}))


def test_a_command_that_fails_is_named_with_its_output_and_leaves_nothing(
    engine: Engine, images: dict[str, str]
) -> None:
    with pytest.raises(DataError, match=r"`echo why; exit 3` ended with exit code 3 .*: why"):
        prepare(
            engine,
            images["repository"],
            workdir=WORK,
            base_commit="",
            pre_commands=["true", "echo why; exit 3"],
            run_labels={"run": "failing"},
        )
    assert left(engine, "failing") == []


def test_a_wrong_base_commit_or_image_is_said(engine: Engine, images: dict[str, str]) -> None:
    with pytest.raises(DataError, match="is not in the image's repository"):
        prepare(
            engine, images["repository"], workdir=WORK, base_commit="ab" * 20, run_labels={"run": "wrong"}
        )
    assert left(engine, "wrong") == []
    with pytest.raises(EngineError, match=r"no-such-image:x is not there"):
        prepare(engine, "no-such-image:x", workdir=WORK, base_commit="")


def test_a_workdir_in_a_volume_is_refused(engine: Engine, images: dict[str, str]) -> None:
    container = engine.api.create_container(
        images["empty"], command=["true"], host_config={"NetworkMode": "none", "Ulimits": engine.ulimits()}
    )["Id"]
    with_volume = engine.api.commit(container, changes=["VOLUME /srv"])["Id"]
    engine.api.remove_container(container)
    try:
        with pytest.raises(DataError, match="declares the volume /srv"):
            prepare(engine, with_volume, workdir=WORK, base_commit="")
    finally:
        engine.api.remove_image(with_volume)

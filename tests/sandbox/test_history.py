"""Nothing later than the base commit is left in a sandbox, wherever it was; what may stay stays."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beyondswe.errors import DataError, EngineError
from beyondswe.sandbox import history
from beyondswe.sandbox.docker import DockerSandbox, start_sandbox
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Limits, Sandbox

pytestmark = pytest.mark.engine

WORK = "/srv/work"
SECRET = "the-fix-of-the-future"

START = f"""
set -e
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x
export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always
export GIT_CONFIG_KEY_1=init.defaultBranch GIT_CONFIG_VALUE_1=main
mkdir -p {WORK} && cd {WORK}
git init -q
echo first > a.txt; mkdir pkg; echo one > pkg/mod.py; printf '*.o\\n' > .gitignore
git add -A; git commit -qm first; git tag v1.0; git tag -a v1.1 -m 'release 1.1'
echo base >> a.txt; git commit -qam base; git tag -a at-base -m base; BASE=$(git rev-parse HEAD)
"""
"""A repository with two commits, three tags, and the base commit in $BASE."""

FUTURE = f"""
echo {SECRET} > future.txt; echo {SECRET} >> a.txt; git add -A; git commit -qm '{SECRET}'
LATER=$(git rev-parse HEAD)
"""
"""One commit more, which holds the secret."""

BACK = "git checkout -qf -B main $BASE; "

HIDING_PLACES = {
    "a later branch": FUTURE + "git branch later; " + BACK,
    "a branch that is checked out": FUTURE,
    "a detached later commit": FUTURE + "git checkout -q --detach",
    "packed refs": FUTURE + "git branch later; " + BACK + "git pack-refs --all",
    "a tag on a later commit": FUTURE + "git tag v2.0; git tag -a v2.1 -m '2.1'; " + BACK,
    "a tag on a later tree and blob": FUTURE
    + "git tag tree HEAD^{tree}; git tag blob HEAD:future.txt; "
    + BACK,
    "the reflog": FUTURE + BACK,
    "a loose object that nothing names": FUTURE + BACK + "rm -rf .git/logs .git/ORIG_HEAD",
    "a packed object that nothing names": FUTURE
    + "git repack -adq; "
    + BACK
    + "rm -rf .git/logs .git/ORIG_HEAD",
    "ORIG_HEAD, FETCH_HEAD, MERGE_HEAD": FUTURE
    + BACK
    + """
        for name in ORIG FETCH MERGE CHERRY_PICK REVERT BISECT; do echo $LATER > .git/${name}_HEAD; done
        echo x > .git/MERGE_MSG
    """,
    "notes": FUTURE + BACK + f"git notes add -m {SECRET} HEAD",
    "a stash": f"echo {SECRET} >> a.txt; git stash -q",
    "a remote": FUTURE
    + BACK
    + "git update-ref refs/remotes/origin/main $LATER; git remote add origin https://x/y",
    "replace refs": FUTURE + BACK + "git replace $BASE $LATER",
    "grafts": FUTURE + BACK + "mkdir -p .git/info; echo $BASE $LATER > .git/info/grafts",
    "refs of one's own": FUTURE
    + BACK
    + "git update-ref refs/pull/12/head $LATER; git update-ref refs/bisect/bad $LATER",
    "a work tree inside": FUTURE + BACK + "git worktree add -q wt $LATER",
    "a work tree elsewhere": FUTURE + BACK + "git worktree add -q /srv/wt $LATER",
    "alternates": FUTURE
    + BACK
    + """
        git clone -q --bare . /srv/store.git; cp -rn .git/objects/. /srv/store.git/objects/
        rm -rf .git/objects; mkdir -p .git/objects/info
        echo /srv/store.git/objects > .git/objects/info/alternates
    """,
    "hooks": FUTURE + BACK + "git show $LATER > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout",
    "configuration": FUTURE
    + BACK
    + f"""
        git config alias.fix {SECRET}; git config core.hooksPath /tmp/h; git config core.fsmonitor /tmp/m
        git config filter.x.clean cat; git config url.a.insteadOf b; git config include.path /tmp/c
        git config core.worktree {WORK}
    """,
    "large files": FUTURE + BACK + f"mkdir -p .git/lfs/objects/aa; echo {SECRET} > .git/lfs/objects/aa/x",
    "attributes": BACK + f"mkdir -p .git/info; echo '{SECRET} binary' > .git/info/attributes",
    "a comment among the excludes": BACK + f"echo '# {SECRET}' >> .git/info/exclude",
    "logs of the collector": BACK + f"echo {SECRET} > .git/gc.log",
    "a later index": FUTURE + "cp .git/index /tmp/i; " + BACK + "cp /tmp/i .git/index",
    "a file that was staged": f"echo {SECRET} > s; git add s; git rm -q --cached s; rm s",
    "a bundle in the git directory": FUTURE + "git bundle create -q .git/x.bundle --all; " + BACK,
    "a pack without an index": FUTURE
    + "git repack -adq; "
    + BACK
    + """
        cd .git/objects/pack; chmod u+w *
        for f in *.pack; do cp $f pack-00000000000000000000000000000000000000ff.pack; done
    """,
    "odd files among the objects": f"echo {SECRET} > .git/objects/aa-note; echo {SECRET} > .git/objects/pack/tmp_x",
    "a commit graph": FUTURE
    + "git commit-graph write --reachable; git multi-pack-index write || true; "
    + BACK,
    "a separate git directory": FUTURE + BACK + "git init -q --separate-git-dir /srv/sep",
    "a link to the git directory": FUTURE + BACK + "mv .git /srv/elsewhere; ln -s /srv/elsewhere .git",
    "a submodule's store": f"""
        mkdir /srv/sub; git init -q /srv/sub; (cd /srv/sub; echo s > s; git add s; git commit -qm s)
        git submodule --quiet add /srv/sub sub; git commit -qm sub; BASE=$(git rev-parse HEAD)
        (cd sub; echo {SECRET} > f; git add f; git commit -qm {SECRET}; git checkout -q HEAD~1); rm -rf /srv/sub
    """,
    "a submodule that is not checked out": f"git init -q .git/modules/x; echo {SECRET} > .git/modules/x/f",
    "a nested repository": f"""
        mkdir dep; cd dep; git init -q; echo d > d; git add d; git commit -qm d; echo {SECRET} > e
        git add e; git commit -qm '{SECRET}'; git tag later; git checkout -q HEAD~1; rm -f e
    """,
    "a clone of itself": FUTURE + BACK + "git clone -q . copy; cp -rn .git/objects/. copy/.git/objects/",
    "a bare mirror": FUTURE + "git clone -q --mirror . mirror.git; " + BACK,
    "a bare mirror that stands at the base": FUTURE
    + BACK
    + "git clone -q --bare . mirror.git; cp -rn .git/objects/. mirror.git/objects/",
    "a shallow file": FUTURE + BACK + "echo $LATER > .git/shallow",
}


@pytest.fixture(scope="module")
def shared(engine: Engine, base_image: str) -> Iterator[DockerSandbox]:
    sandbox = start_sandbox(engine, base_image, workdir="/", limits=Limits(cpus=2, memory=1 << 30))
    yield sandbox
    sandbox.stop()


Shell = Callable[[str], DockerSandbox]


@pytest.fixture
def shell(shared: DockerSandbox) -> Shell:
    """A sandbox in which a script has run, and nothing before it."""

    def run(script: str) -> DockerSandbox:
        shared.workdir = WORK
        clean = "rm -rf /srv /tmp/base /tmp/i; mkdir /srv"
        done = shared.run(["bash", "-c", f"{clean}\n{script}"], timeout=100, cwd="/")
        assert done.exit_code == 0, done.stderr.decode()
        return shared

    return run


def git(sandbox: Sandbox, *arguments: str, cwd: str = WORK) -> str:
    done = sandbox.run(["git", "-c", "safe.directory=*", *arguments], timeout=60, cwd=cwd)
    assert done.exit_code == 0, done.stderr.decode()
    return done.stdout.decode()


def base_of(sandbox: Sandbox) -> str:
    """The base commit of a script that tagged it."""
    return git(sandbox, "rev-parse", "at-base^{commit}").strip()


SECRETS = f"""
grep -rl {SECRET} /srv 2>/dev/null
find /srv -name .git -o -name '*.git' | while read -r place; do
    GIT_DIR="$place" git cat-file --batch-all-objects --batch 2>/dev/null | grep -aq {SECRET} && echo "$place"
done
"""
"""Prints where the secret can still be read: files, and objects of any repository that git can open."""


def secret_places(sandbox: Sandbox) -> str:
    return sandbox.run(SECRETS, timeout=60, cwd="/").stdout.decode()


def look(sandbox: Sandbox) -> dict[str, list[str]]:
    """What git inside shows of the repository, and where the secret can still be read."""
    script = f"""
        cd {WORK}; exec 2>&1
        echo :secret; {{ {SECRETS} }}
        echo :head; git rev-parse HEAD; git symbolic-ref HEAD
        echo :refs; git for-each-ref --format='%(refname)'
        echo :fsck; git fsck --full --strict --no-progress
        echo :diff; git diff --name-only HEAD -- a.txt pkg .gitignore
        echo :log; git log --format=%s | grep -v sub
    """
    shown: dict[str, list[str]] = {}
    for line in sandbox.run(script, timeout=60).stdout.decode().splitlines():
        if line.startswith(":"):
            part = shown.setdefault(line[1:], [])
        else:
            part.append(line)
    return shown


@pytest.mark.parametrize("script", HIDING_PLACES.values(), ids=HIDING_PLACES.keys())
def test_nothing_later_is_left_in(script: str, shell: Shell) -> None:
    tail = f"cd {WORK}; git tag -f -a at-base -m base $BASE > /dev/null; echo $BASE > /tmp/base"
    sandbox = shell(f"{START}\n{script}\n{tail}")
    base = sandbox.run("cat /tmp/base", timeout=20, cwd="/").stdout.decode().strip()
    cut = history.cut(sandbox, base_commit=base)
    history.check(sandbox)
    assert cut.commit == base
    assert look(sandbox) == {
        "secret": [],
        "head": [base, "refs/heads/main"],
        "refs": ["refs/heads/main", "refs/tags/at-base", "refs/tags/v1.0", "refs/tags/v1.1"],
        "fsck": [],
        "diff": [],
        "log": ["base", "first"],
    }


def test_the_check_finds_what_was_not_cut(shell: Shell) -> None:
    for name in (
        "a later branch",
        "a loose object that nothing names",
        "notes",
        "hooks",
        "alternates",
        "a later index",
    ):
        sandbox = shell(START + HIDING_PLACES[name])
        with pytest.raises(EngineError, match="history was not cut"):
            history.check(sandbox)
    sandbox = shell(START)
    history.cut(sandbox, base_commit="")
    history.check(sandbox)
    for sneak, seen in (
        ("echo x | git hash-object -w --stdin", "reachable from nothing"),
        ("git -c core.logAllRefUpdates=false update-ref refs/heads/other HEAD", "ref refs/heads/other"),
        ("echo x > .git/note", "file note"),
        ("git config alias.x y", "setting alias.x"),
        ("mkdir n && cd n && git init -q && echo x | git hash-object -w --stdin", "n/.git"),
    ):
        history.cut(sandbox, base_commit="")
        sandbox.run(["bash", "-c", f"cd {WORK} && {sneak}"], timeout=20)
        with pytest.raises(EngineError, match=seen):
            history.check(sandbox)


def test_files_that_are_not_tracked_stay_and_set_up_edits_too(shell: Shell) -> None:
    sandbox = shell(START + """
        echo edited >> a.txt; echo built > pkg/mod.o; mkdir -p lib.egg-info; echo x > lib.egg-info/PKG-INFO
        rm pkg/mod.py; echo '/venv/' >> .git/info/exclude; mkdir venv; echo v > venv/v
        git config core.autocrlf input; git config user.name Somebody; chown -R 1234:1235 /srv/work
    """)  # fmt: skip
    files = "find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 md5sum"
    before = sandbox.run(files, timeout=20).stdout
    cut = history.cut(sandbox, base_commit=base_of(sandbox))
    assert sandbox.run(files, timeout=20).stdout == before
    assert cut.tracked == (b".gitignore", b"a.txt", b"pkg/mod.py")
    assert git(sandbox, "status", "--porcelain").split("\n")[:-1] == [
        " M a.txt",
        " D pkg/mod.py",
        "?? lib.egg-info/",
    ]
    assert git(sandbox, "config", "user.name").strip() == "Somebody"
    owners = sandbox.run("stat -c %u:%g .git .git/HEAD .git/index | sort -u", timeout=20).stdout
    assert owners == b"1234:1235\n"
    history.check(sandbox)


def test_another_commit_is_checked_out_where_the_base_is_not(shell: Shell) -> None:
    sandbox = shell(START + """
        echo kept > kept.txt; echo o > pkg/x.o
        mkdir new; echo n > new/n.py; git rm -q pkg/mod.py; chmod +x a.txt; ln -s a.txt link; mkdir 'o d'
        echo x > "o d/'q"; git add a.txt new link 'o d' .gitignore; git commit -qm later
        echo dirty >> a.txt; touch -d 2001-01-01T00:00:00Z .gitignore
    """)  # fmt: skip
    cut = history.cut(sandbox, base_commit=base_of(sandbox))
    assert any("was checked out" in note for note in cut.notes)
    assert git(sandbox, "status", "--porcelain") == "?? kept.txt\n"
    assert sandbox.run("cat a.txt kept.txt pkg/x.o pkg/mod.py; ls", timeout=20).stdout.split() == [
        *(b"first", b"base", b"kept", b"o", b"one"),
        *(b"a.txt", b"kept.txt", b"pkg"),
    ]
    same = sandbox.run("stat -c %Y .gitignore", timeout=20).stdout.strip()
    assert same == b"978307200"  # a file that is the same in both is not touched


def test_the_branch_keeps_its_name_only_if_that_says_nothing(shell: Shell) -> None:
    sandbox = shell(START + "git branch -m release/1.x")
    history.cut(sandbox, base_commit="")
    assert git(sandbox, "symbolic-ref", "HEAD").strip() == "refs/heads/release/1.x"
    sandbox = shell(START + "git branch -m fix-overflow-in-parser")
    history.cut(sandbox, base_commit="")
    assert git(sandbox, "for-each-ref", "--format=%(refname)", "refs/heads").strip() == "refs/heads/main"


def test_a_repository_with_sha256_objects(shell: Shell) -> None:
    script = (
        START.replace("git init -q", "git init -q --object-format=sha256")
        + FUTURE
        + "git branch later; "
        + BACK
    )
    sandbox = shell(script)
    base = base_of(sandbox)
    assert len(base) == 64
    history.cut(sandbox, base_commit=base)
    history.check(sandbox)
    assert secret_places(sandbox) == ""
    assert git(sandbox, "rev-parse", "HEAD").strip() == base
    assert git(sandbox, "fsck", "--full") == ""


def test_a_shallow_clone_stays_shallow_at_the_same_commit(shell: Shell) -> None:
    sandbox = shell(START + FUTURE + f"""
        git clone -q --depth 2 file://{WORK} /srv/shallow; rm -rf {WORK}; mv /srv/shallow {WORK}; cd {WORK}
        git checkout -q HEAD~1; git rev-parse HEAD > /tmp/base
    """)  # fmt: skip
    base = sandbox.run("cat /tmp/base", timeout=20, cwd="/").stdout.decode().strip()
    history.cut(sandbox, base_commit=base)
    history.check(sandbox)
    assert git(sandbox, "rev-parse", "--is-shallow-repository").strip() == "true"
    assert git(sandbox, "log", "--format=%s") == "base\n"
    assert secret_places(sandbox) == ""


def test_a_partial_clone_keeps_what_it_has_and_no_promisor(shell: Shell) -> None:
    sandbox = shell(START + FUTURE + BACK + f"""
        git config uploadpack.allowFilter true; git config uploadpack.allowAnySHA1InWant true
        git rm -q a.txt; git commit -qm tip; echo new > b.txt; git add b.txt; git commit -qm newer
        git clone -q --filter=blob:none file://{WORK} /srv/partial; rm -rf {WORK}; mv /srv/partial {WORK}
        cd {WORK}; git rev-parse HEAD > /tmp/base
    """)  # fmt: skip
    base = sandbox.run("cat /tmp/base", timeout=20, cwd="/").stdout.decode().strip()
    cut = history.cut(sandbox, base_commit=base)
    history.check(sandbox)
    assert any("history begins at" in note for note in cut.notes)
    assert git(sandbox, "log", "--format=%s") == "newer\n"
    assert git(sandbox, "status", "--porcelain") == ""
    assert sandbox.run("git config --list --local | grep -c promisor", timeout=20).stdout == b"0\n"


def test_a_workdir_inside_a_repository(shell: Shell) -> None:
    sandbox = shell(START + FUTURE + "git branch later; " + BACK + "cp a.txt pkg/notes.orig")
    sandbox.workdir = f"{WORK}/pkg"
    cut = history.cut(sandbox, base_commit="")
    history.check(sandbox)
    assert (cut.root, cut.tracked, cut.leftovers) == (WORK, (b"mod.py",), (b"notes.orig",))
    assert secret_places(sandbox) == ""


def test_a_nested_repository_keeps_its_own_history_up_to_where_it_stands(shell: Shell) -> None:
    sandbox = shell(START + HIDING_PLACES["a nested repository"])
    history.cut(sandbox, base_commit="")
    assert git(sandbox, "log", "--format=%s", cwd=f"{WORK}/dep") == "d\n"
    assert git(sandbox, "status", "--porcelain", cwd=f"{WORK}/dep") == ""


def test_a_submodule_becomes_a_repository_of_its_own(shell: Shell) -> None:
    sandbox = shell(START + HIDING_PLACES["a submodule's store"])
    history.cut(sandbox, base_commit="")
    assert git(sandbox, "log", "--format=%s", cwd=f"{WORK}/sub") == "s\n"
    assert git(sandbox, "status", "--porcelain") == ""
    assert sandbox.run("test -d sub/.git && test ! -e .git/modules", timeout=20).exit_code == 0


def test_repositories_that_the_project_tracks_as_files_are_left_alone(shell: Shell) -> None:
    sandbox = shell(START + """
        git init -q --bare fixture.git; rm -rf fixture.git/hooks;
        touch fixture.git/refs/keep fixture.git/objects/keep; git add -f fixture.git; git commit -qm fixture
    """)  # fmt: skip
    history.cut(sandbox, base_commit="")
    history.check(sandbox)
    assert git(sandbox, "status", "--porcelain") == ""


def test_a_repository_that_is_clean_is_not_touched(shell: Shell) -> None:
    sandbox = shell(START + FUTURE + BACK)
    base = base_of(sandbox)
    history.cut(sandbox, base_commit=base)
    before = sandbox.run("stat -c '%n %i %Y' .git .git/objects/pack/*", timeout=20).stdout
    cut = history.cut(sandbox, base_commit=None)
    assert (cut.commit, cut.notes) == (base, ())
    assert sandbox.run("stat -c '%n %i %Y' .git .git/objects/pack/*", timeout=20).stdout == before


def test_commits_made_after_the_cut_can_be_kept(shell: Shell) -> None:
    sandbox = shell(START + FUTURE + BACK)
    history.cut(sandbox, base_commit=base_of(sandbox))
    sandbox.run(
        "echo setup > setup.txt; git add -A; git -c user.name=x -c user.email=x commit -qm setup", timeout=20
    )
    with pytest.raises(EngineError, match="COMMIT_EDITMSG"):
        history.check(sandbox)
    history.cut(sandbox, base_commit=None)
    history.check(sandbox)
    assert git(sandbox, "log", "--format=%s") == "setup\nbase\nfirst\n"


def test_a_base_commit_that_is_not_there_is_a_fault_of_the_data(shell: Shell) -> None:
    sandbox = shell(START)
    with pytest.raises(DataError, match=f"base commit {'12' * 20} is not in the image's repository {WORK}"):
        history.cut(sandbox, base_commit="12" * 20)
    cut = history.cut(sandbox, base_commit="")
    assert any("no base commit is given" in note for note in cut.notes)


def test_a_folder_that_is_no_repository_becomes_one_commit(shell: Shell) -> None:
    script = f"""
        mkdir -p {WORK}/sub; cd {WORK}; echo doc > repo_document.md; printf '*.pyc\\nbuild/\\n' > .gitignore
        mkdir build; echo b > build/b; echo c > sub/x.pyc; echo d > sub/x.py; chmod +x sub/x.py
        ln -s x.py sub/link
    """
    commits = set()
    for _ in range(2):
        sandbox = shell(script)
        assert history.cut(sandbox, base_commit="").root is None
        made = history.commit_all(sandbox)
        history.check(sandbox)
        assert git(sandbox, "status", "--porcelain") == ""
        assert made.tracked == (b".gitignore", b"repo_document.md", b"sub/link", b"sub/x.py")
        commits.add(git(sandbox, "rev-parse", "HEAD"))
    assert len(commits) == 1  # author and date are fixed


def test_an_empty_folder_and_an_empty_repository(shell: Shell) -> None:
    for script in (
        f"mkdir -p {WORK}",
        f"mkdir -p {WORK}; cd {WORK}; git init -q; echo {SECRET} | git hash-object -w --stdin",
    ):
        sandbox = shell(script)
        assert history.cut(sandbox, base_commit="").root is None
        history.commit_all(sandbox)
        history.check(sandbox)
        assert git(sandbox, "log", "--format=%s") == "snapshot\n"
        assert secret_places(sandbox) == ""


def test_a_git_directory_with_odd_paths_writes_nothing_outside(
    engine: Engine, base_image: str, tmp_path: Path
) -> None:
    from beyondswe.sandbox.gitdirs import Carrier

    class Hostile:
        """Gives an archive that no engine gives."""

        id, workdir = "x", WORK

        def get(self, path: str) -> object:
            from contextlib import nullcontext

            buffer = io.BytesIO()
            with tarfile.open(fileobj=buffer, mode="w") as archive:
                for name in ("work", "work/.git", "work/.git/../../../escaped"):
                    member = tarfile.TarInfo(name)
                    member.type = tarfile.REGTYPE if "escaped" in name else tarfile.DIRTYPE
                    archive.addfile(member)
            return nullcontext(iter([buffer.getvalue()]))

    (tmp_path / "copies").mkdir()
    with pytest.raises(DataError, match="odd path"):
        Carrier(Hostile(), tmp_path / "copies").find(WORK)  # type: ignore[arg-type]
    assert [os.fspath(path.relative_to(tmp_path)) for path in tmp_path.rglob("escaped")] == []

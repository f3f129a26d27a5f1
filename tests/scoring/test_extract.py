"""A patch taken from a real container gives the agent's tree back, byte for byte, whatever the agent did."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from beyondswe.sandbox.docker import DockerSandbox, start_sandbox
from beyondswe.sandbox.engine import Engine, labels
from beyondswe.sandbox.snapshot import take
from beyondswe.sandbox.trees import Trees
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.extract import PatchTooLarge, extract_patch
from beyondswe.scoring.patches import How, apply_patch
from beyondswe.scoring.types import Patch

from .nasty_trees import CASES, PRELUDE, Case

pytestmark = pytest.mark.engine

WORKDIR = "/srv/work space/repo"
Tree = dict[bytes, tuple[str, bytes]]


def start(engine: Engine, image: str) -> DockerSandbox:
    limits = Limits(cpus=1, memory=1 << 30)
    return start_sandbox(engine, image, workdir=WORKDIR, limits=limits, run_labels={"role": "test"})


def python(sandbox: DockerSandbox, code: str) -> None:
    program = PRELUDE + f"os.chdir({WORKDIR!r})\n" + code
    done = sandbox.run(["python3", "-"], stdin=program.encode(), timeout=120, user="0", cwd="/")
    assert done.exit_code == 0, done.stderr.decode()


def in_folders(part: Callable[[Case], str]) -> str:
    """One program that runs a part of every case in the folder of that case."""
    steps = [
        f"os.makedirs({case.name!r}, exist_ok=True); os.chdir({case.name!r})\n{part(case)}\nos.chdir('..')"
        for case in CASES
    ]
    return "\n".join(steps)


def tree_of(sandbox: DockerSandbox) -> Tree:
    """What is below the work folder, read by other means than those under test."""
    with sandbox.get(WORKDIR) as chunks:
        archive = io.BytesIO(b"".join(chunks))
    found: Tree = {}
    with tarfile.open(fileobj=archive, encoding="utf-8", errors="surrogateescape") as tar:
        for member in tar:
            path = os.fsencode(member.name).partition(b"/")[2]
            if b".git" in path.split(b"/"):
                continue
            if member.issym():
                found[path] = ("120000", os.fsencode(member.linkname))
            elif member.isreg() or member.islnk():
                data = tar.extractfile(member)
                assert data is not None
                found[path] = ("100755" if member.mode & 0o100 else "100644", data.read())
    return found


@dataclass
class Base:
    """An image with the work folder in it, and its snapshot."""

    engine: Engine
    environment: Environment
    tree: Tree

    @contextmanager
    def after(self, code: str) -> Iterator[DockerSandbox]:
        """The sandbox after an agent that ran ``code``."""
        sandbox = start(self.engine, self.environment.image)
        try:
            python(sandbox, code)
            sandbox.freeze()
            yield sandbox
        finally:
            sandbox.stop()

    def patched(self, patch: Patch) -> Tree:
        """The snapshot's tree after a patch that went through JSON."""
        snapshot = self.environment.snapshot
        with Trees.above(snapshot.git_dir) as trees:
            applied = apply_patch(trees, snapshot.tree, json.loads(json.dumps(patch.text)))
            assert applied.how is How.STRICT
            return {
                path: (entry.mode, trees.read(entry.oid))
                for path, entry in trees.entries(applied.tree).items()
            }


BEFORE = r"""
subprocess.run("git init -q . && git config user.name a && git config user.email a", shell=True, check=True)
put(".gitignore", b"*.log\nignored_dir/\n!keep.log\n")
put("pkg/m.py", b"one\ntwo\nthree\n")
put("build/tool.py", b"1\n")
CASES
subprocess.run("git add -A && git commit -qm base && git status --short", shell=True, check=True)
put("made_by_the_build.py", b"untracked\n")
"""


@pytest.fixture(scope="module")
def base(engine: Engine, base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Base]:
    image = None
    cache = pytest.MonkeyPatch()
    cache.setenv("BEYONDSWE_CACHE", str(tmp_path_factory.mktemp("cache")))
    sandbox = start(engine, base_image)
    try:
        python(sandbox, BEFORE.replace("CASES", in_folders(lambda case: case.before)))
        listed = sandbox.run("git ls-files -z", timeout=60, user="0")
        tracked = listed.stdout.split(b"\0")[:-1]
        sandbox.freeze()
        image = engine.api.commit(sandbox.id, conf={"Labels": labels(role="test")})["Id"]
        with sandbox.get(WORKDIR) as chunks:
            snapshot = take("base", chunks, prefix=b"repo", tracked=tracked)
        environment = Environment(image, image, image, WORKDIR, "", snapshot)
        yield Base(engine, environment, tree_of(sandbox))
    finally:
        sandbox.stop()
        if image:
            engine.api.remove_image(image, force=True)
        cache.undo()


@dataclass
class Nasty:
    patch: Patch
    final: Tree
    patched: Tree


@pytest.fixture(scope="module")
def nasty(base: Base) -> Nasty:
    """All cases in one container, each in its folder, and one patch of it all."""
    with base.after(in_folders(lambda case: case.after)) as sandbox:
        patch = extract_patch(sandbox, base.environment)
        return Nasty(patch, tree_of(sandbox), base.patched(patch))


def below(tree: Tree, folder: str) -> Tree:
    start = folder.encode() + b"/"
    return {path.removeprefix(start): entry for path, entry in tree.items() if path.startswith(start)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_patch_gives_the_tree_back(base: Base, nasty: Nasty, case: Case) -> None:
    def is_left_out(path: bytes) -> bool:
        return any(path == left or path.startswith(left + b"/") for left in case.left_out)

    before, final, patched = (below(tree, case.name) for tree in (base.tree, nasty.final, nasty.patched))
    expected = {path: entry for path, entry in final.items() if not is_left_out(path)}
    expected |= {path: entry for path, entry in before.items() if is_left_out(path)}
    assert patched == expected
    listed = "\n".join(nasty.patch.left_out)
    for path in case.left_out:
        assert path.decode() in listed


def test_nothing_else_changed(base: Base, nasty: Nasty) -> None:
    folders = tuple(f"{case.name}/".encode() for case in CASES)

    def rest(tree: Tree) -> Tree:
        return {path: entry for path, entry in tree.items() if not path.startswith(folders)}

    assert rest(nasty.patched) == rest(base.tree)


def test_what_git_cannot_hold_is_listed(nasty: Nasty) -> None:
    assert "special_files/pipe: fifo" in nasty.patch.left_out
    assert "special_files/f: fifo" in nasty.patch.left_out
    assert not [line for line in nasty.patch.left_out if "empty_folders" in line]


# What an agent can do to the work folder and its repository as a whole, a container each.


@dataclass
class Watched:
    """A sandbox that counts what is asked of it."""

    inner: DockerSandbox
    calls: int = 0
    bytes_read: int = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    @contextmanager
    def get(self, path: str) -> Iterator[Iterator[bytes]]:
        self.calls += 1
        with self.inner.get(path) as chunks:
            yield self._counted(chunks)

    def _counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.bytes_read += len(chunk)
            yield chunk


EDIT = "put('pkg/m.py', b'ONE\\ntwo\\n'); put('pkg/n.py', b'new\\n')\n"
GIT = """
def git(*words):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a", *words], check=True)
"""


@pytest.fixture(scope="module")
def edited(base: Base) -> Patch:
    """The patch of an agent that edits two files and does nothing else."""
    with base.after(EDIT) as sandbox:
        return extract_patch(sandbox, base.environment)


def test_a_patch_reads_as_a_git_diff(edited: Patch) -> None:
    assert edited.left_out == ()
    text = re.sub(r"[0-9a-f]{40}", "ID", edited.text)
    assert text == (
        "diff --git a/pkg/m.py b/pkg/m.py\n"
        "index ID..ID 100644\n"
        "--- a/pkg/m.py\n+++ b/pkg/m.py\n@@ -1,3 +1,2 @@\n-one\n+ONE\n two\n-three\n"
        "diff --git a/pkg/n.py b/pkg/n.py\nnew file mode 100644\n"
        "index ID..ID\n"
        "--- /dev/null\n+++ b/pkg/n.py\n@@ -0,0 +1 @@\n+new\n"
    )


@pytest.mark.parametrize(
    "way",
    [
        "shutil.rmtree('.git')",
        "git('add', '-A'); git('commit', '-m', 'x'); put('.git/junk', b'x')",
        "git('add', '-A'); git('commit', '--amend', '-m', 'x'); git('checkout', '--orphan', 'o')",
        "git('add', '-A'); git('stash'); git('stash', 'apply')",
        "shutil.rmtree('.git'); git('init'); git('add', '.'); git('commit', '-m', 'x')",
        "git('update-index', '--assume-unchanged', 'pkg/m.py'); open('.git/info/exclude', 'w').write('*\\n')",
        "shutil.move('.git', '/tmp/g'); os.symlink('/tmp/g', '.git')",
        "os.chmod('.', 0o700); os.utime('.')",
        "w = os.getcwd(); os.chdir('/'); shutil.copytree(w, '/tmp/c', symlinks=True); "
        "shutil.rmtree(w); shutil.copytree('/tmp/c', w, symlinks=True)",
    ],
)
def test_however_the_agent_got_there_the_patch_is_the_same(base: Base, edited: Patch, way: str) -> None:
    with base.after(GIT + EDIT + way) as sandbox:
        assert extract_patch(sandbox, base.environment).text == edited.text


def test_nothing_of_the_agents_git_runs_or_is_believed(base: Base, edited: Patch) -> None:
    trap = """
put('/usr/local/bin/git', b'#!/bin/sh\\ntouch /trapped\\n', 0o755)
put('/usr/bin/git', b'#!/bin/sh\\ntouch /trapped\\n', 0o755)
put('.git/config', b'''[core]
fsmonitor = touch /trapped
hooksPath = /hooks
attributesFile = /attributes
autocrlf = true
[diff]
external = touch /trapped
[filter "x"]
clean = touch /trapped
smudge = touch /trapped
''')
put('/attributes', b'* filter=x -diff\\n')
put('.git/info/attributes', b'* filter=x -diff\\n')
put('/root/.gitconfig', b'[core]\\nautocrlf = true\\n')
"""
    with base.after(EDIT + trap) as sandbox:
        assert extract_patch(sandbox, base.environment) == edited
        with pytest.raises(FileNotFoundError), sandbox.get("/trapped"):
            pass
    assert not Path("/trapped").exists()


def test_no_change_is_an_empty_patch(base: Base) -> None:
    with base.after("put('/elsewhere', b'x'); put('.git/x', b'x'); put('new.log', b'x')") as sandbox:
        patch = extract_patch(sandbox, base.environment)
    assert patch.text == ""
    assert patch.left_out == ("new.log: ignored by .gitignore:1",)


@pytest.mark.parametrize(
    ("way", "what"),
    [
        ("shutil.rmtree(w)", "/srv/work space/repo is not there"),
        ("shutil.rmtree('/srv')", "/srv is not there"),
        ("shutil.move(w, '/tmp/r'); os.symlink('/tmp/r', w)", "/srv/work space/repo is a symbolic link"),
        ("shutil.move('/srv', '/tmp/s'); os.symlink('/tmp/s', '/srv')", "/srv is a symbolic link"),
        ("shutil.rmtree(w); put(w, b'x')", "/srv/work space/repo is a file"),
    ],
)
def test_a_work_folder_that_is_gone_deletes_all_and_is_never_followed(
    base: Base, way: str, what: str
) -> None:
    with base.after(f"w = {WORKDIR!r}; os.chdir('/')\n{way}") as sandbox:
        patch = extract_patch(sandbox, base.environment)
    assert f".: the work folder is gone: {what}" in patch.left_out
    remaining = base.patched(patch)
    assert {path.split(b"/")[0] for path in remaining} <= {
        case.name.encode() for case in CASES if case.left_out
    }  # only what is ignored


def test_names_that_are_not_utf8_at_the_root(base: Base) -> None:
    with base.after(
        "put(b'caf\\xe9.py', b'1\\n'); put(b'\\xff/\\xfe', b'2\\n'); os.remove('pkg/m.py')"
    ) as sandbox:
        patch = extract_patch(sandbox, base.environment)
    expected = {**base.tree, b"caf\xe9.py": ("100644", b"1\n"), b"\xff/\xfe": ("100644", b"2\n")}
    del expected[b"pkg/m.py"]
    assert base.patched(patch) == expected


def test_what_setuptools_built_is_left_out_and_a_folder_called_build_is_not(base: Base) -> None:
    with base.after(
        "put('build/lib/pkg/m.py', b'1\\n'); os.makedirs('build/bdist.linux-x86_64'); "
        "put('build/temp.linux-x86_64-3.11/m.o', b'1\\n'); "
        "put('build/tool.py', b'2\\n'); put('build/library.py', b'3\\n')"
    ) as sandbox:
        patch = extract_patch(sandbox, base.environment)
    assert patch.left_out == tuple(
        f"build/{name}: built by setuptools"
        for name in ("bdist.linux-x86_64", "lib", "temp.linux-x86_64-3.11")
    )
    assert base.patched(patch)[b"build/tool.py"] == ("100644", b"2\n")
    assert base.patched(patch)[b"build/library.py"] == ("100644", b"3\n")


def test_a_change_that_is_too_large_has_its_own_error(base: Base) -> None:
    with base.after("put('big', os.urandom(3 << 20))") as sandbox:
        with pytest.raises(PatchTooLarge, match="patch is larger than 1048576 bytes"):
            extract_patch(sandbox, base.environment, max_bytes=1 << 20)
        with pytest.raises(PatchTooLarge, match="more than 2097152 bytes of files"):
            extract_patch(sandbox, base.environment, max_bytes=1 << 19)
        assert len(extract_patch(sandbox, base.environment).text) > 3 << 20


def test_only_what_changed_is_read(base: Base) -> None:
    with base.after(
        "[put(f'large_text/{i}/f', b'x' * 100) for i in range(20)]; put('large_text/f', b'1')"
    ) as sandbox:
        watched = Watched(sandbox)
        extract_patch(watched, base.environment)
    assert watched.calls <= 5
    assert watched.bytes_read < 400_000


def test_few_changes_beside_much_are_asked_for_one_by_one(base: Base) -> None:
    with base.after(
        "put('ignored_dir/big', os.urandom(8 << 20)); put('pkg/big.log', os.urandom(8 << 20)); "
        "[put(f'pkg/{i}.py', b'1\\n') for i in range(6)]"
    ) as sandbox:
        watched = Watched(sandbox)
        patch = extract_patch(watched, base.environment)
    assert watched.bytes_read < 100_000
    assert patch.text.count("diff --git") == 6


def test_a_great_many_files_are_not_asked_for_one_by_one(base: Base) -> None:
    with base.after(
        "[put(f'{i}.txt', b'1\\n') for i in range(400)]; put('.venv/pyvenv.cfg', b'x')"
    ) as sandbox:
        watched = Watched(sandbox)
        patch = extract_patch(watched, base.environment)
    assert watched.calls < 10
    assert patch.text.count("diff --git") == 400
    assert patch.left_out == (".venv: a virtual environment",)


def test_environments_in_a_folder_made_anew_are_not_read(base: Base) -> None:
    agent = (
        "shutil.rmtree('pkg'); put('pkg/n.py', b'1\\n'); "
        "put('pkg/v/pyvenv.cfg'); put('pkg/v/big', b'x' * 9999)"
    )
    with base.after(agent) as sandbox:
        patch = extract_patch(sandbox, base.environment, max_bytes=2000)
    assert patch.left_out == ("pkg/v: a virtual environment",)
    expected = {**base.tree, b"pkg/n.py": ("100644", b"1\n")}
    del expected[b"pkg/m.py"]
    assert base.patched(patch) == expected

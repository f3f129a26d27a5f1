"""Trees made into base commits and patches, on the host, that come out the same on every machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
from datetime import UTC, date, datetime, time
from pathlib import Path

from beyondswe.construction.recipes import File, Files
from beyondswe.errors import DataError
from beyondswe.sandbox import hostgit
from beyondswe.sandbox.hostgit import GitError
from beyondswe.sandbox.paths import inside, quoted
from beyondswe.sandbox.scratch import temporary_folder
from beyondswe.sandbox.trees import EMPTY_TREE, ApplyError, Trees
from beyondswe.sandbox.trees import File as TreeFile

IDENTITY = "BeyondSWE <beyondswe@invalid>"
BRANCH = "main"

_LEFTOVERS = frozenset({".git", "__pycache__", ".pytest_cache"})


def read_files(folder: Path) -> dict[str, File]:
    """The tree below a folder: files and links, less what git, Python and pytest leave lying about."""
    files: dict[str, File] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if not _LEFTOVERS.isdisjoint(name.parts):
            continue
        if path.is_symlink():
            files[name.as_posix()] = File(os.fsencode(path.readlink()), "120000")
        elif path.is_file():
            mode = path.stat().st_mode
            files[name.as_posix()] = File(path.read_bytes(), "100755" if mode & 0o100 else "100644")
    return files


def write_files(files: Files, folder: Path) -> None:
    """Write a tree into a folder. Links are made last, so that no file is ever written through one."""
    for name, file in sorted(files.items(), key=lambda item: item[1].mode == "120000"):
        if not inside(os.fsencode(name)):
            raise DataError(f"'{name}' is not the name of a file inside a folder")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.mode == "120000":
            path.symlink_to(os.fsdecode(file.data))
        else:
            path.write_bytes(file.data)
            path.chmod(0o755 if file.mode == "100755" else 0o644)


def digest(files: Files) -> str:
    """sha256 over names, modes and bytes of a tree."""
    total = hashlib.sha256()
    for name, file in sorted(files.items()):
        total.update(b"%b %d %b\0" % (file.mode.encode(), len(file.data), os.fsencode(name)))
        total.update(file.data)
    return total.hexdigest()


def commit_id(files: Files, day: date) -> str:
    """The id of the base commit that a tree gets."""
    with temporary_folder() as folder, Trees.create(folder / "git") as trees:
        return _commit(trees.git_dir, files, day)


def make_repository(files: Files, day: date, folder: Path) -> str:
    """Write a tree with a ``.git`` whose one commit is the base commit; gives its id.

    Files are written as they are, not checked out: the tree's attributes (line ends, filters) change no byte.
    """
    git_dir = folder / ".git"
    write_files(files, folder)
    _git(git_dir, "init", "--quiet", "--template=", f"--initial-branch={BRANCH}", str(folder))
    commit = _commit(git_dir, files, day)
    _git(git_dir, "read-tree", commit)
    (git_dir / "info").mkdir(exist_ok=True)
    # What installing and running leave behind is no change of the repository.
    (git_dir / "info" / "exclude").write_text("*.egg-info/\n__pycache__/\n.pytest_cache/\n")
    return commit


def difference(before: Files, after: Files) -> str:
    """The git patch that turns one tree into the other; empty when they are equal."""
    with temporary_folder() as folder, Trees.create(folder / "git") as trees:
        return trees.diff(_tree(trees, before), _tree(trees, after), renames=False)


def applied(files: Files, patch: bytes, what: str) -> dict[str, File]:
    """The tree with all of a patch applied, strictly; `DataError` says why ``what`` does not apply."""
    with temporary_folder() as folder, Trees.create(folder / "git") as trees:
        before = _tree(trees, files)
        try:
            after = trees.apply(before, patch)
        except ApplyError as error:
            raise DataError(f"{what} does not apply to its base tree: {error}") from error
        result = dict(files)
        for change in trees.changed(before, after):
            name = os.fsdecode(change.path)
            result.pop(name, None)
            if change.new is not None:
                mode = change.new.mode
                result[name] = File(trees.read(change.new.oid), mode)  # type: ignore[arg-type]  # one of git's
        return dict(sorted(result.items()))


def _tree(trees: Trees, files: Files) -> str:
    return trees.edit(
        EMPTY_TREE, {os.fsencode(name): TreeFile(file.mode, file.data) for name, file in files.items()}
    )


def _commit(git_dir: Path, files: Files, day: date) -> str:
    """Import a tree as the only commit on the branch."""
    who = f"{IDENTITY} {int(datetime.combine(day, time(), UTC).timestamp())} +0000"
    message = "Base of the instance\n"
    stream = [
        f"commit refs/heads/{BRANCH}\nauthor {who}\ncommitter {who}\ndata {len(message)}\n{message}".encode()
    ]
    for name, file in sorted(files.items()):
        shown = quoted(os.fsencode(name)).encode()
        path = shown if shown.startswith(b'"') else b'"%b"' % shown
        stream.append(b"M %b inline %b\ndata %d\n" % (file.mode.encode(), path, len(file.data)))
        stream.append(file.data + b"\n")
    stream.append(b"done\n")
    options = ("-c", "core.logAllRefUpdates=false")
    _git(git_dir, *options, "fast-import", "--quiet", "--done", stdin=b"".join(stream))
    return _git(git_dir, "rev-parse", f"refs/heads/{BRANCH}").decode().strip()


def _git(git_dir: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    where = {} if "init" in arguments else {"GIT_DIR": str(git_dir)}
    ended = subprocess.run(
        hostgit.command(*arguments),
        input=stdin,
        capture_output=True,
        env=hostgit.environment(GIT_DEFAULT_HASH="sha1", **where),
        check=False,
    )
    if ended.returncode:
        raise GitError(f"git {' '.join(arguments[:3])} failed in {git_dir}: {hostgit.words(ended.stderr)}")
    return ended.stdout

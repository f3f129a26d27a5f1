"""Trees made into git objects on the host: base commits and patches that come out the same on every machine.

Author, committer and date are fixed by the caller's day; the host's git configuration, attributes and hooks play no part.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from pathlib import Path

from beyondswe.construction.recipes import File, Files
from beyondswe.errors import DataError

IDENTITY = "BeyondSWE <beyondswe@invalid>"
BRANCH = "main"

_DIFF = (
    *("diff", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"),
    *("--diff-algorithm=myers", "--no-indent-heuristic", "-U3", "--inter-hunk-context=0"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)


def read_files(folder: Path) -> dict[str, File]:
    """The tree below a folder: regular files and links, without git's, Python's and pytest's own leftovers."""
    files: dict[str, File] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if any(part in {".git", "__pycache__", ".pytest_cache"} for part in name.split("/")):
            continue
        if path.is_symlink():
            files[name] = File(os.fsencode(path.readlink()), "120000")
        elif path.is_file():
            files[name] = File(path.read_bytes(), "100755" if path.stat().st_mode & 0o100 else "100644")
    return files


def write_files(files: Files, folder: Path) -> None:
    """Write a tree into a folder; names must stay inside it."""
    for name, file in files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"'{name}' would be written outside its folder")
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
        total.update(f"{file.mode} {len(file.data)} {name}\0".encode("utf-8", "surrogateescape"))
        total.update(file.data)
    return total.hexdigest()


def commit_id(files: Files, day: date) -> str:
    """The id of the base commit of a tree."""
    with _scratch() as git_dir:
        return _import(git_dir, f"refs/heads/{BRANCH}", files, day)


def make_repository(files: Files, day: date, folder: Path) -> str:
    """Write a tree with a ``.git`` whose only commit is the base commit; gives that commit's id.

    Files are written as they are, not checked out: attributes of the tree (line ends, filters) change no byte of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    git_dir = folder / ".git"
    _git(git_dir, "init", "-q", f"--initial-branch={BRANCH}", "--template=", str(folder))
    _git(git_dir, "config", "core.logAllRefUpdates", "false")
    commit = _import(git_dir, f"refs/heads/{BRANCH}", files, day)
    write_files(files, folder)
    _git(git_dir, "read-tree", commit)
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info" / "exclude").write_text("*.egg-info/\n__pycache__/\n.pytest_cache/\n")
    return commit


def difference(before: Files, after: Files) -> str:
    """The git patch that turns one tree into the other; empty when they are equal."""
    with _scratch() as git_dir:
        commits = [_import(git_dir, f"refs/{n}", files, date(2000, 1, 1)) for n, files in enumerate((before, after))]
        patch = _git(git_dir, *_DIFF, *commits)
    try:
        return patch.decode()
    except UnicodeDecodeError as error:
        named = [name for name in after.keys() | before.keys() if before.get(name) != after.get(name)]
        raise DataError(
            f"a changed text file is not UTF-8 (of {', '.join(sorted(named))}): {error}; drop it from the recipe's trees"
        ) from error


def applied(files: Files, patch: bytes, what: str) -> dict[str, File]:
    """The tree with a patch applied, strictly; `DataError` says what git said (``what`` names the patch)."""
    with _scratch() as git_dir, tempfile.TemporaryDirectory(prefix="beyondswe-") as work:
        index = {"GIT_INDEX_FILE": str(Path(work) / "index")}
        _git(git_dir, "read-tree", _import(git_dir, "refs/0", files, date(2000, 1, 1)), env=index)
        try:
            _git(git_dir, "apply", "--cached", "--whitespace=nowarn", "-", stdin=patch, env=index)
        except DataError as error:
            raise DataError(f"{what} does not apply to its base tree: {error}") from error
        result = {}
        for entry in _git(git_dir, "ls-files", "-s", "-z", env=index).split(b"\0")[:-1]:
            (mode, blob, _), name = entry[: entry.index(b"\t")].split(), os.fsdecode(entry[entry.index(b"\t") + 1 :])
            old = files.get(name)
            if old is not None and blob.decode() == _blob_id(old.data) and mode.decode() == old.mode:
                result[name] = old
            else:
                data = _git(git_dir, "cat-file", "blob", blob.decode())
                result[name] = File(data, mode.decode())  # type: ignore[arg-type]  # git gives one of File's modes
        return result


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _import(git_dir: Path, ref: str, files: Files, day: date) -> str:
    seconds = int(datetime.combine(day, time(), UTC).timestamp())
    who = f"{IDENTITY} {seconds} +0000"
    message = b"Base of the instance\n"

    def stream() -> Iterator[bytes]:
        yield f"commit {ref}\nauthor {who}\ncommitter {who}\ndata {len(message)}\n".encode() + message
        for name, file in sorted(files.items()):
            yield f"M {file.mode} inline ".encode() + _quoted(name) + b"\ndata %d\n" % len(file.data) + file.data + b"\n"
        yield b"done\n"

    _git(git_dir, "fast-import", "--quiet", "--done", stdin=b"".join(stream()))
    return _git(git_dir, "rev-parse", ref).decode().strip()


def _quoted(name: str) -> bytes:
    raw = os.fsencode(name)
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="beyondswe-") as folder:
        git_dir = Path(folder) / "git"
        _git(git_dir, "init", "-q", "--bare", "--initial-branch=none", "--template=", str(git_dir))
        yield git_dir


def _git(git_dir: Path, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    isolated = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.devnull,
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_DEFAULT_HASH": "sha1",
        **(env or {}),
    }
    if arguments[0] != "init":
        isolated["GIT_DIR"] = str(git_dir)
    ended = subprocess.run(["git", *arguments], input=stdin, capture_output=True, env=isolated, check=False)
    if ended.returncode:
        raise DataError(f"git {arguments[0]} failed: {ended.stderr.decode(errors='replace').strip()}")
    return ended.stdout

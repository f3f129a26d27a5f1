"""Trees of files as git objects in git directories of our own on the host: edit, read, compare, patch.

Nothing here looks at a work tree, and no reference is ever made. Paths are bytes, relative to the root of the
tree. A `Trees` belongs to one thread.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from beyondswe.sandbox import hostgit
from beyondswe.sandbox.hostgit import GitError
from beyondswe.sandbox.importing import (
    EXECUTABLE,
    FILE,
    SYMLINK,
    Entry,
    FastImport,
    Importer,
    TooLarge,
    finish,
    pipe,
)
from beyondswe.sandbox.paths import inside, parents, quoted
from beyondswe.sandbox.scratch import temporary_folder

__all__ = [
    "EMPTY_BLOB",
    "EMPTY_TREE",
    "EXECUTABLE",
    "FILE",
    "SYMLINK",
    "ApplyError",
    "Changed",
    "Entry",
    "File",
    "Trees",
]

EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_MEMORY = 4 << 30  # bytes of address space for applying a patch, packs included


class ApplyError(Exception):
    """A patch does not apply to a tree; the message is git's."""


class File(NamedTuple):
    """A file or link to be put into a tree; the data of a link is its target."""

    mode: str
    data: bytes


class Changed(NamedTuple):
    """One path that differs between two trees; None: it is not in that tree."""

    path: bytes
    old: Entry | None
    new: Entry | None


class Trees:
    """Objects in one git directory: `create` makes one that stays, `above` one that goes with its job."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir.absolute()
        self._reader: subprocess.Popen[bytes] | None = None

    @classmethod
    def create(cls, git_dir: Path, *, reads: Path | None = None) -> Self:
        """A new git directory, which may also read the objects of another one."""
        (git_dir / "objects" / "info").mkdir(parents=True)
        (git_dir / "refs").mkdir()
        (git_dir / "HEAD").write_text("ref: refs/heads/none\n")
        (git_dir / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        if reads is not None:
            objects = os.fsencode(reads.resolve() / "objects")
            (git_dir / "objects" / "info" / "alternates").write_bytes(objects + b"\n")
        return cls(git_dir)

    @classmethod
    @contextmanager
    def above(cls, git_dir: Path) -> Iterator[Self]:
        """Read the objects of ``git_dir``; what is made on top lies in a folder that goes when this ends.

        So jobs on one snapshot see nothing of one another, and a snapshot never grows.
        """
        with temporary_folder() as folder, cls.create(folder / "git", reads=git_dir) as trees:
            yield trees

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process that reads objects; it is started again when needed."""
        if self._reader is not None:
            finish(self._reader)
            self._reader = None

    def importer(self, *, max_bytes: int | None = None, max_files: int | None = None) -> Importer:
        """Takes files in from tar streams; what it took in can be used once it is left."""
        return Importer(self.git_dir, max_bytes=max_bytes, max_files=max_files)

    def edit(self, tree: str, changes: Mapping[bytes, Entry | File | None]) -> str:
        """The tree with these paths put in, replacing what is in their way, or, for None, taken out.

        What is taken out goes first and takes all below it along; that it was not there is no error.
        """
        if not changes:
            return tree
        for path in changes:
            if not inside(path):
                raise ValueError(f"not a path inside a tree: {path!r}")
        ordered = sorted(changes.items())
        with FastImport(self.git_dir) as git:
            git.write(b"commit refs/heads/tree\ncommitter b <b> 0 +0000\ndata 0\n")
            git.write(b'M 040000 %b ""\n' % tree.encode())
            for path, change in ordered:
                if change is None:
                    git.write(b"D %b\n" % _in_quotes(path))
            for path, change in ordered:
                if isinstance(change, Entry):
                    git.write(b"M %b %b %b\n" % (change.mode.encode(), change.oid.encode(), _in_quotes(path)))
                elif change is not None:
                    size = len(change.data)
                    git.write(b"M %b inline %b\ndata %d\n" % (change.mode.encode(), _in_quotes(path), size))
                    git.write(change.data + b"\n")
            answer = git.ask(b'ls ""\n')
            git.write(b"reset refs/heads/tree\nfrom %b\n\n" % (b"0" * 40))  # no reference stays
        _, _, oid = answer.partition(b" tree ")
        return oid.strip().decode() or EMPTY_TREE

    def entries(self, tree: str, paths: Sequence[bytes] | None = None) -> dict[bytes, Entry]:
        """All files of a tree, or those at or below ``paths`` (one that is not there gives nothing)."""
        found = {}
        for group in [[]] if paths is None else _grouped([path.strip(b"/") for path in paths]):
            listing = self._git("ls-tree", "-r", "-z", "--full-tree", tree, "--", *group)
            for line in listing.split(b"\0")[:-1]:
                meta, _, path = line.partition(b"\t")
                mode, _, oid = meta.split(b" ")
                found[path] = Entry(mode.decode(), oid.decode())
        return found

    def sizes(self, tree: str) -> dict[bytes, int]:
        """The bytes of every file of a tree."""
        sizes = {}
        for line in self._git("ls-tree", "-r", "-z", "-l", "--full-tree", tree).split(b"\0")[:-1]:
            meta, _, path = line.partition(b"\t")
            sizes[path] = int(meta.split()[3])
        return sizes

    def read(self, oid: str) -> bytes:
        """The bytes of a blob."""
        if self._reader is None:
            self._reader = subprocess.Popen(
                hostgit.command("cat-file", "--batch"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=hostgit.environment(GIT_DIR=str(self.git_dir)),
                cwd=self.git_dir,
            )
        requests, answers = pipe(self._reader.stdin), pipe(self._reader.stdout)
        try:
            requests.write(oid.encode() + b"\n")
            requests.flush()
        except BrokenPipeError as error:
            raise GitError(f"git cat-file ended in {self.git_dir}") from error
        answer = answers.readline().split()
        if len(answer) != 3 or answer[1] != b"blob":
            raise GitError(f"{self.git_dir}: {oid} is no blob there ({b' '.join(answer).decode()})")
        data = answers.read(int(answer[2]))
        answers.read(1)
        return data

    def changed(self, old: str, new: str) -> list[Changed]:
        """What differs between two trees, by path, without guessing renames."""
        raw = self._git("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
        fields = raw.split(b"\0")
        changes = []
        for meta, path in zip(fields[0:-1:2], fields[1::2], strict=True):
            old_mode, new_mode, old_oid, new_oid, _ = meta.lstrip(b":").decode().split(" ")
            before = None if old_mode == "000000" else Entry(old_mode, old_oid)
            after = None if new_mode == "000000" else Entry(new_mode, new_oid)
            changes.append(Changed(path, before, after))
        return changes

    def diff(self, old: str, new: str, *, renames: bool = True, max_bytes: int | None = None) -> str:
        """The change as a git patch that is UTF-8 text: files with NUL or other bytes as binary patches.

        Git calls a file binary by its first 8,000 bytes, and knows nothing of encodings; so the change is
        split in two here, by way of a tree between, and each half is made by its own rule.
        """
        changes = self.changed(old, new)
        binary = {
            change.path for change in changes if not (self._is_text(change.old) and self._is_text(change.new))
        }
        # A file in the place of a folder (or the reverse) cannot change without what it displaces.
        tied = binary.union(*map(parents, binary))
        text = {
            change.path: change.new
            for change in changes
            if change.path not in tied and binary.isdisjoint(parents(change.path))
        }
        middle = self.edit(old, text) if binary else new
        patch = b""
        for start, end, setting, option in (
            (old, middle, "diff.default.binary=false", "--text"),
            (middle, new, "diff.default.binary=true", "--binary"),
        ):
            if start != end:
                left = None if max_bytes is None else max_bytes - len(patch)
                patch += self._git(
                    *("-c", setting, "diff-tree", "-p", option, "--full-index", "-U3"),
                    *(["-M", "-l400"] if renames else ["--no-renames"]),
                    *("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"),
                    *(start, end),
                    max_bytes=left,
                )
        return _with_clear_names(_decoded(patch), [change.path for change in changes])

    def apply(self, tree: str, patch: bytes, *, options: Sequence[str] = ()) -> str:
        """The tree after ``git apply`` with these options: all of the patch; else `ApplyError`."""
        with tempfile.TemporaryDirectory(prefix="apply-", dir=self.git_dir) as folder:
            index = f"{folder}/index"
            self._git("read-tree", tree, index=index)
            with subprocess.Popen(
                hostgit.command("apply", "--cached", "--whitespace=nowarn", *options, "-"),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=hostgit.environment(GIT_DIR=str(self.git_dir), GIT_INDEX_FILE=index),
                cwd=self.git_dir,
            ) as process:
                if sys.platform == "linux":  # a few bytes of a binary patch can ask for any amount of memory
                    resource.prlimit(process.pid, resource.RLIMIT_AS, (_MEMORY, _MEMORY))
                _, errors = process.communicate(patch)
            # Git drops a broken binary patch at the end with an error, and says that all went well.
            if process.returncode != 0 or b"error:" in errors:
                raise ApplyError(hostgit.words(errors))
            return self._git("write-tree", index=index).decode().strip()

    def _is_text(self, entry: Entry | None) -> bool:
        if entry is None:
            return True
        data = self.read(entry.oid)
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            return False
        return b"\0" not in data

    def _git(self, *arguments: str | bytes, index: str | None = None, max_bytes: int | None = None) -> bytes:
        """Standard output of one git command; more than ``max_bytes`` of it is `TooLarge`."""
        more = {"GIT_INDEX_FILE": index} if index else {}
        with tempfile.TemporaryFile() as errors:
            with subprocess.Popen(
                hostgit.command(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=hostgit.environment(GIT_DIR=str(self.git_dir), **more),
                cwd=self.git_dir,
            ) as process:
                output = pipe(process.stdout).read(-1 if max_bytes is None else max_bytes + 1)
                if max_bytes is not None and len(output) > max_bytes:
                    process.kill()
                    raise TooLarge(f"more than {max_bytes} bytes")
            if process.returncode != 0:
                errors.seek(0)
                shown = " ".join(os.fsdecode(argument) for argument in arguments[:3])
                raise GitError(f"git {shown} … failed in {self.git_dir}: {hostgit.words(errors.read())}")
        return output


def _in_quotes(path: bytes) -> bytes:
    shown = quoted(path).encode()
    return shown if shown.startswith(b'"') else b'"%b"' % shown


def _grouped(paths: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Paths in groups that fit a command line."""
    group: list[bytes] = []
    length = 0
    for path in paths:
        if group and length + len(path) > 64_000:
            yield group
            group, length = [], 0
        group.append(path)
        length += len(path) + 16
    if group:
        yield group


def _with_clear_names(patch: str, paths: Sequence[bytes]) -> str:
    """Quotes the names that git cannot read back from a heading of its own: with a blank before a slash."""
    for path in paths:
        name = quoted(path)
        if " /" in name and not name.startswith('"'):
            heading = re.compile(f"^diff --git {re.escape(f'a/{name} b/{name}')}$", re.MULTILINE)
            patch = heading.sub(f'diff --git "a/{name}" "b/{name}"', patch)
    return patch


def _decoded(patch: bytes) -> str:
    """A patch as text. Git cuts the function in a hunk's heading at 80 bytes, even inside a character."""
    try:
        return patch.decode("utf-8")
    except UnicodeDecodeError:
        pass
    headings = re.compile(rb"^@@ -.*$", re.MULTILINE)
    return headings.sub(lambda line: line[0].decode("utf-8", "ignore").encode(), patch).decode("utf-8")

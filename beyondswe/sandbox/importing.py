"""Takes files in from tar streams as git objects, as they come, without holding them in memory."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

from beyondswe.errors import EngineError
from beyondswe.sandbox import hostgit
from beyondswe.sandbox.hostgit import GitError
from beyondswe.sandbox.paths import quoted, reserved
from beyondswe.sandbox.tarstream import BadArchive, Kind, Member, members

FILE, EXECUTABLE, SYMLINK = "100644", "100755", "120000"
RESERVED = "git reserves this name"


class TooLarge(EngineError):
    """More bytes or more files than the caller wants to take."""


class Entry(NamedTuple):
    """A file or link of a tree: ``mode`` is one of `FILE`, `EXECUTABLE`, `SYMLINK`."""

    mode: str
    oid: str


class FastImport:
    """One ``git fast-import`` process; left without an error, what was written has become objects."""

    def __init__(self, git_dir: Path) -> None:
        self._git_dir = git_dir

    def __enter__(self) -> Self:
        # Large blobs are streamed; no deltas and no compression: a tree of 1 GiB would be packed for a minute.
        options = ["--quiet", "--done", "--date-format=raw", "--depth=0", "--big-file-threshold=1m"]
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            hostgit.command("-c", "core.compression=0", "-c", "pack.compression=0", "fast-import", *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=hostgit.environment(GIT_DIR=str(self._git_dir)),
            cwd=self._git_dir,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._errors:
            if kind is not None:
                self._process.kill()
                finish(self._process)
                return
            self.write(b"done\n")
            finish(self._process)
            if self._process.returncode != 0:
                self._failed()

    def write(self, data: bytes) -> None:
        try:
            pipe(self._process.stdin).write(data)
        except BrokenPipeError:
            self._process.wait()
            self._failed()

    def ask(self, command: bytes) -> bytes:
        """The one line that git answers."""
        self.write(command)
        with suppress(BrokenPipeError):  # then there is no answer either
            pipe(self._process.stdin).flush()
        answer = pipe(self._process.stdout).readline()
        if not answer:
            self._process.wait()
            self._failed()
        return answer

    def blob(self, pieces: Iterable[bytes], size: int) -> str:
        """Write a blob piece by piece; its object id is computed on the way."""
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        self.write(b"blob\ndata %d\n" % size)
        for piece in pieces:
            digest.update(piece)
            self.write(piece)
        self.write(b"\n")
        return digest.hexdigest()

    def _failed(self) -> None:
        self._errors.seek(0)
        raise GitError(f"git fast-import failed in {self._git_dir}: {hostgit.words(self._errors.read())}")


class Importer:
    """Takes tar streams in, one after the other: ``with trees.importer() as importer: importer.add(…)``."""

    def __init__(self, git_dir: Path, *, max_bytes: int | None = None, max_files: int | None = None) -> None:
        self.entries: dict[bytes, Entry] = {}
        """What was taken in, by path: give it to `Trees.edit` when the importer is left."""
        self.left_out: dict[bytes, str] = {}
        """What was not, with the reason (the contents of ``.git`` are dropped without a word)."""
        self.unresolved: set[bytes] = set()
        """Hard links to what was not taken in: to be fetched by themselves."""
        self.bytes_read = 0
        self._max_bytes, self._max_files = max_bytes, max_files
        self._git = FastImport(git_dir)

    def __enter__(self) -> Self:
        self._git.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._git.__exit__(kind, error, trace)

    def add(
        self,
        chunks: Iterable[bytes],
        *,
        strip: bytes,
        into: bytes = b"",
        shallow: bool = False,
        skip: Callable[[bytes], bool] | None = None,
    ) -> Kind | None:
        """Take in a tar stream of ``strip`` (a file, or a folder and all below it), and place it at ``into``.

        Gives the kind of ``strip`` itself; None where the archive is empty. With ``shallow`` a folder is not
        read, only told. Paths that ``skip`` names are not taken in.
        """
        first = None
        for member in members(chunks):
            path = _placed(member.name, strip, into)
            first = first or member.kind
            if shallow and first is Kind.DIRECTORY:
                break
            if skip is None or not skip(path):
                self._take(member, path, strip, into)
        return first

    def _take(self, member: Member, path: bytes, strip: bytes, into: bytes) -> None:
        if member.kind is Kind.DIRECTORY:
            return
        if name := reserved(path):
            if name.rpartition(b"/")[2] != b".git":
                self.left_out[name] = RESERVED
        elif member.kind is Kind.FILE:
            self._charge(member.size)
            mode = EXECUTABLE if member.mode & 0o100 else FILE
            self.entries[path] = Entry(mode, self._git.blob(member.data, member.size))
        elif member.kind is Kind.SYMLINK:
            if path.rpartition(b"/")[2].lower() == b".gitmodules":
                self.left_out[path] = "a link in the place of .gitmodules, which git refuses"
                return
            self._charge(len(member.target))
            self.entries[path] = Entry(SYMLINK, self._git.blob([member.target], len(member.target)))
        elif member.kind is Kind.HARD_LINK:
            linked = self.entries.get(_placed(member.target, strip, into))
            if linked is None:
                self.unresolved.add(path)
            else:
                self.entries[path] = linked
        else:
            self.left_out[path] = str(member.kind)

    def _charge(self, size: int) -> None:
        self.bytes_read += size
        if self._max_bytes is not None and self.bytes_read > self._max_bytes:
            raise TooLarge(f"more than {self._max_bytes} bytes of files")
        if self._max_files is not None and len(self.entries) >= self._max_files:
            raise TooLarge(f"more than {self._max_files} files")


def _placed(name: bytes, strip: bytes, into: bytes) -> bytes:
    """Where a member of an archive goes: ``strip`` off the front, ``into`` before it."""
    parts = name.split(b"/")
    if name.startswith(b"/") or b".." in parts:
        raise BadArchive(f"tar stream: the name {quoted(name)} leads out of it")
    clean = [part for part in parts if part not in (b"", b".")]
    start = [part for part in strip.split(b"/") if part not in (b"", b".")]
    if clean[: len(start)] != start:
        raise BadArchive(f"tar stream: {quoted(name)} does not lie below {quoted(strip)}")
    return b"/".join([*([into] if into else []), *clean[len(start) :]])


def pipe(handle: IO[bytes] | None) -> IO[bytes]:
    """A pipe of a process that was started with it."""
    assert handle is not None
    return handle


def finish(process: subprocess.Popen[bytes]) -> None:
    """Close a process's input and output and wait for its end; its exit code says how that was."""
    for handle in (process.stdin, process.stdout):
        if handle is not None:
            with suppress(BrokenPipeError):
                handle.close()
    process.wait()

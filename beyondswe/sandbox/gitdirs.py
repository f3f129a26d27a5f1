"""Carries git directories out of a sandbox, so that they are read and remade with the host's own git.

Nothing in the sandbox is executed for it: the engine's tar stream of a folder is read once, what belongs to
a git directory is written below a temporary folder of ours (plain files only), and pointers (``.git`` files
and links, linked work trees, submodules, alternates) are followed by asking the engine for the place that
they name.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from beyondswe.errors import DataError
from beyondswe.sandbox.paths import inside
from beyondswe.sandbox.tarstream import Kind, Member, members
from beyondswe.sandbox.types import Sandbox

_LEFTOVERS = re.compile(rb"\.(bundle|orig|rej)$")
_MOST_ALTERNATES = 16


@dataclass
class GitDir:
    """A git directory, carried out. ``head`` holds HEAD and index, ``common`` the rest (they differ for a
    work tree).
    """

    root: str  # the folder in the sandbox whose .git it is; of a bare repository: the folder itself
    head: Path
    common: Path
    uid: int
    gid: int
    bare: bool = False
    is_folder: bool = True  # .git is a folder there, not a pointer to elsewhere
    alternates: list[Path] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)  # other places in the sandbox that hold its history

    @property
    def place(self) -> str:
        """Where it is in the sandbox: what has to be replaced."""
        return self.root if self.bare else posixpath.join(self.root, ".git")


@dataclass
class Found:
    """What lies below a folder: git directories, pointers that lead nowhere, and files that may hold later
    changes.
    """

    git_dirs: list[GitDir] = field(default_factory=list)
    dangling: list[str] = field(default_factory=list)
    leftovers: list[bytes] = field(default_factory=list)  # paths relative to the folder


class Carrier:
    """Reads git directories of one sandbox into ``folder``, which the caller removes."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self._sandbox = sandbox
        self._folder = folder
        self._count = 0
        self._places: dict[str, Path] = {}  # place in the sandbox → its copy

    def find(self, top: str) -> Found:
        """All git directories at and below ``top``."""
        found = Found()
        pointers: dict[str, tuple[Member, bytes]] = {}
        owners: dict[str, tuple[int, int]] = {}
        marks: dict[str, set[bytes]] = {}  # folders with something that a bare repository has
        with self._sandbox.get(top) as pieces:
            writer = _Writer(self._sandbox, posixpath.dirname(top))
            for member in members(pieces):
                _, _, path = member.name.rstrip(b"/").partition(b"/")
                before, git, within = _split(path)
                if not git:
                    if _LEFTOVERS.search(path) and member.kind is Kind.FILE:
                        found.leftovers.append(path)
                    above, _, name = path.rpartition(b"/")
                    if name in (b"HEAD", b"objects", b"refs"):
                        marks.setdefault(_join(top, above), set()).add(name)
                    continue
                place = posixpath.join(_join(top, before), ".git")
                if within:
                    writer.write(member, self._copy_of(place), within)
                elif member.kind is Kind.DIRECTORY:
                    owners[place] = (member.uid, member.gid)
                    self._copy_of(place).mkdir(exist_ok=True)
                else:
                    text = b"".join(member.data) if member.kind is Kind.FILE else b"gitdir: " + member.target
                    pointers[place] = (member, text)
            writer.finish()
        for place, (uid, gid) in owners.items():
            copy = self._places[place]
            if (copy / "HEAD").exists():
                found.git_dirs.append(GitDir(posixpath.dirname(place), copy, copy, uid, gid))
            else:
                found.dangling.append(place)
        for place, (member, text) in pointers.items():
            pointed = self._follow(place, text, member)
            if pointed is None:
                found.dangling.append(place)
            else:
                found.git_dirs.append(pointed)
        for folder, names in marks.items():
            if len(names) == 3 and folder != top:
                found.git_dirs.extend(self._bare(folder))
        for git_dir in found.git_dirs:
            self._add_alternates(git_dir)
        return found

    def fetch(self, place: str) -> Path | None:
        """A copy of a git directory, or of an object store, at a place in the sandbox; None if there is
        none.
        """
        for known, copy in self._places.items():
            if place == known or place.startswith(f"{known}/"):
                within = copy / place[len(known) :].lstrip("/")
                return within if within.is_dir() else None
        copy = self._copy_of(place)
        copy.mkdir(exist_ok=True)
        try:
            with self._sandbox.get(place) as pieces:
                writer = _Writer(self._sandbox, posixpath.dirname(place))
                for member in members(pieces):
                    _, _, path = member.name.rstrip(b"/").partition(b"/")
                    if path:
                        writer.write(member, copy, path)
                    elif member.kind is not Kind.DIRECTORY:
                        return None
                writer.finish()
        except FileNotFoundError:
            return None
        return copy

    def _copy_of(self, place: str) -> Path:
        if place not in self._places:
            self._count += 1
            self._places[place] = self._folder / str(self._count)
        return self._places[place]

    def _follow(self, place: str, text: bytes, member: Member) -> GitDir | None:
        """The git directory that a ``.git`` file or link points to."""
        root = posixpath.dirname(place)
        match = re.match(rb"gitdir: (.+)", text)
        if match is None:
            return None
        target = _absolute(root, match[1])
        head = self.fetch(target)
        if head is None or not (head / "HEAD").exists():
            return None
        common, store = head, target
        if (head / "commondir").exists():
            store = _absolute(target, (head / "commondir").read_bytes())
            named = self.fetch(store)
            if named is None:
                return None
            common = named
        return GitDir(root, head, common, member.uid, member.gid, is_folder=False, stores=[store])

    def _bare(self, place: str) -> Iterator[GitDir]:
        copy = self.fetch(place)
        if copy is not None and (copy / "HEAD").is_file() and (copy / "objects").is_dir():
            yield GitDir(place, copy, copy, 0, 0, bare=True)

    def _add_alternates(self, git_dir: GitDir) -> None:
        """Follow the object stores that this one borrows from, and those that they borrow from."""
        place = git_dir.stores[-1] if git_dir.stores else git_dir.place
        waiting = [(git_dir.common / "objects", posixpath.join(place, "objects"))]
        while waiting:
            copy, where = waiting.pop()
            for line in _lines(copy / "info" / "alternates"):
                target = _absolute(where, line)
                store = self.fetch(target)
                if store is None or store in git_dir.alternates:
                    continue
                if len(git_dir.alternates) == _MOST_ALTERNATES:
                    raise DataError(
                        f"{git_dir.place} borrows objects from more than {_MOST_ALTERNATES} places"
                    )
                git_dir.alternates.append(store)
                git_dir.stores.append(target)
                waiting.append((store, target))


class _Writer:
    """Writes members of a git directory as plain files: no links, no special files, nothing outside the
    folder.
    """

    def __init__(self, sandbox: Sandbox, above: str) -> None:
        self._sandbox = sandbox
        self._above = above
        self._written: dict[bytes, Path] = {}
        self._linked: list[tuple[bytes, bytes, Path]] = []

    def write(self, member: Member, folder: Path, path: bytes) -> None:
        if not inside(path):
            raise DataError(f"a git directory in the image holds the odd path {path!r}")
        target = folder / os.fsdecode(path)
        if member.kind is Kind.DIRECTORY:
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if member.kind is Kind.FILE:
            with target.open("wb") as handle:
                for piece in member.data:
                    handle.write(piece)
            self._written[member.name] = target
        elif member.kind is Kind.HARD_LINK:
            self._linked.append((member.name, member.target, target))
        elif member.kind is Kind.SYMLINK and path == b"HEAD":  # git of long ago
            target.write_bytes(b"ref: " + member.target + b"\n")

    def finish(self) -> None:
        """Hard links: to what was written, or else to something that the engine is asked for."""
        for name, linked_to, target in self._linked:
            if linked_to in self._written:
                os.link(self._written[linked_to], target)
                continue
            with self._sandbox.get(posixpath.join(self._above, os.fsdecode(name))) as pieces:
                for member in members(pieces):
                    target.write_bytes(b"".join(member.data))


def _split(path: bytes) -> tuple[bytes, bytes, bytes]:
    """What comes before a ``.git``, the ``.git``, and what lies within it."""
    parts = path.split(b"/")
    if b".git" not in parts:
        return path, b"", b""
    at = parts.index(b".git")
    return b"/".join(parts[:at]), b".git", b"/".join(parts[at + 1 :])


def _join(top: str, path: bytes) -> str:
    return posixpath.join(top, os.fsdecode(path)) if path else top


def _absolute(base: str, path: bytes) -> str:
    return posixpath.normpath(posixpath.join(base, os.fsdecode(path.strip())))


def _lines(path: Path) -> Iterable[bytes]:
    if not path.is_file():
        return []
    return [line for line in path.read_bytes().splitlines() if line.strip() and not line.startswith(b"#")]

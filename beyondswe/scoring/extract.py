"""Takes the patch out of a sandbox whose agent was root: files come out as data, the host does the rest.

The change is the snapshot against the work folder as it is at the end. The engine says where to look, only
what changed is read, and nothing inside runs or is believed: not its git, its attributes, its ignore files.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from beyondswe.errors import ScoringError
from beyondswe.sandbox.importing import Importer, TooLarge
from beyondswe.sandbox.paths import parents
from beyondswe.sandbox.tarstream import Kind, members
from beyondswe.sandbox.trees import ApplyError, Entry, Trees
from beyondswe.sandbox.types import Change, ChangeKind, Environment, Files
from beyondswe.scoring.leftout import LeftOut, Rules
from beyondswe.scoring.patches import MAX_PATCH
from beyondswe.scoring.types import Patch

MAX_FILES = 100_000  # more than that are not taken out of a sandbox, on top of those that the snapshot has

_CALL = 2 << 20
"""What asking the engine for one more path costs (50 ms), in bytes that it would give in that time."""
_FILE = 4 << 10
"""What one more file of a folder that is read whole costs, likewise."""
_CLOSED = 128 << 20
"""What a folder costs on top that has something in it which the snapshot does not know, such as ``.git``."""
_FEW = 4
"""So many paths are asked for one by one without thinking about it."""


class PatchTooLarge(ScoringError):
    """The change is larger than what is taken; the attempt is over, and it is no fault of the machine."""


def extract_patch(sandbox: Files, environment: Environment, *, max_bytes: int = MAX_PATCH) -> Patch:
    """The agent's change, from a sandbox that was frozen. ``max_bytes`` limits the text of the patch.

    `PatchTooLarge` beyond that, or when the changed files hold more than four times as much.
    """
    snapshot = environment.snapshot
    with Trees.above(snapshot.git_dir) as trees:
        before = trees.entries(snapshot.tree)
        base = before if snapshot.base_tree == snapshot.tree else trees.entries(snapshot.base_tree)
        left_out = LeftOut()
        where = _Where.of(sandbox.changed_paths(), environment.workdir)
        if gone := _not_a_folder(sandbox, where):
            left_out.reasons[b"."] = f"the work folder is gone: {gone}"
            differences: dict[bytes, Entry | None] = dict.fromkeys(before)
            seen: Collection[bytes] = ()
        else:
            rules = Rules.of(trees, base, {*before, *where.touched})
            try:
                differences, seen = _read(
                    sandbox, trees, snapshot.tree, before, where, rules, left_out, 4 * max_bytes
                )
            except TooLarge as error:
                raise PatchTooLarge(
                    f"the changed files are too large: {error}; a patch may have {max_bytes} bytes"
                ) from error
        rules = Rules.of(trees, base, {*before, *where.touched, *seen})
        kept = rules.apply(sorted(differences), left_out)
        tree = trees.edit(snapshot.tree, {path: differences[path] for path in kept})
        text = _text(trees, snapshot.tree, tree, max_bytes)
    return Patch(text, hashlib.sha256(text.encode()).hexdigest(), left_out.lines())


def _text(trees: Trees, old: str, new: str, max_bytes: int) -> str:
    """The patch from one tree to the other, proved by applying it."""
    for renames in (True, False):  # should git refuse a rename that it guessed, say it without
        try:
            text = trees.diff(old, new, renames=renames, max_bytes=max_bytes)
        except TooLarge as error:
            raise PatchTooLarge(f"the patch is larger than {max_bytes} bytes") from error
        try:
            if (trees.apply(old, text.encode()) if text else old) == new:
                return text
        except ApplyError:
            continue
    raise ScoringError(f"the patch from {old} to {new} does not give that tree back; please report this")


@dataclass(frozen=True)
class _Where:
    """Where to look, relative to the work folder."""

    workdir: str
    touched: Mapping[bytes, ChangeKind]  # below the work folder
    folders: frozenset[bytes]  # to be read whole; b"" is the work folder itself
    above: tuple[str, ...]  # it and what it lies in, outermost first, as far as they are among the changes

    @classmethod
    def of(cls, changes: Iterable[Change], workdir: str) -> _Where:
        top = posixpath.normpath(workdir)
        below = top.rstrip("/") + "/"
        touched: dict[bytes, ChangeKind] = {}
        folders: set[bytes] = set()
        above = []
        for change in changes:
            if change.path.startswith(below):
                path = os.fsencode(change.path.removeprefix(below))
                if change.kind is ChangeKind.UNLISTED:
                    folders.add(path)
                else:
                    touched[path] = change.kind
            elif below.startswith(change.path.rstrip("/") + "/"):
                if change.path != "/":
                    above.append(change.path)
                if change.kind is ChangeKind.UNLISTED:
                    folders.add(b"")
        if b"" in folders:
            folders = {b""}
        folders = {path for path in folders if folders.isdisjoint(parents(path))}
        return cls(top, touched, frozenset(folders), tuple(sorted(above)))

    def absolute(self, path: bytes) -> str:
        return posixpath.join(self.workdir, os.fsdecode(path)) if path else self.workdir


def _not_a_folder(sandbox: Files, where: _Where) -> str | None:
    """What stands in the place of the work folder, or of one that it lies in, where an agent replaced it.

    The engine follows links on the way to what it is asked for, so this must be known before it is asked.
    Where something changed in the work folder, it and all above are folders.
    """
    if any(kind is not ChangeKind.DELETED for kind in where.touched.values()):
        return None
    for path in where.above or (where.workdir,):
        kind = _kind(sandbox, path)
        if kind is not Kind.DIRECTORY:
            return f"{path} is {'not there' if kind is None else f'a {kind}'}"
    return None


def _kind(sandbox: Files, path: str) -> Kind | None:
    try:
        with sandbox.get(path) as chunks:
            first = next(members(chunks), None)
    except FileNotFoundError:
        return None
    return first.kind if first else Kind.OTHER


def _read(
    sandbox: Files,
    trees: Trees,
    tree: str,
    before: Mapping[bytes, Entry],
    where: _Where,
    rules: Rules,
    left_out: LeftOut,
    max_bytes: int,
) -> tuple[dict[bytes, Entry | None], Collection[bytes]]:
    """What differs from the snapshot, by path, and every path that was read."""
    inner = {folder for path in where.touched for folder in parents(path)}  # what changed there is listed
    ends = [
        path
        for path, kind in where.touched.items()
        if kind is not ChangeKind.DELETED and path not in inner and not _within(path, where.folders)
    ]
    single = rules.apply(ends, left_out)
    whole = set(where.folders)
    if whole or len(single) > _FEW:
        sizes = trees.sizes(tree)
        closed = {parent for path in set(ends).difference(single) for parent in parents(path)}
        whole |= _cheaper_whole(single, closed, sizes)
        max_bytes += sum(size for path, size in sizes.items() if _within(path, whole))

    def skip(path: bytes) -> bool:
        if path in before:
            return False
        return rules.leave(path, left_out) if _within(path, where.folders) else path not in asked

    gone = {path for path, kind in where.touched.items() if kind is ChangeKind.DELETED} | whole
    asked = set(single)
    emptied = set()
    with trees.importer(max_bytes=max_bytes, max_files=len(before) + MAX_FILES) as importer:
        for folder in sorted(whole):
            _fetch(sandbox, importer, where, folder, skip=skip)
        for path in single:
            if _within(path, whole):
                continue
            kind = _fetch(sandbox, importer, where, path)
            if kind is Kind.DIRECTORY:
                emptied.add(path)  # no file any more, if it was one; what lies in it did not change
            elif path not in importer.entries:
                gone.add(path)
        for path in sorted(importer.unresolved):
            _fetch(sandbox, importer, where, path)
    left_out.reasons.update(importer.left_out)
    found: dict[bytes, Entry | None] = {
        path: None for path in before if path in emptied or _within(path, gone)
    }
    found.update(importer.entries)
    different = {path: entry for path, entry in found.items() if before.get(path) != entry}
    return different, importer.entries.keys()


def _fetch(
    sandbox: Files,
    importer: Importer,
    where: _Where,
    path: bytes,
    *,
    skip: Callable[[bytes], bool] | None = None,
) -> Kind | None:
    """Read one path into the importer, a folder only if it is said what to skip in it.

    None: it is not there, or it cannot be in an archive (a socket).
    """
    full = where.absolute(path)
    name = os.fsencode(posixpath.basename(full))
    try:
        with sandbox.get(full) as chunks:
            kind = importer.add(chunks, strip=name, into=path, shallow=skip is None, skip=skip)
    except FileNotFoundError:
        return None
    if kind is None:
        importer.left_out[path] = "a socket or the like"
    return kind


def _within(path: bytes, folders: Collection[bytes]) -> bool:
    """Whether a path is one of these, or lies below one (b"" is the root)."""
    return bool(folders) and any(part in folders for part in (b"", *parents(path), path))


def _cheaper_whole(
    single: Iterable[bytes], closed: Collection[bytes], sizes: Mapping[bytes, int]
) -> set[bytes]:
    """The folders that are better read whole than path by path."""
    cost: dict[bytes, int] = {}
    weight: dict[bytes, int] = {}
    for path in single:
        for folder in (b"", *parents(path)):
            cost.setdefault(folder, 0)
            weight.setdefault(folder, _CALL + (_CLOSED if folder in closed or not folder else 0))
        cost[path.rpartition(b"/")[0]] += _CALL
    for path, size in sizes.items():
        for folder in (b"", *parents(path)):
            if folder in weight:
                weight[folder] += size + _FILE
    chosen = set()
    deepest_first = sorted(weight, key=lambda folder: folder.count(b"/") + bool(folder), reverse=True)
    for folder in deepest_first:
        if weight[folder] < cost[folder]:
            chosen.add(folder)
            cost[folder] = weight[folder]
        if folder:
            cost[folder.rpartition(b"/")[0]] += cost[folder]
    return {folder for folder in chosen if not _within(folder, chosen - {folder})}

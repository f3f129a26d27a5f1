"""What changed in a container, read from its own overlay layer on this host: names and kinds only.

The engine's own list of changes compares the whole file system (0.7 s for a small image) by size and time, both of
which an agent can set. The layer holds exactly what was written, at the cost of what was written. Deliberate: only
the kernel's overlayfs and only as root, since the marks of a deleted or replaced folder can be read by nobody else; in
every other case the engine is asked (`docker.DockerSandbox.changed_paths`). No file is opened and no link followed.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyondswe.sandbox.types import Change, ChangeKind

if TYPE_CHECKING:
    from beyondswe.sandbox.engine import Engine

_REPLACED = ("trusted.overlay.opaque", "trusted.overlay.redirect")
"""Marks of a folder whose content is not that of the image's folder of the same name plus what lies here."""


def upper_folder(container: Mapping[str, Any]) -> str:
    """The folder of a container's own layer on the engine's host, "" where the storage driver has none."""
    return str(((container.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir") or "")


def readable(engine: Engine, upper: str) -> bool:
    """Whether the layer lies on this host and all of it can be read."""
    return bool(upper) and os.geteuid() == 0 and engine.native_overlay and Path(upper).is_dir()


def layer_changes(upper: str, workdir: str) -> list[Change]:
    """Changes of the work folder, below it, and of the folders that it lies in, sorted by path.

    A folder whose content was replaced, or holds a name that is not UTF-8, is `UNLISTED`: to be read whole.
    """
    found: dict[str, ChangeKind] = {}
    top = posixpath.normpath(workdir)
    for folder in _down_to(top):
        kind = _kind(upper + folder)
        if kind is None:
            return _sorted(found)
        found[folder] = kind
        if kind is ChangeKind.DELETED or not stat.S_ISDIR(os.lstat(upper + folder).st_mode):
            return _sorted(found)
    if ChangeKind.UNLISTED in found.values():
        found[top] = ChangeKind.UNLISTED
    for path, kind in _below(upper, top):
        while not _is_text(path):
            path, kind = posixpath.dirname(path), ChangeKind.UNLISTED
        if found.get(path) is not ChangeKind.UNLISTED:
            found[path] = kind
    return _sorted(found)


def _below(upper: str, folder: str) -> Iterator[tuple[str, ChangeKind]]:
    stack = [folder]
    while stack:
        folder = stack.pop()
        names = os.listdir(upper + folder)  # noqa: PTH208 (names of any bytes)
        if not names:
            yield folder, ChangeKind.MODIFIED
        for name in names:
            path = posixpath.join(folder, name)
            kind = _kind(upper + path)
            if kind is None:
                continue
            is_folder = stat.S_ISDIR(os.lstat(upper + path).st_mode)
            if is_folder:
                stack.append(path)
            if not is_folder or kind is ChangeKind.UNLISTED:
                yield path, kind


def _kind(path: str) -> ChangeKind | None:
    """What an entry of the layer means; None if there is none."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        return ChangeKind.DELETED  # overlayfs lets nobody make such a device inside
    if stat.S_ISDIR(status.st_mode) and any(_has(path, mark) for mark in _REPLACED):
        return ChangeKind.UNLISTED
    return ChangeKind.MODIFIED


def _has(path: str, mark: str) -> bool:
    try:
        os.getxattr(path, mark, follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.ENODATA:
            return False
        raise
    return True


def _down_to(path: str) -> list[str]:
    """``/a/b`` gives ``/a`` and ``/a/b``."""
    parts = [part for part in path.split("/") if part]
    return ["/" + "/".join(parts[: end + 1]) for end in range(len(parts))]


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _sorted(found: dict[str, ChangeKind]) -> list[Change]:
    return [Change(path, kind) for path, kind in sorted(found.items())]

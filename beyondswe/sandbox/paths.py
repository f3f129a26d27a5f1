"""Paths inside a tree, as bytes: how they are shown, what lies inside, which names are reserved by git."""

from __future__ import annotations

import re

_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
_IGNORED_BY_HFS = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def quoted(path: bytes) -> str:
    """A path as git shows it: as it is, or, if it is not plain ASCII, in double quotes with escapes."""
    shown = "".join(
        _ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in path
    )
    return shown if shown.encode() == path else f'"{shown}"'


def parents(path: bytes) -> list[bytes]:
    """The folders that a path lies in, outermost first."""
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


def inside(path: bytes) -> bool:
    """Whether it names something inside a tree: relative, without ``.``, ``..``, empty parts or NUL."""
    return b"\0" not in path and not any(part in (b"", b".", b"..") for part in path.split(b"/"))


def reserved(path: bytes) -> bytes | None:
    """The start of a path up to a ``.git``, or what some file system takes for one; None: it has none."""
    if b"git" not in path.lower() and path.isascii():
        return None
    parts = path.split(b"/")
    for count, part in enumerate(parts, 1):
        name = _IGNORED_BY_HFS.sub("", part.decode("utf-8", "surrogateescape")).lower()
        if re.split(r"[:\\]", name)[0].rstrip(" .") in (".git", "git~1"):
            return b"/".join(parts[:count])
    return None

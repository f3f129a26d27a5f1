"""Takes an agent's own files out of its sandbox, within limits: nothing about them is to be trusted."""

from __future__ import annotations

import fnmatch
import os
import posixpath

from beyondswe.sandbox.tarstream import Kind, members
from beyondswe.sandbox.types import Sandbox
from beyondswe.sandbox.wire import HeadTail

TRANSCRIPT_LIMIT = 32 << 20
"""Bytes kept of an agent's transcript in all."""

_FILES_LIMIT = 20_000


def fetch_files(sandbox: Sandbox, path: str, pattern: str = "*") -> dict[str, bytes]:
    """The file at ``path``, or the files below it whose names fit, by their names below it; {} if it is not
    there. Links are left out, and so is what comes after `TRANSCRIPT_LIMIT`.
    """
    found: dict[str, bytes] = {}
    room = TRANSCRIPT_LIMIT
    try:
        with sandbox.get(path) as pieces:
            for member in members(pieces):
                full = os.fsdecode(member.name)
                name = full.partition("/")[2] or full
                wanted = member.kind is Kind.FILE and fnmatch.fnmatch(posixpath.basename(name), pattern)
                if wanted and member.size <= room and len(found) < _FILES_LIMIT:
                    found[name] = b"".join(member.data)
                    room -= member.size
    except FileNotFoundError:
        return {}
    return found


def shortened(data: bytes, limit: int) -> bytes:
    """Head and tail of what is longer than ``limit``, with a line that says how much is left out."""
    kept = HeadTail(limit)
    kept.add(data)
    return kept.value()

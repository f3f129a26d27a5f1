"""Reads server-sent events, and keeps one kind of them from going on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")


def events(data: bytes) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of a stream's events, in order; what is none is left out. A JSON array counts too."""
    if data.lstrip()[:1] in (b"[", b"{"):
        try:
            whole = json.loads(data)
        except (ValueError, RecursionError):
            return
        yield from (
            item for item in (whole if isinstance(whole, list) else [whole]) if isinstance(item, dict)
        )
        return
    for block in _BLANK_LINE.split(data):
        if (found := _object(block)) is not None:
            yield found


def _object(block: bytes) -> dict[str, Any] | None:
    lines = [line[5:].strip() for line in block.splitlines() if line.startswith(b"data:")]
    try:
        found = json.loads(b"\n".join(lines))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class WithoutUsage:
    """Leaves out the last chunk of a chat stream, which holds the usage alone and which only we asked for."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        self._held += data
        end = max((match.end() for match in _BLANK_LINE.finditer(self._held)), default=0)
        whole, self._held = self._held[:end], self._held[end:]
        if b'"usage"' not in whole:
            return whole
        kept, start = b"", 0
        for match in _BLANK_LINE.finditer(whole):
            block = whole[start : match.end()]
            start = match.end()
            found = _object(block) if b'"usage"' in block else None
            if found is None or found.get("choices") or not found.get("usage"):
                kept += block
        return kept

    def rest(self) -> bytes:
        return self._held

"""Framing: a start byte, the kind, the length, the payload, and a link check that guards the way from the gateway.

Payloads are passed on as they came. The protocol notes (https://gaugewire.example/notes/) say what is in them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

START = 0x7E


class Kind(enum.IntEnum):
    """What a payload is. Receivers must be ready for kinds that they do not know."""

    FULL = 0x01
    STATUS = 0x02
    COMPACT = 0x03  # new in 1.4: sent by gauges with firmware 3


class FrameError(ValueError):
    """The stream is damaged between gateway and receiver."""


@dataclass(frozen=True)
class Frame:
    """One frame, and when the receiver got it (aware, UTC)."""

    kind: int
    payload: bytes
    received: datetime


def _link_check(data: bytes) -> int:
    check = 0
    for byte in data:
        check ^= byte
    return check


def pack(kind: int, payload: bytes) -> bytes:
    """The bytes of a frame on the wire."""
    if len(payload) > 255:
        raise FrameError("a payload has at most 255 bytes")
    body = bytes([kind, len(payload)]) + payload
    return bytes([START]) + body + bytes([_link_check(body)])


def read_frames(
    stream: bytes, now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
) -> Iterator[Frame]:
    """Every frame of a stream; bytes between frames are skipped, damaged frames raise `FrameError`."""
    at = 0
    while (at := stream.find(START, at)) >= 0:
        if at + 4 > len(stream) or at + 4 + stream[at + 2] > len(stream):
            raise FrameError(f"the stream ends inside the frame at byte {at}")
        end = at + 3 + stream[at + 2]
        if _link_check(stream[at + 1 : end]) != stream[end]:
            raise FrameError(f"link check failed for the frame at byte {at}")
        yield Frame(stream[at + 1], stream[at + 3 : end], now())
        at = end + 1

"""From frames to readings."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone

from gaugewire import Frame, Kind

from quaywatch.readings import Reading, State

# slot, Unix time, level in millimetres, state
_FULL = struct.Struct(">BIhB")
_STATES = {0: State.GOOD, 1: State.SUSPECT, 2: State.DRY, 3: State.ICED}


class DecodeError(ValueError):
    """A payload is not what its kind says."""


class UnknownKind(DecodeError):
    """A kind of frame that this version cannot read."""


def decode(frame: Frame) -> Reading | None:
    """The reading in a frame; None for frames that carry none (status)."""
    if frame.kind == Kind.FULL:
        return _full(frame)
    if frame.kind == Kind.STATUS:
        return None
    raise UnknownKind(f"frames of kind 0x{frame.kind:02x} are not supported")


def _full(frame: Frame) -> Reading:
    if len(frame.payload) != _FULL.size:
        raise DecodeError(f"a full frame has {_FULL.size} bytes, not {len(frame.payload)}")
    slot, seconds, millimetres, state = _FULL.unpack(frame.payload)
    if state not in _STATES:
        raise DecodeError(f"unknown state {state}")
    when = datetime.fromtimestamp(seconds, timezone.utc)
    if _STATES[state] in (State.DRY, State.ICED):
        return Reading(slot, when, None, _STATES[state])
    return Reading(slot, when, _centimetres(millimetres), _STATES[state])


def _centimetres(millimetres: int) -> int:
    # Full frames come from gauges that measure whole centimetres: the millimetres end in 0.
    return millimetres // 10


@dataclass
class Decoded:
    """Readings of a stream of frames, and how many frames could not be read, by reason."""

    readings: list[Reading] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)


def decode_all(frames: Iterable[Frame]) -> Decoded:
    """Decode what can be decoded; count the rest."""
    result = Decoded()
    for frame in frames:
        try:
            reading = decode(frame)
        except DecodeError as error:
            result.skipped[str(error)] = result.skipped.get(str(error), 0) + 1
            continue
        if reading is not None:
            result.readings.append(reading)
    return result

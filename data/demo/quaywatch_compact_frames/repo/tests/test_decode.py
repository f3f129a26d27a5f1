import struct
from datetime import datetime, timezone

import pytest
from gaugewire import Frame, Kind

from quaywatch.decode import DecodeError, UnknownKind, decode, decode_all
from quaywatch.readings import Reading, State

NOON = datetime(2024, 5, 15, 12, 0, tzinfo=timezone.utc)


def full(slot=1, when=NOON, millimetres=1320, state=0):
    return Frame(Kind.FULL, struct.pack(">BIhB", slot, int(when.timestamp()), millimetres, state), NOON)


def test_a_full_frame_gives_a_reading():
    assert decode(full()) == Reading(1, NOON, 132, State.GOOD)


@pytest.mark.parametrize("millimetres, centimetres", [(0, 0), (-150, -15), (32760, 3276), (-32760, -3276)])
def test_levels_of_full_frames(millimetres, centimetres):
    assert decode(full(millimetres=millimetres)).level_cm == centimetres


@pytest.mark.parametrize("byte, state", [(2, State.DRY), (3, State.ICED)])
def test_dry_and_iced_gauges_have_no_level(byte, state):
    reading = decode(full(state=byte))
    assert (reading.level_cm, reading.state) == (None, state)


def test_a_suspect_reading_keeps_its_level():
    assert decode(full(state=1)) == Reading(1, NOON, 132, State.SUSPECT)


def test_a_full_frame_of_the_wrong_length_is_refused():
    with pytest.raises(DecodeError):
        decode(Frame(Kind.FULL, b"\x01\x02", NOON))


def test_an_unknown_state_is_refused():
    with pytest.raises(DecodeError):
        decode(full(state=9))


def test_status_frames_carry_no_reading():
    assert decode(Frame(Kind.STATUS, b"\x01ok", NOON)) is None


def test_kinds_of_the_future_are_refused():
    with pytest.raises(UnknownKind):
        decode(Frame(0x5A, b"", NOON))


def test_what_cannot_be_read_is_counted():
    decoded = decode_all([full(), Frame(0x5A, b"", NOON), Frame(0x5A, b"", NOON), full(slot=2)])
    assert [reading.slot for reading in decoded.readings] == [1, 2]
    assert list(decoded.skipped.values()) == [2]

from datetime import timedelta

import pytest

from target_repo import LengthError, format_length, parse_length, round_length


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("1h 30m", 5400),
        ("1.5 hours", 5400),
        ("90min", 5400),
        ("  2 DAYS, 4 h ", 187200),
        ("1w2d3h4m5s", 604800 + 2 * 86400 + 3 * 3600 + 4 * 60 + 5),
        ("0 s", 0),
    ],
)
def test_lengths_with_units_are_read(text, seconds):
    assert parse_length(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text, seconds", [("1:30", 5400), ("0:01:30", 90), ("26:00", 93600)])
def test_lengths_on_the_clock_are_read(text, seconds):
    assert parse_length(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text, minutes", [("-15 min", -15), ("- 1h 30m", -90), ("-1:30", -90)])
def test_a_minus_sign_is_for_all_of_it(text, minutes):
    assert parse_length(text) == timedelta(minutes=minutes)


def test_lengths_are_exact_to_the_microsecond():
    assert parse_length("0.1 s") == timedelta(microseconds=100_000)
    assert parse_length("1.000001s") == timedelta(seconds=1, microseconds=1)


@pytest.mark.parametrize(
    "text", ["", "-", "1", "h", "1 fortnight", "30m 1h", "1h 2h", "1h,", "1:60", "1:3", ".5h", "1. h", "1h - 5m", "1e3 s"]
)
def test_what_is_no_length_is_refused(text):
    with pytest.raises(LengthError):
        parse_length(text)


@pytest.mark.parametrize(
    "style, texts",
    [
        ("short", ["1d 2h 30m", "1m 1s", "0s", "-1h 30m"]),
        ("long", ["1 day, 2 hours, 30 minutes", "1 minute, 1 second", "0 seconds", "-1 hour, 30 minutes"]),
        ("clock", ["26:30:00", "0:01:01", "0:00:00", "-1:30:00"]),
    ],
)
def test_lengths_are_written(style, texts):
    lengths = [timedelta(seconds=95400), timedelta(seconds=61), timedelta(0), timedelta(minutes=-90)]
    assert [format_length(length, style) for length in lengths] == texts


def test_lengths_are_written_in_whole_seconds():
    assert format_length(timedelta(seconds=59, microseconds=500_000)) == "1m"
    assert format_length(timedelta(microseconds=-400_000)) == "0s"


def test_an_unknown_style_is_refused():
    with pytest.raises(ValueError):
        format_length(timedelta(0), "verbose")


@pytest.mark.parametrize(
    "mode, minutes, expected",
    [
        ("nearest", 7, 0),
        ("nearest", 8, 15),
        ("nearest", -8, -15),
        ("up", 1, 15),
        ("up", -1, -15),
        ("up", 30, 30),
        ("down", 29, 15),
        ("down", -29, -15),
    ],
)
def test_lengths_are_rounded(mode, minutes, expected):
    assert round_length(timedelta(minutes=minutes), timedelta(minutes=15), mode) == timedelta(minutes=expected)


def test_halves_go_away_from_zero():
    assert round_length(timedelta(minutes=5), timedelta(minutes=10)) == timedelta(minutes=10)
    assert round_length(timedelta(minutes=-5), timedelta(minutes=10)) == timedelta(minutes=-10)


@pytest.mark.parametrize("to, mode", [(0, "nearest"), (-5, "up"), (5, "sideways")])
def test_rounding_that_makes_no_sense_is_refused(to, mode):
    with pytest.raises(ValueError):
        round_length(timedelta(minutes=7), timedelta(minutes=to), mode)

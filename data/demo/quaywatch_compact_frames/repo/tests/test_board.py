from datetime import datetime, timedelta, timezone

from quaywatch.alarms import Alarm, alarm
from quaywatch.board import board, latest, line
from quaywatch.readings import Reading, State
from quaywatch.stations import Station

NOON = datetime(2024, 5, 15, 12, 0, tzinfo=timezone.utc)
VIKNESS = Station("Vikness", 2, low_cm=-10, high_cm=200)


def test_the_newest_reading_is_shown():
    old, new = Reading(2, NOON, 10), Reading(2, NOON + timedelta(minutes=5), 20)
    assert latest([new, old]) == {2: new}


def test_lines():
    assert line(VIKNESS, Reading(2, NOON, 132)) == "VIKNESS       +1.32 m   12:00"
    assert line(VIKNESS, Reading(2, NOON, -15)) == "VIKNESS       -0.15 m   12:00   LOW"
    assert line(VIKNESS, Reading(2, NOON, None, State.DRY)) == "VIKNESS           dry   12:00"
    assert line(VIKNESS, Reading(2, NOON, 10, State.SUSPECT)).endswith("?")
    assert line(VIKNESS, None).endswith("--")


def test_alarms():
    assert alarm(VIKNESS, Reading(2, NOON, -11)) is Alarm.LOW
    assert alarm(VIKNESS, Reading(2, NOON, 201)) is Alarm.HIGH
    assert alarm(VIKNESS, Reading(2, NOON, -10)) is None
    assert alarm(VIKNESS, Reading(2, NOON, 500, State.SUSPECT)) is None


def test_the_board_keeps_the_order_of_the_stations_and_leaves_strangers_out():
    stations = {2: VIKNESS, 1: Station("Harlesund", 1)}
    text = board(stations, [Reading(1, NOON, 5), Reading(9, NOON, 5)])
    assert [row.split()[0] for row in text.splitlines()] == ["VIKNESS", "HARLESUND"]

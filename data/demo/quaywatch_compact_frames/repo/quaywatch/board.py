"""The quayside board: one line a station, with its latest reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quaywatch.alarms import alarm
from quaywatch.readings import Reading, State
from quaywatch.stations import Station


def latest(readings: Iterable[Reading]) -> dict[int, Reading]:
    """The newest reading of each slot; of two at the same time the one that came later."""
    newest: dict[int, Reading] = {}
    for reading in readings:
        if reading.slot not in newest or reading.time >= newest[reading.slot].time:
            newest[reading.slot] = reading
    return newest


def line(station: Station, reading: Reading | None) -> str:
    """One line of the board."""
    name = f"{station.name.upper():<12}"
    if reading is None:
        return f"{name}        --"
    level = f"{reading.level_cm / 100:+.2f} m" if reading.level_cm is not None else reading.state.value
    text = f"{name}{level:>9}   {reading.time:%H:%M}"
    raised = alarm(station, reading)
    if raised is not None:
        return f"{text}   {raised.value}"
    if reading.state is State.SUSPECT:
        return f"{text}   ?"
    return text


def board(stations: Mapping[int, Station], readings: Iterable[Reading]) -> str:
    """The whole board, stations in the order of the stations file; readings of unknown slots are left out."""
    newest = latest(readings)
    return "\n".join(line(station, newest.get(slot)) for slot, station in stations.items())

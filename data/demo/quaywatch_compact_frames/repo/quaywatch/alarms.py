"""Alarms: too low, too high."""

from __future__ import annotations

import enum

from quaywatch.readings import Reading, State
from quaywatch.stations import Station


class Alarm(enum.Enum):
    LOW = "LOW"
    HIGH = "HIGH"


def alarm(station: Station, reading: Reading) -> Alarm | None:
    """The alarm that a reading raises. Suspect readings raise none, nor do dry or iced gauges."""
    if reading.level_cm is None or reading.state is not State.GOOD:
        return None
    if station.low_cm is not None and reading.level_cm < station.low_cm:
        return Alarm.LOW
    if station.high_cm is not None and reading.level_cm > station.high_cm:
        return Alarm.HIGH
    return None

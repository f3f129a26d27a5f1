"""Sidereal time."""

from __future__ import annotations

from datetime import datetime, timezone

from nightlark.angles import wrap

_J2000 = datetime(2000, 1, 1, 12, tzinfo=timezone.utc)


def days_since_2000(when: datetime) -> float:
    """Days since 2000 January 1, 12:00 UTC."""
    if when.tzinfo is None:
        raise ValueError("times must be aware: give them a time zone")
    return (when - _J2000).total_seconds() / 86400


def sidereal_time(when: datetime, longitude: float) -> float:
    """Local mean sidereal time in degrees; longitude counts east. UTC stands for UT1, a second at most."""
    days = days_since_2000(when)
    centuries = days / 36525
    greenwich = 280.46061837 + 360.98564736629 * days + 0.000387933 * centuries**2
    return wrap(greenwich + longitude)

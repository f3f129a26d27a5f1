"""Angles in degrees: functions that take and give degrees, and sexagesimal text."""

from __future__ import annotations

import math
import re

_SEXAGESIMAL = re.compile(r"^\s*([+-]?)(\d+)[:h\s](\d+)(?:[:m\s](\d+(?:\.\d+)?)s?)?\s*$")


def sin(degrees: float) -> float:
    return math.sin(math.radians(degrees))


def cos(degrees: float) -> float:
    return math.cos(math.radians(degrees))


def tan(degrees: float) -> float:
    return math.tan(math.radians(degrees))


def asin(value: float) -> float:
    """Degrees; values a rounding error outside -1 … 1 are taken as the limit."""
    return math.degrees(math.asin(min(1.0, max(-1.0, value))))


def wrap(degrees: float) -> float:
    """The same direction, 0 up to 360."""
    return degrees % 360.0


def parse_sexagesimal(text: str) -> float:
    """Degrees of ``-12:34:56.7`` or ``+38 47 01``; in hours for ``18h36m56s``, which are turned into degrees."""
    match = _SEXAGESIMAL.match(text)
    if not match:
        raise ValueError(f"not an angle: {text!r}")
    sign, whole, minutes, seconds = match.groups()
    if int(minutes) >= 60 or float(seconds or 0) >= 60:
        raise ValueError(f"minutes and seconds go up to 59: {text!r}")
    value = int(whole) + int(minutes) / 60 + float(seconds or 0) / 3600
    if "h" in text:
        value *= 15
    return -value if sign == "-" else value


def format_sexagesimal(degrees: float) -> str:
    """Degrees as ``-12:34:57``."""
    seconds = round(abs(degrees) * 3600)
    sign = "-" if degrees < 0 and seconds else "+"
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"

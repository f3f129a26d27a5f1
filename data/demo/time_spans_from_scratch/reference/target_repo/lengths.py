"""Lengths of time as people write them."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

_UNITS = {
    "w": 604800,
    "week": 604800,
    "weeks": 604800,
    "d": 86400,
    "day": 86400,
    "days": 86400,
    "h": 3600,
    "hour": 3600,
    "hours": 3600,
    "m": 60,
    "min": 60,
    "minute": 60,
    "minutes": 60,
    "s": 1,
    "sec": 1,
    "second": 1,
    "seconds": 1,
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*,?")
_CLOCK = re.compile(r"(\d+):([0-5]\d)(?::([0-5]\d))?")


class LengthError(ValueError):
    """Text that is no length of time."""


def parse_length(text: str) -> timedelta:
    """``1h 30m``, ``1.5 hours``, ``2 days, 4 h``, ``1:30``, ``0:01:30``, ``-15 min``."""
    stripped = text.strip().lower()
    sign = -1 if stripped.startswith("-") else 1
    body = stripped.removeprefix("-").strip()
    clock = _CLOCK.fullmatch(body)
    if clock:
        hours, minutes, seconds = clock.groups()
        return sign * timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds or 0))
    total, at, last = Fraction(0), 0, None
    while at < len(body):
        part = _PART.match(body, at)
        if not part:
            raise LengthError(f"not a length of time: {text!r}")
        number, unit = part.groups()
        if unit not in _UNITS:
            raise LengthError(f"unknown unit {unit!r} in {text!r}")
        if last is not None and _UNITS[unit] >= last:
            raise LengthError(f"units must go from large to small, each once: {text!r}")
        last = _UNITS[unit]
        total += Fraction(number) * last
        at = part.end()
    if last is None or body.endswith(","):
        raise LengthError(f"not a length of time: {text!r}")
    return sign * timedelta(microseconds=round(total * 1_000_000))


def format_length(length: timedelta, style: str = "short") -> str:
    """``short``: ``1d 2h 30m``; ``long``: ``1 day, 2 hours, 30 minutes``; ``clock``: ``26:30:00``."""
    seconds = _whole_seconds(length)
    sign = "-" if seconds < 0 else ""
    seconds = abs(seconds)
    if style == "clock":
        return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if style not in ("short", "long"):
        raise ValueError(f"unknown style {style!r}")
    values = [(seconds // 86400, "day"), (seconds // 3600 % 24, "hour"), (seconds // 60 % 60, "minute"), (seconds % 60, "second")]
    parts = [(value, name) for value, name in values if value] or [(0, "second")]
    if style == "short":
        return sign + " ".join(f"{value}{name[0]}" for value, name in parts)
    return sign + ", ".join(f"{value} {name}{'' if value == 1 else 's'}" for value, name in parts)


def round_length(length: timedelta, to: timedelta, mode: str = "nearest") -> timedelta:
    """Round to a multiple: ``nearest`` (halves away from zero), ``up`` (away from zero) or ``down`` (toward zero)."""
    if to <= timedelta(0):
        raise ValueError("lengths are rounded to a multiple of something longer than nothing")
    whole, rest = divmod(abs(length), to)
    if mode == "nearest":
        more = rest * 2 >= to
    elif mode == "up":
        more = bool(rest)
    elif mode == "down":
        more = False
    else:
        raise ValueError(f"unknown mode {mode!r}")
    rounded = (whole + more) * to
    return -rounded if length < timedelta(0) else rounded


def _whole_seconds(length: timedelta) -> int:
    rounded = round_length(length, timedelta(seconds=1))
    return rounded.days * 86400 + rounded.seconds

"""Hours that come back every week: ``Mon-Fri 08:00-12:00, 13:00-17:30; Sat 09:00-13:00``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from target_repo.sets import SpanSet
from target_repo.spans import Span, SpanError

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_HOURS = re.compile(r"(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)")
_MIDNIGHT = 1440


@dataclass(frozen=True)
class WeeklyHours:
    """Minutes of the day, begin and end, by weekday (Monday is 0). An end past 1440 is on the next day."""

    days: tuple[tuple[tuple[int, int], ...], ...]

    def on(self, day: date) -> SpanSet:
        """The hours that begin on a day; they may end on the next."""
        midnight = datetime.combine(day, time())
        return SpanSet(
            Span(midnight + timedelta(minutes=begin), midnight + timedelta(minutes=end))
            for begin, end in self.days[day.weekday()]
        )

    def between(self, begin: datetime, end: datetime) -> SpanSet:
        """All hours within a span of (naive) time, cut at its ends."""
        day, result = begin.date() - timedelta(days=1), SpanSet()
        while day <= end.date():
            result |= self.on(day)
            day += timedelta(days=1)
        return result & SpanSet([Span(begin, end)])

    def is_open(self, when: datetime) -> bool:
        return when in self.on(when.date()) or when in self.on(when.date() - timedelta(days=1))

    def __str__(self) -> str:
        groups: list[tuple[int, int, tuple[tuple[int, int], ...]]] = []
        for day, hours in enumerate(self.days):
            if groups and groups[-1][2] == hours:
                groups[-1] = (groups[-1][0], day, hours)
            else:
                groups.append((day, day, hours))
        return "; ".join(
            f"{_NAMES[first]}{'' if first == last else '-' + _NAMES[last]} {', '.join(map(_text, hours))}"
            for first, last, hours in groups
            if hours
        )


def parse_weekly(text: str) -> WeeklyHours:
    """Read weekly hours; `SpanError` says what is wrong."""
    days: list[list[tuple[int, int]]] = [[] for _ in _DAYS]
    for group in filter(None, (part.strip() for part in text.split(";"))):
        names, _, rest = group.partition(" ")
        hours = [_hours(part.strip()) for part in rest.split(",")]
        for day in _weekdays(names):
            days[day].extend(hours)
    for name, hours in zip(_NAMES, days):
        hours.sort()
        if any(before[1] > after[0] for before, after in zip(hours, hours[1:])):
            raise SpanError(f"hours overlap on {name}")
    return WeeklyHours(tuple(tuple(hours) for hours in days))


def _weekdays(names: str) -> list[int]:
    first, dash, last = names.lower().partition("-")
    for name in (first, last) if dash else (first,):
        if name not in _DAYS:
            raise SpanError(f"unknown day {name!r}")
    begin, end = _DAYS.index(first), _DAYS.index(last if dash else first)
    return [(begin + n) % 7 for n in range((end - begin) % 7 + 1)]


def _hours(text: str) -> tuple[int, int]:
    match = _HOURS.fullmatch(text)
    if not match:
        raise SpanError(f"not hours: {text!r}")
    h1, m1, h2, m2 = map(int, match.groups())
    if m1 > 59 or m2 > 59 or h1 > 23 or h2 * 60 + m2 > _MIDNIGHT:
        raise SpanError(f"no such time of day: {text!r}")
    begin, end = h1 * 60 + m1, h2 * 60 + m2
    if begin == end:
        raise SpanError(f"hours that end when they begin: {text!r}")
    return begin, end if end > begin else end + _MIDNIGHT


def _text(hours: tuple[int, int]) -> str:
    begin, end = hours
    if end > _MIDNIGHT:
        end -= _MIDNIGHT
    return f"{begin // 60:02d}:{begin % 60:02d}-{end // 60:02d}:{end % 60:02d}"

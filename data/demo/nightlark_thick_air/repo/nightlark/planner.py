"""When a star is well placed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from nightlark.site import Site
from nightlark.sky import airmass
from nightlark.star import Star, position

_STEP = timedelta(minutes=5)
_PRECISION = timedelta(seconds=1)


@dataclass(frozen=True)
class Window:
    """A stretch of time in which a star is high enough."""

    begin: datetime
    end: datetime
    least_airmass: float

    @property
    def duration(self) -> timedelta:
        return self.end - self.begin


def _height(star: Star, site: Site, when: datetime) -> float:
    return position(star, site, when)


def windows(
    star: Star, site: Site, start: datetime, hours: float = 24, above: float = 20.0
) -> list[Window]:
    """The windows in which a star is seen at least ``above`` degrees high, within some hours from a start."""
    end = start + timedelta(hours=hours)
    result = []
    begin = start if _height(star, site, start) >= above else None
    for before, after in _steps(start, end):
        up = _height(star, site, after) >= above
        if up and begin is None:
            begin = _crossing(star, site, before, after, above)
        elif not up and begin is not None:
            result.append(_window(star, site, begin, _crossing(star, site, before, after, above)))
            begin = None
    if begin is not None:
        result.append(_window(star, site, begin, end))
    return result


def best_time(star: Star, site: Site, start: datetime, hours: float = 24) -> datetime:
    """When the star stands highest, to five minutes."""
    times = [start, *(after for _, after in _steps(start, start + timedelta(hours=hours)))]
    return max(times, key=lambda when: _height(star, site, when))


def _steps(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    before = start
    while before < end:
        after = min(before + _STEP, end)
        yield before, after
        before = after


def _crossing(star: Star, site: Site, before: datetime, after: datetime, above: float) -> datetime:
    rising = _height(star, site, after) >= above
    while after - before > _PRECISION:
        middle = before + (after - before) / 2
        if (_height(star, site, middle) >= above) == rising:
            after = middle
        else:
            before = middle
    return after


def _window(star: Star, site: Site, begin: datetime, end: datetime) -> Window:
    times = [begin, *(after for _, after in _steps(begin, end))]
    highest = max(_height(star, site, when) for when in times)
    return Window(begin, end, airmass(max(0.0, highest)))

"""When a call may go out: retries with back-off, and a pace for each model that all workers keep."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""Statuses after which the same request may well be answered."""
GIVEN_UP = frozenset({401, 402, 403, 404, 407})
"""Statuses that are the upstream's or the key's fault and will be the same the next time."""


@dataclass(frozen=True)
class Patience:
    """How long an upstream that fails is asked again."""

    tries: int = 5
    first: float = (
        1.0  # seconds before the second try; doubled each time, and up to half of it added by chance
    )
    longest: float = 120.0  # seconds of Retry-After that are waited for; beyond that the call fails
    connect_timeout: float = 20.0
    silence: float = 900.0  # seconds without a byte after which a connection counts as broken

    def delay(self, failed: int, asked: float | None) -> float | None:
        """Seconds to wait after the ``failed``-th failure (from 1); None: give up."""
        if failed >= self.tries or (asked or 0.0) > self.longest:
            return None
        own = self.first * float(2 ** (failed - 1)) * random.uniform(1.0, 1.5)
        return own if asked is None else max(asked, min(own, self.first) * random.uniform(0.0, 0.5))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that an answer asks to wait for."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            return max(0.0, float(value) / unit)
        except ValueError:
            try:
                return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
            except (ValueError, TypeError):
                continue
    return None


class Pace:
    """One model's pace: at most ``rate`` calls a minute, and none while the upstream has asked for a pause."""

    def __init__(self, rate: float | None = None) -> None:
        self._interval = 60.0 / rate if rate else 0.0
        self._next = 0.0
        self._held_until = 0.0

    def hold(self, seconds: float) -> None:
        """Nobody asks this model for so long."""
        self._held_until = max(self._held_until, time.monotonic() + seconds)

    async def wait(self) -> None:
        now = time.monotonic()
        start = max(now, self._next) if self._interval else now
        self._next = start + self._interval
        while (left := max(start, self._held_until) - time.monotonic()) > 0:
            await asyncio.sleep(left)

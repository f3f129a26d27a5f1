"""Spans of time: from a begin up to, not including, an end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta


class SpanError(ValueError):
    """Begin and end do not make a span."""


@dataclass(frozen=True, order=True)
class Span:
    """``begin <= t < end``. Both aware or both naive; longer than nothing."""

    begin: datetime
    end: datetime

    def __post_init__(self) -> None:
        if (self.begin.tzinfo is None) != (self.end.tzinfo is None):
            raise SpanError("begin and end must both be aware, or both naive")
        if self.end <= self.begin:
            raise SpanError(f"a span ends after it begins, not at {self.end}")

    @classmethod
    def starting(cls, begin: datetime, length: timedelta) -> Span:
        return cls(begin, begin + length)

    @property
    def length(self) -> timedelta:
        return self.end - self.begin

    def __contains__(self, other: datetime | Span) -> bool:
        if isinstance(other, Span):
            return self.begin <= other.begin and other.end <= self.end
        return self.begin <= other < self.end

    def overlaps(self, other: Span) -> bool:
        return self.begin < other.end and other.begin < self.end

    def touches(self, other: Span) -> bool:
        return self.begin <= other.end and other.begin <= self.end

    def __and__(self, other: Span) -> Span | None:
        if not self.overlaps(other):
            return None
        return Span(max(self.begin, other.begin), min(self.end, other.end))

    def shifted(self, by: timedelta) -> Span:
        return Span(self.begin + by, self.end + by)

    def split(self, length: timedelta) -> Iterator[Span]:
        """Pieces of a length, one after the other; the last one may be shorter."""
        if length <= timedelta(0):
            raise SpanError("pieces must be longer than nothing")
        begin = self.begin
        while begin < self.end:
            end = min(begin + length, self.end)
            yield Span(begin, end)
            begin = end

    def __str__(self) -> str:
        return f"{self.begin.isoformat(timespec='minutes')}/{self.end.isoformat(timespec='minutes')}"

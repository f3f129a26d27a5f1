"""Sets of spans: kept sorted, with overlapping and touching spans joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from target_repo.spans import Span


class SpanSet:
    """An immutable set of points in time, made of spans."""

    __slots__ = ("_spans",)

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        joined: list[Span] = []
        for span in sorted(spans):
            if joined and joined[-1].touches(span):
                joined[-1] = Span(joined[-1].begin, max(joined[-1].end, span.end))
            else:
                joined.append(span)
        self._spans = tuple(joined)

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def __eq__(self, other: object) -> bool:
        return self._spans == other._spans if isinstance(other, SpanSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._spans)

    def __repr__(self) -> str:
        return f"SpanSet([{', '.join(map(str, self._spans))}])"

    def __contains__(self, other: datetime | Span) -> bool:
        return any(other in span for span in self._spans)

    @property
    def total(self) -> timedelta:
        return sum((span.length for span in self._spans), timedelta(0))

    @property
    def hull(self) -> Span | None:
        return Span(self._spans[0].begin, self._spans[-1].end) if self._spans else None

    def __or__(self, other: SpanSet) -> SpanSet:
        return SpanSet([*self, *other])

    def __and__(self, other: SpanSet) -> SpanSet:
        return SpanSet(both for a in self for b in other if (both := a & b) is not None)

    def __sub__(self, other: SpanSet) -> SpanSet:
        left = list(self._spans)
        for hole in other:
            pieces = []
            for span in left:
                if not span.overlaps(hole):
                    pieces.append(span)
                    continue
                if span.begin < hole.begin:
                    pieces.append(Span(span.begin, hole.begin))
                if hole.end < span.end:
                    pieces.append(Span(hole.end, span.end))
            left = pieces
        return SpanSet(left)

    def __xor__(self, other: SpanSet) -> SpanSet:
        return (self | other) - (self & other)

    def gaps(self) -> SpanSet:
        """What lies between the spans."""
        return SpanSet([self.hull]) - self if self._spans else SpanSet()

    def first_fit(self, length: timedelta, after: datetime | None = None) -> Span | None:
        """The earliest span of a length that lies in the set, not before a time."""
        for span in self._spans:
            begin = span.begin if after is None else max(span.begin, after)
            if begin + length <= span.end:
                return Span.starting(begin, length)
        return None

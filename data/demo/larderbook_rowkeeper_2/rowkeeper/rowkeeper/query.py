"""Queries: lazy, refined step by step, run when iterated over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowkeeper.schema import Schema
    from rowkeeper.store import Store

Test = Callable[[Any], bool]


def _present(test: Test) -> Test:
    return lambda value: value is not None and test(value)


def lt(limit: Any) -> Test:
    return _present(lambda value: value < limit)


def le(limit: Any) -> Test:
    return _present(lambda value: value <= limit)


def gt(limit: Any) -> Test:
    return _present(lambda value: value > limit)


def ge(limit: Any) -> Test:
    return _present(lambda value: value >= limit)


def ne(other: Any) -> Test:
    return lambda value: value != other


def prefix(text: str) -> Test:
    return _present(lambda value: value.startswith(text))


@dataclass(frozen=True)
class Query:
    """Rows of a table that match; every method gives a new query. Order: by key, unless ``order_by`` says otherwise."""

    store: Store
    schema: Schema
    tests: tuple[tuple[str, Test], ...] = ()
    ordering: tuple[str, ...] = ()

    def where(self, **conditions: Any) -> Query:
        """Keep rows whose columns equal the values, or satisfy the tests (``lt``, ``ge``, ``prefix`` …)."""
        for name in conditions:
            self._known(name)
        tests = tuple((n, c if callable(c) else (lambda v, c=c: v == c)) for n, c in conditions.items())
        return replace(self, tests=self.tests + tests)

    def order_by(self, *columns: str) -> Query:
        """Sort by columns, ``-column`` for descending; None comes last either way."""
        for name in columns:
            self._known(name.lstrip("-"))
        return replace(self, ordering=columns)

    def __iter__(self) -> Iterator[Any]:
        rows = [row for row in self.store._rows(self.schema) if all(t(getattr(row, n)) for n, t in self.tests)]
        for name in reversed(self.ordering):
            column = name.lstrip("-")
            there = [row for row in rows if getattr(row, column) is not None]
            there.sort(key=lambda row: getattr(row, column), reverse=name.startswith("-"))
            rows = there + [row for row in rows if getattr(row, column) is None]
        return iter(rows)

    def first(self) -> Any | None:
        """The first row, None when there is none."""
        return next(iter(self), None)

    def count(self) -> int:
        return sum(1 for _ in self)

    def _known(self, name: str) -> None:
        if name not in self.schema.columns:
            raise AttributeError(f"{self.schema.table} has no column {name!r}")

"""Schemas: the name of a table, its columns, and which of them is the key."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Any

_TYPES = {str: "TEXT", int: "INTEGER", Decimal: "TEXT", date: "TEXT", bool: "INTEGER"}


@dataclass(frozen=True)
class Column:
    """One column. ``type`` is str, int, bool, decimal.Decimal or datetime.date; None is stored only where ``optional``."""

    name: str
    type: type
    optional: bool = False

    def __post_init__(self) -> None:
        if self.type not in _TYPES:
            raise TypeError(f"{self.name}: columns of {self.type.__name__} are not supported")

    def to_sql(self, value: Any) -> Any:
        if value is None:
            if not self.optional:
                raise TypeError(f"{self.name}: None, but the column is not optional")
            return None
        if type(value) is not self.type:
            raise TypeError(f"{self.name}: expected {self.type.__name__}, got {type(value).__name__}")
        if self.type is Decimal:
            return str(value)
        if self.type is date:
            return value.isoformat()
        return value

    def from_sql(self, value: Any) -> Any:
        if value is None or self.type is str:
            return value
        if self.type is date:
            return date.fromisoformat(value)
        if self.type is Decimal:
            return Decimal(str(value))  # files of 1.x hold floats
        return self.type(value)


class Schema:
    """``Schema("items", [Column("name", str), …], key="name")``."""

    def __init__(self, table: str, columns: Iterable[Column], *, key: str) -> None:
        self.table = table
        self.columns = {column.name: column for column in columns}
        if key not in self.columns:
            raise ValueError(f"{table}: the key {key!r} is no column")
        self.key = key

    @cached_property
    def row_type(self) -> type:
        """Rows are named tuples: attributes, ``_asdict()``, ``_replace()``; equal by value."""
        return namedtuple(self.table.capitalize() + "Row", self.columns)

    def ddl(self) -> str:
        parts = [
            f'"{c.name}" {_TYPES[c.type]}{"" if c.optional else " NOT NULL"}{" PRIMARY KEY" if c.name == self.key else ""}'
            for c in self.columns.values()
        ]
        return f'CREATE TABLE IF NOT EXISTS "{self.table}" ({", ".join(parts)})'

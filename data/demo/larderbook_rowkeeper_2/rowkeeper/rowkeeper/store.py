"""The store: one SQLite file, read freely, written in transactions only."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

from rowkeeper.errors import DuplicateKey, NotInTransaction, RowNotFound
from rowkeeper.query import Query
from rowkeeper.schema import Schema


@dataclass(frozen=True)
class Change:
    """One row that a transaction changed: ``old`` is None for inserts, ``new`` is None for deletions."""

    table: str
    old: Any | None
    new: Any | None


class Store:
    """A file of tables. Use as a context manager, or call `close`."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._subscribers: list[Callable[[list[Change]], None]] = []
        self._open: Transaction | None = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def create(self, *schemas: Schema) -> None:
        """Make the tables that are not there yet."""
        for schema in schemas:
            self._connection.execute(schema.ddl())

    def select(self, schema: Schema) -> Query:
        """A query over all rows of a table."""
        return Query(self, schema)

    def get(self, schema: Schema, key: Any) -> Any:
        """The row with a key; `RowNotFound` when there is none."""
        rows = self._rows(schema, key)
        if not rows:
            raise RowNotFound(f"{schema.table} has no row {key!r}")
        return rows[0]

    def subscribe(self, callback: Callable[[list[Change]], None]) -> None:
        """Have ``callback`` called once after every committed transaction that changed something."""
        self._subscribers.append(callback)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """``with store.transaction() as tx``: all or nothing. Transactions do not nest."""
        if self._open is not None:
            raise NotInTransaction("a transaction is open already; transactions do not nest")
        self._connection.execute("BEGIN")
        self._open = transaction = Transaction(self)
        try:
            yield transaction
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        else:
            self._connection.execute("COMMIT")
        finally:
            self._open = None
        if transaction.changes:
            for callback in self._subscribers:
                callback(list(transaction.changes))

    def _rows(self, schema: Schema, *key: Any) -> list[Any]:
        names = ", ".join(f'"{name}"' for name in schema.columns)
        where = f' WHERE "{schema.key}" = ?' if key else ""
        sql = f'SELECT {names} FROM "{schema.table}"{where} ORDER BY "{schema.key}"'
        values = [schema.columns[schema.key].to_sql(k) for k in key]
        columns = list(schema.columns.values())
        return [
            schema.row_type(*(c.from_sql(v) for c, v in zip(columns, row)))
            for row in self._connection.execute(sql, values)
        ]


class Transaction:
    """What is written together."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.changes: list[Change] = []

    def insert(self, schema: Schema, **values: Any) -> Any:
        """Add a row and give it back; `DuplicateKey` when its key is taken. Optional columns may be left out."""
        row = schema.row_type(**{**{c.name: None for c in schema.columns.values() if c.optional}, **values})
        marks = ", ".join("?" for _ in row)
        try:
            self._execute(f'INSERT INTO "{schema.table}" VALUES ({marks})', _sql(schema, row))
        except sqlite3.IntegrityError as error:
            raise DuplicateKey(f"{schema.table} has a row {getattr(row, schema.key)!r} already") from error
        self.changes.append(Change(schema.table, None, row))
        return row

    def update(self, schema: Schema, key: Any, **values: Any) -> Any:
        """Change columns of the row with a key and give it back; the key itself cannot be changed."""
        if schema.key in values:
            raise ValueError(f"the key of {schema.table} cannot be changed")
        old = self._store.get(schema, key)
        new = old._replace(**values)
        sets = ", ".join(f'"{name}" = ?' for name in schema.columns)
        key_sql = schema.columns[schema.key].to_sql(key)
        self._execute(f'UPDATE "{schema.table}" SET {sets} WHERE "{schema.key}" = ?', [*_sql(schema, new), key_sql])
        if new != old:
            self.changes.append(Change(schema.table, old, new))
        return new

    def delete(self, schema: Schema, key: Any) -> None:
        """Remove the row with a key."""
        old = self._store.get(schema, key)
        self._execute(f'DELETE FROM "{schema.table}" WHERE "{schema.key}" = ?', [schema.columns[schema.key].to_sql(key)])
        self.changes.append(Change(schema.table, old, None))

    def _execute(self, sql: str, values: list[Any]) -> None:
        if self._store._open is not self:
            raise NotInTransaction("this transaction has ended")
        self._store._connection.execute(sql, values)


def _sql(schema: Schema, row: Any) -> list[Any]:
    return [column.to_sql(value) for column, value in zip(schema.columns.values(), row)]

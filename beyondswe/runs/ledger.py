"""The state of every attempt of a run, in SQLite: claimed, then finished, each in a transaction.

``kill -9`` at any point loses at most the attempts that were claimed and not finished; `reopen` hands them
out again. Written by one process at a time (see `RunFolder.lock`), by any of its threads.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beyondswe.runs.folder import StorageError

_SCHEMA = """
CREATE TABLE run (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE attempt (
    position INTEGER PRIMARY KEY,
    instance_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'claimed', 'finished')),
    status TEXT,
    patch_sha256 TEXT,
    outcome TEXT,
    UNIQUE (instance_id, attempt)
);
CREATE TABLE earlier_try (
    instance_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    try INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    PRIMARY KEY (instance_id, attempt, try)
);
"""


@dataclass(frozen=True)
class Item:
    """One attempt to be made: which instance, and for the how-manieth time."""

    instance_id: str
    attempt: int


class Ledger:
    """An open ledger. Every public method is one transaction."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        with self._errors():
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")

    def close(self) -> None:
        with self._lock, self._errors():
            self._db.close()

    def options(self) -> dict[str, Any] | None:
        """What the run was started with; None where the ledger is new (or its making was cut short)."""
        with self._lock, self._errors():
            if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'run'").fetchone():
                return None
            row = self._db.execute("SELECT value FROM run WHERE key = 'options'").fetchone()
            return dict(json.loads(row[0])) if row else None

    def create(self, options: dict[str, Any], items: Iterable[Item]) -> None:
        """Write down the options and all attempts, or nothing of it."""
        with self._transaction() as db:
            for statement in _SCHEMA.split(";"):
                db.execute(statement)
            db.execute("INSERT INTO run VALUES ('options', ?)", (json.dumps(options, sort_keys=True),))
            db.executemany(
                "INSERT INTO attempt (instance_id, attempt) VALUES (?, ?)",
                ((i.instance_id, i.attempt) for i in items),
            )

    def reopen(self) -> None:
        """Make ready for going on: what was in flight is pending again, infrastructure errors get another
        chance.
        """
        with self._transaction() as db:
            db.execute(f"{_KEEP_TRY} WHERE state = 'finished' AND status = 'infrastructure_error'")
            db.execute(
                "UPDATE attempt SET state = 'pending', status = NULL, patch_sha256 = NULL, outcome = NULL "
                "WHERE state = 'claimed' OR (state = 'finished' AND status = 'infrastructure_error')"
            )

    def pending(self) -> list[Item]:
        """What is still to be done, in the order of the run."""
        with self._lock, self._errors():
            rows = self._db.execute(
                "SELECT instance_id, attempt FROM attempt WHERE state = 'pending' ORDER BY position"
            )
            return [Item(*row) for row in rows]

    def claim(self, item: Item) -> int:
        """Take an attempt; gives the number of its earlier tries."""
        with self._transaction() as db:
            changed = db.execute(
                "UPDATE attempt SET state = 'claimed' "
                "WHERE instance_id = ? AND attempt = ? AND state = 'pending'",
                (item.instance_id, item.attempt),
            )
            if changed.rowcount != 1:
                raise RuntimeError(f"{item} is not there to be claimed")
            query = "SELECT count(*) FROM earlier_try WHERE instance_id = ? AND attempt = ?"
            return int(db.execute(query, (item.instance_id, item.attempt)).fetchone()[0])

    def release(self, item: Item) -> None:
        """Give a claimed attempt back undone."""
        self._set(item, "pending", None, None, None)

    def retry(self, item: Item, outcome: str) -> None:
        """Keep the outcome of a try that ended in an infrastructure error, and hand the attempt out again."""
        with self._transaction() as db:
            self._set(item, "finished", "infrastructure_error", None, outcome)
            db.execute(f"{_KEEP_TRY} WHERE instance_id = ? AND attempt = ?", (item.instance_id, item.attempt))
            db.execute(
                "UPDATE attempt SET state = 'pending', status = NULL, outcome = NULL "
                "WHERE instance_id = ? AND attempt = ?",
                (item.instance_id, item.attempt),
            )

    def finish(self, item: Item, *, status: str, patch_sha256: str, outcome: str) -> None:
        """Write down the outcome of a claimed attempt."""
        self._set(item, "finished", status, patch_sha256, outcome)

    def outcomes(self) -> Iterator[str]:
        """The finished attempts' outcomes (JSON), in the order of the run, one held at a time."""
        with self._lock, self._errors():
            positions = self._db.execute(
                "SELECT position FROM attempt WHERE state = 'finished' ORDER BY position"
            ).fetchall()
        for (position,) in positions:
            with self._lock, self._errors():
                (outcome,) = self._db.execute(
                    "SELECT outcome FROM attempt WHERE position = ?", (position,)
                ).fetchone()
            yield outcome

    def earlier_tries(self, item: Item) -> list[str]:
        """The outcomes (JSON) of an attempt's earlier tries, oldest first."""
        with self._lock, self._errors():
            query = "SELECT outcome FROM earlier_try WHERE instance_id = ? AND attempt = ? ORDER BY try"
            return [row[0] for row in self._db.execute(query, (item.instance_id, item.attempt))]

    def statuses(self) -> dict[str, int]:
        """How many finished attempts have which status."""
        with self._lock, self._errors():
            query = "SELECT status, count(*) FROM attempt WHERE state = 'finished' GROUP BY status"
            return dict(self._db.execute(query).fetchall())

    def images(self) -> dict[str, str]:
        """Image digests by instance id, as the outcomes have them."""
        with self._lock, self._errors():
            query = (
                "SELECT instance_id, max(json_extract(outcome, '$.image_digest')) FROM attempt "
                "WHERE state = 'finished' GROUP BY instance_id ORDER BY min(position)"
            )
            return {instance_id: digest for instance_id, digest in self._db.execute(query) if digest}

    def _set(
        self, item: Item, state: str, status: str | None, patch_sha256: str | None, outcome: str | None
    ) -> None:
        with self._transaction() as db:
            changed = db.execute(
                "UPDATE attempt SET state = ?, status = ?, patch_sha256 = ?, outcome = ? "
                "WHERE instance_id = ? AND attempt = ? AND state = 'claimed'",
                (state, status, patch_sha256, outcome, item.instance_id, item.attempt),
            )
            if changed.rowcount != 1:
                raise RuntimeError(f"{item} was not claimed")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._errors():
            if self._db.in_transaction:  # part of a larger one
                yield self._db
                return
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk may already have rolled it back
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
            raise StorageError(self._path, str(error)) from error


_KEEP_TRY = """ INSERT INTO earlier_try (instance_id, attempt, try, outcome) SELECT instance_id, attempt, 1 +
(SELECT count(*) FROM earlier_try e WHERE e.instance_id = attempt.instance_id AND e.attempt =
attempt.attempt), outcome FROM attempt
"""

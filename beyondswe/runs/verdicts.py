"""The verdict cache: the same patch on the same instance, image and runner is scored once on this machine.

Kept beside other things that can be made again (`cache_dir`), shared by all runs and processes.
Infrastructure errors and time-outs never get in: they say something about the machine at that hour, not about
the patch.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import zlib
from dataclasses import asdict
from functools import cache
from pathlib import Path

from beyondswe import scoring
from beyondswe.resources import cache_dir
from beyondswe.sandbox.types import Limits
from beyondswe.scoring.types import Controls, Scored, Status, TestResult

_LASTING = frozenset(
    {Status.RESOLVED, Status.UNRESOLVED, Status.EMPTY_PATCH, Status.PATCH_REJECTED, Status.TAMPERED}
)


@cache
def scorer_version() -> str:
    """Names the scoring code on the host by its content: it decides as much as the runner does."""
    total = hashlib.sha256()
    for path in sorted(Path(scoring.__file__).parent.glob("*.py")):
        total.update(path.read_bytes())
    return total.hexdigest()[:16]


def verdict_key(
    *, image_digest: str, instance_hash: str, patch_sha256: str, runner: str, limits: Limits
) -> str:
    """All that a verdict depends on, as one hash. The agent's own time limit is not among it."""
    question = [
        image_digest,
        instance_hash,
        patch_sha256,
        runner,
        scorer_version(),
        limits.cpus,
        limits.memory,
        limits.pids,
        limits.disk,
        limits.test_timeout,
    ]
    return hashlib.sha256(json.dumps(question).encode()).hexdigest()


class VerdictCache:
    """Verdicts by key. A cache that cannot be read or written costs time, never a run: then the patch is
    scored.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or cache_dir("verdicts") / "verdicts.db"
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    def get(self, key: str) -> Scored | None:
        try:
            with self._lock:
                row = self._connect().execute("SELECT scored FROM verdict WHERE key = ?", (key,)).fetchone()
            return _from_bytes(row[0]) if row else None
        except (sqlite3.Error, zlib.error, ValueError, TypeError, KeyError):
            return None  # damaged, locked for long, or of another version: as if it had not been there

    def put(self, key: str, scored: Scored) -> None:
        if scored.status not in _LASTING:
            return
        try:
            with self._lock:
                self._connect().execute(
                    "INSERT OR REPLACE INTO verdict VALUES (?, ?)", (key, _to_bytes(scored))
                )
        except sqlite3.Error:
            pass  # no room or no right to write: the verdict stands, it will only be asked for again

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _connect(self) -> sqlite3.Connection:
        if self._db is None:
            db = sqlite3.connect(self._path, timeout=30, check_same_thread=False, isolation_level=None)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute("CREATE TABLE IF NOT EXISTS verdict (key TEXT PRIMARY KEY, scored BLOB NOT NULL)")
            self._db = db
        return self._db


def _to_bytes(scored: Scored) -> bytes:
    return zlib.compress(json.dumps(asdict(scored)).encode(), 3)


def _from_bytes(data: bytes) -> Scored:
    fields = json.loads(zlib.decompress(data))
    for name in ("f2p", "p2p", "tests"):
        fields[name] = {test: TestResult(result) for test, result in fields[name].items()}
    fields["status"] = Status(fields["status"])
    fields["controls"] = Controls(**fields["controls"]) if fields["controls"] else None
    fields["flags"], fields["records"] = tuple(fields["flags"]), tuple(fields["records"])
    return Scored(**fields)

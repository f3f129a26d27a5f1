"""A run's folder: what was asked, the outcomes, and the files of every attempt. Writes are whole or not at
all.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from beyondswe.errors import EngineError, UsageError

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+=-]{0,199}")


_OPTIONAL = (
    ("", "attempts", int),
    ("", "allow_hosts", list),
    ("", "regraded", dict),
    ("dataset", "version", str),
    ("dataset", "hash", str),
    ("agent", "version", str),
)
"""Keys of ``run.json`` that numbers and tables are made of, where they are there: in which object, of which type."""
_TYPES: Mapping[type, str] = {int: "a whole number", list: "a list", dict: "an object", str: "a text"}


def new_run_id(agent: str, dataset: str) -> str:
    """A readable id that is not taken: date, agent, dataset, four hex digits."""
    words = [datetime.now(UTC).strftime("%Y%m%d"), agent, Path(dataset).stem or dataset]
    return (
        "-".join(re.sub(r"[^A-Za-z0-9._]+", "_", word)[:40].strip("._") or "x" for word in words)
        + f"-{secrets.token_hex(2)}"
    )


def check_run_id(run_id: str) -> str:
    """The id itself, if it can name a folder."""
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(
            f"run id {run_id!r}: use letters, digits, dot, dash and underscore; begin with letter or digit"
        )
    return run_id


def folder_name(instance_id: str) -> str:
    """A folder name for an instance id, whatever characters it holds; different ids never share one."""
    if _SAFE_NAME.fullmatch(instance_id):
        return instance_id
    encoded = quote(instance_id, safe=" ").replace(".", "%2E").replace(" ", "%20")
    if len(encoded) > 200:
        return f"{encoded[:120]}%{hashlib.sha256(instance_id.encode()).hexdigest()}"
    return encoded


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or whoever comes after a crash, sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a full or read-only disk into an error that says the run can be gone on with."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
            raise StorageError(path, error.strerror or str(error)) from error
        raise


class StorageError(EngineError):
    """The disk under a run takes no more; what is finished is kept."""

    exit_code = 1

    def __init__(self, path: Path, why: str) -> None:
        self.why, self.advice = why, _advice(why)
        super().__init__(
            f"cannot write to {path}: {why}. Nothing finished is lost: "
            f"{self.advice}, then run the same command again."
        )


def _advice(why: str) -> str:
    """What to do about a disk that takes no more, by the system's or SQLite's words."""
    if re.search(r"no space|full|quota|too large", why, re.IGNORECASE):
        return "make room"
    if re.search(r"read-?only|permi|denied", why, re.IGNORECASE):
        return "make it writable"
    return "see to that disk"


class RunFolder:
    """Paths and files of one run. Everything but the ledger is written here."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.db"

    @property
    def results(self) -> Path:
        return self.path / "results.jsonl"

    @property
    def temporary(self) -> Path:
        """For temporary files while the run lives: what a kill leaves is found here by the next start."""
        return self.path / "tmp"

    def read_run(self) -> dict[str, Any]:
        """``run.json``; only ``run_id``, ``dataset.name`` and ``agent.name`` are sure to be in it."""
        path = self.path / "run.json"
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError(f"{self.path} is no run: it has no run.json") from None
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from error
        for keys in (("run_id",), ("dataset", "name"), ("agent", "name")):
            value: Any = document
            for key in keys:
                value = value.get(key) if isinstance(value, dict) else None
            if not isinstance(value, str):
                raise UsageError(f"{path}: {'.'.join(keys)} is missing")
        assert isinstance(document, dict)
        for where, key, kind in _OPTIONAL:
            value = (document[where] if where else document).get(key)
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                name = f"{where}.{key}" if where else key
                raise UsageError(f"{path}: {name} is {ascii(value)[:60]}, expected {_TYPES[kind]}")
        return document

    def write_json(self, name: str, document: Any) -> None:
        """Write ``run.json`` or ``report.json``."""
        with disk_errors(self.path):
            text = json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n"
            write_atomic(self.path / name, text.encode())

    def attempt(self, instance_id: str, attempt: int) -> Path:
        return self.path / "attempts" / folder_name(instance_id) / str(attempt)

    def begin_attempt(self, instance_id: str, attempt: int, tries: int) -> Path | None:
        """Clear the way for a try after ``tries`` earlier ones; gives the folder of the latest of those.

        Files of an earlier try that ended in an infrastructure error go to ``tries/<n>/``; files of one that
        was killed in flight are dropped, for nobody judged them.
        """
        folder = self.attempt(instance_id, attempt)
        with disk_errors(self.path):
            (folder / "tries").mkdir(parents=True, exist_ok=True) if tries else folder.mkdir(
                parents=True, exist_ok=True
            )
            kept = folder / "tries" / str(tries)
            keep = tries > 0 and not kept.exists()
            leftovers = [path for path in folder.iterdir() if path.name != "tries"]
            if keep:
                aside = folder / "tries" / f".{tries}.tmp"
                shutil.rmtree(aside, ignore_errors=True)
                aside.mkdir()
                for path in leftovers:
                    shutil.move(path, aside / path.name)
                aside.rename(kept)
            else:
                for path in leftovers:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        return kept if tries else None

    def write_attempt(self, instance_id: str, attempt: int, files: Mapping[str, bytes]) -> None:
        """Write the files of an attempt (names relative to its folder)."""
        folder = self.attempt(instance_id, attempt)
        with disk_errors(self.path):
            for name, data in files.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(path, data)

    def append_result(self, row: str) -> None:
        """Append one outcome as one full line. One torn by a crash is no harm: the ledger has the row."""
        with disk_errors(self.path), self.results.open("ab") as stream:
            stream.write(row.encode() + b"\n")

    def rebuild_results(self, rows: Iterator[str]) -> None:
        """Write ``results.jsonl`` anew from the ledger's rows."""
        with disk_errors(self.path):
            temporary = self.results.with_name(".results.jsonl.tmp")
            with temporary.open("wb") as stream:
                for row in rows:
                    stream.write(row.encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(self.results)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run: no other process may work on it meanwhile. The kernel lets go however we end."""
        with disk_errors(self.path), (self.path / ".lock").open("a+b") as stream:
            for left in range(10, -1, -1):  # `runs list` holds it for an instant to look
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not left:
                        raise UsageError(
                            f"run {self.run_id} is alive: process {_holder(stream) or '?'} works on it; "
                            "wait for it, or use another --run-id"
                        ) from None
                    time.sleep(0.05)
            stream.truncate(0)
            stream.write(str(os.getpid()).encode())
            stream.flush()
            yield
            stream.truncate(0)

    def holder(self) -> int | None:
        """The process that works on this run now, if any (0: alive, but it did not say who)."""
        try:
            with (self.path / ".lock").open("rb") as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return _holder(stream) or 0
        except FileNotFoundError:
            pass
        return None


def _holder(stream: Any) -> int | None:
    stream.seek(0)
    text = stream.read(32).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None


def find_run(run: str, runs_dir: Path) -> RunFolder:
    """RUN of the command line: a folder, or the id of a run in ``runs_dir``."""
    if "/" not in run and run not in (".", "..") and (runs_dir / run / "run.json").is_file():
        return RunFolder(runs_dir / run)
    folder = Path(run)
    if (folder / "run.json").is_file():
        return RunFolder(folder.resolve())
    raise UsageError(f"no run {run!r}: neither a folder with a run.json nor an id in {runs_dir}")


def list_runs(runs_dir: Path) -> list[RunFolder]:
    """All runs in a folder, by name."""
    return [RunFolder(path.parent) for path in sorted(runs_dir.glob("*/run.json"))]

"""Candidates: rows of the instance record without an environment, their file, and the state of their review.

Beside the record's fields a row has ``pr``, ``title``, ``merge_commit``, ``dates``, ``links``, ``leaks``, ``review``
(status, reasons, votes) and ``source``; docs/collect.md lists them. `build` reads the rows whose review allows it.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from beyondswe.errors import DataError, UsageError

Row = dict[str, Any]

NEEDS_REVIEW, ACCEPTED, REJECTED = "needs_review", "accepted", "rejected"
STATUSES = (NEEDS_REVIEW, ACCEPTED, REJECTED)


def candidate_id(repo: str, tail: str) -> str:
    """An instance id such as ``pylons_colander_pr318``: owner, name and what it is made from, in lower case."""
    name = re.sub(r"[^a-z0-9_.-]+", "_", f"{repo.replace('/', '_')}_{tail}".lower())
    return name.strip("_.-")[:150]


def review(reasons: Iterable[str], **more: Any) -> Row:
    """The review of a new candidate: it waits, for these reasons."""
    return {"status": NEEDS_REVIEW, "reasons": list(dict.fromkeys(reasons)), "votes": [], **more}


def read_candidates(path: Path) -> list[Row]:
    """The rows of a file of candidates; `DataError` names the line that is none."""
    rows: list[Row] = []
    seen: dict[str, int] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not JSON: {error}") from error
        problem = _problem(row)
        if problem:
            raise DataError(f"{path}:{number}: {problem}")
        if row["instance_id"] in seen:
            first = seen[row["instance_id"]]
            raise DataError(f"{path}:{number}: {row['instance_id']} is there already, in line {first}")
        seen[row["instance_id"]] = number
        rows.append(row)
    return rows


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as JSONL. The file appears whole or not at all, and survives a kill at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            for row in rows:
                stream.write(json.dumps(row) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _problem(row: object) -> str:
    if not isinstance(row, dict):
        return f"a row is an object, this is {type(row).__name__}"
    if not isinstance(row.get("instance_id"), str) or not row["instance_id"]:
        return "the row has no instance_id"
    state = row.get("review")
    if not isinstance(state, dict) or state.get("status") not in STATUSES:
        return (
            f"{row['instance_id']} has no review with a status of {', '.join(STATUSES)}; it is no candidate"
        )
    return ""

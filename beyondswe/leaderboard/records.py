"""What the keeper found about submissions, in ``records/<name>.json`` beside them: bound to their content by a hash, so
that a change of a submission takes its marks away.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beyondswe.errors import DataError
from beyondswe.leaderboard.submission import fingerprint, submissions_dir
from beyondswe.runs.folder import disk_errors, write_atomic


@dataclass(frozen=True)
class Rescored:
    """How scoring again came out: ``n`` of ``of`` attempts, and the instances that came out otherwise."""

    date: str
    n: int
    of: int
    seed: int | None
    differing: list[str]


@dataclass(frozen=True)
class Record:
    """The marks of one submission as it stands."""

    checked: str | None = None  # day
    rescored: Rescored | None = None


def read_record(site: Path, name: str) -> Record:
    """The marks that hold for what the submission says now."""
    try:
        document = json.loads((site / "records" / f"{name}.json").read_text(encoding="utf-8"))
        if document["submission"] != fingerprint(submissions_dir(site) / name):
            return Record()
        again = document.get("rescored")
        return Record(document.get("checked"), Rescored(**again) if again else None)
    except FileNotFoundError:
        return Record()
    except (ValueError, KeyError, TypeError, RecursionError, DataError):
        return Record()  # no record of ours, or no submission: nothing is marked


def note_checked(site: Path, name: str) -> None:
    _write(site, name, {"checked": _today()})


def note_rescored(site: Path, name: str, n: int, of: int, seed: int | None, differing: list[str]) -> None:
    _write(site, name, {"rescored": asdict(Rescored(_today(), n, of, seed, differing))})


def disagreement(site: Path, name: str) -> list[str]:
    """Why scoring again speaks against it."""
    again = read_record(site, name).rescored
    if again is None or not again.differing:
        return []
    return [f"scored again on {again.date}, these came out otherwise: {', '.join(again.differing)}"]


def _write(site: Path, name: str, marks: dict[str, Any]) -> None:
    now = read_record(site, name)
    document = {
        "submission": fingerprint(submissions_dir(site) / name),
        "checked": now.checked,
        "rescored": asdict(now.rescored) if now.rescored else None,
        **marks,
    }
    path = site / "records" / f"{name}.json"
    with disk_errors(path):
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, (json.dumps(document, indent=2) + "\n").encode())


def _today() -> str:
    return datetime.now(UTC).date().isoformat()

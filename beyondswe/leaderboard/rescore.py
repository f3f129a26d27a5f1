"""What scoring a submission again shows: which attempts are drawn, and how their verdicts compare."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beyondswe.leaderboard.check import Key, read_predictions
from beyondswe.leaderboard.submission import safe_rows
from beyondswe.reports.report import outcome_score
from beyondswe.scoring.types import Status


@dataclass
class Comparison:
    """Attempts that came out alike, otherwise, and those that could not be scored here."""

    same: int = 0
    differing: dict[str, str] = field(default_factory=dict)  # shown name: how
    failed: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        return not self.differing and not self.failed


def draw(ids: Sequence[str], n: int | None, seed: int) -> list[str]:
    """The instances to be scored again: all, or ``n`` of them by chance, in their order."""
    if n is None or n >= len(ids):
        return list(ids)
    chosen = set(random.Random(seed).sample(sorted(ids), n))
    return [name for name in ids if name in chosen]


def patches_of(folder: Path, ids: Iterable[str]) -> dict[Key, str]:
    """The submitted patches of these instances."""
    wanted = set(ids)
    return {key: patch for key, patch in read_predictions(folder) if key[0] in wanted}


def outcomes_of(rows: Iterable[dict[str, Any]], ids: Iterable[str]) -> dict[Key, dict[str, Any]]:
    """Outcomes of these instances by instance and attempt."""
    wanted = set(ids)
    return {(row["instance_id"], row.get("attempt", 1)): row for row in rows if row["instance_id"] in wanted}


def claimed(folder: Path, ids: Iterable[str]) -> dict[Key, dict[str, Any]]:
    """What the submission says of these instances."""
    return outcomes_of(safe_rows(folder), ids)


def compare(
    theirs: Mapping[Key, dict[str, Any]], ours: Mapping[Key, dict[str, Any]], *, strict: bool
) -> Comparison:
    """Hold each claimed outcome against the one found here: what counts is the score, and being resolved."""
    found = Comparison()
    for key, claim in theirs.items():
        name = f"{key[0]} ({key[1]})"
        row = ours.get(key)
        if row is None or row["status"] == Status.INFRASTRUCTURE_ERROR.value:
            found.failed.append(name)
            continue
        was, now = outcome_score(claim, strict=strict), outcome_score(row, strict=strict)
        if bool(claim["resolved"]) != bool(row["resolved"]) or abs(was - now) > 1e-6:
            found.differing[name] = (
                f"claimed {claim['status']} ({was:.4f}), found {row['status']} ({now:.4f})"
            )
        else:
            found.same += 1
    return found

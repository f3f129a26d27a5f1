"""People's review of candidates: votes, unanimity, edited statements, kept in the file after every decision.

A vote holds for the statement that it was given on: whoever edits the statement makes earlier acceptances void. The
file is read again under a lock before each change, so several people may review one file at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beyondswe.construction.collect.candidates import (
    ACCEPTED,
    NEEDS_REVIEW,
    REJECTED,
    Row,
    read_candidates,
    write_rows,
)
from beyondswe.construction.collect.leaks import find_leaks
from beyondswe.errors import DataError, UsageError
from beyondswe.sandbox.locks import exclusive

_STATEMENT = {"Doc2Repo": "REPO_DOCUMENT_CONTENT"}


@dataclass(frozen=True)
class Vote:
    """One person's decision on one statement."""

    reviewer: str
    verdict: str  # accept or reject
    reason: str
    statement: str  # sha256 of the text that was read
    at: str


class Review:
    """The review of one file, on behalf of one person; ``reviewers`` must all accept."""

    def __init__(self, path: Path, reviewer: str, reviewers: int = 1) -> None:
        if not reviewer.strip():
            raise UsageError("a review has a name to it: --reviewer NAME")
        self.path, self.reviewer, self.reviewers = path, reviewer.strip(), reviewers
        self.rows = read_candidates(path)

    def waiting(self) -> list[Row]:
        """Rows that still need this person: not decided, and without their vote on the statement as it is."""
        return [
            row for row in self.rows if status(row, self.reviewers) == NEEDS_REVIEW and not self._voted(row)
        ]

    def vote(self, instance_id: str, verdict: str, reason: str = "", *, read: str | None = None) -> Row:
        """Keep a decision, in the file at once. ``read`` is the statement that the person saw: if somebody changed
        it meanwhile, `DataError`, and nothing is kept.
        """
        if verdict not in ("accept", "reject"):
            raise UsageError(f"a vote is accept or reject, not {verdict}")

        def change(row: Row) -> None:
            if read is not None and read != statement(row):
                raise DataError(
                    f"{instance_id}: the statement was changed by somebody else meanwhile; read it again"
                )
            vote = Vote(self.reviewer, verdict, reason, fingerprint(row), _now())
            votes = [given for given in row["review"].get("votes", []) if given["reviewer"] != self.reviewer]
            row["review"]["votes"] = [*votes, vars(vote)]

        return self._change(instance_id, change)

    def edit(self, instance_id: str, text: str) -> Row:
        """Put another statement in the row's place, check it for leaks again, and keep that at once."""
        if not text.strip():
            raise UsageError("the statement would be empty; reject the candidate instead")

        def change(row: Row) -> None:
            before = fingerprint(row)
            row[_field(row)] = text.strip()
            row["leaks"] = [
                leak.to_row()
                for leak in find_leaks(
                    text,
                    row.get("patch", ""),
                    repo=row.get("repo", ""),
                    pulls=row.get("pulls", ()),
                    commits=[row["merge_commit"]] if row.get("merge_commit") else (),
                    test_patch=row.get("f2p_patch", ""),
                    aliases=row.get("aliases", ()),
                )
            ]
            row["review"].setdefault("edits", []).append(
                {"reviewer": self.reviewer, "before": before, "at": _now()}
            )

        return self._change(instance_id, change)

    def _change(self, instance_id: str, change: Any) -> Row:
        with exclusive(f"review {self.path.resolve()}"):
            self.rows = read_candidates(self.path)
            row = next((row for row in self.rows if row["instance_id"] == instance_id), None)
            if row is None:
                raise DataError(f"{self.path}: {instance_id} is not there any more")
            change(row)
            row["review"]["status"] = status(row, self.reviewers)
            row["review"]["reviewers"] = self.reviewers
            write_rows(self.path, self.rows)
        return row

    def _voted(self, row: Row) -> bool:
        return any(vote["reviewer"] == self.reviewer for vote in valid_votes(row))


def statement(row: Row) -> str:
    """The text that the agent would get."""
    return str(row.get(_field(row)) or "")


def fingerprint(row: Row) -> str:
    """sha256 of the statement: what a vote is given on."""
    return hashlib.sha256(statement(row).encode()).hexdigest()


def valid_votes(row: Row) -> list[Row]:
    """Votes that hold: on the statement as it is now. A rejection holds until its giver takes it back."""
    now = fingerprint(row)
    return [
        vote
        for vote in row["review"].get("votes", [])
        if vote["verdict"] == "reject" or vote["statement"] == now
    ]


def status(row: Row, reviewers: int) -> str:
    """Rejected by anybody: rejected. Accepted by as many different people as asked for: accepted. Else what the
    model said, where nobody voted and one person is enough; else it waits.
    """
    votes = valid_votes(row)
    if any(vote["verdict"] == "reject" for vote in votes):
        return REJECTED
    if len({vote["reviewer"] for vote in votes if vote["verdict"] == "accept"}) >= reviewers:
        return ACCEPTED
    judged = row["review"].get("judge", {}).get("verdict")
    if judged == "reject" and not votes:
        return REJECTED
    if (
        judged == "accept"
        and not row.get("leaks")
        and not row["review"].get("edits")
        and not votes
        and reviewers == 1
    ):
        return ACCEPTED
    return NEEDS_REVIEW


def counts(rows: Sequence[Row], reviewers: int) -> dict[str, int]:
    """How many rows are in each state."""
    found = dict.fromkeys((ACCEPTED, REJECTED, NEEDS_REVIEW), 0)
    for row in rows:
        found[status(row, reviewers)] += 1
    return found


def _field(row: Row) -> str:
    return _STATEMENT.get(str(row.get("task")), "problem_statement")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

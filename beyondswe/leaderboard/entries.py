"""The rows of the board: submissions read from their folders, and the published results."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from beyondswe.errors import DataError
from beyondswe.instances.model import Family
from beyondswe.leaderboard.check import check_description, wrong_scores
from beyondswe.leaderboard.records import read_record
from beyondswe.leaderboard.submission import (
    RESULTS,
    Scores,
    Submission,
    as_run,
    list_names,
    safe_rows,
    same_but_case,
    scores_of,
    submissions_dir,
)
from beyondswe.reports.matrix import rate_of
from beyondswe.reports.published import published_reports
from beyondswe.reports.report import outcome_score, report_of

OWN = "AweAI-Team/BeyondSWE"
"""The benchmark's own dataset, whose rows stand first."""
_ALONE = 40  # submissions that one process reads as fast as several, which have to be started
_REFUSED_AS = (ValidationError, TypeError, ValueError, AttributeError, KeyError, OverflowError)


@dataclass(slots=True)
class Solved:
    """One instance in one submission: mean score of its attempts (0 to 1), and how the first of them ended."""

    family: str
    status: str
    total: float = 0.0
    attempts: int = 0

    @property
    def mean(self) -> float:
        return self.total / self.attempts


@dataclass
class Entry:
    """One row. ``instances`` is empty, and ``submission`` None, for a published one."""

    name: str
    report: dict[str, Any]
    mark: str  # how far it was looked at
    submission: Submission | None = None
    instances: dict[str, Solved] = field(default_factory=dict)

    @property
    def reported(self) -> bool:
        return self.submission is None

    @property
    def agent(self) -> str:
        return str(self.report["agent"]["name"])

    @property
    def model(self) -> str:
        return self.report.get("model") or ""

    @property
    def label(self) -> str:
        return ", ".join(filter(None, (self.agent, self.model)))

    @property
    def search(self) -> bool | None:
        return self.report.get("search")

    @property
    def openness(self) -> str:
        """Whether anyone can get the model: open, closed, or nothing where it is not said."""
        given = self.submission.open_weights if self.submission else self.report.get("open_weights")
        return "" if given is None else "open" if given else "closed"

    @property
    def date(self) -> str:
        return self.submission.date.isoformat() if self.submission else ""

    @property
    def dataset(self) -> str:
        """Name of the dataset, with the begin of its hash where it is known."""
        known = self.report["dataset"]
        return f"{known['name']} {known['hash'][:8]}" if known.get("hash") else str(known["name"])

    @property
    def rates(self) -> dict[str, float]:
        return {name: rate_of(name, entry) for name, entry in self.report["families"].items()}

    @property
    def intervals(self) -> dict[str, Any]:
        return {name: entry["interval"] for name, entry in self.report["families"].items()}

    @property
    def correct(self) -> tuple[int, int] | None:
        doc2repo = self.report["families"].get(Family.DOC2REPO.value)
        return (doc2repo["almost_correct"], doc2repo["correct"]) if doc2repo else None


@dataclass
class Board:
    """All rows in the order in which they are first shown, and why submissions are not among them."""

    entries: list[Entry]
    refused: dict[str, list[str]]


def read_board(site: Path) -> Board:
    """Every submission that holds together, and the published rows: the benchmark's own dataset first, by AVG."""
    names = list_names(site)
    twins = same_but_case(names)
    entries = [Entry(r["run_id"], r, "as reported, not rescored") for r in published_reports()]
    refused: dict[str, list[str]] = {}
    for name, found in _read_all(site, [name for name in names if name not in twins]):
        if isinstance(found, Entry):
            entries.append(found)
        else:
            refused[name] = found
    for name, others in twins.items():
        refused[name] = [f"the name differs from {', '.join(others)} in case alone"]
    entries.sort(key=_place)
    return Board(entries, refused)


def _place(entry: Entry) -> tuple[Any, ...]:
    own = entry.report["dataset"]["name"] == OWN
    return (not own, "" if own else entry.dataset, -(entry.report["avg"] or 0.0), entry.name)


def _read_all(site: Path, names: list[str]) -> Iterator[tuple[str, Entry | list[str]]]:
    workers = min(os.cpu_count() or 1, 8)
    if len(names) <= _ALONE or workers == 1:
        yield from ((name, _read(site, name)) for name in names)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from zip(names, pool.map(partial(_read, site), names, chunksize=10), strict=True)


def _read(site: Path, name: str) -> Entry | list[str]:
    """The row of a submission, or why there is none."""
    folder = submissions_dir(site) / name
    found = check_description(folder)
    if found.submission is None or found.errors:
        return found.errors
    submission = found.submission
    instances: dict[str, Solved] = {}
    try:
        rows = _noting(safe_rows(folder), instances, submission.strict)
        report = report_of(as_run(name, submission), rows, folder / RESULTS, resample=False)
        if not report["families"]:
            raise DataError(f"{RESULTS} holds no outcome")
        computed = Scores.model_validate(scores_of(report))
        if not all(math.isfinite(v) for v in report["usage"].values() if isinstance(v, (int, float))):
            raise DataError(f"{RESULTS}: an amount of usage is no number")
    except DataError as error:
        return [str(error)]
    except _REFUSED_AS as error:
        return [f"{RESULTS}: no scores can be computed from it ({type(error).__name__})"]
    if wrong := wrong_scores(submission.scores, computed, intervals=False):
        return wrong
    _take_intervals(report, submission.scores)
    record = read_record(site, name)
    again = record.rescored
    if again is not None and again.differing:
        return [f"scored again on {again.date}, these came out otherwise: {', '.join(again.differing)}"]
    mark = "checked" if record.checked else "as submitted"
    if again is not None:
        mark = f"rescored {again.n} of {again.of}"
    return Entry(name, report, mark, submission, instances)


def _noting(
    rows: Iterator[dict[str, Any]], into: dict[str, Solved], strict: bool
) -> Iterator[dict[str, Any]]:
    """The same rows, each noted by instance on its way."""
    for row in rows:
        one = into.get(row["instance_id"])
        if one is None:
            one = into[row["instance_id"]] = Solved(row["family"], row["status"])
        score = outcome_score(row, strict=strict)
        if not 0 <= score <= 1:
            raise DataError(f"{RESULTS}: a score of {row['instance_id']:.100} is not between 0 and 1")
        one.total += score
        one.attempts += 1
        yield row


def _take_intervals(report: dict[str, Any], claimed: Scores) -> None:
    """Those found by drawing anew are taken from the submission: `check` computes them, and costs the time for it."""
    report["avg_interval"] = list(claimed.avg_interval) if claimed.avg_interval else None
    doc2repo = claimed.families.get(Family.DOC2REPO)
    if doc2repo is not None and doc2repo.interval is not None:
        report["families"][Family.DOC2REPO.value]["interval"] = list(doc2repo.interval)

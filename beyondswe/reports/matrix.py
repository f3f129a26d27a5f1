"""Several runs as one table: agents × models × search, with Δ of search where a run with it has its counterpart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from beyondswe.instances.model import Family

FAMILIES = [family.value for family in Family]


@dataclass(frozen=True)
class Row:
    """One line of the main table; rates in percent, Δ in points against the counterpart without search."""

    run_id: str
    agent: str
    model: str
    search: bool | None
    rates: dict[str, float]
    intervals: dict[str, list[float] | None]
    correct: tuple[int, int] | None  # almost correct, correct; Doc2Repo
    avg: float | None
    avg_interval: list[float] | None
    deltas: dict[str, float]  # by family, and "AVG"
    usage: dict[str, Any]
    reported: bool  # published, not run here

    @property
    def label(self) -> str:
        search = {True: "search", False: "no search", None: ""}[self.search]
        return ", ".join(part for part in (self.agent, self.model, search) if part)


def rate_of(name: str, entry: dict[str, Any]) -> float:
    """The score of a family's entry in a report: its rate, Doc2Repo's pass rate."""
    return float(entry["pass_rate" if name == Family.DOC2REPO.value else "rate"])


def make_matrix(reports: Sequence[dict[str, Any]]) -> list[Row]:
    """The rows of these reports, in order.

    The counterpart of a run with search is the one without of the same model: of the same agent where there is one,
    else the only one there is.
    """
    return [_row(report, _counterpart(report, reports)) for report in reports]


def _row(report: dict[str, Any], other: dict[str, Any] | None) -> Row:
    families = report["families"]
    rates = {name: rate_of(name, families[name]) for name in FAMILIES if name in families}
    doc2repo = families.get(Family.DOC2REPO.value)
    deltas = {}
    if other is not None:
        shared = [name for name in rates if name in other["families"]]
        deltas = {name: rates[name] - rate_of(name, other["families"][name]) for name in shared}
        if report["avg"] is not None and other["avg"] is not None:
            deltas["AVG"] = report["avg"] - other["avg"]
    return Row(
        run_id=report["run_id"],
        agent=report["agent"]["name"],
        model=report.get("model") or "",
        search=report.get("search"),
        rates=rates,
        intervals={name: families[name]["interval"] for name in rates},
        correct=(doc2repo["almost_correct"], doc2repo["correct"]) if doc2repo else None,
        avg=report["avg"],
        avg_interval=report.get("avg_interval"),
        deltas=deltas,
        usage=report.get("usage") or {},
        reported=bool(report.get("reported")),
    )


def _counterpart(report: dict[str, Any], reports: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    if not report.get("search"):
        return None
    others = [
        other
        for other in reports
        if other.get("search") is False
        and other.get("model") == report.get("model")
        and bool(other.get("reported")) == bool(report.get("reported"))
        and other["dataset"]["name"] == report["dataset"]["name"]
    ]
    same = [other for other in others if other["agent"]["name"] == report["agent"]["name"]]
    return same[0] if len(same) == 1 else others[0] if len(others) == 1 else None


def matrix_notes(reports: Sequence[dict[str, Any]]) -> list[str]:
    """What must be said where the runs were not asked the same."""
    notes = []
    hashes: dict[str, list[str]] = {}
    for report in reports:
        if key := report["dataset"].get("hash"):
            hashes.setdefault(key, []).append(report["run_id"])
    if len(hashes) > 1:
        groups = "; ".join(f"{key[:12]}: {', '.join(runs)}" for key, runs in hashes.items())
        notes.append(
            f"the runs are on different datasets ({groups}): their rates are not to be compared as they stand"
        )
    if any(report.get("reported") for report in reports):
        notes.append("rows marked * are as published, not run here; they carry no interval")
    return notes

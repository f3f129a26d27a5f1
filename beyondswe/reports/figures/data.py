"""What the figures show, as numbers: every one from reports (`beyondswe.reports.report`) alone."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from beyondswe.instances.model import Instance
from beyondswe.reports.matrix import FAMILIES, Row, make_matrix

SEARCH_TOOLS = ("search", "web_search", "google_web_search", "websearch")
SIZES = ((1500, "≤ 1500"), (4000, "1500–4000"), (None, "≥ 4000"))
"""Classes of Doc2Repo's sizes in lines of Python: upper bound, label."""


@dataclass(frozen=True)
class Shares:
    """How many pairs of runs, without and with search, improved, tied and regressed."""

    improved: int
    tied: int
    regressed: int

    @property
    def n(self) -> int:
        return self.improved + self.tied + self.regressed


@dataclass(frozen=True)
class Point:
    """One run in a plot."""

    label: str
    x: float
    y: float
    group: str = ""


def outcomes_of_search(rows: Sequence[Row]) -> dict[str, Shares]:
    """Per family, and ``all``: Δ of the runs with search that have a counterpart; equal to two decimals is tied."""
    found = {}
    deltas = {name: [round(row.deltas[name], 2) for row in rows if name in row.deltas] for name in FAMILIES}
    deltas["all"] = [delta for name in FAMILIES for delta in deltas[name]]
    for name, values in deltas.items():
        if values:
            better, worse = sum(v > 0 for v in values), sum(v < 0 for v in values)
            found[name] = Shares(better, len(values) - better - worse, worse)
    return found


def tool_calls(reports: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Mean calls an attempt, by run label and tool; runs in which nobody counted are left out."""
    found: dict[str, dict[str, float]] = {}
    for row, report in zip(make_matrix(reports), reports, strict=True):
        calls = (report.get("usage") or {}).get("tool_calls") or {}
        done = (report.get("attempts") or {}).get("done") or 0
        if calls and done:
            found[_unique(row.label, found)] = {tool: n / done for tool, n in calls.items()}
    return found


def search_against_gain(reports: Sequence[dict[str, Any]]) -> list[Point]:
    """Search calls an attempt against Δ in points, a point for each family of a run with search and counterpart."""
    points = []
    for row, report in zip(make_matrix(reports), reports, strict=True):
        for name, delta in row.deltas.items():
            entry = report["families"].get(name)
            calls = ((entry or {}).get("usage") or {}).get("tool_calls") or {}
            if entry and calls:
                searches = sum(n for tool, n in calls.items() if tool.lower() in SEARCH_TOOLS)
                points.append(Point(row.label, searches / entry["attempts"], delta, name))
    return points


def avg_against(reports: Sequence[dict[str, Any]], what: str) -> list[Point]:
    """``cost_usd`` or ``tokens`` (input and output, thousands) an attempt against AVG; unknown amounts are left out."""
    points = []
    for row, report in zip(make_matrix(reports), reports, strict=True):
        usage = report.get("usage") or {}
        done = (report.get("attempts") or {}).get("done") or 0
        if what == "tokens":
            parts = [usage[key] for key in ("input_tokens", "output_tokens") if usage.get(key) is not None]
            amount = sum(parts) / 1000 if len(parts) == 2 else None
        else:
            amount = usage.get(what)
        if amount is not None and done and row.avg is not None:
            points.append(Point(row.label, amount / done, row.avg))
    return points


def frontier(points: Iterable[Point]) -> list[Point]:
    """The points that no other beats at a lower or equal x: the Pareto frontier, by x."""
    best: list[Point] = []
    for point in sorted(points, key=lambda p: (p.x, -p.y)):
        if not best or point.y > best[-1].y:
            best.append(point)
    return best


def lowess(points: Sequence[Point]) -> list[tuple[float, float]]:
    """The LOWESS trend (statsmodels, two thirds of the points a fit); nothing below five points."""
    if len({point.x for point in points}) < 5:
        return []
    from statsmodels.nonparametric.smoothers_lowess import lowess as smooth

    fitted = smooth([p.y for p in points], [p.x for p in points], frac=2 / 3)
    return [(float(x), float(y)) for x, y in fitted]


def doc2repo_sizes(instances: Iterable[Instance]) -> dict[str, int]:
    """How many Doc2Repo references are of each class of size; those whose reference is not there are ``unknown``."""
    found: dict[str, int] = {}
    for instance in instances:
        if not instance.is_doc2repo:
            continue
        found = found or {label: 0 for _, label in SIZES}
        lines = reference_lines(instance)
        if lines is None:
            found["unknown"] = found.get("unknown", 0) + 1
        else:
            found[next(label for bound, label in SIZES if bound is None or lines <= bound)] += 1
    return found


def reference_lines(instance: Instance) -> int | None:
    """Lines of Python in the reference, from its archive or its patch; None where neither is there."""
    if instance.reference_archive and instance.test_suite_dir:
        path = instance.test_suite_dir / instance.reference_archive
        if path.is_file():
            with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
                sources = (archive.extractfile(m) for m in archive if m.isfile() and m.name.endswith(".py"))
                return sum(stream.read().count(b"\n") for stream in sources if stream)
    if instance.patch:
        python, lines = False, 0
        for line in instance.patch.splitlines():
            if line.startswith("+++ "):
                python = line.rstrip().endswith(".py")
            elif python and line.startswith("+"):
                lines += 1
        return lines
    return None


def _unique(label: str, taken: Iterable[str]) -> str:
    names = set(taken)
    return next(
        name for n in range(1, len(names) + 2) if (name := label if n == 1 else f"{label} ({n})") not in names
    )

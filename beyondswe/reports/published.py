"""The paper's results as rows beside those of runs: as reported, with AVG computed anew from the family scores."""

from __future__ import annotations

import json
from typing import Any

from beyondswe.instances.model import Family
from beyondswe.reports.report import average
from beyondswe.resources import resource


def published_reports() -> list[dict[str, Any]]:
    """A report for each published row: no n and no interval, because nobody said what they are from."""
    document = json.loads(resource("data", "results", "published.json").read_text(encoding="utf-8"))
    return [_report(row, document["source"]) for row in document["rows"]]


def _report(row: dict[str, Any], source: str) -> dict[str, Any]:
    families: dict[str, dict[str, Any]] = {}
    for name, rate in row["rates"].items():
        if name == Family.DOC2REPO.value:
            counts = {"almost_correct": row["almost_correct"], "correct": row["correct"]}
            families[name] = {"n": None, "pass_rate": rate, "interval": None, **counts}
        else:
            families[name] = {"n": None, "resolved": None, "rate": rate, "interval": None}
    return {
        "run_id": row["name"],
        "reported": True,
        "source": source,
        "dataset": {"name": "AweAI-Team/BeyondSWE"},
        "agent": {"name": row["agent"]},
        "model": row["model"],
        "open_weights": row["open_weights"],
        "search": row["search"],
        "prompt": row["prompt"],
        "avg": average(list(row["rates"].values())),
        "avg_interval": None,
        "families": families,
    }

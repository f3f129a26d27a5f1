"""Run folders made by hand: run.json and results.jsonl, which is all that CI keeps of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Scores = Mapping[str, float | list[float | None] | None]
"""By instance id: the score of an attempt (or of each), None for an infrastructure error."""
FAMILIES = {"C": "CrossRepo", "F": "DomainFix", "M": "DepMigrate", "D": "Doc2Repo"}


def run_folder(root: Path, run_id: str, scores: Scores, **run: Any) -> Path:
    """A folder with one run. Ids begin with C, F, M or D for the family."""
    folder = root / run_id
    folder.mkdir(parents=True)
    document = {"run_id": run_id, "dataset": {"name": "made"}, "agent": {"name": "someone"}, **run}
    (folder / "run.json").write_text(json.dumps(document))
    with (folder / "results.jsonl").open("w") as stream:
        for name, given in scores.items():
            for attempt, score in enumerate(given if isinstance(given, list) else [given], 1):
                status = (
                    "infrastructure_error" if score is None else "resolved" if score == 1 else "unresolved"
                )
                row = {
                    "instance_id": name,
                    "family": FAMILIES[name[0]],
                    "attempt": attempt,
                    "status": status,
                    "resolved": score == 1,
                    "score": score or 0.0,
                    "pass_rate": score or 0.0,
                }
                stream.write(json.dumps(row) + "\n")
    return folder

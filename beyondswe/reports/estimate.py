"""What a run would take, from earlier runs of the same agent and model: time, tokens, cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from beyondswe.errors import BeyondSWEError
from beyondswe.reports.report import PHASES, read_results
from beyondswe.runs.folder import list_runs
from beyondswe.scoring.types import Status

AMOUNTS = ("input_tokens", "output_tokens", "cost_usd", "turns")


def estimate(
    runs_dir: Path, *, agent: str, model: str | None, families: Mapping[str, int], attempts: int, workers: int
) -> dict[str, Any]:
    """Totals for ``families`` (instances of each) × ``attempts``, at the mean of each family in earlier runs; a family
    that none had goes by the mean over all. Amounts that nobody counted, and all of them without an earlier run, are
    None. ``seconds`` is work, ``wall_seconds`` that divided among the workers.
    """
    seen: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    used = []
    for folder in list_runs(runs_dir):
        try:
            run = folder.read_run()
            if run["agent"]["name"] != agent or (run.get("model") or None) != model:
                continue
            if run.get("merged_from") or run.get("regraded"):
                continue  # copies of outcomes that their own runs have
            rows = list(read_results(folder.results))
        except BeyondSWEError:
            continue  # a damaged run tells nothing
        rows = [row for row in rows if row["status"] != Status.INFRASTRUCTURE_ERROR.value]
        for row in rows:
            timings = row.get("timings") or {}
            seen[row["family"]]["seconds"].append(sum(timings.get(phase, 0.0) for phase in PHASES))
            for name in AMOUNTS:
                if (value := (row.get("usage") or {}).get(name)) is not None:
                    seen[row["family"]][name].append(value)
        if rows:
            used.append(run["run_id"])
    totals = {name: _total(name, seen, families, attempts) for name in ("seconds", *AMOUNTS)}
    return {
        "instances": sum(families.values()),
        "families": dict(families),
        "attempts": sum(families.values()) * attempts,
        "workers": workers,
        "from_runs": used,
        **totals,
        "wall_seconds": None if totals["seconds"] is None else totals["seconds"] / workers,
    }


def _total(
    name: str, seen: Mapping[str, Mapping[str, list[float]]], families: Mapping[str, int], attempts: int
) -> float | None:
    everywhere = [value for family in seen.values() for value in family.get(name, ())]
    if not everywhere:
        return None
    return sum(
        n * attempts * mean(seen.get(family, {}).get(name) or everywhere) for family, n in families.items()
    )


def lines(found: Mapping[str, Any]) -> Iterable[str]:
    """An estimate for people."""
    from beyondswe.runs.progress import spoken

    families = ", ".join(f"{n} {name}" for name, n in found["families"].items())
    yield f"would make {found['attempts']} attempts on {found['instances']} instances ({families}); nothing was started"
    if not found["from_runs"]:
        yield "no earlier run of this agent and model is there to estimate from"
        return
    yield f"estimated from {len(found['from_runs'])} earlier runs: {', '.join(found['from_runs'][-5:])}"
    yield f"time: {spoken(found['wall_seconds'])} with {found['workers']} workers ({spoken(found['seconds'])} of work)"
    for name in AMOUNTS:
        if found[name] is not None:
            yield f"{name}: {found[name]:,.2f}" if name == "cost_usd" else f"{name}: {found[name]:,.0f}"

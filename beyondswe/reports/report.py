"""``report.json``: a run's numbers, from its ``run.json`` and ``results.jsonl`` alone (spec: seeds/004,
section 5).

Rates are percent. A family's rate is the mean over instances of the mean over their attempts; infrastructure
errors count as 0 in it, and ``rate_excluding_infrastructure`` stands beside it. Outcomes are read one by one:
a results file of any size costs a few numbers per instance.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beyondswe.errors import DataError
from beyondswe.instances.model import Family
from beyondswe.runs.folder import RunFolder
from beyondswe.scoring.flags import flag_name, is_suspicious
from beyondswe.scoring.types import Status

PHASES = ("setup", "agent", "extract", "score")
ALMOST = 0.9  # pass rate from which a Doc2Repo instance is almost correct
_Z = 1.959963984540054  # 97.5 % point of the normal distribution
_RESAMPLES = 2000


def wilson(rate: float, n: int) -> tuple[float, float]:
    """95 % interval of a rate (0 to 1) observed on ``n`` instances (Wilson's score interval)."""
    if n == 0:
        return 0.0, 1.0
    spread = _Z * math.sqrt(rate * (1 - rate) / n + _Z**2 / (4 * n**2))
    middle, scale = rate + _Z**2 / (2 * n), 1 + _Z**2 / n
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of a mean by resampling with a fixed seed: same values, same interval."""
    if not values:
        return 0.0, 1.0
    chance = random.Random(20260303)
    means = sorted(sum(chance.choices(values, k=len(values))) / len(values) for _ in range(_RESAMPLES))
    return means[round(0.025 * (_RESAMPLES - 1))], means[round(0.975 * (_RESAMPLES - 1))]


def average(rates: Sequence[float]) -> float | None:
    """AVG: the mean of the family scores (percent), Doc2Repo entering with its pass rate."""
    return sum(rates) / len(rates) if rates else None


@dataclass
class _Instance:
    """What the report needs of one instance's attempts."""

    scores: list[float] = field(
        default_factory=list
    )  # resolved (0 or 1), or pass rate; infrastructure errors as 0
    counted: list[float] = field(default_factory=list)  # the same without infrastructure errors


@dataclass
class _Tally:
    """Running sums over outcomes."""

    families: dict[Family, dict[str, _Instance]] = field(default_factory=dict)
    attempts: set[tuple[str, int]] = field(default_factory=set)
    statuses: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    usage: Counter[str] = field(default_factory=Counter)
    counted_usage: set[str] = field(default_factory=set)
    tool_calls: Counter[str] = field(default_factory=Counter)
    timings: Counter[str] = field(default_factory=Counter)
    cached: int = 0

    def add(self, row: dict[str, Any], *, strict: bool) -> None:
        family, status = Family(row["family"]), Status(row["status"])
        flags = [str(flag) for flag in row.get("flags") or ()]
        value = (
            float(row.get("pass_rate", 0.0))
            if family is Family.DOC2REPO
            else float(bool(row.get("resolved")))
        )
        if status is Status.TAMPERED or (strict and any(map(is_suspicious, flags))):
            value = 0.0
        instance = self.families.setdefault(family, {}).setdefault(row["instance_id"], _Instance())
        if status is Status.INFRASTRUCTURE_ERROR:
            instance.scores.append(0.0)
        else:
            instance.scores.append(value)
            instance.counted.append(value)
        self.statuses[status.value] += 1
        self.cached += bool(row.get("cached"))
        self.flags.update({flag_name(flag) for flag in flags})
        usage = row.get("usage") or {}
        for name in ("input_tokens", "output_tokens", "cost_usd", "turns"):
            if usage.get(name) is not None:
                self.usage[name] += usage[name]
                self.counted_usage.add(name)
        self.tool_calls.update(usage.get("tool_calls") or {})
        for phase in PHASES:
            self.timings[phase] += (row.get("timings") or {}).get(phase, 0.0)


def read_results(path: Path) -> Iterator[dict[str, Any]]:
    """The outcomes of a ``results.jsonl``. A last line that a kill cut short is left out; any other fault is
    named.
    """
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                try:
                    row = json.loads(line)
                    for key in ("instance_id", "family", "status", "resolved"):
                        row[key]
                    Family(row["family"]), Status(row["status"])
                except (ValueError, TypeError, KeyError) as error:
                    if not line.endswith(b"\n"):
                        return
                    raise DataError(
                        f"{path}, line {number}: this is no outcome ({type(error).__name__}: {error})"
                    ) from None
                yield row
    except FileNotFoundError:
        return  # a run that has not finished anything yet


def make_report(folder: RunFolder, *, strict: bool | None = None) -> dict[str, Any]:
    """The document of ``report.json``. ``strict`` (default: as the run was started) counts suspicious
    attempts as 0.
    """
    run = folder.read_run()
    strict = bool(run.get("strict")) if strict is None else strict
    tally = _Tally()
    for number, row in enumerate(read_results(folder.results), 1):
        attempt = (row["instance_id"], int(row.get("attempt", 1)))
        if attempt in tally.attempts:
            raise DataError(
                f"{folder.results}, line {number}: attempt {attempt[1]} of {attempt[0]} stands there twice"
            )
        tally.attempts.add(attempt)
        tally.add(row, strict=strict)
    families = {
        family.value: _family(family, tally.families[family]) for family in Family if family in tally.families
    }
    rates = [
        entry["pass_rate" if name == Family.DOC2REPO.value else "rate"] for name, entry in families.items()
    ]
    dataset, done = run["dataset"], len(tally.attempts)
    asked = dataset["n"] * run.get("attempts", 1) if isinstance(dataset.get("n"), int) else done
    return {
        "run_id": run["run_id"],
        "dataset": dataset,
        "agent": run["agent"],
        "model": run.get("model"),
        "search": run.get("search"),
        "strict": strict,
        "attempts": {"asked": asked, "done": done, "per_instance": run.get("attempts", 1)},
        "avg": _rounded(average(rates)),
        "families": families,
        "statuses": dict(tally.statuses),
        "flags": dict(tally.flags),
        "cached": tally.cached,
        "usage": {
            **{
                name: tally.usage[name] if name in tally.counted_usage else None
                for name in ("input_tokens", "output_tokens", "cost_usd", "turns")
            },
            "tool_calls": dict(tally.tool_calls),
        },
        "timings": {
            phase: {
                "total": round(tally.timings[phase], 3),
                "mean": round(tally.timings[phase] / done, 3) if done else None,
            }
            for phase in PHASES
        },
        "started": run.get("started"),
        "finished": run.get("finished"),
    }


def _family(family: Family, instances: dict[str, _Instance]) -> dict[str, Any]:
    """The entry of one family. ``n`` and the interval count instances, ``attempts`` and ``resolved``
    attempts.

    The interval takes all attempts of an instance as one observation, which is wide rather than narrow.
    """
    means = [sum(i.scores) / len(i.scores) for i in instances.values()]
    counted = [sum(i.counted) / len(i.counted) for i in instances.values() if i.counted]
    mean = sum(means) / len(means)
    common = {"n": len(means), "attempts": sum(len(i.scores) for i in instances.values())}
    excluding = _rounded(100 * sum(counted) / len(counted)) if counted else None
    if family is Family.DOC2REPO:
        return {
            **common,
            "pass_rate": _rounded(100 * mean),
            "interval": [_rounded(100 * bound) for bound in bootstrap(means)] if len(means) > 1 else None,
            "rate_excluding_infrastructure": excluding,
            "almost_correct": sum(value >= ALMOST for value in means),
            "correct": sum(value >= 1.0 for value in means),
        }
    return {
        **common,
        "resolved": round(sum(sum(i.scores) for i in instances.values())),
        "rate": _rounded(100 * mean),
        "interval": [_rounded(100 * bound) for bound in wilson(mean, len(means))],
        "rate_excluding_infrastructure": excluding,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

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
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beyondswe.errors import DataError
from beyondswe.instances.model import Family
from beyondswe.reports.rows import AMOUNTS, fault
from beyondswe.runs.folder import RunFolder
from beyondswe.scoring.flags import flag_name, is_suspicious
from beyondswe.scoring.types import Status

PHASES = ("setup", "agent", "extract", "score")
ALMOST = 0.9  # pass rate from which a Doc2Repo instance is almost correct
_Z = 1.959963984540054  # 97.5 % point of the normal distribution
_RESAMPLES = 2000
_DOC2REPO, _INFRASTRUCTURE = Family.DOC2REPO.value, Status.INFRASTRUCTURE_ERROR.value
_WORTHLESS = (Status.TAMPERED.value, _INFRASTRUCTURE)


def wilson(rate: float, n: int) -> tuple[float, float]:
    """95 % interval of a rate (0 to 1) observed on ``n`` instances (Wilson's score interval)."""
    if n == 0:
        return 0.0, 1.0
    spread = _Z * math.sqrt(rate * (1 - rate) / n + _Z**2 / (4 * n**2))
    middle, scale = rate + _Z**2 / (2 * n), 1 + _Z**2 / n
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def bootstrap(*groups: Sequence[float]) -> tuple[float, float]:
    """95 % interval of a mean, or of the mean of several groups' means, by drawing anew within each group, with a
    fixed seed: same values, same interval.
    """
    chance = random.Random(20260303)
    means = sorted(
        sum(sum(chance.choices(group, k=len(group))) / len(group) for group in groups) / len(groups)
        for _ in range(_RESAMPLES)
    )
    return means[round(0.025 * (_RESAMPLES - 1))], means[round(0.975 * (_RESAMPLES - 1))]


def at_least_one(attempts: int, solved: int, k: int) -> float:
    """pass@k, unbiased: the chance that ``k`` of the attempts, drawn without return, hold a solved one."""
    return 1 - math.comb(attempts - solved, k) / math.comb(attempts, k)


def every_one(attempts: int, solved: int, k: int) -> float:
    """pass^k, unbiased: the chance that ``k`` of the attempts, drawn without return, are all solved."""
    return math.comb(solved, k) / math.comb(attempts, k)


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

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores)


@dataclass
class _Counts:
    """Running sums over outcomes, of a family or of all."""

    done: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    amounts: Counter[str] = field(default_factory=Counter)
    counted: set[str] = field(default_factory=set)  # amounts that somebody counted
    tool_calls: Counter[str] = field(default_factory=Counter)
    timings: Counter[str] = field(default_factory=Counter)

    def add(self, row: dict[str, Any]) -> None:
        self.done += 1
        self.statuses[row["status"]] += 1
        if flags := row.get("flags"):
            self.flags.update({flag_name(str(flag)) for flag in flags})
        usage = row.get("usage") or {}
        for name in AMOUNTS:
            if (amount := usage.get(name)) is not None:
                self.amounts[name] += amount
                self.counted.add(name)
        for tool, n in (usage.get("tool_calls") or {}).items():
            self.tool_calls[tool] += n
        timings = row.get("timings") or {}
        for phase in PHASES:
            self.timings[phase] += timings.get(phase) or 0

    def add_all(self, other: _Counts) -> None:
        """The sums of another one on top."""
        self.done += other.done
        self.counted |= other.counted
        for name in ("statuses", "flags", "amounts", "tool_calls", "timings"):
            getattr(self, name).update(getattr(other, name))

    def document(self) -> dict[str, Any]:
        """``statuses``, ``flags``, ``usage`` and ``timings`` as they stand in a report."""
        amounts = {name: self.amounts[name] if name in self.counted else None for name in AMOUNTS}
        return {
            "statuses": dict(self.statuses),
            "flags": dict(self.flags),
            "usage": {**amounts, "tool_calls": dict(self.tool_calls)},
            "timings": {
                phase: {
                    "total": round(self.timings[phase], 3),
                    "mean": round(self.timings[phase] / self.done, 3) if self.done else None,
                }
                for phase in PHASES
            },
        }


@dataclass
class _Tally:
    """What a report needs of all outcomes."""

    families: dict[Family, dict[str, _Instance]] = field(default_factory=dict)
    attempts: set[tuple[str, int]] = field(default_factory=set)
    by_family: defaultdict[Family, _Counts] = field(default_factory=lambda: defaultdict(_Counts))
    cached: int = 0

    @property
    def total(self) -> _Counts:
        """The sums over all families."""
        total = _Counts()
        for counts in self.by_family.values():
            total.add_all(counts)
        return total

    def add(self, row: dict[str, Any], *, strict: bool) -> None:
        family = Family(row["family"])
        value = outcome_score(row, strict=strict)
        instance = self.families.setdefault(family, {}).setdefault(row["instance_id"], _Instance())
        instance.scores.append(value)
        if row["status"] != _INFRASTRUCTURE:
            instance.counted.append(value)
        self.by_family[family].add(row)
        self.cached += bool(row.get("cached"))


def outcome_score(row: dict[str, Any], *, strict: bool) -> float:
    """What an outcome counts, 0 to 1: resolved or not, the pass rate for Doc2Repo. ``strict``: suspicious ones 0."""
    if row["status"] in _WORTHLESS:
        return 0.0
    if strict and any(is_suspicious(str(flag)) for flag in row.get("flags") or ()):
        return 0.0
    if row["family"] == _DOC2REPO:
        return float(row.get("pass_rate") or 0.0)
    return float(bool(row["resolved"]))


def read_results(path: Path) -> Iterator[dict[str, Any]]:
    """The outcomes of a ``results.jsonl``. A last line that a kill cut short is left out; any other fault is
    named.
    """
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                try:
                    row = json.loads(line)
                    wrong = fault(row)
                except (ValueError, RecursionError) as error:
                    wrong = f"{type(error).__name__}: {error}"
                if wrong is not None:
                    if not line.endswith(b"\n"):
                        return
                    raise DataError(f"{path}, line {number}: this is no outcome ({wrong})")
                yield row
    except FileNotFoundError:
        return  # a run that has not finished anything yet


def make_report(folder: RunFolder, *, strict: bool | None = None) -> dict[str, Any]:
    """The document of ``report.json``. ``strict`` (default: as the run was started) counts suspicious
    attempts as 0.
    """
    return report_of(folder.read_run(), read_results(folder.results), folder.results, strict=strict)


def report_of(
    run: dict[str, Any],
    rows: Iterable[dict[str, Any]],
    where: Path,
    *,
    strict: bool | None = None,
    resample: bool = True,
) -> dict[str, Any]:
    """The same from a run's facts and its outcomes, which came from ``where``. Without ``resample`` the intervals that
    are found by drawing anew are left out (None): they cost most of the time.
    """
    strict = bool(run.get("strict")) if strict is None else strict
    tally = _Tally()
    for number, row in enumerate(rows, 1):
        attempt = (row["instance_id"], int(row.get("attempt", 1)))
        if attempt in tally.attempts:
            raise DataError(
                f"{where}, line {number}: attempt {attempt[1]} of {attempt[0]} stands there twice"
            )
        tally.attempts.add(attempt)
        tally.add(row, strict=strict)
    families = {
        family.value: {
            **_family(family, tally.families[family], resample),
            **tally.by_family[family].document(),
        }
        for family in Family
        if family in tally.families
    }
    rates = [
        entry["pass_rate" if name == Family.DOC2REPO.value else "rate"] for name, entry in families.items()
    ]
    dataset, done = run["dataset"], len(tally.attempts)
    asked = dataset["n"] * run.get("attempts", 1) if isinstance(dataset.get("n"), int) else done
    groups = [[i.mean for i in instances.values()] for instances in tally.families.values()]
    return {
        "run_id": run["run_id"],
        "dataset": dataset,
        "agent": run["agent"],
        "model": run.get("model"),
        "search": run.get("search"),
        "prompt": run.get("prompt"),
        "network": run.get("network"),
        "allow_hosts": run.get("allow_hosts") or [],
        "strict": strict,
        "attempts": {"asked": asked, "done": done, "per_instance": run.get("attempts", 1)},
        "avg": _rounded(average(rates)),
        "avg_interval": [_rounded(100 * bound) for bound in bootstrap(*groups)]
        if resample and max(map(len, groups), default=0) > 1
        else None,
        "families": families,
        "cached": tally.cached,
        **tally.total.document(),
        **({"regraded": run["regraded"]} if run.get("regraded") else {}),
        "started": run.get("started"),
        "finished": run.get("finished"),
    }


def _family(family: Family, instances: dict[str, _Instance], resample: bool) -> dict[str, Any]:
    """The entry of one family. ``n`` and the interval count instances, ``attempts`` and ``resolved``
    attempts.

    The interval takes all attempts of an instance as one observation, which is wide rather than narrow.
    """
    means = [i.mean for i in instances.values()]
    counted = [sum(i.counted) / len(i.counted) for i in instances.values() if i.counted]
    mean = sum(means) / len(means)
    common = {
        "n": len(means),
        "attempts": sum(len(i.scores) for i in instances.values()),
        **_several([i.scores for i in instances.values()]),
    }
    excluding = _rounded(100 * sum(counted) / len(counted)) if counted else None
    if family is Family.DOC2REPO:
        return {
            **common,
            "pass_rate": _rounded(100 * mean),
            "interval": [_rounded(100 * bound) for bound in bootstrap(means)]
            if resample and len(means) > 1
            else None,
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


def _several(scores: Sequence[Sequence[float]]) -> dict[str, dict[str, float]]:
    """``pass_at_k`` and ``pass_hat_k`` in percent by k, where instances were tried more than once; solved is 1.0."""
    most = min(map(len, scores))
    if most < 2:
        return {}
    tried = [(len(one), sum(score >= 1.0 for score in one)) for one in scores]
    return {
        name: {
            str(k): round(100 * sum(rule(n, c, k) for n, c in tried) / len(tried), 4)
            for k in range(1, most + 1)
        }
        for name, rule in (("pass_at_k", at_least_one), ("pass_hat_k", every_one))
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

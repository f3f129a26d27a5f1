"""Two runs compared instance by instance: who improved, by how much, and whether that can be chance.

Resolved families are tested with McNemar's exact test where every instance was tried once in both runs, else like
Doc2Repo and AVG with the paired randomisation test; intervals are from a bootstrap over instances within families.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

from beyondswe.instances.model import Family
from beyondswe.reports.paired import (
    Pair,
    RunScores,
    average_difference,
    by_family,
    dataset_notes,
    pair,
    weights,
)
from beyondswe.reports.randomisation import chance_of_difference

_RESAMPLES = 2000
_SEED = 20260303
_LEVEL, _POWER = 0.05, 0.8


def compare(a: RunScores, b: RunScores) -> dict[str, Any]:
    """The comparison as JSON. Δ is ``b`` less ``a`` in percentage points; infrastructure errors count as 0."""
    pairs = pair(a, b)
    once = all(len(j.scores) + j.unjudged == 1 for s in (a, b) for j in s.instances.values())
    groups = by_family(pairs)
    resolved = [p for p in pairs if p.family is not Family.DOC2REPO]
    delta = 100 * average_difference(pairs)
    return {
        "a": _about(a),
        "b": _about(b),
        "n": len(pairs),
        "notes": dataset_notes(a, b),
        "avg": {
            "a": _percent(sum(w * p.a for w, p in zip(weights(pairs), pairs, strict=True))),
            "b": _percent(sum(w * p.b for w, p in zip(weights(pairs), pairs, strict=True))),
            "delta": _rounded(delta),
            "interval": _interval(pairs),
            "p": chance_of_difference([p.difference for p in pairs], weights(pairs)),
            "test": "paired randomisation",
        },
        "families": {family.value: _family(group, once) for family, group in groups.items()},
        "resolved": _test(resolved, once) if resolved else None,
        "pass_rate": _test(groups[Family.DOC2REPO], False) if Family.DOC2REPO in groups else None,
        **_names(pairs),
        "power": _power(pairs, delta / 100),
    }


def _family(group: Sequence[Pair], once: bool) -> dict[str, Any]:
    doc2repo = group[0].family is Family.DOC2REPO
    n = len(group)
    mean_a, mean_b = sum(p.a for p in group) / n, sum(p.b for p in group) / n
    return {
        "n": n,
        "a": _percent(mean_a),
        "b": _percent(mean_b),
        "delta": _percent(mean_b - mean_a),
        "interval": _interval(group),
        **{name: len(ids) for name, ids in _names(group).items()},
        **_test(group, once and not doc2repo),
    }


def _test(group: Sequence[Pair], binary: bool) -> dict[str, Any]:
    """``p`` and the test it is from; for McNemar's also how many instances only one of the runs resolved."""
    p = chance_of_difference([p.difference for p in group], [1 / len(group)] * len(group))
    if not binary:
        return {"test": "paired randomisation", "p": p}
    # of scores that are 0 or 1 the randomisation test is McNemar's exact one
    only_a, only_b = sum(p.a > p.b for p in group), sum(p.b > p.a for p in group)
    return {"test": "McNemar, exact", "only_a": only_a, "only_b": only_b, "p": p}


def _names(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    return {
        "improved": [p.instance_id for p in pairs if p.difference > 0],
        "tied": [p.instance_id for p in pairs if p.difference == 0],
        "regressed": [p.instance_id for p in pairs if p.difference < 0],
    }


def _interval(pairs: Sequence[Pair]) -> list[float | None] | None:
    """95 % interval of Δ in points: instances drawn anew within each family; None for a single instance."""
    groups = [[p.difference for p in group] for group in by_family(pairs).values()]
    if all(len(group) < 2 for group in groups):
        return None
    chance = random.Random(_SEED)
    means = sorted(
        sum(sum(chance.choices(group, k=len(group))) / len(group) for group in groups) / len(groups)
        for _ in range(_RESAMPLES)
    )
    return [_percent(means[round(share * (_RESAMPLES - 1))]) for share in (0.025, 0.975)]


def _power(pairs: Sequence[Pair], delta: float) -> dict[str, Any]:
    """How many instances, mixed as these, would show a Δ AVG of this size in 8 of 10 cases (two-sided, 5 %); and
    the smallest Δ that this many show.
    """
    groups = by_family(pairs).values()
    n = len(pairs)
    variance = 0.0  # of Δ AVG, times n
    for group in groups:
        mean = sum(p.difference for p in group) / len(group)
        spread = sum((p.difference - mean) ** 2 for p in group) / max(1, len(group) - 1)
        variance += n * spread / (len(group) * len(groups) ** 2)
    normal = NormalDist()
    reach = normal.inv_cdf(1 - _LEVEL / 2) + normal.inv_cdf(_POWER)
    known = variance > 0
    return {
        "level": _LEVEL,
        "power": _POWER,
        "instances_needed": math.ceil(variance * (reach / delta) ** 2) if known and delta else None,
        "smallest_delta": _percent(reach * math.sqrt(variance / n)) if known else None,
    }


def _about(scores: RunScores) -> dict[str, Any]:
    run = scores.run
    return {"run_id": scores.run_id, **{key: run.get(key) for key in ("dataset", "agent", "model", "search")}}


def _percent(value: float) -> float:
    return round(100 * value, 4)


def _rounded(value: float) -> float:
    return round(value, 4)

"""Does a candidate run hold what a baseline run reached? Red for a real regression, not for noise.

The rule: red if Δ AVG is a drop beyond ``max_drop`` points that chance alone would bring in fewer than ``alpha`` of
unchanged candidates (`randomisation`). An attempt that nobody could judge counts against the candidate on either side,
and without a judged outcome for every instance of the baseline the gate is never green.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from beyondswe.errors import UsageError
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
from beyondswe.reports.randomisation import FEW, chance_for_noisiest, chance_of_drop

POWER = 0.8
_USUAL_CHANGE = 0.15
"""Mean squared difference of an instance between two runs of one agent, where the two runs show less: agents solve
some 15 of 100 instances in one run and not in the other."""
UNJUDGED = (1.0, 0.0)  # an infrastructure error in the baseline, in the candidate


@dataclass(frozen=True)
class Gate:
    """The gate's answer. Points are percentage points of AVG; a drop is positive."""

    green: bool
    reasons: tuple[str, ...]  # why it is red; empty where it is green
    drop: float
    chance: float  # of such a drop or a larger one, if nothing changed
    smallest_drop: float | None  # points that these instances show in 8 of 10 cases; None: not even all of it
    max_drop: float
    alpha: float
    pairs: tuple[Pair, ...]
    missing: tuple[str, ...]  # instances of the baseline that the candidate does not have
    unjudged: tuple[str, ...]  # with an infrastructure error in either run
    must_pass_failed: tuple[str, ...]
    must_pass: tuple[str, ...]
    notes: tuple[str, ...]


def judge(
    baseline: RunScores,
    candidate: RunScores,
    *,
    max_drop: float = 0.0,
    alpha: float = 0.05,
    must_pass: Sequence[str] = (),
) -> Gate:
    """The gate on two runs. ``max_drop`` is in points. Raises `UsageError` for an id in ``must_pass`` that
    neither run knows.
    """
    unknown = [name for name in must_pass if name not in {*baseline.instances, *candidate.instances}]
    if unknown:
        raise UsageError(
            f"--must-pass names {unknown[0]!r}, which is in neither run"
            + (f" ({len(unknown)} such ids)" if len(unknown) > 1 else "")
        )
    pairs = pair(baseline, candidate, unjudged=UNJUDGED)
    missing = sorted(baseline.instances.keys() - candidate.instances.keys())
    pairs += [
        Pair(name, baseline.instances[name].family, baseline.instances[name].mean(1.0), 0.0)
        for name in missing
    ]
    unjudged = sorted(
        {name for scores in (baseline, candidate) for name, one in scores.instances.items() if one.unjudged}
    )
    drop = -average_difference(pairs) + 0.0
    chance = _chance(pairs, drop, _attempts(baseline, candidate))
    failed = [name for name in must_pass if not _passed(candidate, name)]
    reasons = []
    significant = chance < alpha
    smallest = _smallest_drop(pairs, alpha, _attempts(baseline, candidate))
    if 100 * drop > max_drop + 1e-9 and significant:
        reasons.append(
            f"AVG fell by {100 * drop:.2f} points (allowed: {max_drop:g}); chance alone does so in "
            f"{100 * chance:.2g} % of unchanged candidates (limit: {100 * alpha:g} %)"
        )
    elif 100 * drop > max_drop + 1e-9 and smallest is None:
        reasons.append(
            f"AVG fell by {100 * drop:.2f} points, and {len(pairs)} instances are too few to tell it from chance: "
            "take more instances or more attempts"
        )
    if missing:
        reasons.append(
            f"{len(missing)} instances of the baseline are missing in the candidate: {_some(missing)}"
        )
    if in_candidate := [n for n in unjudged if n in candidate.instances and candidate.instances[n].unjudged]:
        reasons.append(
            f"{len(in_candidate)} instances of the candidate ended in an infrastructure error "
            f"({_some(in_candidate)}): run the same eval command again, it tries those anew"
        )
    if failed:
        reasons.append(f"{len(failed)} instances of --must-pass are not solved: {_some(failed)}")
    return Gate(
        green=not reasons,
        reasons=tuple(reasons),
        drop=100 * drop,
        chance=chance,
        smallest_drop=smallest,
        max_drop=max_drop,
        alpha=alpha,
        pairs=tuple(pairs),
        missing=tuple(missing),
        unjudged=tuple(unjudged),
        must_pass_failed=tuple(failed),
        must_pass=tuple(must_pass),
        notes=tuple(dataset_notes(baseline, candidate)),
    )


def document(gate: Gate, baseline: RunScores, candidate: RunScores) -> dict[str, Any]:
    """The gate as JSON: ``green``, ``reasons``, points, the instances by what became of them, families."""
    return {
        "green": gate.green,
        "reasons": list(gate.reasons),
        "baseline": baseline.run_id,
        "candidate": candidate.run_id,
        "drop": round(gate.drop, 4),
        "max_drop": gate.max_drop,
        "p": gate.chance,
        "alpha": gate.alpha,
        "smallest_drop": None if gate.smallest_drop is None else round(gate.smallest_drop, 2),
        "n": len(gate.pairs),
        "families": {
            family.value: {
                "n": len(group),
                "baseline": round(100 * sum(p.a for p in group) / len(group), 4),
                "candidate": round(100 * sum(p.b for p in group) / len(group), 4),
            }
            for family, group in by_family(gate.pairs).items()
        },
        "regressed": [p.instance_id for p in gate.pairs if p.difference < 0],
        "improved": [p.instance_id for p in gate.pairs if p.difference > 0],
        "missing": list(gate.missing),
        "unjudged": list(gate.unjudged),
        "must_pass": list(gate.must_pass),
        "must_pass_failed": list(gate.must_pass_failed),
        "notes": list(gate.notes),
    }


def _chance(pairs: Sequence[Pair], drop: float, attempts: tuple[int, int]) -> float:
    if drop <= 0:
        return 1.0
    if len(pairs) < FEW:
        return chance_for_noisiest(drop, weights(pairs), attempts)
    return chance_of_drop([pair.difference for pair in pairs], weights(pairs))


def _smallest_drop(pairs: Sequence[Pair], alpha: float, attempts: tuple[int, int]) -> float | None:
    """Points of AVG that would be told from chance: in 8 of 10 cases, at the noise that the two runs show or the
    usual one; of a handful of instances the smallest that can be told at all.
    """
    if len(pairs) < FEW:
        shares = weights(pairs)
        steps = sorted({round(sum(shares[:k]), 12) for k in range(1, len(shares) + 1)})
        told = (drop for drop in steps if chance_for_noisiest(drop, shares, attempts) < alpha)
        return next((100 * drop for drop in told), None)
    variance = 0.0
    groups = by_family(pairs)
    for group in groups.values():
        seen = sum(pair.difference**2 for pair in group) / len(group)
        usual = _USUAL_CHANGE * (0.5 if group[0].family is Family.DOC2REPO else 1.0) * 2 / sum(attempts) * 1.0
        variance += max(seen, usual) / (len(groups) ** 2 * len(group))
    normal = NormalDist()
    drop = 100 * (normal.inv_cdf(1 - alpha) + normal.inv_cdf(POWER)) * math.sqrt(variance)
    return drop if drop <= 100 else None


def _attempts(a: RunScores, b: RunScores) -> tuple[int, int]:
    """Attempts an instance in each run: the fewest that any instance has, at least 1."""
    first, second = (
        min(len(one.scores) + one.unjudged for one in scores.instances.values()) for scores in (a, b)
    )
    return max(1, first), max(1, second)


def _passed(scores: RunScores, name: str) -> bool:
    judged = scores.instances.get(name)
    return judged is not None and not judged.unjudged and min(judged.scores) >= 1.0


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")

"""Paired tests of a difference that do not depend on a distribution: which signs could the differences have had?

If nothing changed, an instance's two scores could stand the other way round just as well, so every combination of
signs of the differences is equally likely (Fisher's randomisation test, paired). Where a handful of instances cannot
reach a level of 5 % that way, the chance is bounded by the noisiest agent there can be instead: one that solves every
instance every other time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import product
from math import comb

FEW = 8
"""Pairs below which the noisiest agent is the null hypothesis. Fixed beforehand, so that no test is picked by its
result."""
_EXACT = 1 << 16  # combinations that are counted out; beyond them a sample of `_DRAWS`
_DRAWS = 20_000
_SEED = 20260303
_SLACK = 1e-9


def chance_of_drop(differences: Sequence[float], weights: Sequence[float]) -> float:
    """One-sided p: the chance, if nothing changed, that the weighted sum of differences falls as low or lower."""
    observed = sum(w * d for w, d in zip(weights, differences, strict=True))
    groups = Counter(abs(w * d) for w, d in zip(weights, differences, strict=True) if d)
    return _signs(groups, observed)


def chance_of_difference(differences: Sequence[float], weights: Sequence[float]) -> float:
    """Two-sided p of the same test."""
    down = chance_of_drop(differences, weights)
    up = chance_of_drop([-d for d in differences], weights)
    return min(1.0, 2 * min(down, up))


def chance_for_noisiest(drop: float, weights: Sequence[float], attempts: tuple[int, int]) -> float:
    """The chance that a weighted drop of ``drop`` or more comes about between two runs, with ``attempts`` each
    per instance, of an agent that solves every instance every other time.
    """
    one = _difference_of_means(*attempts)
    total: dict[float, float] = {0.0: 1.0}
    for weight in weights:
        summed: dict[float, float] = {}
        for (at, p), (step, q) in product(total.items(), one.items()):
            key = round(at + weight * step, 12)
            summed[key] = summed.get(key, 0.0) + p * q
        total = summed
    return sum(p for at, p in total.items() if at <= -drop + _SLACK)


def _difference_of_means(a: int, b: int) -> dict[float, float]:
    """The distribution of the difference of two means of fair coins."""
    found: dict[float, float] = {}
    for i, j in product(range(a + 1), range(b + 1)):
        step = round(j / b - i / a, 12)
        found[step] = found.get(step, 0.0) + comb(a, i) * comb(b, j) / 2 ** (a + b)
    return found


def _signs(groups: Counter[float], observed: float) -> float:
    """The share of sign combinations whose sum is at most ``observed``; equal sizes are counted together."""
    combinations = 1
    for count in groups.values():
        combinations *= count + 1
    if combinations <= _EXACT:
        total = 0.0
        for negatives in product(*(range(count + 1) for count in groups.values())):
            value, chance = 0.0, 1.0
            for (size, count), k in zip(groups.items(), negatives, strict=True):
                value += size * (count - 2 * k)
                chance *= comb(count, k) / 2**count
            if value <= observed + _SLACK:
                total += chance
        return min(1.0, total)
    draw = random.Random(_SEED).getrandbits
    items = list(groups.items())
    hits = sum(
        sum(size * (count - 2 * draw(count).bit_count()) for size, count in items) <= observed + _SLACK
        for _ in range(_DRAWS)
    )
    return (hits + 1) / (_DRAWS + 1)

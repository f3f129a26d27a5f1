"""Finds the tests that mind what real machines vary, and says which of it: order, hash seed, date, time zone, locale,
processors, network.

Each is varied by itself, on the reference change. A test that fails then fails again under the very same variation, or
it is just flaky. Deliberate: the clock is set inside the test process, as Python code sees it, so no image needs a tool
for it; the same machinery with the right time must pass, or it is to blame itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from beyondswe.construction.ways import passed
from beyondswe.scoring.types import TestRun, Variation

YEAR = 366 * 86_400
ORDER, HASH_SEED, DATE, ZONE, LOCALE, CPUS, NETWORK = (
    "order",
    "hash_seed",
    "date",
    "time_zone",
    "locale",
    "cpus",
    "network",
)
_PLAIN = {"LC_ALL": "C", "LANG": "C", "LANGUAGE": "", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
_VARIED: tuple[tuple[str, tuple[Variation, ...]], ...] = (
    (ORDER, (Variation(inside={"order": "reversed"}), Variation(inside={"order": 1}))),
    (HASH_SEED, tuple(Variation({"PYTHONHASHSEED": str(seed)}) for seed in range(6))),
    (DATE, (Variation(inside={"shift": YEAR}),)),
    # Ahead of and behind everybody: whatever the hour, one of them has another day.
    (ZONE, (Variation({"TZ": "<+14>-14"}), Variation({"TZ": "<-12>12"}))),
    (LOCALE, (Variation(_PLAIN), Variation({"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}))),
    (CPUS, (Variation(inside={"cpus": 1}),)),
)
_SAME_TIME = Variation(inside={"shift": 0})


@dataclass(frozen=True)
class Minded:
    """What was varied, and the causes by test."""

    varied: tuple[str, ...]
    tests: dict[str, tuple[str, ...]]
    runs: int

    def to_record(self) -> dict[str, object]:
        return {
            "varied": list(self.varied),
            "runs": self.runs,
            "tests": {name: list(causes) for name, causes in sorted(self.tests.items())},
        }


Runs = Callable[[Sequence[Variation]], Sequence[TestRun]]
"""Runs the expected and the flaky tests with the reference change under each variation."""


def find_minded(steady: Collection[str], flaky: Collection[str], *, online: bool, runs: Runs) -> Minded:
    """The causes of each test; ``steady`` ones passed in every run, ``flaky`` ones did not."""
    varied = list(_VARIED)
    if online:
        varied.append((NETWORK, (Variation(network="none"),)))
    flat = [(cause, variation) for cause, some in varied for variation in some]
    first = list(runs([variation for _, variation in flat]))
    doubtful = [
        at
        for at, (cause, _) in enumerate(flat)
        if set(steady) - passed(first[at]) or (flaky and cause == HASH_SEED)
    ]
    again = dict(zip(doubtful, runs([flat[at][1] for at in doubtful]), strict=True)) if doubtful else {}
    causes: dict[str, dict[str, None]] = {}
    for at in doubtful:
        for name in set(steady).difference(passed(first[at]), passed(again[at])):
            causes.setdefault(name, {})[flat[at][0]] = None
    if any(DATE in found for found in causes.values()):
        (right,) = runs([_SAME_TIME])
        for name in set(steady) - passed(right):
            causes.get(name, {}).pop(DATE, None)
    seeds = [at for at, (cause, _) in enumerate(flat) if cause == HASH_SEED]
    for name in _settled(flaky, [(first[at], again[at]) for at in seeds if at in again]):
        causes.setdefault(name, {})[HASH_SEED] = None
    order = [cause for cause, _ in varied]
    return Minded(
        varied=tuple(order),
        tests={
            name: tuple(sorted(found, key=order.index)) for name, found in sorted(causes.items()) if found
        },
        runs=len(first) + len(again),
    )


def _settled(flaky: Iterable[str], pairs: Sequence[tuple[TestRun, TestRun]]) -> list[str]:
    """Flaky tests of which each seed settles the result, and not all alike."""
    found = []
    for name in flaky:
        results = [(name in passed(one), name in passed(other)) for one, other in pairs]
        if results and all(one == other for one, other in results) and len(set(results)) > 1:
            found.append(name)
    return found


def in_words(minded: Minded) -> str:
    """For people: which tests, by cause."""
    by_cause: dict[str, list[str]] = {}
    for name, causes in minded.tests.items():
        for cause in causes:
            by_cause.setdefault(cause, []).append(name)
    return "; ".join(
        f"{cause.replace('_', ' ')} turns {', '.join(names[:3])}"
        + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        for cause, names in by_cause.items()
    )

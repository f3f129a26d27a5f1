"""What the benchmarks share: timing in turn, and a small table on standard output."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def in_turn(rounds: int, candidates: Mapping[str, Callable[[], float | None]]) -> dict[str, list[float]]:
    """Seconds of each candidate, measured A B C A B C …, so that a drift of the machine falls on all alike.

    A candidate that returns a number is measured by that number, another one by the clock.
    One warm-up round is not counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(rounds + 1):
        for name, call in candidates.items():
            started = time.perf_counter()
            own = call()
            taken = time.perf_counter() - started if own is None else own
            if turn:
                seconds[name].append(taken)
    return seconds


def table(seconds: Mapping[str, list[float]], against: str) -> None:
    """Print minimum, median, maximum and the median of the pairwise ratios to the candidate ``against``."""
    print(f"{'':38}{'min':>9}{'median':>9}{'max':>9}{'ratio':>9}")
    for name, taken in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(taken, seconds[against], strict=True))
        print(f"{name:38}{min(taken):9.3f}{statistics.median(taken):9.3f}{max(taken):9.3f}{ratio:9.2f}")

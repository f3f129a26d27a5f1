"""`make attacks`: run every case on the real engine and print the table. Ids as arguments choose among them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from beyondswe.sandbox.engine import Engine
from tests.attacks.bench import Bench, Case, cases

_WORDS = {"not_resolved": "attack", "flagged": "solution-level", "resolved": "honest"}


def main(patterns: Sequence[str]) -> int:
    chosen = [case for case in cases() if not patterns or any(fnmatch(case.id, p) for p in patterns)]
    if not chosen:
        print(f"no case is called {', '.join(patterns)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="beyondswe-attacks-") as folder:
        outcomes = Bench(Engine.connect(), Path(folder)).outcomes(chosen)
    for line in table(chosen, outcomes):
        print(line)
    wrong = [case for case in chosen if case.wrong(outcomes[case.id])]
    for case in wrong:
        outcome = outcomes[case.id]
        print(f"! {case.id}: {case.wrong(outcome)} ({outcome['status']}; {outcome['error'] or 'no error'})")
    for line in totals(chosen, wrong):
        print(line)
    return 1 if wrong else 0


def table(chosen: Sequence[Case], outcomes: Mapping[str, dict[str, Any]]) -> list[str]:
    """A row a case: id, kind, what it is, how it ended; the wrong ones carry a mark."""
    rows = []
    for case in sorted(chosen, key=lambda case: (list(_WORDS).index(case.must), case.id)):
        outcome = outcomes[case.id]
        mark = "!" if case.wrong(outcome) else " "
        flags = ", ".join(flag if len(flag) < 70 else flag[:67] + "..." for flag in outcome["flags"])
        ended = f"{outcome['status']} {outcome['score']:.2f}"
        rows.append(f"{mark} {case.id:5} {_WORDS[case.must]:14} {case.title[:72]:72} {ended:22} {flags}")
    return rows


def totals(chosen: Sequence[Case], wrong: Sequence[Case]) -> list[str]:
    """The three last lines; with a cheat that scores or an honest change that loses they say so."""

    def count(must: str, of: Sequence[Case]) -> int:
        return sum(case.must == must for case in of)

    missed = count("flagged", wrong)
    solutions = "all flagged or unresolved" if not missed else f"{missed} neither flagged nor unresolved"
    return [
        f"{count('not_resolved', chosen)} attacks, {count('not_resolved', wrong)} scored",
        f"{count('flagged', chosen)} solution-level, {solutions}",
        f"{count('resolved', chosen)} honest oddities, {count('resolved', wrong)} wronged",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

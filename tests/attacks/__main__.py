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
    for line in totals(chosen, outcomes):
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


def totals(chosen: Sequence[Case], outcomes: Mapping[str, dict[str, Any]]) -> list[str]:
    """The three last lines: how many of each, and how many of them a cheat or a scorer got away with."""
    attacks, solutions, honest = ([case for case in chosen if case.must == must] for must in _WORDS)
    scored = sum(case.scored(outcomes[case.id]) for case in attacks)
    missed = sum(case.wrong(outcomes[case.id]) == "it scored" for case in solutions)
    wronged = sum(bool(case.wrong(outcomes[case.id])) for case in honest)
    return [
        f"{len(attacks)} attacks, {scored} scored",
        f"{len(solutions)} solution-level, "
        + (f"{missed} neither flagged nor unresolved" if missed else "all flagged or unresolved"),
        f"{len(honest)} honest oddities, {wronged} wronged",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

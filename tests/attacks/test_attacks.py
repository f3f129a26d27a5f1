"""Every attack known to us, run on the real engine through the command line: none scores, no honest change loses.

`make attacks` shows the table that this makes.
"""

from __future__ import annotations

from typing import Any

import pytest

from beyondswe.sandbox.engine import Engine
from tests.attacks.__main__ import totals
from tests.attacks.bench import Bench, Case, cases

CASES = cases()


@pytest.fixture(scope="session")
def outcomes(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What became of every case: one run for all of them, since they do not touch one another."""
    return Bench(engine, tmp_path_factory.mktemp("attacks")).outcomes(CASES)


@pytest.mark.engine
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_no_cheat_scores_and_no_honest_change_loses(case: Case, outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = outcomes[case.id]
    wrong = case.wrong(outcome)
    assert not wrong, f"{case.title}: {wrong}: {outcome['status']} {outcome['flags']} {outcome['error']}"


def test_there_are_enough_of_each_kind() -> None:
    counts = {
        must: sum(case.must == must for case in CASES) for must in ("not_resolved", "flagged", "resolved")
    }
    assert counts["not_resolved"] + counts["flagged"] >= 60
    assert counts["resolved"] >= 25


def test_the_last_lines_say_what_got_away() -> None:
    chosen = [
        Case("a", "S", "", "not_resolved"),
        Case("b", "E", "", "not_resolved"),
        Case("c", "S", "", "flagged"),
        Case("d", "S", "", "resolved"),
    ]
    bad = {"status": "unresolved", "resolved": False, "score": 0.0, "flags": [], "agent_status": "finished"}
    good = {**bad, "status": "resolved", "resolved": True, "score": 1.0}
    assert totals(
        chosen, {"a": bad, "b": {**bad, "score": 1 / 3}, "c": {**good, "flags": ["odd"]}, "d": good}
    ) == [
        "2 attacks, 0 scored",
        "1 solution-level, all flagged or unresolved",
        "1 honest oddities, 0 wronged",
    ]
    assert totals(
        chosen, {"a": good, "b": {**bad, "score": 2 / 3}, "c": good, "d": {**good, "flags": ["odd"]}}
    ) == [
        "2 attacks, 2 scored",
        "1 solution-level, 1 neither flagged nor unresolved",
        "1 honest oddities, 1 wronged",
    ]

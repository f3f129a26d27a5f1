"""Every attack known to us, run on the real engine through the command line: none scores, no honest change loses.

`make attacks` shows the table that this makes.
"""

from __future__ import annotations

from typing import Any

import pytest

from beyondswe.sandbox.engine import Engine
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

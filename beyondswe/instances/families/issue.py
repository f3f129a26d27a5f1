"""What issue families share: a problem statement, a base commit, tests that fail before and pass after."""

from __future__ import annotations

from typing import Any

from beyondswe.instances import fields
from beyondswe.instances.families import common
from beyondswe.instances.row import Row


def load(row: Row, require_tests: bool) -> dict[str, Any]:
    given = common.load(row)
    given["base_commit"] = row.read(fields.commit, *common.COMMIT_NAMES, default="")
    row.require(
        given["base_commit"],
        *common.COMMIT_NAMES,
        wrong="missing base commit",
        expected=f"a commit id in one of {', '.join(common.COMMIT_NAMES)}",
    )
    row.require(
        given["problem_statement"],
        "problem_statement",
        wrong="empty problem statement",
        expected="the text that the agent gets",
    )
    if require_tests:
        row.require(
            given["fail_to_pass"],
            "FAIL_TO_PASS",
            wrong="no fail-to-pass test; without one nothing tells a solution from no change",
            expected="at least one test id",
        )
    return given

"""Doc2Repo: a whole repository from a specification, scored by the share of a suite's tests that pass."""

from __future__ import annotations

from typing import Any

from beyondswe.instances.families import common
from beyondswe.instances.row import Row


def load(row: Row, require_tests: bool) -> dict[str, Any]:
    given = common.load(row)
    row.require(
        given["specification"],
        "REPO_DOCUMENT_CONTENT",
        wrong="empty specification",
        expected="the text that becomes repo_document.md",
    )
    row.require(
        given["test_suite"], "test_suite", wrong="no test suite", expected="the name of the suite's zip"
    )
    if require_tests:
        row.require(
            given["test_suite_num"],
            "test_suite_num",
            wrong="no number of expected tests",
            expected="a whole number above 0",
        )
    return given

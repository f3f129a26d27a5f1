"""Rows to start from: one good row of each kind, to be bent by the tests, and files of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

Row = dict[str, Any]

PATCH = (
    "diff --git a/pkg/mod.py b/pkg/mod.py\n--- a/pkg/mod.py\n+++ b/pkg/mod.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
)


@pytest.fixture
def issue() -> Callable[..., Row]:
    """A good CrossRepo row; keywords change its fields."""

    def make(number: int = 1, **fields: Any) -> Row:
        return {
            "instance_id": f"owner_repo_pr{number}",
            "task": "CrossRepo",
            "repo": "owner/repo",
            "base_commit": "0123456789abcdef0123456789abcdef01234567",
            "workdir": "/workspace/repo",
            "image": f"example.org/images/owner_repo:pr{number}",
            "language": "python",
            "problem_statement": "Addition is off by one.",
            "patch": PATCH,
            "FAIL_TO_PASS": ["tests/test_mod.py::test_add"],
            "PASS_TO_PASS": ["tests/test_mod.py::test_sub[a/../b]"],
            "f2p_patch": PATCH.replace("mod.py", "test_mod.py"),
        } | fields

    return make


@pytest.fixture
def doc2repo() -> Callable[..., Row]:
    """A good Doc2Repo row; keywords change its fields."""

    def make(number: int = 1, **fields: Any) -> Row:
        return {
            "instance_id": f"owner_book{number}",
            "task": "Doc2Repo",
            "repo": f"owner/book{number}",
            "image": "example.org/images/python:3.11",
            "REPO_DOCUMENT_CONTENT": "# target_repo\nAdds numbers.",
            "test_suite": f"book{number}.zip",
            "test_suite_num": 12,
        } | fields

    return make


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Iterable[Row]], str]:
    """Write rows as JSONL; gives the path."""

    def write(rows: Iterable[Row]) -> str:
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return str(path)

    return write

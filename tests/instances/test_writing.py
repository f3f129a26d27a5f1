"""Rows out and in again: nothing is lost, and a file is whole or not there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from beyondswe.instances import Family, Instance, load_dataset, to_row, write_instances

Row = dict[str, Any]
Make = Callable[..., Row]

FULL = {
    "workdir": "/src",
    "patch": "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
    "pre_commands": ("echo 'é'\n", "true"),
    "distributions": ("Book", "book-extra"),
    "aliases": ("bk",),
    "docs_hosts": ("book.example.org",),
    "index_date": "2025-11-30",
    "score_network": "open",
    "verification": {"runs": 5, "flaky": {}},
    "extra": {"difficulty": 3, "hints": [None, {"a": "\u2028"}], "head": {"sha": "f" * 40}},
}


def instances() -> list[Instance]:
    return [
        Instance(
            instance_id="o_r_pr1",
            family=Family.DEPMIGRATE,
            repo="o/r",
            base_commit="a" * 40,
            image="r@sha256:" + "0" * 64,
            problem_statement="Line one\r\nline two — “quoted”\n",
            fail_to_pass=("t.py::test[a b]", "t.py::test['\\n']"),
            pass_to_pass=("t.py::other",),
            f2p_patch="diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
            f2p_script="import pytest\n",
            **FULL,
        ),
        Instance(
            instance_id="o_book",
            family=Family.DOC2REPO,
            image="book:1",
            specification="# target_repo\n",
            test_suite="book.zip",
            test_suite_num=3,
            reference_archive="book.tar",
            **FULL,
        ),
        Instance(
            instance_id="$(touch x); rm -rf ~",
            family=Family.CROSSREPO,
            base_commit="b" * 7,
            image="x",
            problem_statement="p",
            fail_to_pass=("[",),
            verification={},
        ),
    ]


def test_what_is_written_is_read_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    write_instances(path, instances())
    back = load_dataset(str(path)).instances
    assert [one.model_copy(update={"test_suite_dir": None}) for one in back] == instances()
    assert [to_row(one) for one in back] == [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_have_the_published_names(tmp_path: Path) -> None:
    issue, book, _ = map(to_row, instances())
    assert {
        "instance_id",
        "task",
        "base_commit",
        "FAIL_TO_PASS",
        "PASS_TO_PASS",
        "f2p_script",
    } <= issue.keys()
    assert {"REPO_DOCUMENT_CONTENT", "test_suite", "test_suite_num"} <= book.keys()
    assert issue["task"] == "DepMigrate"
    assert issue["pre_commands"] == {"execute_command": {"commands": ["echo 'é'\n", "true"]}}
    assert issue["difficulty"] == 3


def test_rows_of_another_hand_keep_what_they_said(tmp_path: Path, issue: Make) -> None:
    row = issue(parent_commit="c" * 40, image_url="other:1", created_at="2025-01-01", hints_text="h")
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(json.dumps(row))
    write_instances(second, load_dataset(str(first)).instances)
    assert row.items() <= json.loads(second.read_text()).items()
    assert load_dataset(str(first)).instances == load_dataset(str(second)).instances


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_instances(path, instances()[:1])
    before = path.read_bytes()

    def breaks() -> Iterator[Instance]:
        yield from instances()
        raise RuntimeError("the maker of instances broke")

    with pytest.raises(RuntimeError):
        write_instances(path, breaks())
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]

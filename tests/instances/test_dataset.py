"""A dataset as a whole: its hash, its bad rows among the good, its size."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beyondswe.errors import DataError
from beyondswe.instances import load_dataset

Row = dict[str, Any]
Make = Callable[..., Row]
Written = Callable[[list[Row]], str]


def test_the_hash_is_of_what_is_asked_and_not_of_how_it_is_stored(
    tmp_path: Path, issue: Make, doc2repo: Make, written: Written
) -> None:
    rows = [issue(1), issue(2), doc2repo(1)]
    original = load_dataset(written(rows)).hash
    respelled = [{"note": "kept", **row, "task": row["task"].upper()} for row in reversed(rows)]
    (tmp_path / "other.json").write_text(json.dumps(respelled, indent=2))
    assert load_dataset(str(tmp_path / "other.json")).hash == original
    assert load_dataset(written(rows), instances=["owner_book1"]).hash == original
    assert load_dataset(written(rows), limit=1, seed=5).hash == original
    for changed in ([issue(1), issue(2)], [issue(1, PASS_TO_PASS=[]), *rows[1:]], [*rows, issue(3)]):
        assert load_dataset(written(changed)).hash != original
    assert len(original) == 64


def test_the_hash_covers_bad_rows_and_suites(
    tmp_path: Path, issue: Make, doc2repo: Make, written: Written
) -> None:
    hashes = {load_dataset(written([doc2repo()])).hash}
    for content in (b"PK one", b"PK two"):
        (tmp_path / "book1.zip").write_bytes(content)
        hashes.add(load_dataset(written([doc2repo()])).hash)
    for image in ("", "not an image"):
        hashes.add(load_dataset(written([doc2repo(), issue(image=image)]), skip_bad=True).hash)
    assert len(hashes) == 5


def test_one_bad_row_does_not_hide_the_others(issue: Make, doc2repo: Make, written: Written) -> None:
    rows = [issue(number, patch="", f2p_patch="") for number in range(450)]
    rows += [doc2repo(number) for number in range(50)]
    rows[271]["FAIL_TO_PASS"] = "[not a list"
    spec = written(rows)
    found = load_dataset(spec, skip_bad=True)
    assert (found.rows, len(found.instances)) == (500, 499)
    (bad,) = found.bad
    assert (bad.line, bad.instance_id, bad.field, bad.found) == (
        272,
        "owner_repo_pr271",
        "FAIL_TO_PASS",
        '"[not a list"',
    )
    with pytest.raises(
        DataError, match=r"1 of 500 selected rows are bad.*\n.*rows\.jsonl:272: owner_repo_pr271"
    ):
        load_dataset(spec)


def test_every_bad_row_is_in_the_error(issue: Make, written: Written) -> None:
    rows = [issue(1, image=""), issue(2), issue(3, patch="no", base_commit="main"), issue(2)]
    with pytest.raises(DataError) as error:
        load_dataset(written(rows))
    assert "3 of 4 selected rows are bad" in str(error.value)
    assert len(str(error.value).splitlines()) == 1 + 4
    for place in ("rows.jsonl:1", "rows.jsonl:3", "rows.jsonl:4"):
        assert place in str(error.value)


def test_text_of_a_row_that_a_terminal_would_obey_is_escaped(issue: Make, written: Written) -> None:
    rows = [issue(instance_id="a\x1b[2Jb"), issue(2, task="\x1b]0;title\x07")]
    with pytest.raises(DataError) as error:
        load_dataset(written(rows))
    assert "\x1b" not in str(error.value)
    assert "\\x1b[2J" in str(error.value)


def test_rows_that_nobody_asked_for_are_not_kept_in_memory(issue: Make, written: Written) -> None:
    text = "x" * (1 << 20)
    spec = written([issue(number, problem_statement=text) for number in range(40)])
    tracemalloc.start()
    found = load_dataset(spec, instances=["owner_repo_pr7"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.instances) == 1
    assert peak < 12 << 20

"""How the fields of a row are read: names, spellings, forms; what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beyondswe.errors import DataError, UsageError
from beyondswe.instances import Family, Instance, load_dataset

Row = dict[str, Any]
Make = Callable[..., Row]
Written = Callable[[list[Row]], str]


def one(spec: str, **options: Any) -> Instance:
    (instance,) = load_dataset(spec, **options).instances
    return instance


@pytest.mark.parametrize("spelling", ["CrossRepo", "crossrepo", "cross-repo", "CROSS_REPO", "Cross Repo"])
def test_a_family_may_be_spelled_in_any_way(spelling: str, issue: Make, written: Written) -> None:
    assert one(written([issue(task=spelling)])).family is Family.CROSSREPO


def test_the_base_commit_comes_from_the_first_of_its_names(issue: Make, written: Written) -> None:
    names: Row = {
        "base_commit": "a" * 40,
        "pre_agent_commit_id": "b" * 40,
        "parent_commit": "c" * 40,
        "base": {"sha": "d" * 40, "ref": "main"},
    }
    for first, expected in zip(range(4), "abcd", strict=True):
        given = dict(list(names.items())[first:])
        instance = one(written([issue(base_commit="") | given]))
        assert instance.base_commit == expected * 40
        assert instance.extra.get("base") == names["base"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["t.py::a", "t.py::b"], ("t.py::a", "t.py::b")),
        ('["t.py::a", "t.py::b"]', ("t.py::a", "t.py::b")),
        ("['t.py::a', \"t.py::it's\"]", ("t.py::a", "t.py::it's")),
        ("t.py::a", ("t.py::a",)),
        (["t.py::a", "t.py::a"], ("t.py::a",)),
        (["test_x (app.Tests)"], ("test_x (app.Tests)",)),
        (["t.py::a[../../etc]", "t.py::a[/x]"], ("t.py::a[../../etc]", "t.py::a[/x]")),
        (["t.py::a[$(rm -rf /); `id`]"], ("t.py::a[$(rm -rf /); `id`]",)),
    ],
)
def test_a_test_list_may_be_a_list_or_written_down(
    given: object, expected: tuple[str, ...], issue: Make, written: Written
) -> None:
    assert one(written([issue(FAIL_TO_PASS=given)])).fail_to_pass == expected


@pytest.mark.parametrize("given", ["", None, [], "[]", "  "])
def test_no_pass_to_pass_test_is_fine(given: object, issue: Make, written: Written) -> None:
    assert one(written([issue(PASS_TO_PASS=given)])).pass_to_pass == ()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("pip list\npip check", ("pip list\npip check",)),
        ({"execute_command": {"commands": ["a", "b"]}}, ("a", "b")),
        ('{"execute_command": {"commands": ["a", "b"]}}', ("a", "b")),
        ("{ echo one; echo two; }", ("{ echo one; echo two; }",)),
        ("", ()),
        (None, ()),
    ],
)
def test_set_up_commands_are_text_or_a_list_in_an_object(
    given: object, expected: tuple[str, ...], issue: Make, written: Written
) -> None:
    assert one(written([issue(pre_commands=given)])).pre_commands == expected


def test_image_url_and_fix_patch_are_other_names(issue: Make, written: Written) -> None:
    row = issue()
    row["image_url"], row["fix_patch"] = row.pop("image"), row.pop("patch")
    instance = one(written([row]))
    assert instance.image == row["image_url"]
    assert instance.patch == row["fix_patch"]
    assert instance.extra == {}


def test_a_workdir_is_workspace_unless_it_is_said(issue: Make, written: Written) -> None:
    assert one(written([issue(workdir=None)])).workdir == "/workspace"
    assert one(written([issue(workdir="/src/repo/")])).workdir == "/src/repo"


@pytest.mark.parametrize("count", [12, 12.0, "12"])
def test_a_count_of_tests_survives_tables(count: object, doc2repo: Make, written: Written) -> None:
    assert one(written([doc2repo(test_suite_num=count)])).expected_tests == 12


def test_an_endless_number_is_no_count(tmp_path: Path, doc2repo: Make) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(doc2repo(test_suite_num="?")).replace('"?"', "1e999"))
    with pytest.raises(DataError, match="test_suite_num: not a number of tests"):
        load_dataset(str(path))


def test_an_unknown_field_is_kept_as_it_came(issue: Make, written: Written) -> None:
    instance = one(written([issue(difficulty={"level": [1, None]}, hints_text="look there")]))
    assert instance.extra == {"difficulty": {"level": [1, None]}, "hints_text": "look there"}


def test_swebench_rows_need_a_family_and_keep_their_own_fields(issue: Make, written: Written) -> None:
    row = issue(environment_setup_commit="f" * 40, version="4.2", hints_text="", FAIL_TO_PASS='["t.py::a"]')
    row["test_patch"] = row.pop("f2p_patch")
    del row["task"]
    with pytest.raises(DataError, match=r"rows.jsonl:1: owner_repo_pr1: task: .*--as-family"):
        load_dataset(written([row]))
    instance = one(written([row]), as_family="dep migrate")
    assert instance.family is Family.DEPMIGRATE
    assert instance.f2p_patch == row["test_patch"]
    assert instance.extra == {"environment_setup_commit": "f" * 40, "version": "4.2", "hints_text": ""}


def test_as_family_does_not_overrule_a_row(issue: Make, written: Written) -> None:
    assert one(written([issue()]), as_family="DomainFix").family is Family.CROSSREPO
    with pytest.raises(UsageError, match="--as-family: unknown family 'Bug'; allowed: CrossRepo, DomainFix"):
        load_dataset(written([issue()]), as_family="Bug")


def test_candidates_may_have_no_tests_yet(issue: Make, doc2repo: Make, written: Written) -> None:
    spec = written([issue(FAIL_TO_PASS=[], PASS_TO_PASS=[]), doc2repo(test_suite_num=0)])
    assert len(load_dataset(spec, require_tests=False).instances) == 2
    with pytest.raises(DataError, match="2 of 2 selected rows are bad"):
        load_dataset(spec)


def test_the_zip_of_a_suite_lies_beside_the_dataset_or_where_it_was_said(
    tmp_path: Path, doc2repo: Make, written: Written
) -> None:
    spec = written([doc2repo()])
    published, elsewhere = tmp_path / "doc2repo_test_suite", tmp_path / "elsewhere"
    assert one(spec).test_suite_dir == tmp_path
    for folder in (published, elsewhere):
        folder.mkdir()
        (folder / "book1.zip").write_bytes(b"PK")
    assert one(spec).test_suite_dir == published
    assert one(spec, test_suite_dir=elsewhere).test_suite_dir == elsewhere
    with pytest.raises(UsageError, match=r"--test-suite-dir .*nowhere: there is no such folder"):
        load_dataset(spec, test_suite_dir=tmp_path / "nowhere")

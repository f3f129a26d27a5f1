"""Rows and predictions that nobody sends in good faith, through the command line on a real engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import GOOD, Cli

pytestmark = pytest.mark.engine

ODD = (
    "$(touch ran)",
    "a;touch ran;b",
    "`touch ran`",
    "a b 'ran' \"|&>ran",
    "-rf",
    "--help",
    "%2e%2e%2fran",
    "*",
)
NO_NAMES = ("../../ran", "/tmp/ran", ".", "..", "ran\\..\\x", "a\nb", "a\0b", "x" * 300)


def written(folder: Path) -> set[str]:
    """The names in a folder and above the runs: where something would be that was written outside."""
    return {path.name for path in folder.iterdir()} | {path.name for path in folder.parent.iterdir()}


def test_ids_are_names_and_nothing_else(cli: Cli, dataset: Callable[..., str]) -> None:
    path = dataset(statements=dict.fromkeys(ODD, GOOD))
    before = written(cli.folder)
    done = cli.obey(path, "--run-id", "odd", "--workers", "2")
    assert done.code == 0, done.err
    assert done.json["avg"] == 100.0
    assert {row["instance_id"] for row in cli.outcomes("odd")} == set(ODD)
    assert written(cli.folder) - before <= {"runs", "obey.j2"}
    inside = {found.relative_to(cli.runs / "odd").parts[0] for found in (cli.runs / "odd").rglob("*")}
    assert len(list((cli.runs / "odd" / "attempts").iterdir())) == len(ODD)
    assert "ran" not in inside and not [found for found in cli.folder.rglob("*") if found.name == "ran"]


def test_ids_that_are_no_names_are_refused_before_anything_starts(
    cli: Cli, dataset: Callable[..., str]
) -> None:
    done = cli.eval("--dataset", dataset(*NO_NAMES), "--agent", "nop")
    assert done.code == 2
    assert f"{len(NO_NAMES)} of {len(NO_NAMES)} selected rows are bad" in done.err
    assert not cli.runs.exists()


def test_ids_that_differ_only_in_case_are_refused_before_anything_starts(
    cli: Cli, dataset: Callable[..., str]
) -> None:
    done = cli.eval("--dataset", dataset("One", "one"), "--agent", "nop")
    assert done.code == 2
    assert "differ only in case" in done.err
    assert not cli.runs.exists()


def test_commands_and_paths_of_a_row_run_in_the_sandbox_alone(cli: Cli, dataset: Callable[..., str]) -> None:
    path = dataset(statements={"one": GOOD}, pre_commands="touch /tmp/beyondswe-ran-inside; echo $(id)")
    done = cli.obey(path, "--run-id", "pre")
    assert done.code == 0, done.err
    assert done.json["avg"] == 100.0
    assert not Path("/tmp/beyondswe-ran-inside").exists()


def test_a_bad_line_among_predictions_is_named_and_the_others_are_scored(
    cli: Cli, dataset: Callable[..., str]
) -> None:
    path = dataset("one", "two")
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    patch = rows[0]["patch"]
    good = json.dumps({"instance_id": "one", "model_name_or_path": "m", "model_patch": patch})
    outside = "--- /dev/null\n+++ b/../ran\n@@ -0,0 +1 @@\n+x\n"
    bad = json.dumps({"instance_id": "two", "model_name_or_path": "m", "model_patch": outside})
    predictions = cli.folder / "p.jsonl"
    predictions.write_text(f'{good}\n{{"instance_id": "two", \n{bad}\n')
    done = cli("score", "--json", "--dataset", path, "--predictions", str(predictions), "--run-id", "p")
    assert done.code in (0, 1), done.err
    assert "p.jsonl, line 2" in done.err
    statuses = {row["instance_id"]: row["status"] for row in cli.outcomes("p")}
    assert statuses == {"one": "resolved", "two": "patch_rejected"}
    assert not (cli.folder.parent / "ran").exists() and not (cli.folder / "ran").exists()


def test_predictions_of_two_gigabytes_with_one_endless_line(cli: Cli, dataset: Callable[..., str]) -> None:
    path = dataset("one")
    row = json.loads(Path(path).read_text().splitlines()[0])
    predictions = cli.folder / "p.jsonl"
    good = json.dumps({"instance_id": "one", "model_name_or_path": "m", "model_patch": row["patch"]})
    with predictions.open("wb") as file:
        file.seek(2 << 30)  # a line of zeros, which takes no room
        file.write(b"\n" + good.encode() + b"\n")
    done = cli("score", "--json", "--dataset", path, "--predictions", str(predictions), "--run-id", "p")
    assert done.code == 1, done.err
    assert "p.jsonl, line 1: longer than" in done.err
    assert [row["status"] for row in cli.outcomes("p")] == ["resolved"]


def test_names_of_variables_are_whole_in_a_narrow_list_of_agents(cli: Cli) -> None:
    done = cli("agents", "list", env={"COLUMNS": "80", "BEYONDSWE_CLAUDE_CODE": ""})
    last = "".join(line.split("│")[-2].strip() for line in done.err.splitlines() if line.count("│") > 2)
    assert done.code == 0 and "BEYONDSWE_CLAUDE_CODE=1" in last and "…" not in done.err

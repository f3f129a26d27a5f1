"""The numbers of a report, from run.json and results.jsonl alone."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from beyondswe.errors import DataError
from beyondswe.reports.matrix import make_matrix
from beyondswe.reports.report import average, bootstrap, make_report, wilson
from beyondswe.reports.table import cells, notes, show
from beyondswe.runs.folder import RunFolder


def outcome(
    instance_id: str, family: str = "CrossRepo", status: str = "resolved", **more: Any
) -> dict[str, Any]:
    resolved = more.pop("resolved", status == "resolved")
    return {
        "instance_id": instance_id,
        "family": family,
        "attempt": 1,
        "status": status,
        "resolved": resolved,
        "score": float(resolved),
        "pass_rate": float(resolved),
        **more,
    }


def report_of(
    folder: Path, rows: list[dict[str, Any]], run: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    document = {"run_id": folder.name, "dataset": {"name": "d"}, "agent": {"name": "a"}, **(run or {})}
    (folder / "run.json").write_text(json.dumps(document))
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return make_report(RunFolder(folder), **options)


def test_the_average_is_the_mean_of_the_family_scores() -> None:
    worked = average([48.50, 43.06, 47.19, 56.16])
    assert worked is not None
    assert f"{worked:.2f}" == "48.73"


def test_doc2repo_enters_the_average_with_its_pass_rate(tmp_path: Path) -> None:
    rows = [
        outcome("c1"),
        outcome("c2", status="unresolved"),
        outcome("d1", "DomainFix"),
        outcome("m1", "DepMigrate", status="unresolved"),
        outcome("r1", "Doc2Repo", status="unresolved", pass_rate=0.6),
    ]
    report = report_of(tmp_path / "run", rows)
    assert report["avg"] == pytest.approx((50 + 100 + 0 + 60) / 4)
    assert cells(make_matrix([report])[0]) == ["50.00", "100.00", "0.00", "60.00", "(0) / 0", "52.50"]


def test_an_interval_of_one_doc2repo_instance_says_nothing_and_is_not_given(tmp_path: Path) -> None:
    rows = [outcome("r1", "Doc2Repo"), outcome("c1")]
    families = report_of(tmp_path / "one", rows)["families"]
    assert families["Doc2Repo"]["interval"] is None and families["CrossRepo"]["interval"] is not None
    families = report_of(tmp_path / "two", [*rows, outcome("r2", "Doc2Repo")])["families"]
    assert families["Doc2Repo"]["interval"] == [100.0, 100.0]


def test_the_table_of_one_run_has_a_row_a_family_and_ends_with_the_average(tmp_path: Path) -> None:
    rows = [outcome("c1"), outcome("c2", status="unresolved"), outcome("r1", "Doc2Repo", pass_rate=0.95)]
    said = io.StringIO()
    show([report_of(tmp_path / ("run-" * 30), rows)], Console(file=said, width=80))
    lines = said.getvalue().splitlines()
    assert "run-" * 30 in lines
    cells = [line.split() for line in lines if line.strip()]
    assert ["CrossRepo", "2", "50.00", "9.45", "–", "90.55"] in cells
    assert ["Doc2Repo", "1", "95.00", "–", "(1)", "/", "0"] in cells
    assert cells[-1] == ["AVG", "72.50", "47.50", "–", "97.50"]
    assert "Doc2Repo: its rate is the pass rate" in said.getvalue()


def test_only_families_that_the_dataset_has_enter_the_average(tmp_path: Path) -> None:
    report = report_of(tmp_path / "run", [outcome("c1"), outcome("c2", status="unresolved")])
    assert list(report["families"]) == ["CrossRepo"]
    assert report["avg"] == 50.0


def test_attempts_of_an_instance_are_averaged_before_instances_are(tmp_path: Path) -> None:
    rows = [
        outcome("a", attempt=1),
        outcome("a", status="unresolved", attempt=2),
        outcome("a", status="unresolved", attempt=3),
        outcome("b", attempt=1),
    ]
    family = report_of(tmp_path / "run", rows)["families"]["CrossRepo"]
    assert family["rate"] == pytest.approx(100 * (1 / 3 + 1) / 2, abs=1e-3)
    assert (family["n"], family["attempts"], family["resolved"]) == (2, 4, 2)


def test_infrastructure_errors_count_as_zero_and_the_rate_without_them_stands_beside(tmp_path: Path) -> None:
    rows = [outcome("a"), outcome("b", status="unresolved"), outcome("c", status="infrastructure_error")]
    report = report_of(tmp_path / "run", rows)
    assert report["families"]["CrossRepo"]["rate"] == pytest.approx(100 / 3, abs=1e-3)
    assert report["families"]["CrossRepo"]["rate_excluding_infrastructure"] == 50.0
    assert any("infrastructure error" in line and "50.00" in line for line in notes(report))


def test_almost_correct_begins_at_ninety_percent_and_includes_the_correct(tmp_path: Path) -> None:
    rates = [1.0, 0.9, 0.8999, 0.0]
    rows = [outcome(f"r{n}", "Doc2Repo", "unresolved", pass_rate=rate) for n, rate in enumerate(rates)]
    family = report_of(tmp_path / "run", rows)["families"]["Doc2Repo"]
    assert (family["almost_correct"], family["correct"]) == (2, 1)
    assert family["pass_rate"] == pytest.approx(100 * sum(rates) / 4)


def test_strict_counts_suspicious_attempts_as_unresolved_and_informative_flags_change_nothing(
    tmp_path: Path,
) -> None:
    rows = [
        outcome("a", flags=["edited_tests: tests/test_a.py"]),
        outcome("b", flags=["unverified"]),
        outcome("c"),
    ]
    assert report_of(tmp_path / "run", rows)["families"]["CrossRepo"]["rate"] == 100.0
    strict = report_of(tmp_path / "run", rows, strict=True)
    assert strict["families"]["CrossRepo"]["rate"] == pytest.approx(200 / 3, abs=1e-3)
    assert strict["flags"] == {"edited_tests": 1, "unverified": 1}


def test_a_run_started_strict_stays_strict(tmp_path: Path) -> None:
    report = report_of(tmp_path / "run", [outcome("a", flags=["odd"])], {"strict": True})
    assert report["avg"] == 0.0


def test_wilson_and_bootstrap_give_known_intervals() -> None:
    low, high = wilson(0.5, 10)  # published: 0.2366 to 0.7634
    assert (round(low, 4), round(high, 4)) == (0.2366, 0.7634)
    assert wilson(1.0, 4)[1] == 1.0 and wilson(0.0, 4)[0] == 0.0
    assert wilson(0.0, 4)[1] == pytest.approx(0.4899, abs=1e-4)
    values = [0.0, 0.25, 0.5, 1.0, 1.0]
    low, high = bootstrap(values)
    assert bootstrap(values) == (low, high)
    assert 0 <= low < 0.55 < high <= 1
    assert bootstrap([0.4]) == (0.4, 0.4)


def test_a_torn_last_line_is_left_out_and_a_torn_line_before_it_is_an_error(tmp_path: Path) -> None:
    report_of(tmp_path / "run", [outcome("a"), outcome("b")])
    results = tmp_path / "run" / "results.jsonl"
    whole = results.read_bytes()
    results.write_bytes(whole[:-20])
    assert make_report(RunFolder(tmp_path / "run"))["attempts"]["done"] == 1
    results.write_bytes(whole[:-20] + b"\n" + whole)
    with pytest.raises(DataError, match="line 2"):
        make_report(RunFolder(tmp_path / "run"))


@pytest.mark.parametrize(
    "key, value",
    [
        *[
            (key, 5)
            for key in ("instance_id", "family", "status", "flags", "usage", "timings", "f2p", "error")
        ],
        *[(key, value) for key in ("score", "pass_rate") for value in ("x", -1, 1.5, float("nan"), True)],
        *[("attempt", value) for value in ("x", 0, 1.5, [1], None)],
        *[
            ("usage", value)
            for value in ({"turns": "x"}, {"cost_usd": float("inf")}, {"tool_calls": {"a": None}})
        ],
        *[("instance_id", value) for value in ("", "\ud800", None)],
        ("status", []),
        ("resolved", "no"),
        ("flags", [{}]),
        ("timings", {"agent": "long"}),
        ("usage", {"input_tokens": 10**400}),
    ],
)
def test_a_row_that_is_no_outcome_is_named(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(DataError, match=f"line 2: this is no outcome \\({key}: "):
        report_of(tmp_path / "run", [outcome("a"), {**outcome("b"), key: value}])


def test_json_without_end_of_depth_is_no_outcome(tmp_path: Path) -> None:
    report_of(tmp_path / "run", [])
    (tmp_path / "run" / "results.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(DataError, match="line 1: this is no outcome"):
        make_report(RunFolder(tmp_path / "run"))


def test_keys_that_are_null_are_keys_that_are_missing(tmp_path: Path) -> None:
    nothing = dict.fromkeys(("score", "flags", "usage", "timings", "f2p", "tests", "error"))
    report = report_of(tmp_path / "run", [{**outcome("a"), **nothing}, outcome("b")])
    assert (report["attempts"]["done"], report["avg"]) == (2, 100)


def test_an_attempt_that_stands_there_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="twice"):
        report_of(tmp_path / "run", [outcome("a"), outcome("a")])


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    report = report_of(tmp_path / "run", [outcome("a")], {"dataset": {"name": "d", "n": 3}, "attempts": 2})
    assert report["attempts"] == {"asked": 6, "done": 1, "per_instance": 2}
    assert notes(report)[0].startswith("unfinished: 1 of 6")


def test_usage_is_summed_where_it_was_counted_and_null_where_nobody_counted(tmp_path: Path) -> None:
    usage = {"input_tokens": 10, "cost_usd": 0.5, "turns": None, "tool_calls": {"bash": 3}}
    report = report_of(tmp_path / "run", [outcome("a", usage=usage), outcome("b", usage=usage), outcome("c")])
    assert report["usage"]["input_tokens"] == 20
    assert report["usage"]["cost_usd"] == 1.0
    assert report["usage"]["turns"] is None
    assert report["usage"]["output_tokens"] is None
    assert report["usage"]["tool_calls"] == {"bash": 6}

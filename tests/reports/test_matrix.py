"""Several runs as one table, the paper's rows beside them, and the table as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from beyondswe.reports.report import at_least_one, every_one, make_report
from beyondswe.runs.folder import RunFolder
from tests.reports.folders import run_folder


def report(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "beyondswe.cli", "report", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done


# the paper's AVG and Δ, where both rows of a pair are there
PAPER = {
    "Codex GPT-5.4 (xhigh), SearchSWE prompt": ("56.65", "+8.9 +19.4 +4.2 +0.1 +8.2"),
    "Codex GPT-5.4 (xhigh), default prompt": ("48.48", ""),
    "OpenHands DeepSeek-V4-Pro (Max)": ("46.12", ""),
    "OpenHands GLM-5": ("44.22", ""),
    "OpenHands Qwen3.5-Plus": ("43.45", ""),
    "SearchSWE DeepSeek-V4-Pro (Max)": ("48.73", "+4.5 +4.2 +2.8 -1.0 +2.6"),
    "SearchSWE GLM-5": ("46.75", "-0.8 +2.6 +5.0 +3.3 +2.5"),
    "SearchSWE GPT-5.4": ("43.51", ""),
}


def test_the_published_rows_give_the_papers_avg_and_deltas(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    report("--published", "--csv", str(table))
    names = ["CrossRepo", "DomainFix", "DepMigrate", "Doc2Repo", "AVG"]
    found = {}
    for row in csv.DictReader(table.open()):
        deltas = " ".join(f"{float(row[f'{n}_delta']):+.1f}" for n in names if row[f"{n}_delta"])
        found[row["run_id"]] = (f"{float(row['AVG']):.2f}", deltas)
        assert not row["AVG_low"] and row["reported"] == "True"
    assert found == PAPER


def test_runs_make_a_table_with_the_gain_of_search(tmp_path: Path) -> None:
    common = {"model": "m_1", "dataset": {"name": "made", "hash": "a" * 64}}
    off = run_folder(tmp_path, "off", {"C1": 1.0, "C2": 0.0, "D1": 0.5}, search=False, **common)
    on = run_folder(tmp_path, "on", {"C1": 1.0, "C2": 1.0, "D1": 0.4}, search=True, **common)
    files = [tmp_path / name for name in ("t.csv", "t.md", "t.tex")]
    words = [
        w
        for option, path in zip(("--csv", "--markdown", "--latex"), files, strict=True)
        for w in (option, str(path))
    ]
    shown = report(str(off), str(on), *words).stderr
    assert "+50.0" in shown and "-10.0" in shown and "+20.0" in shown
    assert (
        "| someone, m_1, search | 100.00 (+50.0) | – | – | 40.00 (-10.0) | (0) / 0 | 70.00 (+20.0) |"
        in files[1].read_text()
    )
    tex = files[2].read_text()
    assert (
        r"someone, m\_1, search & 100.00 (+50.0) & -- & -- & 40.00 (-10.0)" in tex and tex.count(r"\\") == 3
    )


def test_different_datasets_are_said(tmp_path: Path) -> None:
    runs = [run_folder(tmp_path, n, {"C1": 1.0}, dataset={"name": "made", "hash": n * 64}) for n in "ab"]
    assert "different datasets" in report(*map(str, runs)).stderr


def test_several_attempts_give_pass_at_k_and_pass_hat_k(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "k", {"C1": [1.0, 0.0, 0.0], "C2": [1.0, 1.0, 1.0], "D1": [0.5, 1.0, None]})
    families = make_report(RunFolder(folder))["families"]
    assert families["CrossRepo"]["pass_at_k"] == {"1": 66.6667, "2": 83.3333, "3": 100.0}
    assert families["CrossRepo"]["pass_hat_k"] == {"1": 66.6667, "2": 50.0, "3": 50.0}
    assert families["Doc2Repo"]["pass_at_k"]["1"] == pytest.approx(33.3333)
    assert families["CrossRepo"]["statuses"] == {"resolved": 4, "unresolved": 2}
    assert families["Doc2Repo"]["statuses"]["infrastructure_error"] == 1


def test_pass_at_k_is_unbiased() -> None:
    """Against counting out every draw."""
    from itertools import combinations

    for n, c in [(5, 2), (4, 0), (4, 4)]:
        tries = [1] * c + [0] * (n - c)
        for k in range(1, n + 1):
            draws = list(combinations(tries, k))
            assert at_least_one(n, c, k) == pytest.approx(sum(any(d) for d in draws) / len(draws))
            assert every_one(n, c, k) == pytest.approx(sum(all(d) for d in draws) / len(draws))


def test_only_the_two_files_are_needed_and_json_is_an_array(tmp_path: Path) -> None:
    runs = [run_folder(tmp_path, n, {"C1": 1.0, "C2": 0.0}) for n in "ab"]
    found = json.loads(report(*map(str, runs), "--json").stdout)
    assert [one["run_id"] for one in found] == ["a", "b"] and found[0]["avg_interval"] == [0.0, 100.0]
    done = report("--json", code=2)
    assert "--published" in json.loads(done.stdout)["error"]["message"]

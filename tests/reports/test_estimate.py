"""`eval --dry-run`: starts nothing, and says from earlier runs what it would take."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.reports.folders import FAMILIES, run_folder


def dry_run(root: Path, *words: str) -> dict[str, Any]:
    row = {
        "instance_id": "one",
        "task": "CrossRepo",
        "repo": "a/b",
        "base_commit": "0" * 40,
        "image": "none:1",
    }
    row |= {
        "problem_statement": "It fails.",
        "FAIL_TO_PASS": ["t.py::t"],
        "PASS_TO_PASS": [],
        "f2p_script": "x = 1\n",
    }
    row |= {"patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"}
    (root / "d.jsonl").write_text(
        "".join(json.dumps({**row, "instance_id": name}) + "\n" for name in ("one", "two"))
    )
    command = [
        sys.executable,
        "-m",
        "beyondswe.cli",
        "eval",
        "--dataset",
        str(root / "d.jsonl"),
        "--dry-run",
        "--json",
    ]
    done = subprocess.run(
        [*command, "--runs-dir", str(root / "runs"), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_an_estimate_from_earlier_runs_of_the_same_agent(tmp_path: Path) -> None:
    run_folder(tmp_path / "runs", "other", {"C1": 1.0}, agent={"name": "oracle"})
    first = dry_run(tmp_path, "--agent", "nop")
    assert first["attempts"] == 2 and first["from_runs"] == [] and first["seconds"] is None

    folder = run_folder(tmp_path / "runs", "before", {"C1": 1.0, "C2": 0.0, "D1": 0.0}, agent={"name": "nop"})
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for row, seconds, tokens in zip(rows, (10, 20, 900), (100, 300, 9000), strict=True):
        row |= {
            "timings": {"agent": seconds, "score": 1.0},
            "usage": {"input_tokens": tokens, "cost_usd": 0.5},
        }
        assert row["family"] in FAMILIES.values()
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_folder(
        tmp_path / "runs", "failed", {"C1": None}, agent={"name": "nop"}
    )  # tells nothing of what it takes
    run_folder(tmp_path / "runs", "copy", {"C1": 1.0}, agent={"name": "nop"}, merged_from=["before"])
    found = dry_run(tmp_path, "--agent", "nop", "--attempts", "3", "--workers", "2")
    assert found["from_runs"] == ["before"] and found["attempts"] == 6
    assert found["seconds"] == pytest.approx(6 * 16) and found["wall_seconds"] == pytest.approx(48)
    assert found["input_tokens"] == pytest.approx(6 * 200) and found["cost_usd"] == pytest.approx(3.0)
    assert found["output_tokens"] is None
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"other", "before", "failed", "copy"}

"""`beyondswe runs merge`: the runs of shards as one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.reports.folders import run_folder


def merge(root: Path, *words: str, code: int = 0) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "beyondswe.cli",
        "runs",
        "merge",
        *words,
        "--runs-dir",
        str(root),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_shards_make_one_run_with_all_outcomes_and_files(tmp_path: Path) -> None:
    for n, scores in enumerate(({"C1": 1.0, "D1": 0.5}, {"C2": 0.0}), 1):
        dataset = {"name": "made", "hash": "a" * 64, "n": len(scores), "families": {"CrossRepo": 1}}
        times = {"started": f"2026-01-0{n}", "finished": f"2026-01-0{n}", "images": {f"i{n}": "sha256:1"}}
        folder = run_folder(tmp_path, f"s{n}", scores, dataset=dataset, **times)
        attempt = folder / "attempts" / next(iter(scores)) / "1"
        attempt.mkdir(parents=True)
        (attempt / "patch.diff").write_text(f"of {n}")
        results = (folder / "results.jsonl").read_text()
        (folder / "results.jsonl").write_text(
            results.replace('"instance_id"', '"error": "a\u2028b", "instance_id"')
        )
    report = merge(tmp_path, "s1", "s2", "--out", "all")
    assert report["attempts"] == {"asked": 3, "done": 3, "per_instance": 1}
    assert report["families"]["CrossRepo"]["rate"] == 50.0 and report["started"] == "2026-01-01"
    assert (tmp_path / "all" / "attempts" / "C2" / "1" / "patch.diff").read_text() == "of 2"
    run = json.loads((tmp_path / "all" / "run.json").read_text())
    assert (
        run["merged_from"] == ["s1", "s2"] and set(run["images"]) == {"i1", "i2"} and run["dataset"]["n"] == 3
    )
    assert run["finished"] == "2026-01-02"
    assert "there already" in merge(tmp_path, "s1", "s2", "--out", "all", code=2)["error"]["message"]


def test_what_is_no_shard_of_one_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    run_folder(tmp_path, "a", {"C1": 1.0}, model="m1")
    run_folder(tmp_path, "b", {"C2": 1.0}, model="m2")
    run_folder(tmp_path, "c", {"C1": 1.0}, model="m1")
    run_folder(tmp_path, "d", {"C2": 1.0}, model="m1", limits={"max_turns": 500})
    run_folder(tmp_path, "e", {"C3": 1.0}, model="m1", limits={"max_turns": 200})
    assert "limits.max_turns differs" in merge(tmp_path, "d", "e", "--out", "x", code=2)["error"]["message"]
    assert "model differs" in merge(tmp_path, "a", "b", "--out", "x", code=2)["error"]["message"]
    assert "do not overlap" in merge(tmp_path, "a", "c", "--out", "x", code=2)["error"]["message"]
    assert {path.name for path in tmp_path.iterdir()} == set("abcde")

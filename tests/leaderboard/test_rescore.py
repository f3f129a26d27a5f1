"""`leaderboard rescore`: patches are scored again, and outcomes that do not come out so fail the submission."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.leaderboard.board import call, change_rows, change_yaml, demo, demo_run

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An honest submission, and one whose verdicts were turned in every place alike."""
    root = tmp_path_factory.mktemp("board")
    call("pack", demo_run(root, "forged", False), "--site", root / "site")
    ids = [i.instance_id for i in demo().instances if not i.is_doc2repo]
    call("pack", demo_run(root, "honest", {i.instance_id: i.instance_id in ids for i in demo().instances}),
         "--site", root / "site")  # fmt: skip
    return root / "site"


def _forge(site: Path, name: str) -> str:
    """Turn one verdict of a submission, with its tests, its rates and its run's scores: consistent all through."""
    folder = site / "submissions" / name
    turned = next(i for i in demo().instances if not i.is_doc2repo)

    def turn(rows: list[Any]) -> None:
        for row in rows:
            if row["instance_id"] == turned.instance_id:
                row.update(status="resolved", resolved=True, score=1.0, pass_rate=1.0)
                row["f2p"] = dict.fromkeys(row["f2p"], "passed")
                row["p2p"] = dict.fromkeys(row["p2p"], "passed")

    change_rows(folder / "results.jsonl", turn)
    from beyondswe.leaderboard.submission import as_run, read_submission, safe_rows, scores_of
    from beyondswe.reports.report import report_of

    run = as_run(name, read_submission(folder))
    change_yaml(folder, scores=scores_of(report_of(run, safe_rows(folder), folder)))
    return turned.instance_id


def test_an_honest_submission_agrees_and_is_marked(site: Path, tmp_path: Path) -> None:
    words = ["rescore", "honest", "--site", site, "--runs-dir", tmp_path, "--sample", "2", "--seed", "3"]
    code, found = call(*words)
    assert code == 0 and found["passed"] and found["same"] == found["rescored"] == 2
    record = json.loads((site / "records" / "honest.json").read_text())
    assert record["rescored"]["n"] == 2 and record["rescored"]["of"] == 4 and record["rescored"]["seed"] == 3
    run = json.loads((tmp_path / found["run_id"] / "run.json").read_text())
    assert run["dataset"]["n"] == 2 and run["finished"]


def test_a_verdict_turned_in_every_place_is_caught_by_scoring_again(site: Path, tmp_path: Path) -> None:
    turned = _forge(site, "forged")
    assert call("check", "forged", "--site", site)[0] == 0  # nothing in it contradicts itself
    code, found = call("rescore", "forged", "--site", site, "--runs-dir", tmp_path)
    assert code == 1 and list(found["differing"]) == [f"{turned} (1)"]
    assert "claimed resolved" in found["differing"][f"{turned} (1)"]
    code, found = call("check", "forged", "--site", site)
    assert code == 1 and turned in found["submissions"][0]["errors"][0]


def test_a_submission_that_fails_its_check_is_not_scored(site: Path, tmp_path: Path) -> None:
    call("pack", demo_run(tmp_path, "broken"), "--site", site)
    change_rows(site / "submissions/broken/predictions.jsonl", lambda rows: rows.pop())
    code, found = call("rescore", "broken", "--site", site, "--runs-dir", tmp_path / "runs")
    assert code == 1 and "patches missing" in found["errors"][0] and not (tmp_path / "runs").exists()

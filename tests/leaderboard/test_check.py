"""`leaderboard pack` and `check`: a run becomes a submission by one command; what is wrong with one is said."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.leaderboard.board import call, change_rows, change_yaml, demo, demo_run


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A leaderboard with one good submission, not to be changed."""
    root = tmp_path_factory.mktemp("board")
    run = demo_run(root / "runs", "good")
    words = ["--name", "good", "--author", "A. Uthor", "--open-weights", "--link", "https://example.org/x"]
    code, said = call("pack", run, "--site", root / "site", *words)
    assert code == 0 and said["outcomes"] == said["predictions"] == said["trajectories"] == 4
    return root / "site"


@pytest.fixture
def site(packed: Path, tmp_path: Path) -> Path:
    shutil.copytree(packed, tmp_path / "site")
    return tmp_path / "site"


def errors(site: Path, *names: str) -> str:
    """What a check has against the submissions; empty where they pass."""
    code, found = call("check", *names, "--site", site)
    assert code == (0 if found["passed"] else 1)
    return "\n".join(line for one in found["submissions"] for line in one["errors"])


def test_one_command_makes_a_submission_that_passes(packed: Path) -> None:
    folder = packed / "submissions" / "good"
    facts = yaml.safe_load((folder / "submission.yaml").read_text())
    assert facts["authors"] == ["A. Uthor"] and facts["open_weights"] is True
    assert facts["scores"]["avg"] == 100.0 and facts["dataset"]["hash"] == demo().hash
    trajectories = sorted((folder / "trajectories").iterdir())
    assert len(trajectories) == 4 and json.loads(gzip.decompress(trajectories[0].read_bytes()))["steps"] == []
    code, found = call("check", "--site", packed)
    assert code == 0 and found["submissions"][0]["warnings"] == []


def test_a_submission_is_not_overwritten_unless_that_is_asked(site: Path, tmp_path: Path) -> None:
    run = demo_run(tmp_path, "worse", False)
    code, said = call("pack", run, "--site", site, "--name", "good")
    assert code == 2 and "--replace" in said
    assert call("pack", run, "--site", site, "--name", "good", "--replace")[0] == 0
    assert yaml.safe_load((site / "submissions/good/submission.yaml").read_text())["scores"]["avg"] == 0.0
    assert errors(site) == ""


def test_the_two_files_of_a_run_are_enough_to_pack_and_the_check_says_what_to_add(tmp_path: Path) -> None:
    run = demo_run(tmp_path, "ci")
    shutil.rmtree(run / "attempts")
    code, said = call("pack", run, "--site", tmp_path / "site")
    assert code == 0 and said["predictions"] == 0 and "attempts/" in said["notes"][0]
    assert "predictions.jsonl is missing: add a row" in errors(tmp_path / "site", "ci")


def test_a_model_that_the_run_does_not_know_is_named(tmp_path: Path) -> None:
    run = demo_run(tmp_path, "elsewhere", model=None)
    assert call("pack", run, "--site", tmp_path / "site", "--model", "Theirs")[0] == 0
    facts = yaml.safe_load((tmp_path / "site/submissions/elsewhere/submission.yaml").read_text())
    assert facts["model"] == "Theirs" and errors(tmp_path / "site") == ""


def test_a_run_that_does_not_know_enough_of_itself_is_not_packed(tmp_path: Path) -> None:
    run = demo_run(tmp_path, "old", search=None, package_version=None)
    code, said = call("pack", run, "--site", tmp_path / "site")
    assert code == 2 and "search" in said and "package_version" in said
    assert not (tmp_path / "site" / "submissions" / "old").exists()


def test_a_patch_that_holds_a_key_is_not_packed(tmp_path: Path) -> None:
    run = demo_run(tmp_path, "leak")
    change_rows(run / "results.jsonl", lambda rows: rows[1].update(flags=["secret_in_patch"]))
    code, said = call("pack", run, "--site", tmp_path / "site")
    assert code == 2 and "holds a key" in said
    assert list((tmp_path / "site" / "submissions").iterdir()) == []


def test_several_attempts_each_with_its_patch(tmp_path: Path) -> None:
    run = demo_run(tmp_path, "twice", False, attempts=2)
    assert call("pack", run, "--site", tmp_path / "site")[1]["predictions"] == 8
    assert errors(tmp_path / "site") == ""
    change_rows(tmp_path / "site/submissions/twice/predictions.jsonl", lambda rows: rows.pop())
    assert "patches missing: " in errors(tmp_path / "site")


def _flip(row: dict[str, Any]) -> None:
    row.update(status="unresolved", resolved=False, score=0.0)


ROWS: list[tuple[str, Callable[[list[Any]], Any], str]] = [
    ("results.jsonl", lambda rows: rows.append(rows[0]), "stand there twice"),
    ("results.jsonl", lambda rows: rows.pop(), "1 outcomes are missing; run these"),
    ("results.jsonl", lambda rows: rows[0].update(instance_id="nobody_knows"), "not of this dataset"),
    ("results.jsonl", lambda rows: rows[0].update(attempt=2), "beyond attempts: 1"),
    ("results.jsonl", lambda rows: rows[0].update(attempt=True), "attempt: a number from 1"),
    ("results.jsonl", lambda rows: rows[0].update(family="Nothing"), "this is no outcome"),
    ("results.jsonl", lambda rows: rows[0].update(resolved=False), "status resolved"),
    ("results.jsonl", lambda rows: rows[0].update(score=0.5), "its score is 0.5"),
    ("results.jsonl", lambda rows: rows[0].update(pass_rate=0.5), "its tests give 1.0000"),
    ("results.jsonl", lambda rows: rows[0].update(score=float("nan")), "score"),
    ("results.jsonl", lambda rows: rows[0].update(usage={"cost_usd": "dear"}), "usage"),
    ("results.jsonl", lambda rows: rows[0]["f2p"].popitem(), "not all of the instance's tests passed"),
    ("results.jsonl", lambda rows: rows[0]["f2p"].update({"t.py::mine": "passed"}), "not the instance's"),
    ("results.jsonl", lambda rows: rows[0].update(patch_sha256=""), "no patch_sha256"),
    ("results.jsonl", lambda rows: rows[0].update(status="infrastructure_error"), "go on with the run"),
    ("results.jsonl", lambda rows: rows[0].update(patch_sha256="0" * 64), "not those which were scored"),
    ("predictions.jsonl", lambda rows: rows[0].update(model_patch="another"), "not those which were scored"),
    ("predictions.jsonl", lambda rows: rows.append(rows[0]), "patches that stand there twice"),
    ("predictions.jsonl", lambda rows: rows.pop(), "patches missing"),
    ("predictions.jsonl", lambda rows: rows[0].update(instance_id="other"), "patches without an outcome"),
    ("predictions.jsonl", lambda rows: rows[0].update(model_patch=7), "line 1 is no prediction"),
    ("predictions.jsonl", lambda rows: rows[0].update(model_patch="\ud800"), "line 1 is no prediction"),
]


@pytest.mark.parametrize(("name", "change", "said"), ROWS)
def test_rows_that_cannot_be(site: Path, name: str, change: Callable[[list[Any]], Any], said: str) -> None:
    change_rows(site / "submissions" / "good" / name, change)
    assert said in errors(site)


FACTS: list[tuple[dict[str, Any], str]] = [
    ({"date": "2024-01-01"}, "date 2024-01-01 cannot be"),
    ({"date": "2199-01-01"}, "cannot be"),
    ({"date": "2026-04-01"}, "before the run was finished"),
    ({"date": "yesterday"}, "submission.yaml: date"),
    ({"started": "2026-05-02T10:00:00Z"}, "finished is before started"),
    ({"package_version": "9.9"}, "package_version '9.9' is not known; known are 0.1.0"),
    ({"dataset": {"name": "demo", "version": "1", "hash": "0" * 64}}, "score the predictions on this one"),
    (
        {"dataset": {"name": "/etc/passwd", "version": "1", "hash": "0" * 64}},
        "not opened on a submission's word",
    ),
    ({"network": "wide"}, "submission.yaml: network"),
    ({"search": "perhaps"}, "submission.yaml: search"),
    ({"authors": ["a\x1bb"]}, "control characters"),
    ({"links": ["javascript:alert(1)"]}, "no http or https address"),
    ({"model": "M" * 200}, "submission.yaml: model"),
    ({"surprise": 1}, "surprise"),
    ({"scores": {"avg": 99.0, "families": {"CrossRepo": {"n": 1, "rate": 100.0}}}}, "scores.avg is 99.0"),
    ({"attempts": 2}, "4 outcomes are missing"),
]


@pytest.mark.parametrize(("facts", "said"), FACTS)
def test_facts_that_cannot_be(site: Path, facts: dict[str, Any], said: str) -> None:
    change_yaml(site / "submissions" / "good", **facts)
    assert said in errors(site)


def test_outcomes_edited_to_look_better_are_caught_by_arithmetic(tmp_path: Path) -> None:
    """Verdicts turned without their tests, and rates claimed above the outcomes."""
    ids = [instance.instance_id for instance in demo().instances]
    call("pack", demo_run(tmp_path, "low", {ids[0]: True, ids[1]: False, ids[2]: False, ids[3]: False}),
         "--site", tmp_path / "site")  # fmt: skip
    folder = tmp_path / "site" / "submissions" / "low"

    def better(rows: list[Any]) -> None:
        rows[1].update(status="resolved", resolved=True, score=1.0)

    change_rows(folder / "results.jsonl", better)
    said = errors(tmp_path / "site")
    assert "not all of the instance's tests passed" in said and "the outcomes give" in said
    rows_before = (folder / "results.jsonl").read_text()

    def worse(rows: list[Any]) -> None:
        _flip(rows[1])

    change_rows(folder / "results.jsonl", worse)
    assert rows_before != (folder / "results.jsonl").read_text() and errors(tmp_path / "site") == ""


def test_a_patch_put_in_later_is_caught_by_its_hash(site: Path) -> None:
    """The reference in place of the patch, and every number as it was."""
    folder = site / "submissions" / "good"
    change_rows(folder / "predictions.jsonl", lambda rows: rows[2].update(model_patch="--- a/y\n+++ b/y\n"))
    said = errors(site)
    assert "sha256 differs" in said and demo().instances[2].instance_id in said

    def own_hash(rows: list[Any]) -> None:
        rows[2].update(patch_sha256=hashlib.sha256(b"--- a/y\n+++ b/y\n").hexdigest())

    change_rows(folder / "results.jsonl", own_hash)
    assert errors(site) == ""  # consistent now: this is what scoring again is for


HOSTILE_YAML = {
    "aliases": "a: &x [1]\nb: *x\n",
    "twice": "model: a\nmodel: b\n",
    "deep": "[" * 5000,
    "tag": "!!python/object/apply:os.system ['true']\n",
    "bytes": "\udcff",
    "list": "- 1\n",
    "huge": "# " + "x" * 70_000,
    "number": "attempts: " + "9" * 5000,
}


@pytest.mark.parametrize("kind", HOSTILE_YAML)
def test_hostile_yaml_fails_and_does_no_harm(site: Path, kind: str) -> None:
    path = site / "submissions" / "good" / "submission.yaml"
    path.write_bytes(HOSTILE_YAML[kind].encode("utf-8", "surrogateescape"))
    assert "submission.yaml" in errors(site)


def test_links_and_strange_files_are_refused(site: Path, tmp_path: Path) -> None:
    folder = site / "submissions" / "good"
    (folder / "run.sh").write_text("true")
    (folder / "results.jsonl").rename(tmp_path / "elsewhere")
    (folder / "results.jsonl").symlink_to(tmp_path / "elsewhere")
    said = errors(site)
    assert "'run.sh'" in said and "results.jsonl is a symbolic link" in said
    (folder / "results.jsonl").unlink()
    os.mkfifo(folder / "results.jsonl")
    assert "no plain file" in errors(site)
    (site / "submissions" / "linked").symlink_to(folder)
    assert "linked is a symbolic link" in errors(site, "linked")


def test_a_folder_of_trajectories_that_leads_elsewhere_is_not_entered(site: Path, tmp_path: Path) -> None:
    folder = site / "submissions" / "good"
    shutil.move(folder / "trajectories", tmp_path / "elsewhere")
    (folder / "trajectories").symlink_to(tmp_path / "elsewhere")
    assert "trajectories must be a folder" in errors(site)


def test_files_that_are_too_large_are_not_opened(site: Path) -> None:
    folder = site / "submissions" / "good"
    for name in ("results.jsonl", "submission.yaml"):
        os.truncate(folder / name, 1 << 40)  # sparse
        assert f"{name} has 1,099,511,627,776 bytes; at most" in errors(site)


def test_trajectories_that_are_none(site: Path) -> None:
    folder = site / "submissions" / "good" / "trajectories"
    one, two, *_ = sorted(folder.iterdir())
    one.write_bytes(b"no gzip")
    two.write_bytes(gzip.compress(b"[]"))
    (folder / "more.json.gz").write_bytes(b"")
    said = errors(site)
    assert "no gzip file" in said and "no JSON object" in said and "'more.json.gz'" in said


def test_names_that_are_one_on_other_disks(site: Path) -> None:
    shutil.copytree(site / "submissions" / "good", site / "submissions" / "GOOD")
    assert "differs from GOOD in case alone" in errors(site, "good")


@pytest.mark.parametrize("name", ["../good", "nobody", "a/b", ".hidden"])
def test_names_of_nothing_are_wrong_use(site: Path, name: str) -> None:
    assert call("check", name, "--site", site)[0] == 2


def test_a_folder_that_is_no_leaderboard(tmp_path: Path) -> None:
    code, said = call("check", "--site", tmp_path)
    assert code == 2 and "--site" in said

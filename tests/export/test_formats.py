"""Exports in others' formats, and back: the same content, read by their own tools where those are here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beyondswe.instances.dataset import load_dataset
from beyondswe.instances.writing import to_row
from tests.reports.folders import run_folder

RECORDED = Path(__file__).parents[1] / "agents" / "recorded"


def beyondswe(*words: str, code: int = 0) -> dict[str, Any]:
    command = [sys.executable, "-m", "beyondswe.cli", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo dataset as a file, with a row whose hidden test is a script."""
    from beyondswe.cli.datasets import open_dataset

    folder = tmp_path_factory.mktemp("demo")
    rows = [to_row(instance) for instance in open_dataset("demo").instances]
    suites = {i.test_suite_dir / i.test_suite for i in open_dataset("demo").instances if i.test_suite_dir}
    for suite in suites:
        (folder / suite.name).write_bytes(suite.read_bytes())
    script = {
        **rows[0],
        "instance_id": "by_script",
        "f2p_script": "def test_a():\n    assert 'ü' == 1",
        "hints_text": "look",
    }
    rows.append(
        {key: value for key, value in script.items() if key != "f2p_patch"} | {"extra_nested": {"a": [1]}}
    )
    (folder / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "d.jsonl"


def test_swebench_rows_come_back_the_same(demo: Path, tmp_path: Path) -> None:
    said = beyondswe("export", "swebench", "--dataset", str(demo), "--out", str(tmp_path / "out"))
    assert said["instances"] == 4 and said["left_out"] == ["time_spans_from_scratch"]
    beyondswe(
        "import", "swebench", str(tmp_path / "out" / "dataset.jsonl"), "--out", str(tmp_path / "back.jsonl")
    )
    before = {i.instance_id: i for i in load_dataset(str(demo)).instances if not i.is_doc2repo}
    after = {i.instance_id: i for i in load_dataset(str(tmp_path / "back.jsonl")).instances}
    assert after == before
    # read without the import they ask the same: the script came as a patch
    direct = {i.instance_id: i for i in load_dataset(str(tmp_path / "out" / "dataset.jsonl")).instances}
    assert direct.keys() == before.keys()
    assert "+    assert 'ü' == 1\n\\ No newline at end of file" in direct["by_script"].f2p_patch


def test_a_row_that_was_edited_is_not_read_back_as_it_was(demo: Path, tmp_path: Path) -> None:
    beyondswe("export", "swebench", "--dataset", str(demo), "--out", str(tmp_path))
    rows = [json.loads(line) for line in (tmp_path / "dataset.jsonl").read_text().splitlines()]
    rows[1]["problem_statement"] = "Something else."
    (tmp_path / "edited.json").write_text(json.dumps(rows))
    said = beyondswe(
        "import", "swebench", str(tmp_path / "edited.json"), "--out", str(tmp_path / "b.jsonl"), code=2
    )
    assert "row 2" in said["error"]["message"] and "problem_statement" in said["error"]["message"]
    assert not (tmp_path / "b.jsonl").exists()


@pytest.mark.parametrize("text", ["5\n", '["a"]', "[" * 100_000, '{"instance_id": "a", "beyondswe": "[]"}\n'])
def test_what_are_no_rows_is_said(text: str, tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text(text)
    said = beyondswe(
        "import", "swebench", str(tmp_path / "odd.jsonl"), "--out", str(tmp_path / "b.jsonl"), code=2
    )
    assert said["error"]["kind"] == "DataError"


def test_predictions_of_a_run(demo: Path, tmp_path: Path) -> None:
    first, second = "quaywatch_compact_frames", "nightlark_thick_air"
    folder = run_folder(tmp_path, "r", {"C1": 1.0}, model="m")
    row = json.loads((folder / "results.jsonl").read_text())
    names = (first, second, "time_spans_from_scratch")
    (folder / "results.jsonl").write_text(
        "".join(json.dumps({**row, "instance_id": name}) + "\n" for name in names)
    )
    (folder / "attempts" / first / "1").mkdir(parents=True)
    (folder / "attempts" / first / "1" / "patch.diff").write_bytes(b"--- a\r\n")
    beyondswe(
        "export", "swebench", "--dataset", str(demo), "--run", str(folder), "--out", str(tmp_path / "o")
    )
    rows = [json.loads(line) for line in (tmp_path / "o" / "predictions.jsonl").read_text().splitlines()]
    assert rows[0] == {"instance_id": first, "model_name_or_path": "someone__m", "model_patch": "--- a\r\n"}
    assert rows[1]["model_patch"] == "" and [row["instance_id"] for row in rows] == [first, second]


def test_a_hub_folder_opens_in_datasets_and_reads_back(demo: Path, tmp_path: Path) -> None:
    import datasets

    out = tmp_path / "hub"
    said = beyondswe("export", "hf", "--dataset", str(demo), "--out", str(out))
    assert said["instances"] == 5
    table = datasets.load_dataset(str(out), split="test", cache_dir=str(tmp_path / "cache"))
    assert table.num_rows == 5 and set(table["task"]) == {"CrossRepo", "DomainFix", "DepMigrate", "Doc2Repo"}
    before = {i.instance_id: i for i in load_dataset(str(demo)).instances}
    after = {i.instance_id: i for i in load_dataset(str(out)).instances}
    assert {name: i.content_hash for name, i in after.items()} == {
        name: i.content_hash for name, i in before.items()
    }
    assert after["by_script"].verification == before["by_script"].verification


@pytest.mark.parametrize(
    "form", ["mini", "codex", "claude", "openhands", "gemini", "opencode", "qwen", "swe-agent"]
)
def test_foreign_transcripts_become_atif(form: str, tmp_path: Path) -> None:
    from beyondswe.gateway.atif import Trajectory

    beyondswe("export", "atif", "--transcript", str(RECORDED / form / "fix"), "--out", str(tmp_path))
    trajectory = Trajectory.model_validate_json((tmp_path / "fix.json").read_bytes())
    assert [step.step_id for step in trajectory.steps] == list(range(1, len(trajectory.steps) + 1))
    calls = [call for step in trajectory.steps for call in step.tool_calls or ()]
    assert any("unittest" in json.dumps(call.arguments) for call in calls)
    for step in trajectory.steps:
        known = {call.tool_call_id for call in step.tool_calls or ()}
        assert all(r.source_call_id in known for r in (step.observation.results if step.observation else ()))


def test_a_run_without_trajectories_says_so(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "r", {"C1": 1.0})
    said = beyondswe("export", "atif", "--run", str(folder), "--out", str(tmp_path / "o"), code=2)
    assert "no trajectory" in said["error"]["message"]


@pytest.mark.slow
@pytest.mark.index
def test_swebench_itself_loads_rows_and_predictions(demo: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    python = str(venv / "bin" / "python")
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "-q", "--python", sys.executable, str(venv)], check=True)
    subprocess.run([*uv, "pip", "install", "-q", "--python", python, "swebench==5.0.2"], check=True)
    name = "quaywatch_compact_frames"
    folder = run_folder(tmp_path, "r", {"C1": 1.0})
    (folder / "results.jsonl").write_text((folder / "results.jsonl").read_text().replace('"C1"', f'"{name}"'))
    (folder / "attempts" / name / "1").mkdir(parents=True)
    (folder / "attempts" / name / "1" / "patch.diff").write_text("--- a\n")
    beyondswe(
        "export", "swebench", "--dataset", str(demo), "--run", str(folder), "--out", str(tmp_path / "o")
    )
    code = (
        "import json, sys\n"
        "from swebench.harness.utils import load_swebench_dataset, get_predictions_from_file\n"
        "rows = load_swebench_dataset(sys.argv[1], 'test')\n"
        "found = get_predictions_from_file(sys.argv[2], sys.argv[1], 'test')\n"
        "print(json.dumps([[r['instance_id'] for r in rows], found]))\n"
    )
    out = tmp_path / "o"
    done = subprocess.run(
        [python, "-c", code, str(out / "dataset.jsonl"), str(out / "predictions.jsonl")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ids, predictions = json.loads(done.stdout)
    assert len(ids) == 4 and predictions[0]["model_patch"] == "--- a\n"

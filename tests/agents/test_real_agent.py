"""A real agent, from the package registry to the score: its layer, the gateway, its ends. The others: tests/real."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.demo import KEY, Evaluated, evaluate

pytestmark = [pytest.mark.engine, pytest.mark.index]


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    return evaluate("codex", tmp_path_factory.mktemp("runs"), "--max-turns", "10")


def test_it_solves_an_instance(solved: Evaluated) -> None:
    assert solved.exit_code == 0, solved.stderr
    assert solved.outcome["status"] == "resolved" and solved.outcome["agent_status"] == "finished"
    assert solved.report["statuses"] == {"resolved": 1}


def test_what_it_used_is_counted_by_the_gateway(solved: Evaluated) -> None:
    usage = solved.outcome["usage"]
    assert usage["turns"] == 3 and usage["input_tokens"] > 1000
    assert usage["tool_calls"] == {"exec_command": 2}
    assert {request["path"] for request in solved.requests} == {"/v1/responses"}


def test_its_own_transcript_is_kept_and_its_end_is_in_the_trajectory(solved: Evaluated) -> None:
    (rollout,) = (solved.folder / "logs" / "agent").rglob("rollout-*.jsonl")
    assert "exec_command" in rollout.read_text()
    trajectory = json.loads((solved.folder / "trajectory.json").read_text())
    assert trajectory["extra"]["agent_transcript"]["format"] == "codex"
    assert trajectory["extra"]["agent_transcript"]["end"]["kind"] == "finished"


def test_the_key_is_nowhere(solved: Evaluated) -> None:
    assert all(KEY in json.dumps(request["headers"]) for request in solved.requests)
    assert solved.holds(KEY) == []


def test_the_run_names_the_agent_with_its_version(solved: Evaluated) -> None:
    run = json.loads((solved.folder.parents[2] / "run.json").read_text())
    assert run["agent"]["name"] == "codex" and run["agent"]["version"] == "0.171.0" and run["agent"]["digest"]


def test_a_refused_key_is_nobodys_failed_attempt(tmp_path: Path) -> None:
    scenario = {"default": {"steps": [{"do": "http", "status": 401, "always": True}, {"do": "finish"}]}}
    refused = evaluate("codex", tmp_path, scenario=scenario)
    assert refused.exit_code == 1
    assert refused.outcome["status"] == "infrastructure_error"
    assert "401" in refused.outcome["error"]


def test_a_budget_that_is_used_up_ends_it_and_its_patch_counts(tmp_path: Path) -> None:
    steps = [{"do": "bash", "cmd": f"echo {number} > note-{number}"} for number in range(9)]
    ended = evaluate("codex", tmp_path, "--max-turns", "3", scenario={"default": {"steps": steps}})
    assert ended.outcome["status"] == ended.outcome["agent_status"] == "budget_exhausted"
    assert "note-0" in (ended.folder / "patch.diff").read_text()
    assert list((ended.folder / "logs" / "agent").rglob("rollout-*.jsonl")), (
        "the transcript is kept all the same"
    )


def test_a_hanging_model_ends_by_the_time_limit_and_the_patch_is_taken(tmp_path: Path) -> None:
    steps = [{"do": "bash", "cmd": "echo 1 > note"}, {"do": "hang", "seconds": 600}, {"do": "finish"}]
    ended = evaluate("codex", tmp_path, "--timeout", "8", scenario={"default": {"steps": steps}})
    assert (ended.outcome["status"], ended.outcome["agent_status"]) == ("agent_timeout", "timeout")
    assert "+++ b/note" in (ended.folder / "patch.diff").read_text()


def beyondswe(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "beyondswe", *arguments], capture_output=True, text=True)


def test_list_says_what_is_there_and_what_is_needed(solved: Evaluated) -> None:
    rows = {row["name"]: row for row in json.loads(beyondswe("agents", "list", "--json").stdout)}
    assert rows["codex"]["installed"] is True and Path(rows["codex"]["layer"]).is_dir()
    assert rows["codex"]["protocol"] == "responses" and rows["codex"]["version"] == "0.171.0"
    assert rows["nop"]["installed"] is True and rows["nop"]["runtime"] is None
    assert any("BEYONDSWE_SWE_AGENT" in need for need in rows["swe-agent"]["needs"])


def test_build_leaves_a_layer_that_is_there(solved: Evaluated) -> None:
    done = beyondswe("agents", "build", "codex", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0 and document["built"] is False and Path(document["path"]).is_dir()
    assert document["mount"] == "/opt/beyondswe/layers/codex"


def test_check_runs_it_and_fails_with_the_reason(solved: Evaluated, base_image: str, tmp_path: Path) -> None:
    done = beyondswe("agents", "check", "codex", "--image", base_image, "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0 and document["ok"] and document["calls"] == 5, (document, done.stderr)
    folder = tmp_path / "idle"
    folder.mkdir()
    (folder / "agent.yaml").write_text(
        "name: idle\nprotocol: chat\nnetwork: model\nneeds: [no-such-program]\ncommand: [sh, -c, exit 3]\n"
    )
    failed = beyondswe("agents", "check", str(folder), "--image", base_image, "--json")
    document = json.loads(failed.stdout)
    assert failed.returncode == 1 and not document["ok"]
    assert "exit code 3; the image lacks no-such-program" in " ".join(document["problems"])
    assert "asked the model nothing by the protocol chat" in " ".join(document["problems"])


def test_wrong_use_is_told_before_anything_starts(tmp_path: Path) -> None:
    for arguments, words in (
        (("agents", "check", "oracle"), "works from the host"),
        (("agents", "build", "nop"), "nothing to build"),
        (("agents", "build", "nope"), "no agent is called 'nope'"),
        (("eval", "--dataset", "demo", "--agent", "codex"), "needs a model"),
    ):
        done = beyondswe(*arguments)
        assert done.returncode == 2 and words in done.stderr, done.stderr

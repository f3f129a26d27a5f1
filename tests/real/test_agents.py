"""Every agent that comes with the product, for real: installed, run in images of several Debian releases, scored.

`codex` is in the default suite (tests/agents/test_real_agent.py). `swe-agent`, which is on no registry, is played by a
stand-in with its command line and its files; `claude-code` runs only where its user says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from beyondswe.agents.check import check_agent
from beyondswe.agents.command import CommandAgent
from beyondswe.agents.loader import load_agent, shipped_agents
from beyondswe.agents.pythons import find_python
from beyondswe.sandbox.engine import Engine
from tests.agents.debian import RELEASES, debian_image
from tests.agents.demo import KEY, evaluate

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.index]

NAMES = sorted(manifest.name for manifest in shipped_agents() if manifest.runtime)
STAND_IN = Path(__file__).parent / "stand_in"


def skip_unless_possible(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give what an agent needs, or skip with the reason."""
    manifest = next(manifest for manifest in shipped_agents() if manifest.name == name)
    assert manifest.runtime is not None
    if manifest.opt_in and os.environ.get(manifest.opt_in) != "1":
        pytest.skip(f"{name} is not free software: {manifest.opt_in}=1 is its user's word")
    if manifest.runtime.source:
        monkeypatch.setenv(manifest.runtime.source.variable, str(STAND_IN))
    if manifest.runtime.kind.value == "python" and find_python(manifest.runtime.python) is None:
        pytest.skip(f"{name} needs Python {manifest.runtime.python}, which this machine lacks")


@pytest.mark.parametrize("name", NAMES)
def test_check_passes(name: str, base_image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless_possible(name, monkeypatch)
    command = [sys.executable, "-m", "beyondswe", "agents", "check", name, "--image", base_image, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    document = json.loads(done.stdout)
    assert done.returncode == 0 and document["ok"], (document, done.stderr)
    assert document["status"] == "finished" and document["steps"] >= 1 and document["calls"] >= 1


@pytest.mark.parametrize("name", sorted({*NAMES} - {"aider", "codex"}))  # aider runs no commands
def test_an_instance_is_solved(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless_possible(name, monkeypatch)
    solved = evaluate(name, tmp_path, "--max-turns", "10")
    assert solved.exit_code == 0, solved.stderr
    assert (solved.outcome["status"], solved.outcome["agent_status"]) == ("resolved", "finished")
    assert solved.outcome["usage"]["turns"] >= 3 and solved.outcome["usage"]["input_tokens"] > 1000
    assert any((solved.folder / "logs" / "agent").rglob("*")), "its own transcript is kept"
    trajectory = json.loads((solved.folder / "trajectory.json").read_text())
    assert trajectory["extra"]["agent_transcript"]["end"]["kind"] == "finished"
    assert solved.holds(KEY) == []


@pytest.mark.parametrize("name", sorted({*NAMES} - {"codex"}))
def test_a_refused_key_is_an_infrastructure_error_whatever_the_agent_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_unless_possible(name, monkeypatch)
    scenario = {"default": {"steps": [{"do": "http", "status": 401, "always": True}, {"do": "finish"}]}}
    refused = evaluate(name, tmp_path, "--timeout", "120", scenario=scenario)
    assert refused.exit_code == 1
    assert refused.outcome["status"] == "infrastructure_error" and "401" in refused.outcome["error"]


@pytest.mark.parametrize("name", ["gemini-cli", "mini-swe-agent", "openhands"])
def test_a_limit_of_turns_that_the_agent_keeps_itself_is_its_budget(name: str, tmp_path: Path) -> None:
    steps = [{"do": "bash", "cmd": f"echo {number} > note-{number}"} for number in range(9)]
    ended = evaluate(name, tmp_path, "--max-turns", "3", scenario={"default": {"steps": steps}})
    assert ended.outcome["status"] == ended.outcome["agent_status"] == "budget_exhausted"
    assert "note-0" in (ended.folder / "patch.diff").read_text()


@pytest.mark.parametrize("codename", RELEASES)
@pytest.mark.parametrize("name", ["codex", "gemini-cli", "mini-swe-agent", "openhands"])
def test_layers_run_in_images_of_other_releases(
    engine: Engine, name: str, codename: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_unless_possible(name, monkeypatch)
    agent = load_agent(name)
    assert isinstance(agent, CommandAgent)
    checked = check_agent(engine, agent, debian_image(engine, codename))
    assert checked.ok, (checked.problems, checked.log)

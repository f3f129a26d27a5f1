"""A real agent on an instance of ``demo``, driven by a scripted model that knows the reference change."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beyondswe.gateway.scripted import ScriptedModel
from beyondswe.resources import resource

INSTANCE = "nightlark_thick_air"
KEY = "sk-a-key-that-must-not-be-found-anywhere"


def solving_scenario() -> dict[str, Any]:
    """Looks around, then does what the reference does."""
    patch = base64.b64encode(resource("data", "demo", INSTANCE, "reference.patch").read_bytes()).decode()
    steps = [
        {"do": "bash", "cmd": "ls"},
        {"do": "bash", "cmd": f"echo {patch} | base64 -d | git apply && git status --short"},
        {"do": "finish", "text": "It counts the air now."},
    ]
    return {"default": {"root": "/workspace", "steps": steps}}


@dataclass(frozen=True)
class Evaluated:
    """What ``eval`` left of its one attempt."""

    exit_code: int
    report: dict[str, Any]
    outcome: dict[str, Any]
    folder: Path  # of the attempt
    requests: list[dict[str, Any]]
    stderr: str

    def holds(self, text: str) -> list[str]:
        """Files of the run that hold this text."""
        files = [path for path in self.folder.parents[2].rglob("*") if path.is_file()]
        return [str(path) for path in files if text.encode() in path.read_bytes()]


def evaluate(
    agent: str,
    runs: Path,
    *options: str,
    scenario: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> Evaluated:
    """``beyondswe eval`` of the instance with this agent, as a process."""
    with ScriptedModel(scenario or solving_scenario(), key=KEY) as model:
        command = [
            sys.executable,
            "-m",
            "beyondswe",
            "eval",
            "--dataset",
            "demo",
            "--instance",
            INSTANCE,
            "--json",
        ]
        command += ["--agent", agent, "--model", "scripted", "--model-url", f"{model.url}/v1"]
        command += ["--runs-dir", str(runs), "--run-id", "run", *options]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "BEYONDSWE_MODEL_KEY": KEY, **(env or {})},
        )
        requests = list(model.requests)
    folder = runs / "run" / "attempts" / INSTANCE / "1"
    outcome = json.loads((folder / "outcome.json").read_text()) if folder.is_dir() else {}
    report = json.loads(done.stdout) if done.stdout else {}
    return Evaluated(done.returncode, report, outcome, folder, requests, done.stderr)

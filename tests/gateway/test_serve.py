"""`beyondswe gateway serve`: metered, recorded endpoints without an evaluation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from beyondswe.gateway.atif import Trajectory
from beyondswe.gateway.scripted import ScriptedModel
from tests.gateway.conftest import KEY, request


def serve(out: Path, *words: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "beyondswe.cli",
        "gateway",
        "serve",
        "--json",
        "--port",
        "0",
        "--out",
        str(out),
    ]
    env = {**os.environ, "BEYONDSWE_MODEL_KEY": KEY}
    return subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


def first_document(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if line == "}\n":
            return json.loads(text)
    raise AssertionError(process.stderr.read() if process.stderr else "")


def test_each_token_has_its_account(model: Callable[..., ScriptedModel], tmp_path: Path) -> None:
    upstream = model(
        {"default": {"steps": [{"do": "bash", "cmd": "ls"}], "usage": {"input": 10, "output": 5}}}
    )
    out = tmp_path / "out"
    words = ["--model-url", upstream.url, "--token", "ann=ann-secret", "--token", "bob", "--max-tokens", "20"]
    with serve(out, *words) as process:
        told = first_document(process)
        assert told["tokens"]["ann"] == "ann-secret" and told["out"] == str(out)

        def ask(token: str, protocol: str) -> httpx.Response:
            path, body = request(protocol)
            return httpx.post(told["url"] + path, json=body, headers={"authorization": f"Bearer {token}"})

        assert [ask("ann-secret", name).status_code for name in ("chat", "responses")] == [200, 200]
        assert "used up" in ask("ann-secret", "messages").text
        assert ask(told["tokens"]["bob"], "generate").status_code == 200
        assert ask("nobody", "chat").status_code == 401
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=30)
    assert process.returncode == 0 and rest == "", said
    assert "ann: 2 calls, 20 + 10 tokens, price unknown" in said
    usage = {name: json.loads((out / name / "usage.json").read_text()) for name in ("ann", "bob")}
    assert usage["ann"]["turns"] == 2 and usage["bob"]["input_tokens"] == 10
    trajectory = Trajectory.model_validate_json((out / "ann" / "trajectory.json").read_bytes())
    assert [step.source for step in trajectory.steps] == ["user", "agent", "agent"]
    assert KEY not in said and not any(KEY in path.read_text() for path in out.rglob("*.json*"))


def test_a_port_that_is_taken_and_an_account_that_is_there_are_told(
    model: Callable[..., ScriptedModel], tmp_path: Path
) -> None:
    upstream = model({})
    with serve(tmp_path / "a", "--model-url", upstream.url, "--port", str(upstream.port)) as process:
        out, said = process.communicate(timeout=30)
    assert process.returncode == 2 and "is it taken?" in said and json.loads(out)["error"]
    (tmp_path / "b" / "default").mkdir(parents=True)
    (tmp_path / "b" / "default" / "calls.jsonl").write_text("")
    with serve(tmp_path / "b", "--model-url", upstream.url) as process:
        _, said = process.communicate(timeout=30)
    assert process.returncode == 2 and "name another folder" in said


def test_help_names_no_limit_of_turns_where_there_is_none() -> None:
    command = [sys.executable, "-m", "beyondswe.cli", "gateway", "serve", "--help"]
    said = " ".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert "Model calls that a token may make. Default: no limit." in said and "200" not in said

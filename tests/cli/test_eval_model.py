"""`beyondswe eval` with a model: an agent in its sandbox, the gateway on the host, a scripted model behind it."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ImageNotFound

from beyondswe.gateway.atif import Trajectory
from beyondswe.gateway.scripted import ScriptedModel
from beyondswe.sandbox.engine import Engine, namespace
from tests.cli.conftest import GOOD, Cli, containers_of

AGENT = str(Path(__file__).parents[1] / "gateway" / "agent")
KEY = "sk-PLANTED-on-the-host-0123456789"
LOOK = r"""
m=PLANT
{
    env; cat /proc/*/environ | tr '\0' '\n'; cat /proc/*/cmdline | tr '\0' '\n'; cat /proc/mounts
    grep -rIls "${m}ED-" /root /home /etc /opt /run /tmp /var /srv /mnt "$PWD" /dev/shm
    python3 -c "import urllib.request as u; print(u.urlopen('http://127.0.0.1:28610/v1/models').read())" 2>&1 | tail -1
    echo "found: end"
} > seen.txt; cat seen.txt
"""
FINISH = {"do": "finish", "text": "All done."}
SCENARIOS = {
    "fix": {
        "steps": [
            {"do": "bash", "cmd": "cat calc.py", "text": "I look first."},
            {"do": "bash", "cmd": GOOD},
            FINISH,
        ],
        "usage": {"input": 1000, "cached": 400, "output": 50},
    },
    "look": {"steps": [{"do": "bash", "cmd": LOOK}, {"do": "bash", "cmd": "sleep 1"}, FINISH]},
    "greedy": {"steps": [*({"do": "bash", "cmd": f"echo {n} >> notes.txt"} for n in range(20)), FINISH]},
    "refused": {"steps": [{"do": "http", "status": 401, "always": True}]},
    "late": {"steps": [{"do": "hang", "seconds": 60}, {"do": "bash", "cmd": GOOD}, FINISH]},
}
ASK = """
import os, urllib.request as u
head = {"Authorization": "Bearer " + os.environ["BEYONDSWE_MODEL_TOKEN"]}
print(u.urlopen(u.Request(os.environ["BEYONDSWE_MODEL_URL"] + "/v1/models", headers=head)).read().decode())
"""


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedModel]:
    with ScriptedModel(SCENARIOS, key=KEY) as server:
        yield server


@pytest.mark.engine
def test_attempts_with_a_model(
    cli: Cli, dataset: Callable[..., str], engine: Engine, upstream: ScriptedModel
) -> None:
    path = dataset(statements={name: f"scenario: {name}" for name in ("fix", "look", "greedy", "refused")})
    prices = cli.folder / "prices.yaml"
    prices.write_text("scripted: {input: 10, cached: 1, output: 100}\n")
    words = ["--dataset", path, "--agent", AGENT, "--model", "scripted", "--model-url", upstream.url]
    words += ["--max-turns", "6", "--prices", str(prices), "--run-id", "m", "--workers", "2"]
    env = {"BEYONDSWE_MODEL_KEY": KEY}
    containers = _Containers(engine, "m")
    with containers:
        done = cli("eval", "--json", *words, env=env)
    assert done.code == 1, done.err  # for the refused key
    rows = {row["instance_id"]: row for row in cli.outcomes("m")}

    fix = rows["fix"]
    assert (
        fix["status"] == "resolved" and fix["agent_status"] == "finished" and fix["flags"] == ["unverified"]
    )
    usage = fix["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["turns"]) == (3000, 150, 3)
    assert usage["tool_calls"] == {"bash": 2} and usage["cost_usd"] == pytest.approx(3 * 0.0114)
    trajectory = Trajectory.model_validate_json((cli.attempt("m", "fix") / "trajectory.json").read_bytes())
    assert [step.source for step in trajectory.steps] == ["system", "user", "agent", "agent", "agent"]
    first = trajectory.steps[2]
    assert first.message == "I look first." and first.tool_calls and first.observation
    assert first.tool_calls[0].arguments == {"command": "cat calc.py"}
    assert "return a - b" in (first.observation.results[0].content or "")
    assert first.observation.results[0].source_call_id == first.tool_calls[0].tool_call_id
    assert first.metrics and first.metrics.cost_usd == pytest.approx(0.0114)
    assert trajectory.final_metrics and trajectory.final_metrics.total_cost_usd == pytest.approx(3 * 0.0114)

    greedy = rows["greedy"]
    assert greedy["status"] == greedy["agent_status"] == "budget_exhausted"
    assert greedy["usage"]["turns"] == 6 and "6 turns of 6" in greedy["error"]
    assert "notes.txt" in (cli.attempt("m", "greedy") / "patch.diff").read_text()

    refused = rows["refused"]
    assert refused["status"] == "infrastructure_error" and "401" in refused["error"]
    assert "key" in refused["error"] and refused["usage"]["turns"] == 0
    calls = (cli.attempt("m", "refused") / "logs" / "model.jsonl").read_text().splitlines()
    assert [json.loads(call)["status"] for call in calls] == [401]

    run = json.loads((cli.runs / "m" / "run.json").read_text())
    assert run["model"] == "scripted" and run["network"] == "model" and run["limits"]["max_turns"] == 6
    assert done.json["usage"]["cost_usd"] is not None and done.json["model"] == "scripted"

    # the key: upstream alone has it
    assert all(KEY in one["headers"]["authorization"] for one in upstream.requests if "headers" in one)
    seen = (cli.attempt("m", "look") / "patch.diff").read_text()
    assert "+found: end" in seen and "BEYONDSWE_MODEL_TOKEN" in seen and "401" in seen
    assert "PLANTED-" not in seen
    for file in cli.folder.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file
    assert containers.seen and KEY not in json.dumps(containers.seen)
    for row in engine.api.images(filters={"label": f"io.beyondswe.namespace={namespace()}"}):
        with contextlib.suppress(ImageNotFound):  # others remove theirs meanwhile
            image = engine.client.images.get(str(row["Id"]))
            assert KEY not in json.dumps([image.attrs, image.history()])
    roles = {shown["Config"]["Labels"]["io.beyondswe.role"] for shown in containers.seen.values()}
    assert {"link", "sandbox"} <= roles and containers.left() == []

    again = cli("eval", "--json", *words, "--max-turns", "7", env=env)
    assert again.code == 2 and "--max-turns (then 6, now 7)" in again.err


@pytest.mark.engine
def test_a_run_that_is_killed_leaves_no_gateway_and_goes_on(
    cli: Cli, dataset: Callable[..., str], engine: Engine, upstream: ScriptedModel
) -> None:
    words = ["eval", "--json", "--dataset", dataset(statements={"late": "scenario: late"}), "--agent", AGENT]
    words += ["--model", "scripted", "--model-url", upstream.url, "--run-id", "k"]
    env = {"BEYONDSWE_MODEL_KEY": KEY}
    asked = len(upstream.requests)
    with cli.start(*words, env=env) as process:
        _wait(lambda: len(upstream.requests) > asked)
        gateways = _children(process.pid)
        process.send_signal(signal.SIGKILL)
    assert gateways
    _wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in gateways))
    done = cli(*words, env=env)
    assert done.code == 0, done.err
    assert done.json["statuses"] == {"resolved": 1}
    assert containers_of(engine, "k") == []


@pytest.mark.engine
def test_a_command_has_its_model_in_its_environment_also_with_an_open_network(
    cli: Cli, dataset: Callable[..., str], upstream: ScriptedModel
) -> None:
    command = f"python3 -c {shlex.quote(ASK)} && cp /proc/net/route route.txt"
    words = ["--dataset", dataset("one"), "--agent-cmd", command, "--network", "open", "--run-id", "e"]
    done = cli(
        "eval",
        "--json",
        *words,
        "--model",
        "m",
        "--model-url",
        upstream.url,
        env={"BEYONDSWE_MODEL_KEY": KEY},
    )
    assert done.code == 0, done.err
    (row,) = cli.outcomes("e")
    assert row["agent_status"] == "finished" and "no_model_call" in row["flags"], row
    folder = cli.attempt("e", "one")
    assert '"scripted"' in (folder / "logs" / "agent.log").read_text()
    assert len((folder / "patch.diff").read_text().split("+Iface")[1].splitlines()) > 1  # a way out
    (call,) = (folder / "logs" / "model.jsonl").read_text().splitlines()
    assert json.loads(call)["path"] == "/v1/models"


def _wait(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def _children(pid: int) -> list[int]:
    """Processes that a process started: its gateway."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if path.read_text().rpartition(")")[2].split()[1] == str(pid):
                found.append(int(path.parent.name))
    return found


class _Containers:
    """What the engine shows of a run's containers while it goes on."""

    def __init__(self, engine: Engine, run_id: str) -> None:
        self._engine, self._filter = engine, {"label": f"io.beyondswe.run={run_id}"}
        self.seen: dict[str, Any] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def left(self) -> list[Any]:
        return list(self._engine.api.containers(all=True, filters=self._filter))

    def _look(self) -> None:
        from docker.errors import NotFound

        while not self._over.wait(0.1):
            for one in self._engine.api.containers(all=True, filters=self._filter):
                if one["Id"] not in self.seen:
                    try:
                        self.seen[one["Id"]] = self._engine.api.inspect_container(one["Id"])
                    except NotFound:
                        continue


def test_options_of_a_model_that_cannot_work_are_told_at_once(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "BEYONDSWE_MODEL_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    url = "http://127.0.0.1:9/v1"
    monkeypatch.setenv("no_proxy", "*")  # nothing stands between us and an address that leads nowhere
    bad = cli.folder / "bad.yaml"
    bad.write_text("m: {input: cheap}\n")
    cases: dict[str, tuple[list[str], str]] = {
        "no model": (["--agent", AGENT], "needs a model"),
        "no key": (["--agent", AGENT, "--model", "m"], "OPENAI_API_KEY"),
        "no address": (["--agent", AGENT, "--model", "m", "--model-url", "host/v1"], "is no address"),
        "no port": (["--agent", AGENT, "--model", "m", "--model-url", "http://h:70000/v1"], "is no address"),
        "no server": (
            ["--agent", AGENT, "--model", "m", "--model-url", url],
            "--model-url http://127.0.0.1:9/v1: no",
        ),
        "no host": (
            ["--agent", AGENT, "--model", "m", "--model-url", "http://nowhere.invalid/v1"],
            "no connection to nowhere.invalid:80",
        ),
        "key in the address": (
            ["--agent", AGENT, "--model", "m", "--model-url", "http://a:b@h/v1"],
            "must hold no key",
        ),
        "no price": (["--agent", AGENT, "--model", "m", "--model-url", url, "--max-cost", "1"], "--prices"),
        "bad prices": (
            ["--agent", AGENT, "--model", "m", "--model-url", url, "--prices", str(bad)],
            "m.input",
        ),
        "no network": (["--agent", AGENT, "--model", "m", "--model-url", url, "--network", "none"], "model"),
        "no use": (["--agent", "nop", "--max-turns", "3"], "no effect without --model"),
        "oracle": (["--agent", "oracle", "--model", "m", "--model-url", url], "asks none"),
        "network without model": (["--agent", "nop", "--network", "model"], "give it --model"),
    }
    for name, (words, said) in cases.items():
        done = cli.eval("--dataset", "demo", *words)
        assert done.code == 2 and said in done.err, (name, done.err)
        assert done.json["error"], name
    assert not cli.runs.exists()
    words = ["--agent", AGENT, "--model", "m", "--model-url", url]
    assert cli.eval("--dataset", "demo", "--dry-run", *words).code == 0

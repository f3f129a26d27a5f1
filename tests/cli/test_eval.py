"""`beyondswe eval` and `score` on a real engine: from the dataset to the report, as a user calls them."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beyondswe.runs.scheduler import TOGETHER
from beyondswe.sandbox.engine import Engine
from tests.cli.conftest import GOOD, Cli, containers_of

pytestmark = pytest.mark.engine

PHASES = {"setup", "agent", "extract", "score"}


def wait_for(condition: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return value


def test_the_oracle_scores_100_and_nop_0_and_the_folder_tells_all(
    cli: Cli, dataset: Callable[..., str]
) -> None:
    path = dataset("one", "two")
    oracle = cli.eval("--dataset", path, "--agent", "oracle", "--run-id", "o", "--workers", "2")
    assert oracle.code == 0, oracle.err
    report = oracle.json
    assert report["avg"] == 100.0
    family = report["families"]["CrossRepo"]
    counts = ("n", "attempts", "resolved", "rate", "rate_excluding_infrastructure", "statuses")
    assert [family[key] for key in counts] == [2, 2, 2, 100.0, 100.0, {"resolved": 2}]
    assert report == json.loads((cli.runs / "o" / "report.json").read_text())

    nop = cli.eval("--dataset", path, "--agent", "nop", "--run-id", "n")
    assert nop.code == 0, nop.err
    assert nop.json["avg"] == 0.0
    assert nop.json["statuses"] == {"empty_patch": 2}

    run = json.loads((cli.runs / "o" / "run.json").read_text())
    assert run["dataset"]["n"] == 2 and len(run["dataset"]["hash"]) == 64
    assert run["agent"]["name"] == "oracle" and run["network"] == "none" and run["prompt"] == "default"
    assert set(run["images"]) == {"one", "two"} and all(run["images"].values())
    assert run["finished"] >= run["started"]
    (first, _) = cli.outcomes("o")
    assert first["agent_status"] == "finished" and first["resolved"] and first["score"] == 1.0
    assert first["f2p"] == {"tests/test_add.py::test_add": "passed"}
    assert first["p2p"] == {"tests/test_calc.py::test_sub": "passed"}
    assert set(first["timings"]) == PHASES and first["timings"]["agent"] > 0
    folder = cli.attempt("o", first["instance_id"])
    patch = (folder / "patch.diff").read_bytes()
    assert hashlib.sha256(patch).hexdigest() == first["patch_sha256"]
    assert b"deleted file" in patch and b"+    return a + b" in patch
    assert json.loads((folder / "outcome.json").read_text()) == first
    assert (folder / "runner.jsonl").stat().st_size > 0
    assert not (cli.runs / "o" / "tmp").exists()


def test_the_status_tells_verdict_and_end_of_the_agent(cli: Cli, dataset: Callable[..., str]) -> None:
    cases = {
        GOOD: ("resolved", "finished", True),
        "echo '# x' >> calc.py": ("unresolved", "finished", False),
        ":": ("empty_patch", "finished", False),
        f"{GOOD}; exit 3": ("resolved", "error", True),
        "echo '# x' >> calc.py; exit 3": ("agent_error", "error", False),
        "no-such-command": ("agent_error", "error", False),
        f"{GOOD}; sleep 600": ("resolved", "timeout", True),
        "echo '# x' >> calc.py; setsid sleep 600": ("agent_timeout", "timeout", False),
        "sleep 600": ("agent_timeout", "timeout", False),
        "head -c 60000000 /dev/urandom > big": ("patch_rejected", "finished", False),
    }
    commands = {f"case-{n}": command for n, command in enumerate(cases)}
    done = cli.obey(dataset(statements=commands), "--run-id", "r", "--timeout", "6")
    assert done.code == 0, done.err
    found = {
        commands[o["instance_id"]]: (o["status"], o["agent_status"], o["resolved"]) for o in cli.outcomes("r")
    }
    assert found == cases
    for outcome in cli.outcomes("r"):
        if outcome["status"].startswith("agent_"):
            assert "time limit" in outcome["error"] or "exit code" in outcome["error"]
    assert re.search(
        r"first agent error: case-\d \(1\): (the agent ended with|ended by the time limit)", done.err
    )
    assert "2 verdicts from the cache" not in done.err


def test_a_run_of_which_all_fails_says_why_and_where_to_look(cli: Cli, dataset: Callable[..., str]) -> None:
    path = dataset("one", "two")
    done = cli.eval("--dataset", path, "--agent-cmd", "no-such-agent --now", "--run-id", "r")
    assert done.code == 0, done.err
    assert done.json["agent"]["name"] == "cmd-no-such-agent"
    assert "first agent error: " in done.err and "exit code 127" in done.err
    assert "no-such-agent: not found" in done.err and "inside the instance's image" in done.err
    log = cli.attempt("r", cli.outcomes("r")[0]["instance_id"]) / "logs" / "agent.log"
    assert f"log: {log}\n" in done.err
    assert f"log: {log}\n" in cli("report", "r").err


def test_the_prompt_comes_in_twice_and_nothing_else_that_tells_the_answer(
    cli: Cli, dataset: Callable[..., str]
) -> None:
    command = (
        'cat > stdin.txt; cp "$BEYONDSWE_PROMPT_FILE" file.txt; env > env.txt; '
        'find / -xdev -name "*pr77*" > found.txt; echo out; echo err >&2'
    )
    done = cli.eval("--dataset", dataset("secret_pr77"), "--agent-cmd", command, "--run-id", "r")
    assert done.code == 0, done.err
    folder = cli.attempt("r", "secret_pr77")
    patch = (folder / "patch.diff").read_text()
    assert patch.count("+add(3, 2) should be 5") == 2
    for secret in ("pr77", "test_add", "return a + b"):
        assert secret not in patch
    assert "BEYONDSWE_PROMPT_FILE=" in patch
    log = (folder / "logs" / "agent.log").read_text()
    assert "out\n" in log and "err\n" in log


def test_an_agent_comes_from_a_folder_with_its_files(cli: Cli, dataset: Callable[..., str]) -> None:
    folder = cli.folder / "my-agent"
    folder.mkdir()
    (folder / "agent.yaml").write_text(
        "name: mine\nversion: 1.5\nprompt: env\nprompt_env: TASK\nfiles: [fix.sh]\n"
        "env: {WHERE: '{workdir}'}\n"
        "command: [sh, '{agent_dir}/fix.sh', '{workdir}']\n"
    )
    (folder / "fix.sh").write_text(
        f'test "$WHERE" = "$1" && echo "$TASK" | grep -q "should be 5" && {GOOD}\n'
    )
    done = cli.eval("--dataset", dataset("one"), "--agent", "./my-agent", "--run-id", "r")
    assert done.code == 0, done.err
    assert done.json["avg"] == 100.0
    assert done.json["agent"]["name"] == "mine" and done.json["agent"]["version"] == "1.5"


def test_a_patch_taken_by_eval_gets_the_same_verdict_from_score(
    cli: Cli, dataset: Callable[..., str]
) -> None:
    commands = {"good": GOOD, "bad": "echo x > calc.py", "empty": ":"}
    path = dataset("unsubmitted", statements=commands)
    evaluated = cli.obey(path, "--run-id", "e", *(f"--instance={name}" for name in commands))
    assert evaluated.code == 0, evaluated.err
    rows = [
        {"instance_id": name, "model_patch": (cli.attempt("e", name) / "patch.diff").read_text()}
        for name in commands
    ]
    (cli.folder / "p.jsonl").write_text(
        "".join(json.dumps({**row, "model_name_or_path": "my-model"}) + "\n" for row in rows) + "{broken\n"
    )
    options = ["--dataset", path, "--predictions", "p.jsonl", "--run-id", "s", "--fresh", "--json"]
    done = cli("score", *options)
    assert done.code == 1, done.err
    assert done.json["agent"]["name"] == "my-model"
    assert "p.jsonl, line 4: not JSON" in done.err and "1 row could not be used" in done.err
    ((reason, unusable),) = ((row.pop("reason"), row) for row in done.json["unusable"])
    assert unusable == {"line": 4, "instance_id": None} and reason.startswith("not JSON")
    by_id = {outcome["instance_id"]: outcome for outcome in cli.outcomes("s")}
    for outcome in cli.outcomes("e"):
        for key in ("status", "resolved", "score", "f2p", "p2p", "flags", "patch_sha256"):
            assert by_id[outcome["instance_id"]][key] == outcome[key], key
    assert by_id["unsubmitted"]["status"] == "empty_patch"
    assert by_id["unsubmitted"]["flags"] == ["no_prediction"]
    assert done.json["families"]["CrossRepo"]["rate"] == 25.0
    assert "1 instances have no prediction" in done.err


def test_predictions_of_which_none_can_be_used_are_bad_input(cli: Cli, dataset: Callable[..., str]) -> None:
    (cli.folder / "p.jsonl").write_text('{"instance_id": "other", "model_patch": ""}\n')
    done = cli("score", "--dataset", dataset("one"), "--predictions", "p.jsonl")
    assert done.code == 2
    assert "'other' is not among the selected" in done.err
    assert not cli.runs.exists()


def test_the_same_patch_is_scored_once_unless_fresh(cli: Cli, dataset: Callable[..., str]) -> None:
    path = dataset("one")
    command = f"{GOOD}; echo '# {time.time_ns()}' >> calc.py"
    for run_id, options in (("a", []), ("b", []), ("c", ["--fresh"])):
        done = cli.eval("--dataset", path, "--agent-cmd", command, "--run-id", run_id, *options)
        assert done.code == 0, done.err
        assert ("1 verdict from the cache (--fresh scores again)" in done.err) == (run_id == "b")
        assert done.json["cached"] == (run_id == "b")
    first, second, third = (cli.outcomes(run_id)[0] for run_id in "abc")
    assert [outcome.get("cached", False) for outcome in (first, second, third)] == [False, True, False]
    assert second["timings"]["score"] < first["timings"]["score"]
    assert all(outcome["resolved"] and outcome["f2p"] == first["f2p"] for outcome in (second, third))


def test_a_run_killed_in_the_middle_is_finished_by_the_same_command(
    cli: Cli, dataset: Callable[..., str], engine: Engine
) -> None:
    run_id = f"killed-{time.time_ns()}"
    arguments = [
        "eval",
        "--dataset",
        dataset("a", "b", "c"),
        "--attempts",
        "2",
        "--workers",
        "2",
        "--run-id",
        run_id,
    ]
    arguments += ["--agent-cmd", f"sleep 1; {GOOD}", "--json"]
    results = cli.runs / run_id / "results.jsonl"
    process = cli.start(*arguments)
    wait_for(lambda: results.exists() and results.read_text().count("\n") >= 2)
    wait_for(lambda: containers_of(engine, run_id))
    process.kill()
    process.communicate()
    with results.open("a") as stream:
        stream.write('{"torn')
    finished_before = {
        (o["instance_id"], o["attempt"]) for o in map(json.loads, results.read_text().splitlines()[:-1])
    }
    kept = {key: (cli.attempt(run_id, *key) / "outcome.json").stat().st_mtime_ns for key in finished_before}

    done = cli(*arguments)
    assert done.code == 0, done.err
    attempts = [(outcome["instance_id"], outcome["attempt"]) for outcome in cli.outcomes(run_id)]
    assert sorted(attempts) == [(name, k) for name in "abc" for k in (1, 2)]
    assert done.json["avg"] == 100.0
    for key, written in kept.items():
        assert (cli.attempt(run_id, *key) / "outcome.json").stat().st_mtime_ns == written, "done twice"
    assert not containers_of(engine, run_id)
    assert not (cli.runs / run_id / "tmp").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_container_and_can_be_gone_on_with(
    cli: Cli, dataset: Callable[..., str], engine: Engine, number: signal.Signals
) -> None:
    run_id = f"interrupted-{time.time_ns()}"
    arguments = ["eval", "--dataset", dataset("a", "b"), "--run-id", run_id, "--workers", "2", "--json"]
    arguments += ["--agent-cmd", f"{GOOD}; test -e /tmp/again || sleep 20"]
    process = cli.start(*arguments)
    wait_for(lambda: len(containers_of(engine, run_id)) >= 2)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "--run-id" in err
    assert json.loads(out)["attempts"]["done"] == 0
    assert not containers_of(engine, run_id)
    listed = cli("runs", "list", "--json").json
    assert [(run["run_id"], run["state"], run["done"], run["asked"]) for run in listed] == [
        (run_id, "unfinished", 0, 2)
    ]


def test_who_leaves_at_once_is_told_how_to_go_on_and_the_next_run_removes_what_stayed(
    cli: Cli, dataset: Callable[..., str], engine: Engine
) -> None:
    run_id = f"left-{time.time_ns()}"
    path = dataset("a")
    process = cli.start("eval", "--dataset", path, "--run-id", run_id, "--agent-cmd", "sleep 100")
    wait_for(lambda: containers_of(engine, run_id))
    process.send_signal(
        signal.SIGSTOP
    )  # so that the two arrive together, as those of timeout(1) may: one stop
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    assert process.stderr is not None
    said = ""
    while "stopping: " not in said:
        said = process.stderr.readline()
        assert said and "left at once" not in said
    process.send_signal(signal.SIGSTOP)  # before it has come home
    time.sleep(TOGETHER)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"left at once; go on with the same command and --run-id {run_id}\n" in err
    assert cli.eval("--dataset", path, "--agent", "nop").code == 0
    assert not containers_of(engine, run_id)


def test_a_run_id_is_refused_with_other_options_and_while_it_lives(
    cli: Cli, dataset: Callable[..., str], engine: Engine
) -> None:
    run_id = f"alive-{time.time_ns()}"
    arguments = ["--dataset", dataset("a"), "--run-id", run_id, "--agent-cmd", "sleep 600"]
    process = cli.start("eval", *arguments)
    wait_for(lambda: containers_of(engine, run_id))
    alive = cli.eval(*arguments)
    assert alive.code == 2 and f"process {process.pid}" in alive.err
    refused = cli("runs", "remove", "--yes", run_id)
    assert refused.code == 2 and (cli.runs / run_id).exists()
    process.kill()
    process.communicate()

    other = cli.eval(*arguments, "--attempts", "3", "--timeout", "5", "--workers", "2")
    assert other.code == 2
    assert "--attempts (then 1, now 3)" in other.err and "--timeout (then 14400" in other.err
    assert "--workers" not in other.err
    changed = cli.eval("--dataset", dataset("a", problem_statement="other"), *arguments[2:])
    assert changed.code == 2 and "--dataset" in changed.err

    assert cli("runs", "remove", "--yes", run_id).code == 0
    assert not (cli.runs / run_id).exists()


def test_scoring_whose_container_is_taken_away_is_tried_again_without_the_agent(
    cli: Cli, dataset: Callable[..., str], engine: Engine
) -> None:
    run_id = f"robbed-{time.time_ns()}"
    removed: list[str] = []

    def rob() -> None:
        filters = {"label": [f"io.beyondswe.run={run_id}", "io.beyondswe.role=job"], "status": "running"}
        (container, *_) = wait_for(lambda: engine.api.containers(filters=filters))
        engine.api.remove_container(container["Id"], force=True)
        removed.append(container["Id"])

    robber = threading.Thread(target=rob)
    robber.start()
    command = f"{GOOD}; cat /proc/sys/kernel/random/uuid > once.txt; echo worked"
    done = cli.eval("--dataset", dataset("one", seconds=3), "--agent-cmd", command, "--run-id", run_id)
    robber.join()
    assert removed and done.code == 0, done.err
    assert "tried again" in done.err
    (outcome,) = cli.outcomes(run_id)
    assert outcome["status"] == "resolved" and outcome["agent_status"] == "finished"
    earlier = cli.attempt(run_id, "one") / "tries" / "1"
    before = json.loads((earlier / "outcome.json").read_text())
    assert before["status"] == "infrastructure_error" and before["error"]
    assert before["patch_sha256"] == outcome["patch_sha256"]  # the agent would have written another uuid
    assert (cli.attempt(run_id, "one") / "logs" / "agent.log").read_text() == "worked\n"


def test_an_instance_without_a_reference_is_an_error_of_the_oracle(
    cli: Cli, dataset: Callable[..., str]
) -> None:
    done = cli.eval("--dataset", dataset("one", patch=""), "--agent", "oracle", "--run-id", "r")
    assert done.code == 0, done.err
    (outcome,) = cli.outcomes("r")
    assert (outcome["status"], outcome["agent_status"]) == ("agent_error", "error")
    assert "one has no reference change (field patch)" in outcome["error"]


def test_an_image_that_cannot_be_had_is_an_infrastructure_error_and_exit_1(
    cli: Cli, dataset: Callable[..., str]
) -> None:
    path = Path(dataset("good", "bad"))
    good, bad = map(json.loads, path.read_text().splitlines())
    bad["image"] = "localhost:1/not/there:1"
    path.write_text(json.dumps(good) + "\n" + json.dumps(bad) + "\n")
    done = cli.eval("--dataset", str(path), "--agent", "oracle", "--run-id", "r")
    assert done.code == 1, done.err
    assert done.json["statuses"] == {"resolved": 1, "infrastructure_error": 1}
    assert done.json["families"]["CrossRepo"]["rate"] == 50.0
    assert done.json["families"]["CrossRepo"]["rate_excluding_infrastructure"] == 100.0
    assert (cli.attempt("r", "bad") / "tries" / "2" / "outcome.json").exists()
    assert "localhost:1/not/there:1" in (cli.attempt("r", "bad") / "logs" / "error.log").read_text()


def test_an_image_that_is_nowhere_is_not_asked_for_again(cli: Cli, dataset: Callable[..., str]) -> None:
    done = cli.eval(
        "--dataset", dataset("one", image="beyondswe/nowhere:1"), "--agent", "oracle", "--run-id", "r"
    )
    assert done.code == 1, done.err
    assert "first infrastructure error: one (1): there is no image beyondswe/nowhere:1 on this" in done.err
    assert "tried again" not in done.err and not (cli.attempt("r", "one") / "tries").exists()
    assert f"log: {cli.attempt('r', 'one') / 'logs' / 'error.log'}\n" in done.err


def test_a_hidden_patch_that_does_not_apply_is_not_tried_again(cli: Cli, dataset: Callable[..., str]) -> None:
    hidden = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-nothing\n+like it\n"
    done = cli.eval("--dataset", dataset("one", f2p_patch=hidden), "--agent", "oracle", "--run-id", "r")
    assert done.code == 1, done.err
    assert "is at fault, not the patch" in done.err
    assert "tried again" not in done.err and not (cli.attempt("r", "one") / "tries").exists()


@pytest.mark.parametrize(
    ("arguments", "env", "words"),
    [
        (["--runs-dir", "/proc/foo"], {}, "--runs-dir /proc/foo cannot be written to"),
        ([], {"BEYONDSWE_CACHE": "/proc/x"}, "another one with BEYONDSWE_CACHE"),
        ([], {"BEYONDSWE_NAMESPACE": "a b"}, "BEYONDSWE_NAMESPACE='a b': use letters"),
    ],
)
def test_what_cannot_be_written_to_is_wrong_use_in_one_line(
    cli: Cli, dataset: Callable[..., str], arguments: list[str], env: dict[str, str], words: str
) -> None:
    done = cli("eval", "--json", "--dataset", dataset("one"), "--agent", "nop", *arguments, env=env)
    assert done.code == 2
    assert words in done.err and done.err.count("\n") == 1
    assert done.json["error"]["exit_code"] == 2
    assert not cli.runs.exists()


def test_a_run_goes_on_with_what_is_left_and_counts_the_whole(cli: Cli, dataset: Callable[..., str]) -> None:
    path = dataset("a", "b")
    arguments = ["--dataset", path, "--agent", "nop", "--run-id", "r"]
    first = cli.eval(*arguments)
    assert "0/2 attempts\n" in first.err and "2/2 attempts: 2 empty_patch\n" in first.err
    again = cli.eval(*arguments)
    assert again.code == 0, again.err
    assert "2/2 attempts: 2 empty_patch (2 from before)\n" in again.err


def test_that_the_host_has_less_than_the_default_is_said_by_eval_alone_and_once(
    cli: Cli, dataset: Callable[..., str], engine: Engine
) -> None:
    cpus = engine.info["NCPU"]
    path = dataset("one")
    by_default = cli.eval("--dataset", path, "--agent", "nop", "--run-id", "d")
    assert by_default.err.count("the paper's default of 4 CPUs") == (1 if cpus < 4 else 0)
    assert "limit capped: cpus" not in by_default.err
    asked = cli.eval("--dataset", path, "--agent", "nop", "--run-id", "a", "--cpus", str(cpus + 1))
    assert asked.err.count(f"limit capped: cpus: asked for {cpus + 1}, the host has {cpus}\n") == 1
    assert "the paper's default" not in asked.err.replace("of memory", "") or "CPUs" not in asked.err
    (cli.folder / "p.jsonl").write_text('{"instance_id": "one", "model_patch": ""}\n')
    scored = cli("score", "--dataset", path, "--predictions", "p.jsonl")
    assert scored.code == 0 and "default" not in scored.err and "capped" not in scored.err
    assert any("cpus" in note for note in json.loads((cli.runs / "a" / "run.json").read_text())["notes"])


def test_set_up_is_paid_once_an_instance(cli: Cli, dataset: Callable[..., str]) -> None:
    path = dataset("one", pre_commands=f"cat /proc/sys/kernel/random/uuid > stamp; : {time.time_ns()}")
    done = cli.eval(
        "--dataset", path, "--agent-cmd", "cat stamp", "--attempts", "3", "--workers", "2", "--run-id", "r"
    )
    assert done.code == 0, done.err
    stamps = {(cli.attempt("r", "one", k) / "logs" / "agent.log").read_text() for k in (1, 2, 3)}
    assert len(stamps) == 1 and len(stamps.pop()) > 30
    assert done.json["attempts"] == {"asked": 3, "done": 3, "per_instance": 3}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--agent"),
        (["--agent", "oracle", "--agent-cmd", "x"], "one of the two"),
        (["--agent", "nobody"], "no agent is called 'nobody'"),
        (["--agent", "orcale"], "did you mean oracle?"),
        (["--agent", "nop", "--dataset", "dmeo"], "demo and pypi; did you mean demo?"),
        (["--agent", "nop", "--prompt", "none.j2"], "neither 'default' nor 'searchswe' nor a file"),
        (["--agent", "nop", "--memory", "lots"], "is no size"),
        (["--agent", "nop", "--disk", "0"], "more than 0"),
        (["--agent", "nop", "--memory", "1k"], "the least is 64m"),
        (["--agent", "nop", "--split", "test"], "only dataset repositories"),
        (["--agent", "nop", "--shard", "3/2"], "is no shard"),
        (["--agent", "nop", "--instance", "nope"], "no instance matches"),
        (["--agent", "nop", "--run-id", "../x"], "run id '../x'"),
        (["--agent", "nop", "--model", "m"], "--model"),
        (["--agent", "nop", "--max-turns", "3"], "--max-turns"),
    ],
)
def test_wrong_use_is_exit_2_and_starts_nothing(
    cli: Cli, dataset: Callable[..., str], arguments: list[str], words: str
) -> None:
    done = cli.eval("--dataset", dataset("one"), *arguments)
    assert done.code == 2
    assert words in done.err
    assert words in done.json["error"]["message"]
    assert not cli.runs.exists() or not any(cli.runs.iterdir())


def test_without_an_engine_the_exit_code_is_3(cli: Cli, dataset: Callable[..., str]) -> None:
    nowhere = {"DOCKER_HOST": f"unix://{cli.folder}/none.sock"}
    done = cli("eval", "--dataset", dataset("one"), "--agent", "nop", env=nowhere)
    assert done.code == 3
    assert "engine setup" in done.err


def test_report_and_runs_need_the_folders_only(cli: Cli, dataset: Callable[..., str]) -> None:
    path = dataset("one")
    for agent in ("oracle", "nop"):
        assert cli.eval("--dataset", path, "--agent", agent, "--run-id", agent).code == 0
    nowhere = {"DOCKER_HOST": f"unix://{cli.folder}/none.sock"}
    assert cli("report", "oracle", "--json", env=nowhere).json["avg"] == 100.0
    both = cli("report", "oracle", str(cli.runs / "nop"), "--json", env=nowhere)
    assert [report["avg"] for report in both.json] == [100.0, 0.0]
    table = cli("report", "oracle", "nop", env=nowhere)
    assert table.out == "" and "100.00" in table.err and "0.00" in table.err
    name = "a-run-whose-id-is-so-long-that-no-table-of-eighty-columns-has-room-for-it-and-more"
    (cli.runs / "nop").rename(cli.runs / name)
    run = json.loads((cli.runs / name / "run.json").read_text())
    (cli.runs / name / "run.json").write_text(json.dumps(run | {"run_id": name}))
    one = cli("report", name, env=nowhere)
    assert f"{name}\n" in one.err and one.err.split()[-3:] == ["AVG", "0.00", "–"]
    (row,) = (line for line in cli("runs", "list", env=nowhere).err.splitlines() if name in line)
    assert row.split()[1:] == ["tiny", "nop", "finished", "1/1", "0.00"]
    (cli.runs / name).rename(cli.runs / "nop")
    listed = cli("runs", "list", "--json", env=nowhere).json
    assert [(run["run_id"], run["state"], run["avg"]) for run in listed] == [
        ("nop", "finished", 0.0),
        ("oracle", "finished", 100.0),
    ]
    assert cli("report", "none", env=nowhere).code == 2
    elsewhere = cli("runs", "list", "--runs-dir", "nosuch", env=nowhere)
    assert elsewhere.code == 2 and "there is no such folder" in elsewhere.err
    kept = cli("runs", "remove", "oracle", env=nowhere)
    assert kept.code == 2 and "--yes removes" in kept.err and (cli.runs / "oracle").exists()
    assert cli("runs", "remove", "-y", "oracle", env=nowhere).code == 0


def test_excluded_instances_are_left_out_and_named_with_their_reason(
    cli: Cli, dataset: Callable[..., str], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text(
        '{"instance_id": "two", "status": "rejected", "reason": "its tests have rotted"}\n# a note\nelsewhere\n'
    )
    words = ("--dataset", dataset("one", "two"), "--agent", "nop", "--exclude", str(out))
    done = cli.eval(*words, "--run-id", "x")
    assert done.code == 0 and done.json["attempts"]["asked"] == 1
    assert done.json["dataset"]["excluded"] == {"two": "its tests have rotted"}
    assert (
        "excluded: two: its tests have rotted" in done.err
        and "excluded, with reasons in run.json: 1 (two)" in done.err
    )
    for line in ('{"reason": "nobody knows"}', '{"instance_id": 5}', "[]", "[" * 100_000):
        out.write_text(f"{line}\n")
        done = cli.eval(*words)
        assert done.code == 2 and "line 1" in done.err and "Traceback" not in done.err

"""Agents that harm whatever they can: each attempt ends in the right status within its limits, the others go on."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from beyondswe.sandbox.engine import Engine
from tests.cli.conftest import GOOD, Cli, containers_of

pytestmark = pytest.mark.engine

PYTHON = "python3 - <<'EOF'\n{}\nEOF\n"
FORK_BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
MEMORY_HOG = """
kept = []
while True:
    kept.append(bytearray(b"x") * (1 << 20))
"""
DELETED_FILE = """
import os, time
file = open("/var/tmp/gone", "wb")
os.unlink("/var/tmp/gone")
for _ in range(300):
    file.write(bytes(1 << 20))
file.flush()
time.sleep(600)
"""
LATE = "while :; do date >> late.txt; done"
AGENTS = {
    "fork-bomb": PYTHON.format(FORK_BOMB),
    "memory-hog": PYTHON.format(MEMORY_HOG),
    "disk-filler": "dd if=/dev/zero of=/var/tmp/big bs=1M count=300 2> /dev/null; sleep 600",
    "disk-filler-in-the-tree": "dd if=/dev/zero of=big bs=1M count=300 2> /dev/null; sleep 600",
    "deleted-file": PYTHON.format(DELETED_FILE),
    "endless-output": "yes endless",
    "deaf": "trap '' TERM INT HUP; while :; do sleep 1; done",
    "zombies": f"for i in $(seq 200); do (sleep 0.01 &); done; {GOOD}",
    "survivor": f"{GOOD}; setsid nohup sh -c '{LATE}' > /dev/null 2>&1 &",
    "kills-all": f"{GOOD}; kill -9 -1; sleep 600",
    "kills-its-shell": f"{GOOD}; kill -9 $$",
    "stops-process-1": f"kill -STOP 1; kill -9 1; {GOOD}",
    "honest": GOOD,
}
TIMEOUT = 25


@pytest.mark.slow  # it takes the machine to its limits, which other tests would feel
def test_every_attempt_ends_in_the_right_status_and_the_others_go_on(
    cli: Cli, dataset: Callable[..., str], engine: Engine
) -> None:
    limits = [
        "--timeout",
        str(TIMEOUT),
        "--cpus",
        "1",
        "--memory",
        "256m",
        "--disk",
        "100m",
        "--workers",
        "3",
    ]
    done = cli.obey(dataset(statements=AGENTS), "--run-id", "hostile", *limits)
    assert done.code == 0, done.err
    expected = {
        "fork-bomb": ("agent_timeout", "timeout", "time limit"),  # or the kernel ends it for memory
        "memory-hog": ("agent_error", "error", "out of memory"),
        "disk-filler": ("agent_error", "error", "disk: it held more than its limit of 100 MiB"),
        "disk-filler-in-the-tree": ("agent_error", "error", "disk"),
        "deleted-file": ("agent_error", "error", "disk"),
        "endless-output": ("agent_timeout", "timeout", "time limit"),
        "deaf": ("agent_timeout", "timeout", "time limit"),
        "zombies": ("resolved", "finished", ""),
        "survivor": ("resolved", "finished", ""),
        "kills-all": ("resolved", "error", ""),
        "kills-its-shell": ("resolved", "error", ""),
        "stops-process-1": ("resolved", "finished", ""),
        "honest": ("resolved", "finished", ""),
    }
    ends = {row["instance_id"]: row for row in cli.outcomes("hostile")}
    if ends["fork-bomb"]["agent_status"] == "error":
        expected["fork-bomb"] = ("agent_error", "error", "137")
    if ends["disk-filler-in-the-tree"]["status"] == "patch_rejected":  # it wrote faster than we look
        expected["disk-filler-in-the-tree"] = ("patch_rejected", "error", "too large")
    wrong = {
        name: (row["status"], row["agent_status"], row["error"])
        for name, row in ends.items()
        if (row["status"], row["agent_status"]) != expected[name][:2]
        or expected[name][2] not in (row["error"] or "")
    }
    assert not wrong
    assert ends.keys() == expected.keys()
    assert {name for name, row in ends.items() if row["timings"]["agent"] > TIMEOUT + 45} == set()
    log = cli.attempt("hostile", "endless-output") / "logs" / "agent.log"
    assert b"bytes left out" in log.read_bytes() and log.stat().st_size < 3 << 20
    assert not containers_of(engine, "hostile")


def test_a_sandbox_that_is_paused_from_outside_ends_by_its_time_limit(
    cli: Cli, dataset: Callable[..., str], engine: Engine
) -> None:
    path = dataset(statements={"frozen": "touch begun; sleep 600", "honest": GOOD})
    (cli.folder / "obey.j2").write_text("{{ problem_statement }}")
    words = ["--agent-cmd", "sh", "--prompt", "obey.j2", "--run-id", "p", "--timeout", "6", "--workers", "2"]
    with cli.start("eval", "--json", "--dataset", path, *words) as process:
        deadline = time.monotonic() + 60
        paused = False
        while not paused:
            assert time.monotonic() < deadline
            for one in containers_of(engine, "p"):
                if one["State"] != "running" or one["Labels"]["io.beyondswe.role"] != "sandbox":
                    continue
                if "sleep 600" in str(engine.api.top(one["Id"], "-eo pid,args")["Processes"]):
                    engine.api.pause(one["Id"])
                    paused = True
        _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert {row["instance_id"]: row["status"] for row in cli.outcomes("p")} == {
        "frozen": "agent_timeout",
        "honest": "resolved",
    }
    assert not containers_of(engine, "p")

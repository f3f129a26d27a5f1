"""Overhead of scoring one patch: against the floor (a container's bare life) and against `swebench` on the same images.

    python benchmarks/scoring.py [--rounds 15] [--swebench PYTHON]

Overhead is the time of scoring less the time of the tests themselves (interpreter, pytest, suite), with the
container removed. The floor is create, start, wait, remove of a container of the same image, network none, a
command as process 1, by the engine's API. PYTHON is the interpreter of an environment with swebench 5.0.2;
each of its rounds takes 20 seconds as shipped, most of it a stop that waits.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import in_turn, table

from beyondswe.cli.datasets import image_provider, open_dataset
from beyondswe.instances.model import Instance
from beyondswe.sandbox.build import build_image
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.environment import prepare
from beyondswe.sandbox.limits import capped
from beyondswe.sandbox.removal import finish_removals
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.score import score_patch

DATASET, INSTANCE = "demo", "larderbook_rowkeeper_2"


def floor(engine: Engine, image: str) -> None:
    api = engine.api
    host = api.create_host_config(network_mode="none")
    container = api.create_container(image, ["true"], entrypoint=[], host_config=host)["Id"]
    api.start(container)
    api.wait(container)
    api.remove_container(container, force=True, v=True)


def ours(engine: Engine, instance: Instance, environment: Environment, limits: Limits) -> float:
    """Seconds of one scoring without the tests."""
    begun = time.perf_counter()
    scored = score_patch(engine, instance, environment, instance.patch, limits=limits)
    finish_removals()
    assert scored.resolved, scored
    return time.perf_counter() - begun - scored.timings["tests"] - scored.timings.get("controls", 0.0)


def swebench(
    engine: Engine, instance: Instance, environment: Environment, python: str
) -> Callable[[], float]:
    """A function that runs `run_evaluation` on the instance and gives its seconds per instance without the tests."""
    # It works in /testbed, and wants the hidden tests applied by a script of the row.
    image = build_image(
        engine,
        context={"hidden.patch": instance.f2p_patch.encode()},
        dockerfile=(
            f"FROM {environment.image}\nCOPY hidden.patch /hidden.patch\n"
            f"RUN ln -s {instance.workdir} /testbed\n"
        ),
        tag="beyondswe-benchmark/swebench:latest",
        network="none",
    )
    files = sorted({name.split("::")[0] for name in (*instance.fail_to_pass, *instance.pass_to_pass)})
    script = [
        "#!/bin/bash",
        "set -uxo pipefail",
        "cd /testbed",
        "git apply /hidden.patch",
        ": '>>>>> Start Test Output'",
        f"python -m pytest -rA {' '.join(files)}",
        ": '>>>>> End Test Output'",
    ]
    row = {
        "instance_id": "bench__bench-1",
        "repo": "bench/bench",
        "version": "1",
        "image": image,
        "base_commit": instance.base_commit,
        "patch": instance.patch,
        "test_patch": instance.f2p_patch,
        "problem_statement": "",
        "FAIL_TO_PASS": list(instance.fail_to_pass),
        "PASS_TO_PASS": list(instance.pass_to_pass),
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        "eval_script": "\n".join(script),
    }
    count = 0

    def run() -> float:
        nonlocal count
        count += 1
        with tempfile.TemporaryDirectory() as folder:
            data, made = Path(folder, "data.jsonl"), Path(folder, "preds.jsonl")
            data.write_text(json.dumps(row) + "\n")
            prediction = {
                "instance_id": row["instance_id"],
                "model_name_or_path": "gold",
                "model_patch": row["patch"],
            }
            made.write_text(json.dumps(prediction) + "\n")
            command = [python, "-m", "swebench.harness.run_evaluation", "-d", str(data), "-p", str(made)]
            begun = time.perf_counter()
            subprocess.run(
                [*command, "--max_workers", "1", "-id", f"bench{os.getpid()}-{count}"],
                cwd=folder,
                check=True,
                capture_output=True,
            )
            taken = time.perf_counter() - begun
            report = next(Path(folder).rglob("report.json"))
            assert json.loads(report.read_text())[row["instance_id"]]["resolved"], report.read_text()
        return taken - start_up(python) - tests

    tests = pytest_seconds(engine, environment, instance, files)
    return run


def start_up(python: str) -> float:
    begun = time.perf_counter()
    subprocess.run(
        [python, "-m", "swebench.harness.run_evaluation", "--help"], check=True, capture_output=True
    )
    return time.perf_counter() - begun


def pytest_seconds(engine: Engine, environment: Environment, instance: Instance, files: list[str]) -> float:
    """Seconds that the same pytest command takes in a warm container (median of five)."""
    container = engine.client.containers.run(
        environment.image, ["sleep", "600"], entrypoint=[], detach=True, network_mode="none", init=True
    )
    try:
        taken = []
        for _ in range(5):
            begun = time.perf_counter()
            container.exec_run(["python", "-m", "pytest", "-rA", *files], workdir=instance.workdir)
            taken.append(time.perf_counter() - begun)
        return sorted(taken)[2]
    finally:
        container.remove(force=True)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--swebench", metavar="PYTHON")
    given = options.parse_args()
    engine = Engine.connect()
    instance = open_dataset(DATASET, instances=[INSTANCE]).instances[0]
    environment = prepare(
        engine,
        image_provider(engine, DATASET)(instance),
        workdir=instance.workdir,
        base_commit=instance.base_commit,
        pre_commands=instance.pre_commands,
    )
    limits, _ = capped(Limits(), engine)
    candidates: dict[str, Callable[[], float | None]] = {
        "floor": lambda: floor(engine, environment.image),
        "beyondswe": lambda: ours(engine, instance, environment, limits),
    }
    table(in_turn(given.rounds, candidates), against="floor")
    if given.swebench:
        peer = swebench(engine, instance, environment, given.swebench)
        both = {"beyondswe": candidates["beyondswe"], "swebench as shipped": peer}
        table(in_turn(max(3, given.rounds // 5), both), against="beyondswe")


if __name__ == "__main__":
    main()

"""Cost of verifying: ten runs one at a time, each in a fresh container, against ten bare runs of the same tests.

    python benchmarks/verify.py [--seconds 10] [--runs 10]

The suite is ten tests that reckon for a tenth of the seconds each. A bare run is the same pytest command in a warm
container of the same image. Runs are taken in turn, so that a drift of the machine falls on both alike.
"""

from __future__ import annotations

import argparse
import os
import time

from common import in_turn, table

from beyondswe.cli.datasets import image_provider, open_dataset
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.environment import prepare
from beyondswe.sandbox.limits import capped
from beyondswe.sandbox.removal import finish_removals
from beyondswe.sandbox.types import Limits
from beyondswe.scoring.score import run_tests

DATASET, INSTANCE = "demo", "larderbook_rowkeeper_2"
TESTS = """import time

import pytest


@pytest.mark.parametrize("number", range(10))
def test_reckons(number):
    end = time.process_time() + {seconds}
    while time.process_time() < end:
        pass
"""


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--runs", type=int, default=10)
    given = options.parse_args()
    engine = Engine.connect()
    instance = open_dataset(DATASET, instances=[INSTANCE]).instances[0]
    environment = prepare(
        engine,
        image_provider(engine, DATASET)(instance),
        workdir=instance.workdir,
        base_commit=instance.base_commit,
    )
    text = TESTS.format(seconds=given.seconds / 10)
    timed = instance.model_copy(
        update={
            "f2p_patch": "",
            "f2p_script": text,
            "fail_to_pass": tuple(f"test_fail_to_pass.py::test_reckons[{n}]" for n in range(10)),
            "pass_to_pass": (),
            "verification": {"tree": "read_only"},
        }
    )
    limits, _ = capped(Limits(cpus=1), engine)
    container = engine.client.containers.run(
        environment.image,
        ["sleep", "7200"],
        entrypoint=[],
        detach=True,
        network_mode="none",
        init=True,
        nano_cpus=int(limits.cpus * 1e9),
    )

    def bare() -> None:
        command = ["python", "-m", "pytest", "-q", "test_fail_to_pass.py"]
        done = container.exec_run(command, workdir=instance.workdir)
        assert done.exit_code == 0, done.output

    def ours() -> float:
        begun = time.perf_counter()
        run = run_tests(engine, timed, environment, instance.patch, limits=limits)
        finish_removals()
        assert run.finished and set(run.tests.values()) == {"passed"}, run
        return time.perf_counter() - begun

    try:
        write = f"cat > test_fail_to_pass.py <<'END'\n{text}END"
        assert container.exec_run(["sh", "-c", write], workdir=instance.workdir).exit_code == 0
        table(
            in_turn(given.runs, {"bare, warm container": bare, "verify's run": ours}), "bare, warm container"
        )
        print(f"load: {os.getloadavg()}")
    finally:
        container.remove(force=True)


if __name__ == "__main__":
    main()

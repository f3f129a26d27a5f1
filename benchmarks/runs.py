"""Whole runs: throughput with 1, 2 and 4 workers, memory of the host process, and attempt 2 against attempt 1.

    python benchmarks/runs.py [--attempts 12] [--long 100]

The instance is the demo's DepMigrate environment with one hidden test that takes a second; the agent is the oracle.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from beyondswe.cli.datasets import image_provider, open_dataset
from beyondswe.instances import write_instances
from beyondswe.sandbox.engine import Engine

TEST = "import time\n\n\ndef test_second():\n    time.sleep(1)\n    import solved\n"
PATCH = (
    "diff --git a/solved.py b/solved.py\nnew file mode 100644\n"
    "--- /dev/null\n+++ b/solved.py\n@@ -0,0 +1 @@\n+DONE = True\n"
)


def dataset(folder: Path) -> Path:
    """A dataset of one instance whose set-up nobody has paid for yet."""
    instance = open_dataset("demo", instances=["larderbook_rowkeeper_2"]).instances[0]
    image_provider(Engine.connect(), "demo")(instance)
    made = instance.model_copy(
        update={
            "patch": PATCH,
            "f2p_patch": "",
            "f2p_script": TEST,
            "fail_to_pass": ("test_fail_to_pass.py::test_second",),
            "pass_to_pass": (),
            "pre_commands": (f": {secrets.token_hex(8)}",),
            "verification": None,
        }
    )
    write_instances(folder / "one.jsonl", [made])
    return folder / "one.jsonl"


def run(
    data: Path, folder: Path, name: str, *, workers: int, attempts: int
) -> tuple[float, int, list[dict[str, object]]]:
    """Seconds, peak memory of the process in bytes, outcomes."""
    command = [
        sys.executable,
        "-m",
        "beyondswe.cli",
        "eval",
        "--dataset",
        str(data),
        "--agent",
        "oracle",
        "--fresh",
    ]
    command += [
        "--attempts",
        str(attempts),
        "--workers",
        str(workers),
        "--run-id",
        name,
        "--runs-dir",
        str(folder),
    ]
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, said.decode()
    rows = [json.loads(line) for line in (folder / name / "results.jsonl").read_text().splitlines()]
    assert len(rows) == attempts and all(row["resolved"] for row in rows)
    return time.perf_counter() - begun, usage.ru_maxrss * 1024, rows


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--attempts", type=int, default=12)
    options.add_argument("--long", type=int, default=100)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = dataset(folder)
        _, _, rows = run(data, folder, "first", workers=1, attempts=2)
        for number, row in enumerate(rows, 1):
            print(f"attempt {number}: {row['timings']}")
        for workers in (1, 2, 4):
            seconds, _, _ = run(data, folder, f"workers{workers}", workers=workers, attempts=given.attempts)
            print(f"{workers} workers: {given.attempts / seconds:.2f} attempts a second")
        seconds, peak, _ = run(data, folder, "long", workers=2, attempts=given.long)
        print(f"{given.long} attempts in {seconds:.0f} s: peak of the host process {peak / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()

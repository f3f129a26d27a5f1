"""What hardening costs: overhead of scoring in this checkout against another one, in turn on the same machine.

    git worktree add /tmp/before COMMIT        # 7b6d32d is the last one that scored plainly
    python benchmarks/hardening.py /tmp/before [--rounds 25]

Overhead is as in `scoring.py`: without the tests themselves, and without the negative controls. Each checkout has a
process of its own that scores when it is asked to; both score the same instance of the demo, each with its own record.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from common import in_turn, table

HERE = Path(__file__).resolve().parent.parent
SERVER = """
import sys
from scoring import DATASET, INSTANCE, ours
from beyondswe.cli.datasets import image_provider, open_dataset
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.environment import prepare
from beyondswe.sandbox.limits import capped
from beyondswe.sandbox.types import Limits

engine = Engine.connect()
instance = open_dataset(DATASET, instances=[INSTANCE]).instances[0]
environment = prepare(
    engine, image_provider(engine, DATASET)(instance), workdir=instance.workdir, base_commit=instance.base_commit
)
limits, _ = capped(Limits(), engine)
for _ in sys.stdin:
    print(ours(engine, instance, environment, limits), flush=True)
"""


def server(checkout: Path, name: str) -> subprocess.Popen[str]:
    """A process that scores once for every line that it is given, and answers with the seconds."""
    cache = Path(os.environ.get("BEYONDSWE_CACHE", "/tmp/beyondswe-bench")) / f"hardening-{name}"
    return subprocess.Popen(
        [sys.executable, "-c", SERVER],
        cwd=checkout,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(checkout), str(checkout / "benchmarks")]),
            "BEYONDSWE_CACHE": str(cache),  # neither finds what the other made
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def asked(process: subprocess.Popen[str]) -> float:
    assert process.stdin and process.stdout
    print(file=process.stdin, flush=True)
    return float(process.stdout.readline())


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("before", type=Path)
    options.add_argument("--rounds", type=int, default=25)
    given = options.parse_args()
    with server(given.before.resolve(), "before") as before, server(HERE, "now") as now:
        candidates = {"before": lambda: asked(before), "now": lambda: asked(now)}
        table(in_turn(given.rounds, candidates), against="before")
        print(f"load: {os.getloadavg()}")


if __name__ == "__main__":
    main()

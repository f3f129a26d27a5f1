"""Cost of tests that print a lot: the runner draining N MB, beside a pipe that is only read, both in a container.

Shown: seconds for each size. The cost must grow with the size and not faster, and stay near that of reading.
"""

from __future__ import annotations

import sys

from common import in_turn, table

from beyondswe.sandbox.base_images import ensure_base_image
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.limits import capped
from beyondswe.sandbox.types import Limits
from beyondswe.scoring.job import Job, run_job

PRINT = "import sys\nfor _ in range({size}): sys.stdout.write(('x' * 1023 + chr(10)) * 1024)"
READ = (
    "import os, subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', {program!r}], stdout=subprocess.PIPE)\n"
    "while os.read(child.stdout.fileno(), 1 << 20): pass\n"
    "child.wait()"
)


def main() -> None:
    engine = Engine.connect()
    image = ensure_base_image(engine)
    limits, _ = capped(Limits(), engine)

    def seconds(program: str, least: int) -> float:
        job = Job(workdir="/tmp", command=("{python}", "-c", program))
        evidence = run_job(engine, image, job, limits=limits)
        assert evidence.end and evidence.end["exit_code"] == 0 and len(evidence.log) < 2 << 20, evidence
        assert evidence.log or not least
        return evidence.seconds

    for size in (8, 16, 32, 64, 128):
        program = PRINT.format(size=size)
        candidates = {
            f"read {size} MB": lambda program=program: seconds(READ.format(program=program), 0),
            f"runner drains {size} MB": lambda program=program, size=size: seconds(program, size),
        }
        table(in_turn(5, candidates), against=f"read {size} MB")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

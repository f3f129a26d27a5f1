"""The day as of which package indexes are shown to agents, where an instance does not name it.

The later of the base commit's date and the newest package in the image. A package does not say when it came out, so it
is the day on which it was installed: never too early for what the environment holds, and late for an image that was
built long after the commit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from beyondswe.errors import ScoringError
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.job import Job, run_job
from beyondswe.scoring.verdict import infrastructure_fault

_TIMEOUT = 120.0
_SCRIPT = """
import os, subprocess, sys, time
found = []
try:
    said = subprocess.check_output(["git", "-c", "safe.directory=*", "log", "-1", "--format=%ct"])
    found.append(int(said))
except (OSError, ValueError, subprocess.CalledProcessError):
    pass
for folder in sys.path[1:]:
    try:
        names = os.listdir(folder)
    except OSError:
        continue
    for name in names:
        if name.endswith((".dist-info", ".egg-info")):
            found.append(os.stat(os.path.join(folder, name)).st_mtime)
if found:
    print("day", time.strftime("%Y-%m-%d", time.gmtime(max(found))))
"""


def index_date(
    engine: Engine, environment: Environment, *, limits: Limits, run_labels: Mapping[str, str] | None
) -> str:
    """The day, as an ISO date; nothing where the image tells none."""
    job = Job(
        workdir=environment.workdir,
        user=environment.user,
        command=("{python}", "-B", "-c", _SCRIPT),
    )
    limits = replace(limits, test_timeout=min(limits.test_timeout, _TIMEOUT))
    evidence = run_job(engine, environment.image, job, limits=limits, run_labels=run_labels)
    if reason := infrastructure_fault(evidence):
        raise ScoringError(f"while the dates of its packages were looked up: {reason}")
    match = re.search(r"^day (\d{4}-\d\d-\d\d)$", evidence.log, re.MULTILINE)
    return match[1] if match else ""

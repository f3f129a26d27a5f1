"""The scoring job: trusted runner and change in one archive, one container from start to end, its frames as
evidence.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from beyondswe.errors import ScoringError
from beyondswe.resources import resource
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Ended, Limits
from beyondswe.scoring.evidence import Evidence, read_evidence, read_rounds

_RUNNER_FILES = ("supervise.py", "tree.py", "worker.py")
_LOG_LIMIT = 256 << 10  # bytes of the head and of the tail of what tests print
_MAX_OUTPUT = 200 << 20  # bytes of frames: above what the runner sends by its own limits
_FILES_LIMIT = 64 << 20  # bytes of what a command may leave behind
_GRACE = 60.0  # seconds beyond the tests' own limit for start, files and the killing of what is left

# The image's own Python, found as its PATH says. A shell does the looking: a container start costs more than
# it does.
_START = (
    "for p in python python3; do "
    'if command -v "$p" >/dev/null; then exec "$p" -I -S -B "$0/supervise.py" "$0"; fi; '
    'done; echo "no python and no python3 on PATH=$PATH" >&2; exit 127'
)


@dataclass(frozen=True)
class Write:
    """A file to put in place. ``place``: 0 is the workdir, then the job's ``places``. Modes as git's, or
    ``script``.
    """

    path: bytes
    mode: str
    data: bytes
    place: int = 0


@dataclass(frozen=True)
class Round:
    """The tests once more, some of their files in another form."""

    write: tuple[Write, ...]  # in the workdir
    ids: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """What one container is to do: put a change in place, then run tests or a command."""

    workdir: str
    user: str = ""  # who runs the child; the supervisor is root
    sealed: bool = False  # in place of that user one who cannot write to the workdir
    delete: tuple[bytes, ...] = ()
    write: tuple[Write, ...] = ()
    places: tuple[str, ...] = ()  # folders outside the workdir that files go to; made if need be
    tests: Mapping[str, Any] | None = None  # configs, targets, ids, roots, append, commands (see worker.py)
    rounds: tuple[Round, ...] = ()  # run the tests so often, each time in a form of its own
    command: tuple[str, ...] = ()  # in place of tests; ``{python}`` is the image's interpreter
    environment: Mapping[str, str] | None = None  # more variables for the command or the tests
    collect: str = ""  # the folder whose files a command leaves for us


def run_job(
    engine: Engine,
    image: str,
    job: Job,
    *,
    limits: Limits,
    network: str = "none",
    run_labels: Mapping[str, str] | None = None,
) -> Evidence:
    """Run a job in a fresh container of ``image``. Raises `EngineError` when the engine fails."""
    return read_evidence(_run(engine, image, job, limits, limits.test_timeout, network, run_labels))


def run_rounds(
    engine: Engine,
    image: str,
    job: Job,
    *,
    limits: Limits,
    network: str = "none",
    run_labels: Mapping[str, str] | None = None,
) -> tuple[Evidence, ...]:
    """Run a job's rounds one after the other in one fresh container; the evidence of each.

    Every round may take as long as the limits give to tests.
    """
    timeout = limits.test_timeout * len(job.rounds)
    return read_rounds(_run(engine, image, job, limits, timeout, network, run_labels))


def _run(
    engine: Engine,
    image: str,
    job: Job,
    limits: Limits,
    timeout: float,
    network: str,
    run_labels: Mapping[str, str] | None,
) -> Ended:
    folder = f".beyondswe-{secrets.token_hex(6)}"
    return engine.run_to_end(
        image,
        command=["/bin/sh", "-c", _START, f"/{folder}"],
        archive=archive(job, folder, limits.test_timeout),
        limits=limits,
        timeout=timeout,
        grace=_GRACE,
        network=network,
        user="0:0",
        workdir="/",
        run_labels=run_labels,
        max_output=_MAX_OUTPUT,
    )


@cache
def runner_version() -> str:
    """Names the runner by its content: same version, same behaviour (part of the verdict cache's key)."""
    digest = hashlib.sha256()
    versioned = {**_runner(), "build.py": resource("harness", "runner", "build.py").read_bytes()}
    for name, data in versioned.items():
        digest.update(b"%s %d\0" % (name.encode(), len(data)) + data)
    return digest.hexdigest()[:16]


@cache
def _runner() -> dict[str, bytes]:
    try:
        return {name: resource("harness", "runner", name).read_bytes() for name in _RUNNER_FILES}
    except FileNotFoundError as error:
        raise ScoringError(f"{error}. Install the package again.") from error


def archive(job: Job, folder: str, time_limit: float) -> bytes:
    """A tar with one folder: the runner, what it is to do, and the files that it is to put in place."""
    order: dict[str, Any] = {
        "runner": runner_version(),
        "workdir": job.workdir,
        "user": job.user,
        "sealed": job.sealed,
        "environment": dict(job.environment or {}),
        "delete": [_text(path) for path in job.delete],
        "places": list(job.places),
        "write": [[write.place, _text(write.path), write.mode, len(write.data)] for write in job.write],
        "time_limit": time_limit,
        "log_limit": _LOG_LIMIT,
    }
    if job.command:
        order |= {"command": list(job.command)}
        order |= {"collect": job.collect, "collect_limit": _FILES_LIMIT}
    else:
        order["tests"] = dict(job.tests or {})
    if job.rounds:
        order["rounds"] = [
            {
                "write": [[_text(write.path), write.mode, len(write.data)] for write in step.write],
                "ids": list(step.ids),
                "targets": list(step.targets),
            }
            for step in job.rounds
        ]
    served = (write for step in job.rounds for write in step.write)
    payload = b"".join(write.data for write in (*job.write, *served))
    return _tar(
        folder, {**_runner(), "job.json": json.dumps(order).encode("ascii"), "payload": payload}.items()
    )


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _tar(folder: str, files: Iterable[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        top = tarfile.TarInfo(folder)
        top.type, top.mode = tarfile.DIRTYPE, 0o700
        tar.addfile(top)
        for name, data in files:
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mode = len(data), 0o600
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()

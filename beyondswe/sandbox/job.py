"""A container that runs one program from start to end: create, put its files, start, wait, read what it
wrote, remove.

No conversation of `exec` calls, and nothing is read while the program runs: how it ended comes from the
engine's end state. Deliberate: no init process is put in front of it. The program is process 1, which
nothing inside the container can kill, so exit code 137 without our kill and without an out-of-memory event
means that somebody outside did it. The price is that the program must reap the orphans of what it starts.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from beyondswe.errors import EngineError
from beyondswe.sandbox.disk import DiskWatch
from beyondswe.sandbox.engine import container_labels
from beyondswe.sandbox.limits import host_config
from beyondswe.sandbox.removal import remove_later
from beyondswe.sandbox.tarstream import BadArchive, without_padding
from beyondswe.sandbox.types import Ended, Limits
from beyondswe.sandbox.wire import EngineRefused, EngineSilent, Output, call, chunks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beyondswe.sandbox.engine import Engine

NETWORKS = {"none": "none", "open": "default"}
"""Names of networks here → the engine's."""

GRACE = 15.0
"""Seconds that a program gets beyond its own time limit before the host ends it."""

_KILLED = 137
_LATE = 0.5
"""Seconds that the engine's news of a memory kill may come late."""

_LOG = {"Type": "json-file", "Config": {"max-size": "256m"}}
"""One file of 256 MiB at most: beyond what a result needs, below what fills a disk."""

Archive = bytes | Callable[[], Iterable[bytes]]


def run_to_end(
    engine: Engine,
    image: str,
    *,
    command: Sequence[str],
    archive: Archive | None = None,
    limits: Limits,
    timeout: float,
    network: str = "none",
    user: str | None = None,
    env: Mapping[str, str] | None = None,
    workdir: str | None = None,
    run_labels: Mapping[str, str] | None = None,
    max_output: int = 32 << 20,
    grace: float = GRACE,
) -> Ended:
    """Run ``command`` in a fresh container of ``image`` to its end and say how it ended.

    ``archive`` (a tar, or a function that gives its pieces) is unpacked at ``/`` before the start.
    ``timeout`` seconds after the start (plus ``grace``, for a program that keeps its own clock) the
    container is killed: ``timed_out``; over its limit on the disk: ``out_of_disk``. Standard output and
    error are kept up to ``max_output`` bytes each, head and tail; the engine stores them as text, so bytes
    that are not UTF-8 are lost. The container is removed whatever happens, in the background (`removal`).

    Raises `EngineError` when the engine or the machine fails; how the program fails is in the result.
    """
    seconds: dict[str, float] = {}
    name = container_name("job")
    config = {
        "Image": image,
        # All of it as the entry point: the image's own entry point and command play no part.
        "Entrypoint": list(command),
        "Cmd": [],
        "Healthcheck": {"Test": ["NONE"]},
        "Env": environment(network, env or {}),
        "Labels": container_labels(**{"role": "job", **(run_labels or {})}),
        "HostConfig": {
            **host_config(engine, limits, network=engine_network(network), privileges=False),
            "LogConfig": _LOG,
        },
        **({"User": user} if user is not None else {}),
        **({"WorkingDir": workdir} if workdir is not None else {}),
    }
    try:
        with _timed(seconds, "create"):
            container = create(engine, name, config)
        if archive is not None:
            with _timed(seconds, "put"):
                put_archive(engine, container, archive() if callable(archive) else archive)
        with _timed(seconds, "start"):
            start(engine, container)
        with (
            _timed(seconds, "wait"),
            DiskWatch(engine, container, limits.disk, end=lambda: kill(engine, container)) as disk,
        ):
            killed = _wait(engine, container, timeout + grace)
        ended = _ended(
            engine, container, killed=killed or disk.exceeded, max_output=max_output, seconds=seconds
        )
        return replace(ended, timed_out=killed, out_of_disk=disk.exceeded)
    finally:
        remove_later(engine, name)


def container_name(role: str) -> str:
    """A name that nobody else has; known before the container is, so that it can be removed if creating it
    breaks.
    """
    return f"beyondswe-{role}-{uuid.uuid4().hex[:16]}"


def engine_network(network: str) -> str:
    """The engine's word for a network of ours."""
    try:
        return NETWORKS[network]
    except KeyError:
        raise EngineError(
            f"a sandbox with network {network!r} cannot be made; known are {', '.join(NETWORKS)}"
        ) from None


def environment(network: str, env: Mapping[str, str]) -> list[str]:
    """Environment of a container: what is given and, where it may reach the network, the host's proxies."""
    from beyondswe.sandbox.host import host_environment

    proxies = host_environment() if network == "open" else {}
    return [f"{key}={value}" for key, value in {**proxies, **env}.items()]


def create(engine: Engine, name: str, config: Mapping[str, Any]) -> str:
    """Create a container; its id."""
    what = f"create a container of image {config['Image']}"
    answer = call(
        engine, "POST", "/containers/create", what=what, params={"name": name}, json=config, timeout=600
    )
    return str(answer.json()["Id"])


def put_archive(engine: Engine, container: str, data: bytes | Iterable[bytes], path: str = "/") -> None:
    """Unpack a tar in a container, running or not."""
    import os

    what = f"put files into container {container}"
    if engine.is_podman:
        data = without_padding([data] if isinstance(data, bytes) else data)
    try:
        call(
            engine,
            "PUT",
            f"/containers/{container}/archive",
            what=what,
            params={"path": os.fsencode(path)},
            data=data,
            timeout=600,
        )
    except BadArchive as error:
        raise EngineError(f"could not {what}: {error}") from error


def start(engine: Engine, container: str) -> None:
    call(engine, "POST", f"/containers/{container}/start", what=f"start container {container}", timeout=600)


def inspect_state(engine: Engine, container: str) -> dict[str, Any] | None:
    """The engine's end state of a container (``ExitCode``, ``OOMKilled``, ``Running``, …); None if there is
    no such.
    """
    try:
        answer = call(engine, "GET", f"/containers/{container}/json", what=f"look at container {container}")
    except EngineRefused as error:
        if error.status == 404:
            return None
        raise
    state = dict(answer.json()["State"])
    return None if state.get("Status") in ("removing", "dead") else state


def ran_out_of_memory(engine: Engine, container: str, state: Mapping[str, Any], *, killed: bool) -> bool:
    """Whether an ended container's program was killed for want of memory; ``killed``: it was killed by us.

    The end state says so only at times: Podman never does, Docker forgets when the news comes after the exit,
    and there are days on which containerd sends none. So the engine's events are asked as well: a kill that
    nobody asked the engine for is one by the kernel. The price: one that an administrator sends to the process
    from the host counts as a memory kill too.
    """
    if state.get("OOMKilled"):
        return True
    if int(state["ExitCode"]) != _KILLED:
        return False
    filters = json.dumps({"container": [container], "type": ["container"]})
    window = {"since": "0", "until": f"{time.time() + _LATE:.3f}", "filters": filters}
    what = f"read the events of container {container}"
    with call(engine, "GET", "/events", what=what, params=window, timeout=60, stream=True) as answer:
        events = [json.loads(line) for line in b"".join(chunks(answer, what)).splitlines() if line.strip()]
    actions = {str(event.get("Action") or event.get("status")) for event in events}
    return "oom" in actions or not (killed or actions & {"kill", "stop"})


def kill(engine: Engine, container: str) -> None:
    """End every process of a container; one that is not running, or is gone, is no error."""
    try:
        call(engine, "POST", f"/containers/{container}/kill", what=f"kill container {container}")
    except EngineRefused:
        state = inspect_state(engine, container)
        if state is not None and state.get("Running"):
            raise


def wait_stopped(engine: Engine, container: str, timeout: float) -> bool:
    """Block until a container is not running, or gone; False after ``timeout`` seconds.

    It can be asked before or after the end: the state stays until the container is removed, so no exit is
    missed.
    """
    deadline = time.monotonic() + timeout
    try:
        call(
            engine,
            "POST",
            f"/containers/{container}/wait",
            what=f"wait for container {container}",
            timeout=max(timeout, 0.001),
        )
    except EngineRefused as error:
        if error.status != 404:
            raise
    except EngineSilent:
        if time.monotonic() < deadline - 0.05:
            raise  # not our time limit: the connection broke
        return False
    return True


def _wait(engine: Engine, container: str, timeout: float) -> bool:
    """Wait for the end; whether the container had to be killed for it."""
    if wait_stopped(engine, container, timeout):
        return False
    kill(engine, container)
    if not wait_stopped(engine, container, 60):
        raise EngineError(
            f"container {container} does not stop although it was killed; look at the engine's host"
        )
    return True


def _ended(
    engine: Engine, container: str, *, killed: bool, max_output: int, seconds: dict[str, float]
) -> Ended:
    state = inspect_state(engine, container)
    stdout = stderr = b""
    truncated = False
    if state is not None:
        with _timed(seconds, "logs"):
            try:
                stdout, stderr, truncated = _logs(engine, container, max_output)
            except EngineRefused as error:
                if error.status not in (404, 409):
                    raise
                state = None  # removed by somebody between two questions
    exit_code = int(state["ExitCode"]) if state else _KILLED
    oom_killed = state is not None and ran_out_of_memory(engine, container, state, killed=killed)
    return Ended(
        exit_code=exit_code,
        oom_killed=oom_killed,
        timed_out=killed,
        vanished=state is None or (exit_code == _KILLED and not killed and not oom_killed),
        stdout=stdout,
        stderr=stderr,
        truncated=truncated,
        seconds=seconds,
    )


def _logs(engine: Engine, container: str, limit: int) -> tuple[bytes, bytes, bool]:
    what = f"read the output of container {container}"
    path = f"/containers/{container}/logs"
    with call(
        engine, "GET", path, what=what, params={"stdout": "1", "stderr": "1"}, timeout=600, stream=True
    ) as answer:
        output = Output(limit)
        output.drain(chunks(answer, what))
    return output.stdout.value(), output.stderr.value(), output.truncated


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    begun = time.perf_counter()
    try:
        yield
    finally:
        seconds[step] = time.perf_counter() - begun

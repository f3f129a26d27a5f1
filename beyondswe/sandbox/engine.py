"""The container engine that everything runs on: Docker, or Podman through its Docker-compatible socket."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyondswe.errors import EngineUnavailable, UsageError

if TYPE_CHECKING:
    import docker

    from beyondswe.sandbox.types import Ended, Limits

LABEL = "io.beyondswe.namespace"
"""On every image, container, network and volume of ours; its value is the namespace that may prune it."""


def namespace() -> str:
    """Whose things these are (``BEYONDSWE_NAMESPACE``, else ``default``); prune touches one only."""
    name = os.environ.get("BEYONDSWE_NAMESPACE") or "default"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", name):
        raise UsageError(
            f"BEYONDSWE_NAMESPACE={name!r}: use letters, digits, dot, dash and underscore, at most 63 of them; "
            "begin with a letter or digit"
        )
    return name


def labels(**more: str) -> dict[str, str]:
    """Labels for a new image of ours: ``labels(role="base")`` adds ``io.beyondswe.role`` and so on."""
    return {LABEL: namespace(), **{f"io.beyondswe.{key}": value for key, value in more.items()}}


def container_labels(**more: str) -> dict[str, str]:
    """Labels for a new container, network or volume: `labels` and who it belongs to.

    An image must not carry the owner (`docker commit` copies a container's labels: set it to ``""`` there):
    a container that somebody starts by hand from our image inherits its labels, and is not ours to prune.
    """
    return labels(owner=owner_label(), **more)


def owner_label() -> str:
    """Who owns what this process makes: ``<hostname>:<pid>:<start time>``, unique while the machine is up."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start_time(os.getpid())}"


def owner_alive(label: str) -> bool:
    """Whether the process that an owner label names still lives.

    An owner on another host (a shared or remote engine) cannot be asked and counts as alive: better a
    container left behind than one taken from a run.
    """
    host, _, rest = label.partition(":")
    pid, _, started = rest.partition(":")
    if not host or not pid.isdecimal() or not started:
        return False
    if host != socket.gethostname():
        return True
    return _start_time(int(pid)) == started


def _start_time(pid: int) -> str:
    """When a process started, as text without colons, ``""`` when there is none: tells a reused pid apart."""
    if Path("/proc/self/stat").exists():
        try:
            # the second field is the program's name in parentheses and may hold anything; 22 is the start
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] == "Z" else fields[19]
    shown = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip().replace(":", ".").replace(" ", "_")


def candidate_sockets() -> Iterator[str]:
    """Where an engine may answer, most wanted first: ``DOCKER_HOST``, Docker's sockets, Podman's sockets."""
    if host := os.environ.get("DOCKER_HOST"):
        yield host
        return
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    for path in (
        "/var/run/docker.sock",
        f"{runtime}/docker.sock",
        str(Path.home() / ".docker/run/docker.sock"),
        "/run/podman/podman.sock",
        f"{runtime}/podman/podman.sock",
    ):
        if Path(path).is_socket():
            yield f"unix://{path}"


class Engine:
    """A connection to an engine that answered. Safe to share between threads."""

    def __init__(self, client: docker.DockerClient, host: str, options: dict[str, Any] | None = None) -> None:
        self.client = client
        self.host = host
        self._options = options or {"base_url": host}

    @classmethod
    def connect(cls) -> Engine:
        """The first engine that answers; `EngineUnavailable` says what was tried and how to get one."""
        namespace()  # a name that cannot be used is told before anything is started
        engine, tried = cls.find()
        if engine is None:
            raise EngineUnavailable(
                f"no container engine answers ({tried}). Run `beyondswe engine setup`, or set DOCKER_HOST."
            )
        return engine

    @classmethod
    def find(cls, kind: str | None = None) -> tuple[Engine | None, str]:
        """The first engine that answers, of this kind (docker, podman) if named; and what was tried."""
        import docker
        from docker.errors import DockerException
        from docker.utils import kwargs_from_env
        from requests.exceptions import RequestException

        tried = []
        for host in candidate_sockets():
            options: dict[str, Any] = {"base_url": host}
            if "DOCKER_HOST" in os.environ:  # with its certificates
                options = dict(kwargs_from_env())
            try:
                # a daemon that hangs must not hold the first question for minutes; later ones may take long
                client = docker.DockerClient(**options, version="auto", timeout=15, max_pool_size=64)
                client.ping()
            except (DockerException, RequestException) as error:
                tried.append(f"{host}: {error}")
                continue
            client.api.timeout = 600
            engine = cls(client, host, options)
            if kind in (None, engine.kind):
                return engine, ""
            tried.append(f"{host} is {engine.kind}")
        return None, "; ".join(tried) or "no socket of Docker or Podman was found"

    @property
    def api(self) -> docker.APIClient:
        return self.client.api

    def patient(self, silence: int) -> docker.APIClient:
        """A connection of its own for one long call, given up when the engine says nothing for ``silence``
        seconds.
        """
        import docker

        return docker.APIClient(**self._options, version=self.client.api.api_version, timeout=silence)

    def ulimits(self) -> list[dict[str, Any]]:
        """What a new container's ``Ulimits`` must be: Podman raises them to fixed numbers, which fails with
        EPERM where the host lacks CAP_SYS_RESOURCE (inside another container or a small virtual machine), so
        it is told the host's own; Docker's default works everywhere.
        """
        if not self.is_podman:
            return []
        import resource

        limits = []
        # what counts are the limits of the engine's own process, which cannot be asked
        for name, kind, most in (
            ("nofile", resource.RLIMIT_NOFILE, 1 << 20),
            ("nproc", resource.RLIMIT_NPROC, 1 << 15),
        ):
            hard = resource.getrlimit(kind)[1]
            hard = most if hard == resource.RLIM_INFINITY else min(hard, most)
            limits.append({"Name": name, "Soft": hard, "Hard": hard})
        return limits

    def has_image(self, ref: str) -> bool:
        """Whether an image (tag, id or digest) is there."""
        from docker.errors import ImageNotFound

        try:
            self.client.images.get(ref)
        except ImageNotFound:
            return False
        return True

    def run_to_end(
        self,
        image: str,
        *,
        command: Sequence[str],
        archive: bytes,
        limits: Limits,
        timeout: float,
        grace: float,
        network: str,
        user: str,
        workdir: str,
        run_labels: Mapping[str, str] | None,
        max_output: int,
    ) -> Ended:
        """`job.run_to_end` on this engine: the one thing that scoring asks of it."""
        from beyondswe.sandbox.job import run_to_end

        return run_to_end(
            self,
            image,
            command=command,
            archive=archive,
            limits=limits,
            timeout=timeout,
            grace=grace,
            network=network,
            user=user,
            workdir=workdir,
            run_labels=run_labels,
            max_output=max_output,
        )

    @cached_property
    def info(self) -> dict[str, Any]:
        return dict(self.client.info())

    @property
    def kind(self) -> str:
        return "podman" if self.is_podman else "docker"

    @cached_property
    def native_overlay(self) -> bool:
        """Whether a container's layer is one of the kernel's overlayfs, with marks that root can read."""
        driver = self.info.get("Driver")
        if not self.is_podman:
            return driver == "overlay2"
        status = dict(self.info.get("DriverStatus") or [])
        rootless = any("rootless" in option for option in self.info.get("SecurityOptions") or [])
        return driver == "overlay" and status.get("Native Overlay Diff") == "true" and not rootless

    @cached_property
    def is_podman(self) -> bool:
        components = self.client.version().get("Components") or []
        return any("podman" in str(part.get("Name", "")).lower() for part in components)

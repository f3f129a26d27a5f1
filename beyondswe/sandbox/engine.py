"""The container engine that everything runs on: Docker, or Podman through its Docker-compatible socket."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyondswe.errors import EngineUnavailable

if TYPE_CHECKING:
    import docker

LABEL = "io.beyondswe.namespace"
"""Label on every image, container, network and volume of ours; its value is the namespace that may prune them."""


def namespace() -> str:
    """Whose things these are (``BEYONDSWE_NAMESPACE``, default ``default``): prune touches one namespace only."""
    return os.environ.get("BEYONDSWE_NAMESPACE") or "default"


def labels(**more: str) -> dict[str, str]:
    """Labels for a new object of ours: ``labels(role="score", run="…")`` gives ``io.beyondswe.role`` and so on."""
    return {LABEL: namespace(), **{f"io.beyondswe.{key}": value for key, value in more.items()}}


def candidate_sockets() -> Iterator[str]:
    """Where an engine may answer, most wanted first: ``DOCKER_HOST``, Docker's sockets, Podman's sockets."""
    if host := os.environ.get("DOCKER_HOST"):
        yield host
        return
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    for path in ("/var/run/docker.sock", f"{runtime}/docker.sock", "/run/podman/podman.sock", f"{runtime}/podman/podman.sock"):
        if Path(path).is_socket():
            yield f"unix://{path}"


class Engine:
    """A connection to an engine that answered. Safe to share between threads."""

    def __init__(self, client: docker.DockerClient, host: str) -> None:
        self.client = client
        self.host = host

    @classmethod
    def connect(cls) -> Engine:
        """The first engine that answers; `EngineUnavailable` says what was tried and how to get one."""
        import docker
        from docker.errors import DockerException

        tried = []
        for host in candidate_sockets():
            try:
                client = docker.DockerClient(base_url=host, version="auto", timeout=600, max_pool_size=64)
                client.ping()
            except DockerException as error:
                tried.append(f"{host}: {error}")
                continue
            return cls(client, host)
        where = "; ".join(tried) or "no socket of Docker or Podman was found"
        raise EngineUnavailable(f"no container engine answers ({where}). Run `beyondswe engine setup`, or set DOCKER_HOST.")

    @property
    def api(self) -> docker.APIClient:
        return self.client.api

    @cached_property
    def info(self) -> dict[str, Any]:
        return dict(self.client.info())

    @cached_property
    def is_podman(self) -> bool:
        components = self.client.version().get("Components") or []
        return any("podman" in str(part.get("Name", "")).lower() for part in components)

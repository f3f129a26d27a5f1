"""Runs a command in a container of an image and gives what it printed."""

from __future__ import annotations

from docker.types import Ulimit

from beyondswe.sandbox.engine import Engine, container_labels


def inside(engine: Engine, image: str, script: str, *, user: str = "") -> str:
    """Standard output of ``sh -c script``, which must succeed.

    Not by the library's own ``run``: it follows the log, which may end before all of it was read.
    """
    container = engine.client.containers.create(
        image,
        ["sh", "-c", script],
        network_mode="none",
        user=user,
        ulimits=[Ulimit(**limit) for limit in engine.ulimits()],
        labels=container_labels(role="test"),
    )
    try:
        container.start()
        status = container.wait()["StatusCode"]
        assert status == 0, f"exit {status}: {container.logs().decode()}"
        return container.logs(stdout=True, stderr=False).decode()
    finally:
        container.remove(force=True)

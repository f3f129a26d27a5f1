"""The way out of a sandbox that has no network: a side container that forwards ports of the loopback to Unix
sockets on the host.

The sandbox shares the link's network namespace, in which there is nothing but the loopback, and nothing else of
it: neither sockets nor forwarder are inside the sandbox. Folders are mounted, not sockets, so that a socket that
is made anew is found. The link comes first and goes last; like every container of ours it carries its owner's
label, so that what a killed run leaves is removed by the next one and by ``engine prune``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyondswe.errors import EngineError, UsageError
from beyondswe.resources import resource
from beyondswe.sandbox import job
from beyondswe.sandbox.base_images import base_images, ensure_base_image
from beyondswe.sandbox.engine import container_labels
from beyondswe.sandbox.removal import remove, remove_later
from beyondswe.sandbox.wire import call, chunks, demultiplex

if TYPE_CHECKING:
    from beyondswe.sandbox.engine import Engine

MODEL_PORT = 28610
"""Port of the model gateway on the loopback of a sandbox. Below the range of free ports that tests are given."""
PROXY_PORT = 28611
"""Port of the egress proxy there."""

_PYTHON = "/opt/venv/bin/python"
_MEMORY = 128 << 20  # bytes; it uses about a tenth
_READY_WITHIN = 60.0  # seconds


@dataclass(frozen=True)
class Socket:
    """A Unix socket on this host, in a folder that holds nothing that an agent may not reach."""

    folder: Path
    name: str

    @property
    def path(self) -> Path:
        return self.folder / self.name


class Link:
    """A started side container. A sandbox joins it by ``start_sandbox(network=link.network)``."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self.container = container

    @classmethod
    def start(
        cls,
        engine: Engine,
        forwards: Mapping[int, Socket],
        *,
        network: str = "none",
        run_labels: Mapping[str, str] | None = None,
    ) -> Link:
        """Forward these ports of its loopback, which answer once `wait` has come back. `EngineError` if it
        cannot be had, and nothing is left then. ``network`` is the engine's word for what else there is in it.
        """
        name = job.container_name("link")
        config = _config(engine, forwards, network, run_labels or {})
        try:
            container = job.create(engine, name, config)
            job.start(engine, container)
        except BaseException:
            remove(engine, name)
            raise
        return cls(engine, container)

    def wait(self) -> None:
        """Come back when every port answers; `EngineError` if the host's sockets are out of its reach.

        The sandbox can be started before: that takes longer than the forwarder does.
        """
        _wait_until_ready(self._engine, self.container)

    @property
    def network(self) -> str:
        """The network of the sandbox that joins it."""
        return f"container:{self.container}"

    def check(self) -> None:
        """Raise `EngineError` if somebody ended it from outside. One that lacked memory was brought to it by the
        agent, whose own loss that is.
        """
        state = job.inspect_state(self._engine, self.container)
        if state is not None and state.get("Running"):
            return
        if state is None or not job.ran_out_of_memory(self._engine, self.container, state, killed=False):
            raise EngineError(
                f"link {self.container}, the sandbox's way to the model and the web, was ended or removed from outside"
            )

    def stop(self) -> None:
        """Remove it, once the sandbox is gone. Can be called twice."""
        remove_later(self._engine, self.container)


def check_local(engine: Engine) -> None:
    """Raise `UsageError` where the engine is on another machine: sockets of this host cannot be mounted
    there.
    """
    if not engine.host.startswith("unix://"):
        raise UsageError(
            f"the engine at {engine.host} is not on this machine: its sandboxes cannot reach the Unix sockets of the "
            "model gateway and the egress proxy. Run beyondswe on the engine's machine."
        )


def link_image(engine: Engine) -> str:
    """An image of ours with a Python, the first base image that is there; built where there is none."""
    found = base_images(engine)
    return found[0] if found else ensure_base_image(engine)


def _config(
    engine: Engine, forwards: Mapping[int, Socket], network: str, run_labels: Mapping[str, str]
) -> dict[str, Any]:
    words = [f"{port}=/run/beyondswe/{port}/{socket.name}" for port, socket in forwards.items()]
    program = resource("harness", "link", "forward.py").read_text(encoding="utf-8")
    return {
        "Image": link_image(engine),
        "Entrypoint": [_PYTHON, "-I", "-S", "-c", program],
        "Cmd": words,
        "Healthcheck": {"Test": ["NONE"]},
        "WorkingDir": "/",
        "User": "0",
        "Labels": container_labels(**{"role": "link", **run_labels}),
        "HostConfig": {
            "NetworkMode": network,
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            # a socket of the host is out of reach under SELinux's label for containers
            "SecurityOpt": ["no-new-privileges", "label=disable"],
            "Memory": _MEMORY,
            "MemorySwap": _MEMORY,
            "PidsLimit": 2048,
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}},
            "Ulimits": engine.ulimits(),
            "Mounts": [
                {
                    "Type": "bind",
                    "Source": str(socket.folder.resolve()),
                    "Target": f"/run/beyondswe/{port}",
                    "ReadOnly": True,
                }
                for port, socket in forwards.items()
            ],
        },
    }


def _wait_until_ready(engine: Engine, container: str) -> None:
    """Read what the forwarder says until it listens."""
    what = f"read what link {container} says"
    said = b""
    with call(
        engine,
        "GET",
        f"/containers/{container}/logs",
        what=what,
        params={"follow": "1", "stdout": "1", "stderr": "1"},
        timeout=_READY_WITHIN,
        stream=True,
    ) as answer:
        for _, piece in demultiplex(chunks(answer, what)):
            said += piece
            if b"ready\n" in said:
                return
    raise EngineError(
        f"the way from sandboxes to this host's gateway does not work ({said.decode(errors='replace').strip()}). "
        "The engine must run on this very machine, not in a virtual machine, and see its files."
    )

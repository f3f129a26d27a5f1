"""The two seams of scoring inside Harbor's verifier: containers that wait for one job each, and a work folder.

Harbor starts the rooms together with the verifier's own container, from the same environment image, and each takes
one job (`harness/harbor/door.py`). So no tested code ever runs where the reward is written, every job finds a
container that nobody used before, and the runner is process 1 there, as in our own sandboxes. What is other than
with an engine of our own: nobody can kill a room from here, and its end state is not known beyond what the runner
says about memory.
"""

from __future__ import annotations

import json
import os
import socket
import tarfile
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from beyondswe.errors import EngineError
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Change, ChangeKind, Ended, Limits

_OPENING = 120.0
"""Seconds in which a room must be open: it was started before the verifier was asked."""
_PIECE = 1 << 20


class Rooms(Engine):
    """An engine whose containers are there already: the sockets of the rooms, in a folder each."""

    def __init__(self, folder: Path) -> None:
        self._free = deque(sorted(folder.glob("*")))

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
        """Run a job in the next room. Image, limits, network and user are the room's own (docker-compose.yaml)."""
        if not self._free:
            raise EngineError("scoring asks for more containers than docker-compose.yaml has rooms")
        begun = time.monotonic()
        with _open(self._free.popleft() / "door") as connection:
            order = json.dumps({"command": list(command), "size": len(archive)}).encode("ascii")
            connection.sendall(order + b"\n")
            connection.sendall(archive)
            deadline = time.monotonic() + timeout + grace
            output, timed_out = _read(connection, deadline, max_output)
        return Ended(
            exit_code=137 if timed_out else 0,
            oom_killed=False,
            timed_out=timed_out,
            vanished=False,
            stdout=output[:max_output],
            stderr=b"",
            truncated=len(output) > max_output,
            seconds={"wait": time.monotonic() - begun},
        )


def _read(connection: socket.socket, deadline: float, most: int) -> tuple[bytes, bool]:
    """What comes until the end, or the deadline (True), or more than ``most`` bytes."""
    found = bytearray()
    while len(found) <= most:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            piece = connection.recv(_PIECE)
        except TimeoutError:
            return bytes(found), True
        except ConnectionResetError:
            break
        if not piece:
            break
        found += piece
    return bytes(found), False


def _open(place: Path) -> socket.socket:
    deadline = time.monotonic() + _OPENING
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(place))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            connection.close()
            if time.monotonic() > deadline:
                raise EngineError(
                    f"no container waits at {place}; it ended early, or the image has no Python for it"
                ) from error
            time.sleep(0.05)
        else:
            return connection


class Brought:
    """The work folder that Harbor brought: all of it is to be read, since nobody says what changed."""

    def __init__(self, workdir: str) -> None:
        self._workdir = workdir

    def changed_paths(self) -> list[Change]:
        return [Change(self._workdir, ChangeKind.UNLISTED)]

    @contextmanager
    def get(self, path: str) -> Iterator[Iterator[bytes]]:
        """A tar of a path, as an engine would give it."""
        if not os.path.lexists(path):
            raise FileNotFoundError(path)
        with tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
                archive.add(path, os.path.basename(path))  # noqa: PTH119 (a name of any bytes)
            file.seek(0)
            yield iter(lambda: file.read(_PIECE), b"")

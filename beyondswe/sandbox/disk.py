"""Ends a container that holds more on the disk than it may.

The usual storage drivers cannot limit a container's own layer (overlay2 can on XFS with quotas only), so it is measured
every `INTERVAL` seconds, or less often where measuring takes long: on this host, as root, by walking what was written
and what deleted files its processes hold open; else by the engine's own count, which leaves the deleted out. What is
written between two looks goes over the limit. Shared memory is no matter of this: it counts as memory.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from beyondswe.errors import EngineError
from beyondswe.sandbox import layer
from beyondswe.sandbox.wire import EngineRefused, call

if TYPE_CHECKING:
    from beyondswe.sandbox.engine import Engine

INTERVAL = 2.0
"""Seconds between two looks."""

_SHARE = 20.0  # a look that takes a second is followed by a pause of so many


class DiskWatch:
    """While it is entered, a container over ``limit`` bytes (0: no limit) is killed; ``exceeded`` tells."""

    def __init__(self, engine: Engine, container: str, limit: int, *, end: Callable[[], None]) -> None:
        self.limit = limit
        self.exceeded = False
        self._engine, self._container, self._end = engine, container, end
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="beyondswe-disk")

    def __enter__(self) -> Self:
        if self.limit:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.limit:
            self._thread.join()

    @property
    def reason(self) -> str:
        return f"disk: it held more than its limit of {self.limit / 2**20:g} MiB and was ended"

    def _watch(self) -> None:
        pause = INTERVAL
        while not self._over.wait(pause):
            begun = time.monotonic()
            try:
                if used(self._engine, self._container, self.limit) > self.limit:
                    self.exceeded = True
                    self._end()
                    return
            except EngineError:
                pass  # an engine that is busy or away is asked again; whoever waits for the container will say it
            pause = max(INTERVAL, _SHARE * (time.monotonic() - begun))


def used(engine: Engine, container: str, enough: int) -> int:
    """Bytes that a container holds on the disk beyond its image; not counted much further than ``enough``."""
    what = f"look at container {container}"
    found: dict[str, Any] = call(engine, "GET", f"/containers/{container}/json", what=what).json()
    upper = layer.upper_folder(found)
    if not layer.readable(engine, upper):
        sized = call(
            engine, "GET", f"/containers/{container}/json", what=what, params={"size": "1"}, timeout=600
        )
        return int(sized.json().get("SizeRw") or 0)
    volumes = [
        str(mount["Source"])
        for mount in found.get("Mounts") or []
        if mount.get("Type") == "volume" and mount.get("RW", True)
    ]
    total = 0
    for size in _sizes([upper, *volumes], _processes(engine, container)):
        total += size
        if total > enough:
            break
    return total


def _processes(engine: Engine, container: str) -> list[int]:
    """Ids on this host of a container's processes."""
    what = f"list the processes of container {container}"
    asked = {
        "ps_args": "hpid" if engine.is_podman else "-eo pid"
    }  # Podman has words of its own for its table
    try:
        table = call(engine, "GET", f"/containers/{container}/top", what=what, params=asked).json()
    except EngineRefused:
        return []  # it does not run (any more), or the host has no `ps`
    return [int(row[0]) for row in table.get("Processes") or []]


def _sizes(folders: Iterable[str], processes: Iterable[int]) -> Iterator[int]:
    """What every file below the folders, and every deleted one that is open, takes on the disk; each once."""
    seen: set[tuple[int, int]] = set()
    stack = list(folders)
    while stack:
        for entry in _entries(stack.pop()):
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            if stat.S_ISDIR(status.st_mode):
                stack.append(entry.path)
            elif status.st_nlink < 2 or (status.st_dev, status.st_ino) not in seen:
                seen.update([(status.st_dev, status.st_ino)] if status.st_nlink > 1 else [])
                yield status.st_blocks * 512
    for process in processes:
        for entry in _entries(f"/proc/{process}/fd"):
            try:
                target, status = os.readlink(entry.path), os.stat(entry.path)  # noqa: PTH115, PTH116 (speed)
            except OSError:
                continue  # closed meanwhile
            file = (status.st_dev, status.st_ino)
            if stat.S_ISREG(status.st_mode) and not status.st_nlink and file not in seen:
                seen.add(file)
                if not target.startswith(("/dev/shm/", "/memfd:")):
                    yield status.st_blocks * 512


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []  # gone meanwhile

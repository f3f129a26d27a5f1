"""Temporary folders that do not outlive their process, not even when it was killed."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beyondswe.resources import cache_dir


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    """A folder that goes when this ends; that of a process that was killed goes when the next one is made.

    A lock that the kernel drops together with its process says which folders still live.
    """
    parent = parent or cache_dir("scratch")
    with (parent / ".lock").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        for old in parent.glob("tmp-*.lock"):
            _remove_if_dead(old)
        folder = Path(tempfile.mkdtemp(prefix="tmp-", dir=parent))
        lock = folder.with_name(folder.name + ".lock")
        held = lock.open("w")
        fcntl.flock(held, fcntl.LOCK_EX)
    with held:
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # what cannot be removed now is tried again by the next
            if not folder.exists():
                lock.unlink(missing_ok=True)


def _remove_if_dead(lock: Path) -> None:
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # it lives
        folder = lock.with_suffix("")
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            lock.unlink(missing_ok=True)

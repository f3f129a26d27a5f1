"""Locks between processes of one user: what is made once (an image, a snapshot) is not made twice at once."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from beyondswe.resources import cache_dir


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Hold the lock called ``name`` (any text); others wait. It ends with the process, however that ends."""
    path = cache_dir("locks") / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock"
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield

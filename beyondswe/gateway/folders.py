"""Folders of the processes beside a run: private, with short paths, and gone once their run is."""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
from pathlib import Path

from beyondswe.sandbox.engine import owner_alive, owner_label


def own_folder(prefix: str) -> Path:
    """A private folder with a short path (a socket's may have 107 bytes), named by its owner; those of owners
    that are no more are removed.
    """
    # not the temporary folder of the run, whose path may be long
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    base = runtime if os.access(runtime, os.W_OK) and len(str(runtime)) < 30 else Path("/tmp")
    host = socket.gethostname()
    for left in base.glob(f"{prefix}*"):
        match = re.fullmatch(re.escape(prefix) + r"(\d+)-([^-]+)-.+", left.name)
        try:
            if (
                match
                and left.stat().st_uid == os.getuid()
                and not owner_alive(f"{host}:{match[1]}:{match[2]}")
            ):
                shutil.rmtree(left, ignore_errors=True)
        except FileNotFoundError:
            continue  # another run was quicker
    _, pid, started = owner_label().split(":")
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{pid}-{started}-", dir=base))

"""The environment that the egress proxy runs in: mitmproxy, apart from our own packages, made once by uv.

Its pins clash with those of others, so it has a lock file of its own (``harness/proxy``) and a folder of its own
in the cache, one for each lock and interpreter.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from beyondswe.errors import EngineError
from beyondswe.resources import cache_dir, resource
from beyondswe.sandbox.locks import exclusive

_READY = "ready"  # the last file that is written: without it the folder is half made
_TIMEOUT = 1200.0  # seconds that the installation may take


def proxy_python() -> Path:
    """The interpreter of the proxy's environment, which is built if it is not there yet.

    One process builds, others wait; one that was killed is begun anew (what uv had fetched is kept by uv).
    `EngineError` where the packages cannot be had.
    """
    folder = environment_folder()
    python = folder / "bin" / "python"
    if not _is_ready(folder):
        with exclusive(f"proxy {folder.name}"):
            if not _is_ready(folder):
                _build(folder)
    return python


def is_built() -> bool:
    """Whether the environment is there, so that nothing has to be fetched."""
    return _is_ready(environment_folder())


def environment_folder() -> Path:
    """Where the environment is, or will be."""
    what = hashlib.sha256(resource("harness", "proxy", "requirements.lock").read_bytes())
    what.update(f"{sys.implementation.cache_tag} {platform.machine()} {sys.base_prefix}".encode())
    return cache_dir("proxy") / what.hexdigest()[:16]


def _is_ready(folder: Path) -> bool:
    return (folder / _READY).is_file() and (folder / "bin" / "python").exists()


def _build(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _uv("venv", "--quiet", "--python", sys.executable, str(folder))
    lock = resource("harness", "proxy", "requirements.lock")
    python = folder / "bin" / "python"
    _uv(
        "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--python", str(python), "-r", str(lock)
    )
    (folder / _READY).write_text("")


def _uv(*arguments: str) -> None:
    from uv import find_uv_bin

    # The folder of a virtual environment that happens to be active, or of a project nearby, is no business of ours.
    env = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    try:
        done = subprocess.run(
            [find_uv_bin(), *arguments],
            capture_output=True,
            text=True,
            env=env,
            cwd=cache_dir(),
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise EngineError(_failed(f"uv did not end within {_TIMEOUT:g} s")) from None
    if done.returncode != 0:
        raise EngineError(_failed(done.stderr.strip()[-2000:]))


def _failed(why: str) -> str:
    return (
        "the environment of the egress proxy cannot be made: its packages (harness/proxy/requirements.lock) "
        f"did not come from the package index. {why}\n"
        "What to do: make an index reachable (UV_INDEX_URL, or UV_FIND_LINKS with a folder of wheels), then run "
        "the same command again; or do without the web: --network none or --network model."
    )

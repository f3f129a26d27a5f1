"""The one place that finds what lies outside this package: a checkout's folders, or their copies in the wheel."""

from __future__ import annotations

import os
from pathlib import Path

from beyondswe.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent
_BUNDLED = _PACKAGE / "_bundled"


def resource(*parts: str) -> Path:
    """The path of a file or folder that comes with the product, e.g. ``resource("harness", "runner")``.

    In an installed wheel these are copies under ``beyondswe/_bundled``; in a checkout they lie beside the package.
    Both are read-only: what is made goes to `cache_dir` or to a folder that the user names.
    """
    root = _BUNDLED if _BUNDLED.is_dir() else _PACKAGE.parent
    path = root.joinpath(*parts)
    if not path.exists():
        raise FileNotFoundError(f"{'/'.join(parts)} is missing from this installation (looked in {root})")
    return path


def cache_dir(*parts: str) -> Path:
    """A folder for what can be made again, created if need be.

    ``BEYONDSWE_CACHE`` names it; else ``$XDG_CACHE_HOME/beyondswe``; else ``~/.cache/beyondswe``. `UsageError`
    where it cannot be written to.
    """
    named = os.environ.get("BEYONDSWE_CACHE")
    base = (
        Path(named)
        if named
        else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beyondswe"
    )
    path = base.joinpath(*parts)
    why = ""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
    else:
        if not os.access(path, os.W_OK):
            why = "it is read-only"
    if why:
        raise UsageError(
            f"the cache folder {path} cannot be written to ({why}); name another one with BEYONDSWE_CACHE"
        )
    return path

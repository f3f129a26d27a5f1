"""Makes a program carry its own C library, so that it runs in any Linux image of this architecture.

The program gets this machine's dynamic loader and the shared libraries that it and its parts need, in a
folder ``rt`` beside it, and is told their final place. No environment variable is needed, so nothing of it
reaches the commands that the program starts: those use the image's libraries.

Three things are deliberate. The paths in the file are absolute: the folder must lie at ``mount`` to run.
Parts' own search paths are taken away: they would hide the program's. And some libraries are named as needed
by the program itself: they are there before any part asks, so no part's search finds the image's.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from beyondswe.errors import EngineError

ALWAYS = ("libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")
"""Loaded before anything else: what packages with native parts look for."""

_BY_NAME = (
    "libutil.so.1",
    "libresolv.so.2",
    "libnss_files.so.2",
    "libnss_dns.so.2",
    "libatomic.so.1",
    "libgomp.so.1",
)
"""Loaded by name while the program runs; taken along where this machine has them."""


def make_portable(
    root: Path,
    mount: str,
    program: Path,
    parts: Sequence[Path],
    patchelf: Path,
    *,
    search: Iterable[str] = (),
) -> None:
    """Make ``program``, a file below ``root`` that will be mounted at ``mount``, run with libraries of its own.

    ``parts`` are libraries and extension modules below ``root`` that it loads; ``search`` names further
    folders below ``mount`` where it finds them. `EngineError` where this machine cannot do that.
    """
    runtime = root / "rt"
    runtime.mkdir(exist_ok=True)
    loader = Path(_run(patchelf, "--print-interpreter", program).strip())
    known = _known_libraries()
    wanted = {path for file in (program, *parts) for path in _needed(file) if not path.is_relative_to(root)}
    wanted |= {known[name] for name in (*ALWAYS, *_BY_NAME) if name in known}
    if missing := [name for name in ALWAYS if name not in known]:
        raise EngineError(
            f"this machine lacks {', '.join(missing)}; install its C++ runtime (Debian: libstdc++6)"
        )
    for path in sorted({*wanted, loader}):
        if not any(path.name.startswith(vdso) for vdso in ("linux-vdso", "linux-gate")):
            shutil.copy2(path.resolve(), runtime / path.name)
    for name in ALWAYS:
        _run(patchelf, "--add-needed", name, program)
    run_path = ":".join(f"{mount}/{folder}" for folder in ("rt", *search))
    _run(
        patchelf,
        "--set-interpreter",
        f"{mount}/rt/{loader.name}",
        "--force-rpath",
        "--set-rpath",
        run_path,
        program,
    )
    for part in parts:
        if not part.is_symlink():
            _run(patchelf, "--remove-rpath", part)


def _needed(file: Path) -> list[Path]:
    """The libraries that the loader of this machine finds for a file."""
    shown = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False).stdout
    return [Path(match[1]) for match in re.finditer(r"=> (/\S+)", shown)]


@cache
def _known_libraries() -> dict[str, Path]:
    """Name → path of the shared libraries of this machine; the first of each name is the loader's choice."""
    program = shutil.which("ldconfig") or "/sbin/ldconfig"
    if not Path(program).exists() or shutil.which("ldd") is None:
        raise EngineError(
            "layers of agents are made on Linux with the GNU C library, and this machine lacks its ldd or "
            "ldconfig; build them on another machine and bring its cache folder"
        )
    found: dict[str, Path] = {}
    for line in _run(program, "-p").splitlines():
        match = re.match(r"\s+(\S+) \(([^)]*)\) => (\S+)", line)
        if match and "x32" not in match[2] and "hwcap" not in match[2]:
            found.setdefault(match[1], Path(match[3]))
    return found


def _run(*command: str | Path) -> str:
    ended = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise EngineError(f"{' '.join(map(str, command))} failed: {ended.stderr.strip()}")
    return ended.stdout

"""Finds the CPython that an agent's runtime layer is made from: pyenv's, uv's, or the machine's own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from beyondswe.errors import EngineError
from beyondswe.resources import cache_dir
from beyondswe.sandbox.base_images import find_interpreter, pyenv_folders

_MINORS = tuple(f"3.{minor}" for minor in range(9, 16))


@dataclass(frozen=True)
class FoundPython:
    """A CPython installation on this machine."""

    version: str  # as 3.12.1
    prefix: Path
    origin: str  # where it was found, in words

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def program(self) -> Path:
        return self.prefix / "bin" / f"python{self.minor}"


def find_python(asked: str, python_dir: Path | None = None) -> FoundPython | None:
    """The first interpreter on this machine that satisfies ``asked`` (``>=3.12,<3.14``), lowest version first:
    the one that most packages have wheels for.

    ``python_dir`` (pyenv's layout) is looked into alone where it is given; else pyenv's folder, uv's, ours, and
    the machine's own.
    """
    folders = [(python_dir, str(python_dir))] if python_dir else list(_folders())
    for minor in _MINORS:
        for folder, origin in folders:
            found = find_interpreter(folder, minor, origin)
            if found and _satisfies(found.version, asked):
                return FoundPython(found.version, found.prefix, origin)
    return None if python_dir else _system_python(asked)


def need_python(asked: str, python_dir: Path | None = None) -> FoundPython:
    """`find_python`, or one fetched by uv, or an `EngineError` that says what is missing and where to get it."""
    if found := find_python(asked, python_dir):
        return found
    fault = f"{python_dir} has none" if python_dir else "this machine has none"
    if python_dir is None:
        from uv import find_uv_bin

        folder = cache_dir("pythons")
        command = [find_uv_bin(), "python", "install", "--no-bin", "--install-dir", str(folder), asked]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        if fetched.returncode == 0 and (found := find_python(asked)):
            return found
        fault += " and uv could not fetch one"
    raise EngineError(
        f"the agent needs Python {asked}; {fault}. Name a folder that has it with --python-dir "
        "(<version>/bin/python3.X, as pyenv lays it out)",
        permanent=True,
    )


def _folders() -> Iterator[tuple[Path, str]]:
    for folder in pyenv_folders():
        yield folder, str(folder)
    yield cache_dir("pythons"), "uv's managed interpreters"
    yield Path.home() / ".local/share/uv/python", "uv's managed interpreters"


def _system_python(asked: str) -> FoundPython | None:
    """The interpreter that this program runs on, or the distribution's."""
    for prefix in dict.fromkeys((Path(sys.base_prefix), Path("/usr/local"), Path("/usr"))):
        for program in sorted((prefix / "bin").glob("python3.*")):
            if not re.fullmatch(r"python3\.\d+", program.name):
                continue
            if not (prefix / "lib" / program.name / "os.py").is_file():
                continue
            shown = subprocess.run([program, "-V"], capture_output=True, text=True, check=False).stdout
            version = shown.removeprefix("Python ").strip()
            if re.fullmatch(r"3\.\d+\.\d+", version) and _satisfies(version, asked):
                return FoundPython(version, prefix, str(prefix))
    return None


def _satisfies(version: str, asked: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return version in SpecifierSet(asked)

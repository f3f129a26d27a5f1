"""Which Python an environment gets: the newest of the time that the repository names and this machine has."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from beyondswe.construction.build.facts import Facts

RELEASED = {
    "3.6": date(2016, 12, 23),
    "3.7": date(2018, 6, 27),
    "3.8": date(2019, 10, 14),
    "3.9": date(2020, 10, 5),
    "3.10": date(2021, 10, 4),
    "3.11": date(2022, 10, 24),
    "3.12": date(2023, 10, 2),
    "3.13": date(2024, 10, 7),
}
"""Minor versions that there are base images for, and when each came out."""

SETTLING = timedelta(days=180)
"""Until packages have followed a new Python."""


def available(python_dir: Path | None) -> list[str]:
    """Minor versions that can be had, oldest first: of the folder that was named, else all."""
    if python_dir is None:
        return list(RELEASED)
    found = set()
    for path in python_dir.iterdir():
        match = re.fullmatch(r"(?:cpython-)?(3\.\d+)\.\d+(?:-linux-.*)?", path.name)
        if match and match[1] in RELEASED and (path / "bin" / f"python{match[1]}").is_file():
            found.add(match[1])
    return [version for version in RELEASED if version in found]


def candidates(facts: Facts, day: date, there: Sequence[str]) -> list[str]:
    """Pythons to try, most wanted first; empty where none that is there is allowed.

    Named by the repository and settled at ``day`` go first, newest first; then those that it allows without
    naming them; then, for what is older than any Python here, the oldest.
    """
    allowed = [version for version in there if _allows(facts.requires_python, version)]
    settled = [version for version in allowed if RELEASED[version] + SETTLING <= day]
    out = [version for version in allowed if RELEASED[version] <= day]
    named = [version for version in settled if version in facts.pythons]
    fresh = [version for version in out if version in facts.pythons]
    later = [version for version in allowed if version not in out]
    order = [*reversed(named), *reversed(fresh)]
    if not order:
        order += reversed(settled or out)
        order += later[:1]
    # whoever named none of these may still run on its neighbours, nearest in age first
    order += [*reversed(out), *later]
    return list(dict.fromkeys(order))


def number(version: str) -> int:
    """9 of ``3.9``."""
    return int(version.split(".")[1])


def as_of(day: date, python: str) -> date:
    """The day whose packages are installed: a little after the commit, and never before packages knew this
    Python.
    """
    return max(day + timedelta(days=1), RELEASED[python] + SETTLING)


def build_tools_day(day: date) -> date:
    """The day whose build tools are used: since autumn 2022 all of them make editable installs."""
    return max(day, date(2022, 10, 1))


def _allows(requires: str, version: str) -> bool:
    if not requires.strip():
        return True
    try:
        # the newest patch release: "!=3.6.0" and ">=3.7.1" are no reason to refuse a minor version
        return SpecifierSet(requires.replace(" ", "")).contains(f"{version}.30", prereleases=True)
    except InvalidSpecifier:
        return True


def default_folder() -> Path | None:
    """The interpreters of this machine, in pyenv's layout, where there are any."""
    root = Path(os.environ["PYENV_ROOT"]) if "PYENV_ROOT" in os.environ else Path.home() / ".pyenv"
    return root / "versions" if (root / "versions").is_dir() else None


def uses_python2_syntax(code: str) -> bool:
    """Whether a source parses under no Python 3 but has what only Python 2 takes."""
    try:
        ast.parse(code)
    except SyntaxError:
        return bool(
            re.search(
                r"^\s*print\s+[^(=\s]|^\s*except\s+[\w.]+\s*,\s*\w+\s*:|^\s*raise\s+\w+\s*,", code, re.M
            )
        )
    except ValueError:
        return False
    return False

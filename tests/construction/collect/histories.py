"""Git histories that tests make: commits, branches and merges in the shapes that forges leave behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PYPROJECT = """\
[project]
name = "Tide-Tables"
version = "1.0"
[project.urls]
Documentation = "https://tide-tables.readthedocs.io/en/latest/"
Source = "https://github.com/harbour/tides"
"""
BASE = {
    "pyproject.toml": PYPROJECT,
    "src/tides/__init__.py": "def period():\n    return 12\n",
    "tests/test_period.py": "from tides import period\n\n\ndef test_period():\n    assert period()\n",
}
FIX = {
    "src/tides/__init__.py": "def period():\n    return moon_day() / 2\n\n\ndef moon_day():\n    return 24.84\n"
}
TEST = {"tests/test_moon.py": "from tides import period\n\n\ndef test_moon():\n    assert period() > 12.4\n"}


class Work:
    """A repository with a work tree. Every commit is an hour after the one before, so that histories are the same."""

    def __init__(self, folder: Path, branch: str = "main") -> None:
        self.folder = folder
        self.hours = 0
        folder.mkdir(parents=True)
        self.git("init", "-q", f"--initial-branch={branch}")

    def git(self, *arguments: str, author: str = "Ada") -> str:
        when = f"2023-03-{1 + self.hours // 24:02d}T{self.hours % 24:02d}:00:00Z"
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": author,
            "GIT_AUTHOR_EMAIL": f"{author.lower()}@example.org",
            "GIT_COMMITTER_NAME": "Web",
            "GIT_COMMITTER_EMAIL": "web@example.org",
            "GIT_AUTHOR_DATE": when,
            "GIT_COMMITTER_DATE": when,
        }
        ended = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def commit(
        self, message: str, files: Mapping[str, str | bytes | None] | None = None, author: str = "Ada"
    ) -> str:
        """Write files (None: delete) and commit; gives the commit's id."""
        self.hours += 1
        for name, text in (files or {}).items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message, author=author)
        return self.git("rev-parse", "HEAD")

    def merge(self, branch: str, message: str) -> str:
        self.hours += 1
        self.git("merge", "-q", "--no-ff", branch, "-m", message)
        return self.git("rev-parse", "HEAD")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def beyondswe(
    *arguments: str, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None, timeout: float = 120
) -> Done:
    """The command line as a process."""
    ended = subprocess.run(
        [sys.executable, "-m", "beyondswe.cli", *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Done(ended.returncode, ended.stdout, ended.stderr)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]

"""A small repository with a history of its own, and a candidate out of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.construction.collect.histories import Work

BASE = {
    "setup.py": (
        "from setuptools import setup\n"
        "setup(name='harbour-tides', version='1.0', packages=['tides'], python_requires='>=3.8',\n"
        "      classifiers=['Programming Language :: Python :: 3.11'], url='https://tides.example.org/')\n"
    ),
    "tides/__init__.py": "def period():\n    return 12\n",
    "tests/test_period.py": "from tides import period\n\n\ndef test_period():\n    assert period() > 1\n",
    "README.md": "See https://harbour-tides.readthedocs.io/\n",
}
FIX = {"tides/__init__.py": "def period():\n    return 12.42\n"}
HIDDEN = {
    "tests/test_moon.py": "from tides import period\n\n\ndef test_moon():\n    assert period() > 12.4\n",
}


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def row(self, instance_id: str) -> dict[str, Any]:
        (row,) = (row for row in self.json["instances"] if row["instance_id"] == instance_id)
        return dict(row)


class Place:
    """A folder with repositories below ``repos/`` and candidates out of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.works: dict[str, Work] = {}

    def pull_request(
        self,
        number: int,
        *,
        name: str = "tides",
        base: Mapping[str, str | None] | None = None,
        fix: Mapping[str, str | None] | None = None,
        hidden: Mapping[str, str | None] | None = None,
        family: str = "CrossRepo",
    ) -> dict[str, Any]:
        """Merge a pull request with a fix and its tests; gives the candidate that `collect git` makes of it."""
        work = self.works.get(name)
        if work is None:
            work = self.works[name] = Work(self.folder / "repos" / "harbour" / name)
            work.commit("First", base or BASE)
        work.git("checkout", "-q", "-b", f"change-{number}")
        work.commit("Change", {**(fix or FIX), **(hidden or HIDDEN)})
        work.git("checkout", "-q", "main")
        work.merge(f"change-{number}", f"Merge pull request #{number} from x/y\n\nPeriods are too short")
        work.commit("Later", {"CHANGES.txt": f"a secret of later {number}\n"})
        done = self(
            "collect", "git", "--repo", f"harbour/{name}", "--repo-url", self.url, "--family", family,
            "--pr", str(number), "--out", f"c{number}.jsonl", "--force",
        )  # fmt: skip
        assert done.code == 0, done.err
        return dict(json.loads((self.folder / f"c{number}.jsonl").read_text()))

    @property
    def url(self) -> str:
        return f"file://{self.folder}/repos/{{owner}}/{{name}}"

    def write(self, *rows: Mapping[str, Any]) -> str:
        path = self.folder / "candidates.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    def __call__(self, *arguments: str, env: Mapping[str, str] | None = None) -> Done:
        ended = subprocess.run(
            [sys.executable, "-m", "beyondswe.cli", *arguments],
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=1500,
        )
        return Done(ended.returncode, ended.stdout, ended.stderr)

    def build(self, *arguments: str, env: Mapping[str, str] | None = None) -> Done:
        return self(
            "build", "--dataset", "candidates.jsonl", "--out", "built.jsonl", "--repo-url", self.url, "--json",
            *arguments, env=env,
        )  # fmt: skip

    def built(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "built.jsonl").read_text().splitlines()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)

"""The worked example of docs/agents.md is run as it stands there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOC = Path(__file__).resolve().parents[2] / "docs" / "agents.md"

pytestmark = pytest.mark.engine


def example() -> dict[str, str]:
    """The files of the example by name."""
    found = re.findall(r"`tiny/([\w.]+)`:\n\n```\w+\n(.*?)```\n", DOC.read_text(encoding="utf-8"), re.DOTALL)
    return dict(found)


def test_the_example_takes_thirty_lines_or_fewer() -> None:
    files = example()
    assert set(files) == {"agent.yaml", "tiny.py"}
    assert sum(len(text.splitlines()) for text in files.values()) <= 30


def test_the_example_solves_its_task(base_image: str, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name, text in example().items():
        (folder / name).write_text(text)
    command = [
        sys.executable,
        "-m",
        "beyondswe",
        "agents",
        "check",
        str(folder),
        "--image",
        base_image,
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    document = json.loads(done.stdout)
    assert done.returncode == 0 and document["ok"], (document, done.stderr)
    assert document["status"] == "finished" and document["steps"] == document["calls"] == 5

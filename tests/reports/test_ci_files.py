"""The CI files of docs/ci are what GitHub and GitLab accept, and call commands and options that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CI = Path(__file__).parents[2] / "docs" / "ci"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("github-actions.yml", ["--builtin-schema", "vendor.github-workflows"]),
        ("gitlab-ci.yml", ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"]),
    ],
)
def test_a_file_is_valid_and_its_commands_exist(name: str, words: list[str]) -> None:
    command = [sys.executable, "-m", "check_jsonschema", *words, str(CI / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    text = (CI / name).read_text().replace("\\\n", " ")
    calls = re.findall(r"beyondswe (eval|gate|engine \w+)((?: [^|\n]*)?)", text)
    assert {call.split()[0] for call, _ in calls} == {"eval", "gate", "engine"}
    for call, rest in calls:
        helped = subprocess.run(
            [sys.executable, "-m", "beyondswe.cli", *call.split(), "--help"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert all(option in helped for option in re.findall(r" (--[a-z-]+)", rest))

"""`build` of a Doc2Repo candidate: from a history that the test makes to an instance that the oracle solves."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from beyondswe.sandbox.engine import Engine
from tests.construction.collect.histories import Work, beyondswe, rows

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TREE = {
    "README.md": "# Tidal\n\nTidal tells tides.\n\n## Usage\n\n```python\nimport tidal\ntidal.period()\n```\n",
    "pyproject.toml": (
        '[build-system]\nrequires = ["setuptools>=61"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "tidal"\nversion = "1.0"\nrequires-python = ">=3.9"\n'
        '[project.scripts]\ntidal = "tidal.cli:main"\n'
    ),
    "src/tidal/__init__.py": '"""Tides."""\n\nfrom tidal.core import period\n\n__all__ = ["period"]\n',
    "src/tidal/core.py": (
        "def period(moon: bool = True) -> float:\n"
        '    """Hours between two high waters, with the moon or without."""\n'
        "    return 12.42 if moon else 12.0\n\n\ndef _days(hours):\n    return hours / 24\n"
    ),
    "src/tidal/cli.py": "def main():\n    print('tidal 1.0')\n",
    "tests/test_period.py": (
        "import subprocess\n\nimport tidal\nfrom tidal.core import _days\n\n\n"
        "def test_moon():\n    assert tidal.period() == 12.42\n\n\n"
        "def test_sun():\n    assert tidal.period(moon=False) == 12.0\n\n\n"
        "def test_days():\n    assert _days(48) == 2\n\n\n"
        "def test_command():\n"
        "    assert subprocess.check_output(['tidal'], text=True).strip() == 'tidal 1.0'\n\n\n"
        "def test_readme():\n    assert open('README.md').read()\n"
    ),
}


def test_a_repository_becomes_an_instance_that_holds_nothing_of_it(tmp_path: Path, engine: Engine) -> None:
    work = Work(tmp_path / "harbour" / "tidal")
    work.hours = 24 * 20
    work.commit("First", TREE)
    url = f"{tmp_path}/{{repo}}"
    asked = ("--repo", "harbour/tidal", "--repo-url", url, "--family", "Doc2Repo", "--out", "c.jsonl")
    assert beyondswe("collect", "git", *asked, cwd=tmp_path).code == 0
    done = beyondswe(
        "build",
        "--dataset",
        "c.jsonl",
        "--out",
        "b.jsonl",
        "--repo-url",
        url,
        "--json",
        cwd=tmp_path,
        timeout=900,
    )
    log = "".join(path.read_text() for path in tmp_path.glob("b.environments/*/build.log"))
    assert done.code == 0, f"{done.err}\n{log}"
    (row,) = rows(tmp_path / "b.jsonl")
    assert row["test_suite_num"] == 4
    assert row["left_out_tests"] == ["tests/test_period.py::test_readme"]
    assert (
        "12.42" not in row["REPO_DOCUMENT_CONTENT"]
        and "period(moon: bool = True) -> float" in row["REPO_DOCUMENT_CONTENT"]
    )
    assert row["hidden_requirements"] == [
        {"kind": "name", "what": "target_repo.core._days", "where": "tests/test_period.py:4"}
    ]
    with zipfile.ZipFile(tmp_path / row["test_suite"]) as suite:
        assert b"import target_repo" in suite.read("tests/test_period.py")

    found = engine.client.containers.run(
        row["image"],
        ["sh", "-c", "grep -rliE tidal /workspace /opt/venv/lib 2>/dev/null; find / -xdev -iname '*tidal*' "
         "-not -path '/proc/*'; cd /tmp && python -c 'import target_repo; print(target_repo.__file__)'"],
        remove=True, network_mode="none",
    ).decode()  # fmt: skip
    assert found.split() == ["/workspace/target_repo/__init__.py"]

    scored = beyondswe(
        "eval", "--dataset", "b.jsonl", "--agent", "oracle", "--json", cwd=tmp_path, timeout=600
    )
    assert scored.code == 0, scored.err
    assert json.loads(scored.out)["avg"] == 100.0

"""The sdist and the wheel work without a checkout: installed in an empty environment, called from another folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOP = {
    "beyondswe",
    "harness",
    "dockerfiles",
    "data",
    "leaderboard",
    "README.md",
    "CHANGELOG.md",
    "pyproject.toml",
}


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Output of a command that must succeed; both streams are shown where it does not."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=clean | env, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the sdist and the wheel made from that sdist."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    yield out


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an empty environment in which only the wheel and its core requirements are."""
    home = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", home / "env", cwd=home)
    wheel = next(built.glob("*.whl"))
    run(
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--python",
        home / "env" / "bin" / "python",
        wheel,
        cwd=home,
    )
    return home / "env" / "bin"


def test_the_wheel_carries_the_folders_that_lie_outside_the_package(built: Path) -> None:
    names = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    for folder in (
        "harness/runner/",
        "harness/prompts/",
        "harness/agents/",
        "harness/proxy/",
        "dockerfiles/",
        "data/demo/",
        "data/pypi/",
        "leaderboard/templates/",
        "leaderboard/static/",
    ):
        assert any(name.startswith(f"beyondswe/_bundled/{folder}") for name in names), folder
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]


def test_the_sdist_builds_the_same_wheel_and_has_no_leftovers(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = sdist.getnames()
    assert any(name.endswith("/harness/runner/supervise.py") for name in names)
    assert not [name for name in names if "__pycache__" in name or "/.venv/" in name]
    assert {name.split("/")[1] for name in names if "/" in name} <= {*TOP, "PKG-INFO", ".gitignore"}


def test_an_installed_wheel_works_from_another_folder(installed: Path, tmp_path: Path) -> None:
    where = run(
        installed / "python", "-c", "import beyondswe; print(beyondswe.__file__)", cwd=tmp_path
    ).strip()
    assert str(ROOT) not in where
    listed = json.loads(
        run(
            installed / "beyondswe",
            "dataset",
            "list",
            "--json",
            cwd=tmp_path,
            BEYONDSWE_CACHE=str(tmp_path / "cache"),
        )
    )
    assert {"demo", "pypi"} <= {row["name"] for row in listed}


@pytest.mark.engine
@pytest.mark.slow
def test_an_installed_wheel_evaluates_the_demo(installed: Path, tmp_path: Path) -> None:
    out = run(
        installed / "beyondswe",
        "eval",
        "--dataset",
        "demo",
        "--agent",
        "oracle",
        "--json",
        cwd=tmp_path,
        BEYONDSWE_CACHE=str(tmp_path / "cache"),
    )
    assert json.loads(out)["avg"] == 100.0

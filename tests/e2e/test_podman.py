"""The tests of the main job and of what it stands on run against Podman's socket too: a service of its own,
started as `engine setup` starts it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beyondswe.sandbox.daemon import start_podman

pytestmark = [pytest.mark.slow, pytest.mark.engine]

TESTS = Path(__file__).parents[1]
SAME = [
    "sandbox/test_base_images.py",
    "sandbox/test_build.py",
    "sandbox/test_doctor.py",
    "sandbox/test_engine_setup.py",
    "sandbox/test_prune.py",
    "sandbox/test_docker.py",
    "sandbox/test_job.py",
    "sandbox/test_environment.py",
    "sandbox/test_limits.py",
    "sandbox/test_layer.py",
    "sandbox/test_disk.py",
    "gateway/test_link.py",
    "scoring/test_extract.py",
    "scoring/test_score.py",
    "cli/test_eval.py",
]


@pytest.fixture(scope="module")
def socket() -> Iterator[Path]:
    """Podman's service with a store of its own; needs root and the packages podman and runc (CI installs
    them).
    """
    if os.geteuid() != 0 or shutil.which("podman") is None:
        pytest.skip(
            "Podman's service needs root and the packages podman and runc, which this test does not install"
        )
    folder = Path(tempfile.mkdtemp(prefix="bsp-"))  # Podman takes short paths only
    path = folder / "podman.sock"
    store = (
        "--root",
        str(folder / "root"),
        "--runroot",
        str(folder / "run"),
        "--tmpdir",
        str(folder / "tmp"),
    )
    store += ("--storage-driver", "overlay")
    start_podman(path, folder / "podman.log", say=lambda _line: None, options=store)
    yield path
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and f"unix://{path}" in _command_line(entry):
            os.kill(int(entry.name), 15)
    # by hand: Podman's own reset would also clean the machine's default store
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in reversed([place for place in mounted if place.startswith(str(folder))]):
        subprocess.run(["umount", "--lazy", place], check=True)
    shutil.rmtree(folder)


def _command_line(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_text(errors="replace")
    except OSError:
        return ""


def test_setup_uses_it(socket: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "beyondswe.cli", "engine", "setup", "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "DOCKER_HOST": f"unix://{socket}"},
        check=True,
    )
    assert json.loads(done.stdout)["engine"] == "podman"


@pytest.mark.parametrize("name", SAME)
def test_the_same_tests_hold(socket: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", str(TESTS / name)],
        capture_output=True,
        text=True,
        env={**os.environ, "DOCKER_HOST": f"unix://{socket}"},
        cwd=TESTS.parent,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]

"""The tests of this room run against Podman's socket too: a service of its own, started as `engine setup`
starts it.
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

HERE = Path(__file__).parent
SAME = ["test_base_images.py", "test_build.py", "test_doctor.py", "test_engine_setup.py", "test_prune.py"]


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
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", str(HERE / name)],
        capture_output=True,
        text=True,
        env={**os.environ, "DOCKER_HOST": f"unix://{socket}"},
        cwd=HERE.parents[1],
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]

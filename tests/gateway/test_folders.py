"""Folders of the processes beside a run."""

from __future__ import annotations

import shutil
import subprocess
import sys

from beyondswe.gateway.folders import own_folder


def test_the_folder_of_a_run_that_was_killed_goes_when_the_next_one_is_made() -> None:
    program = "import os; from beyondswe.gateway.folders import own_folder as f; print(f('beyondswe-tried-'), flush=1)"
    killed = subprocess.run(
        [sys.executable, "-c", f"{program}; os.kill(os.getpid(), 9)"], capture_output=True, text=True
    )
    first, second = killed.stdout.strip(), own_folder("beyondswe-tried-")
    third = own_folder("beyondswe-tried-")
    try:
        assert first and not second.with_name(first.rpartition("/")[2]).exists()
        assert second.is_dir() and third.is_dir() and second != third
        assert second.stat().st_mode & 0o077 == 0
    finally:
        shutil.rmtree(second)
        shutil.rmtree(third)

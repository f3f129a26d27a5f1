"""What is made once is not made twice at the same time, by threads or by processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from beyondswe.sandbox.locks import exclusive

WAITER = """
import sys
from beyondswe.sandbox.locks import exclusive
print("asks", flush=True)
with exclusive(sys.argv[1]):
    print("has it", flush=True)
"""


def test_another_process_waits_for_the_lock_and_not_for_another_lock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path))

    def start(name: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", WAITER, name], stdout=subprocess.PIPE, text=True)

    with exclusive("base image"):
        waiting, other = start("base image"), start("another")
        assert waiting.stdout and waiting.stdout.readline() == "asks\n"
        assert other.communicate(timeout=60)[0] == "asks\nhas it\n"
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(timeout=0.5)
    assert waiting.communicate(timeout=60)[0] == "has it\n"


def test_a_lock_ends_with_its_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path))
    code = "import os; from beyondswe.sandbox.locks import exclusive\nwith exclusive('x'): os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    with exclusive("x"):
        pass

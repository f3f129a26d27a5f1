"""A container that holds more on the disk than it may is ended, however it holds it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from beyondswe.sandbox import disk, layer
from beyondswe.sandbox.disk import used
from beyondswe.sandbox.docker import start_sandbox
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.job import run_to_end
from beyondswe.sandbox.types import Limits

pytestmark = pytest.mark.engine

LIMITS = Limits(cpus=1, memory=256 << 20, disk=50 << 20)
FILL = "dd if=/dev/zero of=/var/tmp/big bs=1M count=120 2> /dev/null; sleep 600"


def test_a_program_that_fills_the_disk_is_ended_long_before_its_time(engine: Engine, base_image: str) -> None:
    begun = time.monotonic()
    ended = run_to_end(engine, base_image, command=["sh", "-c", FILL], limits=LIMITS, timeout=300)
    assert ended.out_of_disk
    assert (ended.timed_out, ended.oom_killed, ended.vanished) == (False, False, False)
    assert time.monotonic() - begun < 60


def test_within_its_limit_or_without_one_a_program_lives(
    engine: Engine, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "INTERVAL", 0.1)
    command = ["sh", "-c", "dd if=/dev/zero of=/var/tmp/x bs=1M count=20 2> /dev/null; sleep 1.5"]
    for limits in (LIMITS, replace(LIMITS, disk=0)):
        assert run_to_end(engine, base_image, command=command, limits=limits, timeout=60).exit_code == 0


def test_what_counts_is_what_is_written_and_deleted_files_that_are_open(
    engine: Engine, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = start_sandbox(engine, base_image, workdir="/", limits=LIMITS)
    try:
        assert used(engine, sandbox.id, 1 << 30) < 1 << 20
        script = "dd if=/dev/zero of=a bs=1M count=10; ln a b; truncate -s 1T hole; ln -s /usr c"
        assert sandbox.run(script, timeout=60, cwd="/var/tmp").exit_code == 0
        assert 10 <= used(engine, sandbox.id, 1 << 40) / 2**20 < 11
        holder = "exec 9> gone; rm gone; dd if=/dev/zero bs=1M count=20 >&9 2> /dev/null; exec sleep 100"
        sandbox.run(f"({holder}) > /dev/null 2>&1 &", timeout=20, cwd="/var/tmp")
        deadline = time.monotonic() + 30
        while used(engine, sandbox.id, 1 << 40) < 30 << 20:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        with monkeypatch.context() as patch:
            patch.setattr(layer, "readable", lambda *_: False)
            assert used(engine, sandbox.id, 1 << 40) >= 10 << 20
    finally:
        sandbox.stop()

"""A container with one program, from start to end, on the real engine."""

from __future__ import annotations

import io
import tarfile
import threading
import time
import uuid
from dataclasses import replace

import pytest

from beyondswe.errors import EngineError
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.job import kill, run_to_end
from beyondswe.sandbox.removal import finish_removals, remove
from beyondswe.sandbox.types import Ended, Limits

pytestmark = pytest.mark.engine

LIMITS = Limits(cpus=1, memory=256 << 20, pids=64)


def tar_of(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


class Jobs:
    """Runs jobs under a label of their own and knows what is left of them."""

    def __init__(self, engine: Engine, image: str) -> None:
        self.engine, self.image, self.run_id = engine, image, uuid.uuid4().hex

    def __call__(self, script: str, *, limits: Limits = LIMITS, timeout: float = 60, **more: object) -> Ended:
        return self.run(["sh", "-c", script], limits=limits, timeout=timeout, **more)

    def run(self, command: list[str], **more: object) -> Ended:
        return run_to_end(self.engine, self.image, command=command, run_labels={"run": self.run_id}, **more)  # type: ignore[arg-type]

    def containers(self) -> list[str]:
        found = self.engine.api.containers(all=True, filters={"label": f"io.beyondswe.run={self.run_id}"})
        return [container["Id"] for container in found]

    def wait_for_container(self) -> str:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = self.engine.api.containers(filters={"label": f"io.beyondswe.run={self.run_id}"})
            if found:
                return str(found[0]["Id"])
            time.sleep(0.02)
        raise AssertionError("the container did not come up")


@pytest.fixture
def jobs(engine: Engine, base_image: str) -> Jobs:
    return Jobs(engine, base_image)


def test_output_exit_code_and_times_are_reported(jobs: Jobs) -> None:
    ended = jobs("echo out; echo err >&2; exit 7")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (7, b"out\n", b"err\n")
    assert (ended.oom_killed, ended.timed_out, ended.vanished, ended.truncated) == (False,) * 4
    assert {"create", "start", "wait", "logs"} <= set(ended.seconds)


def test_the_archive_is_there_before_the_program_starts(jobs: Jobs) -> None:
    data = tar_of(**{"job/words.txt": b"from the archive\n"})
    assert jobs("cat /job/words.txt", archive=data).stdout == b"from the archive\n"
    pieces = [data[at : at + 100] for at in range(0, len(data), 100)]
    assert jobs("cat /job/words.txt", archive=lambda: iter(pieces)).stdout == b"from the archive\n"


def test_the_program_is_process_one_with_the_environment_user_and_folder_given(jobs: Jobs) -> None:
    ended = jobs("echo $$ $COLOUR $(id -u) $(pwd)", env={"COLOUR": "blue"}, user="1234", workdir="/var/tmp")
    assert ended.stdout.split() == [b"1", b"blue", b"1234", b"/var/tmp"]


def test_the_images_own_entrypoint_and_command_play_no_part(
    jobs: Jobs, engine: Engine, base_image: str
) -> None:
    container = engine.api.create_container(
        base_image, command=["echo", "image command"], entrypoint=["echo", "image entry point"]
    )
    image = engine.api.commit(container["Id"])["Id"]
    engine.api.remove_container(container["Id"])
    try:
        jobs.image = image
        assert jobs.run(["echo", "ours"], limits=LIMITS, timeout=60).stdout == b"ours\n"
    finally:
        finish_removals()
        engine.api.remove_image(image)


def test_limits_reach_the_container(jobs: Jobs) -> None:
    ended = jobs(
        "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max;"
        "cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max;"
        "grep NoNewPrivs /proc/self/status; ulimit -c; ls /sys/class/net"
    )
    assert ended.stdout.split() == [str(256 << 20).encode(), b"64", b"NoNewPrivs:", b"1", b"0", b"lo"]


def test_a_time_limit_ends_the_container_and_what_it_started(jobs: Jobs) -> None:
    begun = time.monotonic()
    ended = jobs(
        "echo begun; (trap '' TERM INT; sleep 600) & trap '' TERM; sleep 600; echo never",
        timeout=1,
        grace=0.5,
    )
    assert ended.timed_out
    assert not ended.vanished
    assert ended.exit_code == 137
    assert ended.stdout == b"begun\n"
    assert time.monotonic() - begun < 20
    finish_removals()
    assert jobs.containers() == []


def test_running_out_of_memory_is_seen(jobs: Jobs) -> None:
    ended = jobs.run(["python3", "-c", "x = bytearray(600 << 20)"], limits=LIMITS, timeout=60)
    assert ended.oom_killed
    assert ended.exit_code == 137
    assert not ended.vanished


def test_a_container_killed_by_somebody_else_is_seen_as_vanished(jobs: Jobs, engine: Engine) -> None:
    killer = threading.Thread(target=lambda: kill(engine, jobs.wait_for_container()))
    killer.start()
    ended = jobs("sleep 600", timeout=60)
    killer.join()
    assert ended.vanished
    assert not ended.timed_out


def test_a_container_removed_by_somebody_else_is_seen_as_vanished(jobs: Jobs, engine: Engine) -> None:
    remover = threading.Thread(target=lambda: remove(engine, jobs.wait_for_container()))
    remover.start()
    ended = jobs("sleep 600", timeout=60)
    remover.join()
    assert ended.vanished
    assert ended.stdout == b""


def test_a_program_cannot_be_killed_from_inside_and_so_cannot_pretend_to_have_vanished(jobs: Jobs) -> None:
    ended = jobs("(kill -KILL 1; kill -KILL -1) & wait; echo alive; exit 3")
    assert (ended.exit_code, ended.vanished) == (3, False)
    assert ended.stdout == b"alive\n"


def test_long_output_is_cut_to_head_and_tail(jobs: Jobs) -> None:
    ended = jobs("echo first; yes 0123456789 | head -c 3000000; echo; echo last", max_output=100_000)
    assert ended.truncated
    assert len(ended.stdout) < 101_000
    assert ended.stdout.startswith(b"first\n0123456789\n")
    assert ended.stdout.endswith(b"\nlast\n")
    assert b"bytes left out" in ended.stdout


def test_no_container_is_left_when_the_start_fails(jobs: Jobs) -> None:
    with pytest.raises(EngineError, match="no-such-program"):
        jobs.run(["/no-such-program"], limits=LIMITS, timeout=60)
    with pytest.raises(EngineError, match="put files"):
        jobs("true", archive=b"this is not a tar archive" * 100)
    with pytest.raises(EngineError, match="no-such-image"):
        run_to_end(jobs.engine, "no-such-image:x", command=["true"], limits=LIMITS, timeout=60)
    finish_removals()
    assert jobs.containers() == []


def test_containers_carry_the_labels_that_prune_goes_by(jobs: Jobs, engine: Engine) -> None:
    seen: dict[str, str] = {}
    looker = threading.Thread(
        target=lambda: seen.update(
            engine.api.inspect_container(jobs.wait_for_container())["Config"]["Labels"]
        )
    )
    looker.start()
    jobs("sleep 1")
    looker.join()
    assert seen["io.beyondswe.run"] == jobs.run_id
    assert seen["io.beyondswe.role"] == "job"
    assert seen["io.beyondswe.owner"]
    assert seen["io.beyondswe.namespace"]


def test_an_unknown_network_is_refused(jobs: Jobs) -> None:
    with pytest.raises(EngineError, match="filtered"):
        jobs("true", network="filtered", limits=replace(LIMITS, cpus=0.5))

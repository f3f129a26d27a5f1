"""The sandbox that an agent works in, on the real engine."""

from __future__ import annotations

import io
import os
import tarfile
import time
import uuid
from collections.abc import Iterator, Sequence

import pytest

from beyondswe.errors import EngineError
from beyondswe.sandbox.docker import DockerSandbox, Mount, SandboxDied, changes, start_sandbox
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.removal import remove
from beyondswe.sandbox.types import Change, ChangeKind, Limits, Sandbox

pytestmark = pytest.mark.engine

LIMITS = Limits(cpus=1, memory=256 << 20, pids=64)
WORKDIR = "/srv/work"


@pytest.fixture(scope="module")
def image(engine: Engine, base_image: str) -> Iterator[str]:
    """The base image with a work folder in it."""
    script = f"""
        mkdir -p {WORKDIR}/pkg {WORKDIR}/old && cd {WORKDIR}
        echo one > pkg/one.txt; echo two > pkg/two.txt; echo gone > pkg/gone.txt; echo old > old/file.txt
        printf x > "$(printf 'odd-\\377')"; touch -d 2020-01-01T00:00:00 pkg/one.txt
    """
    container = engine.api.create_container(
        base_image,
        entrypoint=["sh", "-c", script],
        host_config={"NetworkMode": "none", "Ulimits": engine.ulimits()},
    )["Id"]
    engine.api.start(container)
    assert engine.api.wait(container)["StatusCode"] == 0
    made = (
        f"beyondswe-test/sandbox:{uuid.uuid4().hex[:12]}"  # tagged: untagged parents go with their children
    )
    engine.api.commit(container, repository=made.partition(":")[0], tag=made.partition(":")[2])
    engine.api.remove_container(container)
    yield made
    engine.api.remove_image(made, force=True)


@pytest.fixture(scope="module")
def shared(engine: Engine, image: str) -> Iterator[DockerSandbox]:
    """A sandbox for tests that leave it as it was."""
    sandbox = start_sandbox(engine, image, workdir=WORKDIR, limits=LIMITS)
    yield sandbox
    sandbox.stop()


@pytest.fixture
def sandbox(engine: Engine, image: str) -> Iterator[DockerSandbox]:
    sandbox = start_sandbox(engine, image, workdir=WORKDIR, limits=LIMITS)
    yield sandbox
    sandbox.stop()


def processes(sandbox: DockerSandbox) -> list[str]:
    """Command lines of the tests' processes in the sandbox."""
    shown = sandbox.run("for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done", timeout=20)
    lines = shown.stdout.decode().splitlines()
    assert any("sleep 3600" in line for line in lines)  # else this would see nothing
    return [line for line in lines if "wanted-" in line or "sleep 61" in line]


def read(sandbox: Sandbox, path: str) -> dict[str, bytes | None]:
    with sandbox.get(path) as pieces, tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
        return {m.name: f.read() if m.isreg() and (f := archive.extractfile(m)) else None for m in archive}


def changed(sandbox: Sandbox) -> dict[str, ChangeKind]:
    return {c.path: c.kind for c in sandbox.changed_paths() if c.path.startswith(WORKDIR)}


# --- commands


def test_streams_exit_code_folder_and_environment(shared: Sandbox) -> None:
    done = shared.run("pwd; echo $COLOUR; echo oops >&2; exit 9", timeout=20, env={"COLOUR": "blue"})
    assert (done.exit_code, done.stdout, done.stderr) == (9, f"{WORKDIR}\nblue\n".encode(), b"oops\n")
    assert not done.timed_out
    assert not done.truncated
    done = shared.run(
        ["sh", "-c", 'echo "$(pwd) $1 $(id -u)"', "sh", "a  b"], timeout=20, cwd="/tmp", user="1234"
    )
    assert done.stdout == b"/tmp a  b 1234\n"


@pytest.mark.parametrize("user", [None, "1234"])
def test_standard_input_reaches_the_command_as_bytes(shared: Sandbox, user: str | None) -> None:
    data = bytes(range(256)) * 5000
    done = shared.run(["sh", "-c", "wc -c; cat"], timeout=20, stdin=b"", user=user)
    assert done.stdout == b"0\n"
    done = shared.run(["cat"], timeout=20, stdin=data, user=user, max_output=1 << 22)
    assert done.stdout == data
    assert shared.run("cat", timeout=20, user=user).stdout == b""
    assert shared.run("ls -A /", timeout=20).stdout.count(b"beyondswe-input") == 0


def test_a_command_that_does_not_exist_ends_with_an_exit_code(shared: Sandbox) -> None:
    assert shared.run(["no-such-program"], timeout=20).exit_code in (126, 127)


def test_endless_output_is_capped_while_it_runs(shared: Sandbox) -> None:
    begun = time.monotonic()
    done = shared.run("echo first; yes 0123456789", timeout=2, max_output=100_000)
    assert done.timed_out
    assert done.exit_code is None
    assert done.truncated
    assert len(done.stdout) < 101_000
    assert done.stdout.startswith(b"first\n")
    assert b"bytes left out" in done.stdout
    assert time.monotonic() - begun < 30


def test_long_output_keeps_head_and_tail_of_each_stream(shared: Sandbox) -> None:
    done = shared.run(
        "echo first; yes out | head -c 500000; echo; echo last; yes err | head -c 500000 >&2; echo end >&2",
        timeout=30,
        max_output=10_000,
    )
    assert done.exit_code == 0
    assert done.stdout.startswith(b"first\n")
    assert done.stdout.endswith(b"last\n")
    assert done.stderr.startswith(b"err\n")
    assert done.stderr.endswith(b"end\n")


ESCAPES = {
    "a child that ignores signals": "trap '' TERM INT HUP; sh -c 'exec sleep 611' & sleep 612",
    "another session": "setsid sh -c 'sleep 611; : wanted-x' & sleep 612",
    "a daemon": "(setsid sh -c 'sleep 611; : wanted-x' &) ; sleep 612",
    "a daemon without its environment": "env -i setsid sh -c 'sleep 611; : wanted-x' & sleep 612",
    "a group of its own": "python3 -c 'import os,time; os.setpgid(0,0); time.sleep(612)' wanted-x",
    "a stopped process": "sh -c 'kill -STOP $$; : wanted-x' & sleep 612",
}  # fmt: skip


@pytest.mark.parametrize("script", ESCAPES.values(), ids=ESCAPES.keys())
def test_a_time_limit_ends_every_process_of_the_command(shared: DockerSandbox, script: str) -> None:
    begun = time.monotonic()
    done = shared.run(f"echo begun; {script}", timeout=1.0)
    assert done.timed_out
    assert done.stdout == b"begun\n"
    assert time.monotonic() - begun < 15
    assert processes(shared) == []


def test_other_commands_live_on_when_one_is_ended(shared: DockerSandbox) -> None:
    shared.run("setsid sh -c 'sleep 300; : wanted-server' > /dev/null 2>&1 &", timeout=20)
    assert shared.run("sleep 600", timeout=0.5).timed_out
    assert len(processes(shared)) == 1
    shared.run("kill -KILL -1", timeout=20)
    assert processes(shared) == []


def test_a_fork_bomb_is_ended_and_the_sandbox_can_be_used_again(sandbox: DockerSandbox) -> None:
    sandbox.run("echo kept > kept.txt", timeout=20)
    begun = time.monotonic()
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    done = sandbox.run(["python3", "-c", bomb], timeout=2)
    assert done.timed_out
    assert time.monotonic() - begun < 60
    done = sandbox.run("cat kept.txt", timeout=20)
    assert (done.exit_code, done.stdout) == (0, b"kept\n")


def test_an_agent_that_kills_everything_it_can_keeps_its_sandbox(sandbox: DockerSandbox) -> None:
    done = sandbox.run("kill -KILL -1; kill -KILL 1", timeout=20)
    assert not done.timed_out
    assert sandbox.run("echo alive", timeout=20).stdout == b"alive\n"
    assert sandbox.end_state().running


def test_orphans_are_reaped(shared: DockerSandbox) -> None:
    shared.run("for i in 1 2 3 4 5; do (sleep 0.1 &); done", timeout=20)
    done = shared.run("sleep 0.6; cat /proc/[0-9]*/stat | grep -c ') Z ' || true", timeout=20)
    assert done.stdout == b"0\n"


def test_a_command_that_runs_out_of_memory_is_killed_and_the_sandbox_lives_on(sandbox: DockerSandbox) -> None:
    done = sandbox.run(["python3", "-c", "x = bytearray(600 << 20)"], timeout=60)
    assert done.exit_code == 137
    assert not done.timed_out
    assert sandbox.run("echo alive", timeout=20).stdout == b"alive\n"


def test_a_sandbox_that_somebody_removed_says_so(sandbox: DockerSandbox, engine: Engine) -> None:
    remove(engine, sandbox.id)
    assert sandbox.end_state().vanished
    with pytest.raises(SandboxDied, match="gone"):
        sandbox.run("true", timeout=20)
    sandbox.stop()
    sandbox.stop()


# --- what it may


def test_nothing_of_the_host_and_no_more_than_default_rights(
    shared: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = shared.run(
        "ls /var/run/docker.sock /run/docker.sock; grep -c : /proc/net/dev;"
        "grep CapEff /proc/self/status; env",
        timeout=20,
    )
    lines = done.stdout.decode().splitlines()
    assert done.stderr.count(b"No such file") == 2
    assert lines[0] == "1"  # loopback alone
    assert int(lines[1].split()[1], 16) & ~0xA80425FB == 0  # Docker's default capabilities
    assert not any(line.split("=")[0] in ("SSH_AUTH_SOCK", "DOCKER_HOST") for line in lines)


def test_an_open_network_is_there_when_asked_for(engine: Engine, image: str) -> None:
    sandbox = start_sandbox(engine, image, workdir=WORKDIR, limits=LIMITS, network="open")
    try:
        assert int(sandbox.run("grep -c : /proc/net/dev", timeout=20).stdout) > 1
    finally:
        sandbox.stop()


def test_mounts_are_read_only(engine: Engine, image: str) -> None:
    volume = engine.api.create_volume(f"beyondswe-test-{uuid.uuid4().hex[:8]}")["Name"]
    try:
        sandbox = start_sandbox(
            engine, image, workdir=WORKDIR, limits=LIMITS, mounts=[Mount(volume, "/opt/layer")]
        )
        try:
            done = sandbox.run("ls -d /opt/layer && touch /opt/layer/x", timeout=20)
            assert done.exit_code != 0
            assert b"Read-only" in done.stderr
            assert not any(
                c.path == "/opt/layer" and c.kind is ChangeKind.UNLISTED for c in sandbox.changed_paths()
            )
        finally:
            sandbox.stop()
    finally:
        engine.api.remove_volume(volume)


def test_nothing_is_left_when_a_sandbox_cannot_start(engine: Engine, image: str) -> None:
    run = uuid.uuid4().hex
    with pytest.raises(EngineError, match="not a directory"):
        start_sandbox(
            engine,
            image,
            workdir="/etc/passwd/not-a-folder",
            limits=LIMITS,
            run_labels={"run": run},
        )
    assert engine.api.containers(all=True, filters={"label": f"io.beyondswe.run={run}"}) == []


# --- files


def test_files_go_in_and_come_out_as_they_are(sandbox: DockerSandbox) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("in/caf\u00e9 x")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"\x00\xff\n"))
        link = tarfile.TarInfo("in/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/shadow"
        archive.addfile(link)
    buffer.seek(0)
    sandbox.put(buffer, WORKDIR)
    assert read(sandbox, f"{WORKDIR}/in") == {"in": None, "in/caf\u00e9 x": b"\x00\xff\n", "in/link": None}
    with (
        sandbox.get(f"{WORKDIR}/in/link") as pieces,
        tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive,
    ):
        assert archive.getmembers()[0].linkname == "/etc/shadow"


def test_names_that_are_not_utf8_come_out_with_their_folder(shared: DockerSandbox) -> None:
    with shared.get(WORKDIR) as pieces:
        data = b"".join(pieces)
    with tarfile.open(fileobj=io.BytesIO(data), encoding="utf-8", errors="surrogateescape") as archive:
        assert b"work/odd-\xff" in [os.fsencode(name) for name in archive.getnames()]
    with pytest.raises(ValueError, match="folder"), shared.get(os.fsdecode(WORKDIR.encode() + b"/odd-\xff")):
        pass


def test_a_path_that_is_not_there_is_file_not_found(shared: DockerSandbox) -> None:
    with pytest.raises(FileNotFoundError), shared.get("/no/such"):
        pass


# --- what changed


def test_changes_are_told(sandbox: DockerSandbox) -> None:
    assert changed(sandbox) == {}
    sandbox.run("echo 1 >> pkg/two.txt; rm pkg/gone.txt; chmod +x pkg/one.txt", timeout=20)
    sandbox.run("mkdir new; echo x > new/file", timeout=20)
    found = changed(sandbox)
    there = (ChangeKind.MODIFIED, ChangeKind.ADDED)
    assert found.pop(f"{WORKDIR}/pkg/gone.txt") is ChangeKind.DELETED
    assert {f"{WORKDIR}/{name}" for name in ("pkg/one.txt", "pkg/two.txt", "new/file")} <= set(found)
    assert set(found) - {WORKDIR, f"{WORKDIR}/pkg", f"{WORKDIR}/new"} == {
        f"{WORKDIR}/{name}" for name in ("pkg/one.txt", "pkg/two.txt", "new/file")
    }
    assert all(kind in there for kind in found.values())


def test_a_change_that_keeps_size_and_time_is_found(sandbox: DockerSandbox) -> None:
    done = sandbox.run(
        "touch -r pkg/one.txt /tmp/t && echo ONE > pkg/one.txt && touch -r /tmp/t pkg/one.txt", timeout=20
    )
    assert done.exit_code == 0
    assert changed(sandbox)[f"{WORKDIR}/pkg/one.txt"] is ChangeKind.MODIFIED
    sandbox.freeze()
    assert changed(sandbox)[f"{WORKDIR}/pkg/one.txt"] is ChangeKind.MODIFIED


def test_a_folder_deleted_and_made_again_shows_all_that_went(sandbox: DockerSandbox) -> None:
    sandbox.run("rm -r pkg && mkdir pkg && echo new > pkg/new.txt", timeout=20)
    found = changed(sandbox)
    gone = {f"{WORKDIR}/pkg/{name}" for name in ("one.txt", "two.txt", "gone.txt")}
    assert found[f"{WORKDIR}/pkg"] is ChangeKind.UNLISTED or all(
        found.get(path) is ChangeKind.DELETED for path in gone
    )
    assert f"{WORKDIR}/pkg/new.txt" in found


def test_names_that_are_not_utf8_make_their_folder_one_to_be_read(sandbox: DockerSandbox) -> None:
    sandbox.run(
        ["sh", "-c", 'cd pkg && echo x > "$(printf "bad-\\377")"; mkdir -p "$(printf "d\\376")/e"'],
        timeout=20,
    )
    found = changed(sandbox)
    assert found[f"{WORKDIR}/pkg"] is ChangeKind.UNLISTED
    assert not any("\ufffd" in path for path in found)


def test_a_volume_is_a_folder_to_be_read(engine: Engine, image: str) -> None:
    container = engine.api.create_container(
        image, command=["true"], host_config={"NetworkMode": "none", "Ulimits": engine.ulimits()}
    )["Id"]
    with_volume = engine.api.commit(container, changes=[f"VOLUME {WORKDIR}/data"])["Id"]
    engine.api.remove_container(container)
    try:
        sandbox = start_sandbox(engine, with_volume, workdir=WORKDIR, limits=LIMITS)
        try:
            assert changed(sandbox)[f"{WORKDIR}/data"] is ChangeKind.UNLISTED
        finally:
            sandbox.stop()
    finally:
        engine.api.remove_image(with_volume)


def test_freezing_ends_everything_and_keeps_the_files_readable(sandbox: DockerSandbox) -> None:
    sandbox.run(
        "echo made > made.txt; (setsid sh -c 'while :; do date >> made.txt; sleep 0.05; done' &)", timeout=20
    )
    sandbox.freeze()
    assert not sandbox.end_state().running
    first = read(sandbox, f"{WORKDIR}/made.txt")
    assert first["made.txt"] is not None
    assert first["made.txt"].startswith(b"made\n")
    assert f"{WORKDIR}/made.txt" in changed(sandbox)
    assert read(sandbox, f"{WORKDIR}/made.txt") == first
    with pytest.raises(SandboxDied):
        sandbox.run("true", timeout=20)
    sandbox.freeze()


def test_the_layer_is_read_without_leaving_a_container(sandbox: DockerSandbox, engine: Engine) -> None:
    sandbox.changed_paths()
    left = engine.api.containers(all=True, filters={"label": "io.beyondswe.role=layer"})
    assert [c for c in left if c["Image"] == sandbox.image] == []


# --- the list of changes, by itself


def listed(*items: tuple[str, int]) -> list[dict[str, object]]:
    return [{"Path": path, "Kind": kind} for path, kind in items]


@pytest.mark.parametrize(
    ("given", "touched", "opaque", "expected"),
    [
        ([], [], [], []),
        ([("/w/b", 1), ("/w", 0)], [], [], [("/w", "modified"), ("/w/b", "added")]),
        ([("/w/a\ufffdb", 1)], [], [], [("/w", "unlisted")]),
        ([("/w/a\ufffdb/c/d", 2), ("/w", 0)], [], [], [("/w", "unlisted")]),
        ([("/\ufffd", 1)], [], [], [("/", "unlisted")]),
        ([("/w/d", 2), ("/w/d/new", 1)], [], [], [("/w/d", "unlisted"), ("/w/d/new", "added")]),
        ([("/w/d", 2)], [b"/w/d/x/same"], [], [("/w/d", "unlisted"), ("/w/d/x/same", "modified")]),
        ([("/w/d", 2), ("/w/d/e", 2)], [], [], [("/w/d", "deleted"), ("/w/d/e", "deleted")]),
        ([("/w/f", 1)], [b"/w/f", b"/w/g\xff"], [], [("/w", "unlisted"), ("/w/f", "added")]),
        ([("/v", 0)], [], ["/v"], [("/v", "unlisted")]),
    ],
)
def test_changes_from_what_the_engine_says(
    given: Sequence[tuple[str, int]], touched: list[bytes], opaque: list[str], expected: list[tuple[str, str]]
) -> None:
    found = changes(listed(*given), touched=touched, opaque=opaque)
    assert found == [Change(path, ChangeKind(kind)) for path, kind in expected]

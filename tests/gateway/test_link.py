"""The way out of a sandbox without network, on the real engine."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from beyondswe.errors import EngineError
from beyondswe.gateway.link import Link, Socket
from beyondswe.sandbox import job
from beyondswe.sandbox.docker import DockerSandbox, start_sandbox
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.prune import survey
from beyondswe.sandbox.removal import finish_removals
from beyondswe.sandbox.types import Limits

pytestmark = pytest.mark.engine

LIMITS = Limits(cpus=1, memory=256 << 20, pids=64)
PORTS = (28610, 28611)

ASK = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) as s:
    s.sendall(sys.argv[2].encode()); s.shutdown(socket.SHUT_WR)
    print(s.makefile().read())
"""
OUT = """
import socket
for address in [("192.0.2.1", 80), ("172.17.0.1", 2375), ("10.0.0.1", 53), ("127.0.0.1", 80)]:
    try:
        socket.create_connection(address, 3)
        print("reached", address)
    except OSError:
        pass
try:
    print("named", socket.getaddrinfo("localhost.localdomain.example", 80))
except OSError:
    pass
try:
    socket.socket(socket.AF_INET6).connect(("2001:db8::1", 80))
    print("reached IPv6")
except OSError:
    pass
print("asked")
"""


def echo(folder: Path, word: str) -> socket.socket:
    """A server on a Unix socket that answers what it gets, with a word of its own before it."""
    folder.chmod(0o755)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "s"))
    (folder / "s").chmod(0o666)
    server.listen()

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):  # the forwarder looks whether it is there
                client.sendall(f"{word}:".encode() + client.makefile("rb").read())

    threading.Thread(target=serve, daemon=True).start()
    return server


@pytest.fixture(scope="module")
def sockets() -> Iterator[dict[int, Socket]]:
    with tempfile.TemporaryDirectory(dir="/tmp") as one, tempfile.TemporaryDirectory(dir="/tmp") as two:
        servers = [echo(Path(one), "model"), echo(Path(two), "proxy")]
        yield {port: Socket(Path(folder), "s") for port, folder in zip(PORTS, (one, two), strict=True)}
        for server in servers:
            server.close()


@pytest.fixture(scope="module")
def link(engine: Engine, base_image: str, sockets: dict[int, Socket]) -> Iterator[Link]:
    link = Link.start(engine, sockets, run_labels={"run": "test-link"})
    link.wait()
    yield link
    link.stop()


@pytest.fixture(scope="module")
def sandbox(engine: Engine, base_image: str, link: Link) -> Iterator[DockerSandbox]:
    sandbox = start_sandbox(engine, base_image, workdir="/", limits=LIMITS, network=link.network)
    yield sandbox
    sandbox.stop()


def ask(sandbox: DockerSandbox, port: int, word: str) -> str:
    result = sandbox.run(["/opt/venv/bin/python", "-c", ASK, str(port), word], timeout=60)
    assert result.exit_code == 0, result.stderr
    return result.stdout.decode().strip()


def test_each_port_leads_to_its_socket(sandbox: DockerSandbox) -> None:
    assert ask(sandbox, PORTS[0], "hello") == "model:hello"
    assert ask(sandbox, PORTS[1], "hello") == "proxy:hello"


def test_any_user_of_the_sandbox_gets_through(sandbox: DockerSandbox) -> None:
    command = ["/opt/venv/bin/python", "-c", ASK, str(PORTS[0]), "hi"]
    assert sandbox.run(command, timeout=60, user="bench").stdout.decode().strip() == "model:hi"


def test_nothing_else_is_reached(sandbox: DockerSandbox) -> None:
    assert sandbox.run(["/opt/venv/bin/python", "-c", OUT], timeout=60).stdout.decode().strip() == "asked"


def test_neither_socket_nor_forwarder_is_in_the_sandbox(sandbox: DockerSandbox) -> None:
    shown = sandbox.run(
        "ls /run; cat /proc/[0-9]*/cmdline | tr '\\0' ' '; cat /proc/mounts", timeout=60
    ).stdout
    assert b"/run/beyondswe" not in shown and b"28610=" not in shown


def test_it_still_works_after_a_restart_of_the_sandbox(engine: Engine, sandbox: DockerSandbox) -> None:
    engine.api.restart(sandbox.id, timeout=0)
    assert ask(sandbox, PORTS[0], "again") == "model:again"


def test_freezing_the_sandbox_leaves_the_link_and_its_files(
    engine: Engine, base_image: str, link: Link
) -> None:
    sandbox = start_sandbox(engine, base_image, workdir="/srv", limits=LIMITS, network=link.network)
    try:
        assert sandbox.run("echo kept > /srv/file", timeout=60).exit_code == 0
        sandbox.freeze()
        assert "/srv/file" in [change.path for change in sandbox.changed_paths()]
        state = job.inspect_state(engine, link.container)
        assert state is not None and state["Running"]
    finally:
        sandbox.stop()


def test_a_link_has_its_owner_and_stays_while_that_lives(engine: Engine, link: Link) -> None:
    found = survey(engine)
    assert link.container in [one.id for one, why in found.keep if "lives" in why]
    labels = engine.api.inspect_container(link.container)["Config"]["Labels"]
    assert labels["io.beyondswe.role"] == "link" and labels["io.beyondswe.run"] == "test-link"


def test_a_socket_that_is_not_there_is_told(engine: Engine, base_image: str, tmp_path: Path) -> None:
    link = Link.start(engine, {PORTS[0]: Socket(tmp_path, "none")}, run_labels={"run": "test-link-none"})
    with pytest.raises(EngineError, match="does not work"):
        link.wait()
    link.stop()
    finish_removals()
    left = engine.api.containers(all=True, filters={"label": "io.beyondswe.run=test-link-none"})
    assert left == []


def test_a_link_that_was_ended_from_outside_is_told(
    engine: Engine, base_image: str, sockets: dict[int, Socket]
) -> None:
    link = Link.start(engine, sockets)
    try:
        link.wait()
        link.check()
        job.kill(engine, link.container)
        with pytest.raises(EngineError, match="from outside"):
            link.check()
    finally:
        link.stop()
    finish_removals()
    with pytest.raises(EngineError, match="from outside"):
        link.check()

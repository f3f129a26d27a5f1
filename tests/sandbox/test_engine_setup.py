"""``beyondswe engine setup``: what it decides on which machine, and that a killed daemon's leftovers do not
stop it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from beyondswe.errors import EngineUnavailable
from beyondswe.sandbox import apt, daemon
from beyondswe.sandbox.setup import Action, Machine, plan

BARE = Machine(
    root=True,
    release=apt.Release("debian", "bookworm"),
    systemd=False,
    programs=frozenset(),
    packages=frozenset(),
    missing_tools=("mmdebstrap",),
    docker_host="",
    why_none="no socket of Docker or Podman was found",
)


def beyondswe(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "beyondswe.cli", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        check=False,
    )


class TestPlan:
    def test_an_engine_that_answers_and_its_tools_need_nothing(self) -> None:
        assert plan(replace(BARE, missing_tools=()), answers=True) == []

    def test_missing_tools_are_installed_beside_an_engine_that_answers(self) -> None:
        assert plan(BARE, answers=True) == [Action.INSTALL_TOOLS]

    def test_without_root_an_engine_that_answers_is_enough(self) -> None:
        assert plan(replace(BARE, root=False), answers=True) == []

    def test_a_bare_machine_gets_docker(self) -> None:
        assert plan(BARE, answers=False) == [Action.INSTALL_DOCKER, Action.INSTALL_TOOLS, Action.START_DOCKER]

    def test_podman_is_installed_when_asked_for(self) -> None:
        assert plan(BARE, answers=False, wanted="podman")[0] is Action.INSTALL_PODMAN

    def test_an_installed_engine_is_started_not_replaced(self) -> None:
        docker = replace(
            BARE, programs=frozenset({"dockerd"}), packages=frozenset({"docker-ce"}), missing_tools=()
        )
        podman = replace(
            BARE, programs=frozenset({"podman"}), packages=frozenset({"podman"}), missing_tools=()
        )
        assert plan(docker, answers=False) == [Action.START_DOCKER]
        assert plan(podman, answers=False) == [Action.START_PODMAN]

    @pytest.mark.parametrize(
        ("machine", "wanted"),
        [
            (replace(BARE, programs=frozenset({"podman"}), packages=frozenset({"podman"})), "docker"),
            (replace(BARE, programs=frozenset({"dockerd"}), packages=frozenset({"moby-engine"})), "podman"),
            (replace(BARE, packages=frozenset({"containerd.io"})), None),
        ],
    )
    def test_nothing_is_installed_beside_another_engines_packages(
        self, machine: Machine, wanted: str | None
    ) -> None:
        with pytest.raises(EngineUnavailable, match="not installed beside another engine's packages"):
            plan(machine, answers=False, wanted=wanted)

    @pytest.mark.parametrize("programs", [frozenset(), frozenset({"dockerd"})])
    def test_without_root_the_remedy_is_named(self, programs: frozenset[str]) -> None:
        with pytest.raises(EngineUnavailable, match="engine setup --yes` as root"):
            plan(replace(BARE, root=False, programs=programs), answers=False)

    def test_elsewhere_than_on_debian_the_remedy_is_named(self) -> None:
        with pytest.raises(EngineUnavailable, match="neither Debian nor Ubuntu"):
            plan(replace(BARE, release=None), answers=False)

    def test_an_engine_that_the_user_names_is_not_replaced_by_another(self) -> None:
        with pytest.raises(EngineUnavailable, match="DOCKER_HOST names tcp://build:2375"):
            plan(replace(BARE, docker_host="tcp://build:2375"), answers=False)


@pytest.mark.engine
class TestCommand:
    def test_an_engine_that_answers_is_used_and_named(self) -> None:
        done = beyondswe("engine", "setup", "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["engine"] in {"docker", "podman"}
        assert document["done"] == []

    def test_people_read_which_engine_answers_where(self) -> None:
        done = beyondswe("engine", "setup")
        assert done.returncode == 0 and done.stdout == ""
        assert re.search(r"(Docker|Podman) [0-9.]+\S* answers at \S+", done.stderr)

    def test_no_engine_ends_in_exit_code_3_with_the_remedy(self, tmp_path: Path) -> None:
        done = beyondswe("engine", "setup", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
        assert done.returncode == 3
        assert "unset DOCKER_HOST" in done.stderr


@pytest.fixture
def private() -> Iterator[daemon.DaemonPaths]:
    """Where a second dockerd keeps its things, beside the machine's own; whatever lives there is ended
    afterwards.
    """
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("a second daemon needs root and dockerd (an engine reached through a socket has neither)")
    folder = Path(tempfile.mkdtemp(prefix="bsw-"))  # short: a socket's path has 104 characters at most
    paths = daemon.DaemonPaths(
        data_root=folder / "data",
        exec_root=folder / "exec",
        pidfile=folder / "docker.pid",
        socket=folder / "docker.sock",
        log=folder / "dockerd.log",
        # in a network of its own: a dockerd without a bridge removes the machine's docker0
        command=("unshare", "--net", "dockerd"),
        extra=("--bridge=none", "--iptables=false"),
    )
    yield paths
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and str(folder) in _command_line(entry):
            os.kill(int(entry.name), signal.SIGKILL)
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in reversed([place for place in mounted if place.startswith(str(folder))]):
        subprocess.run(["umount", "--lazy", place], check=True)
    shutil.rmtree(folder, ignore_errors=True)  # a mount that is only now let go may hold a folder


def _command_line(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _docker(paths: daemon.DaemonPaths):  # type: ignore[no-untyped-def]
    import docker

    return docker.DockerClient(base_url=f"unix://{paths.socket}", timeout=60)


def _sleeper(folder: Path) -> Path:
    """A root file system with nothing but a program that sleeps, from this machine's own."""
    archive = folder / "sleeper.tar"
    program = os.path.realpath(shutil.which("sleep") or "/bin/sleep")
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    with tarfile.open(archive, "w") as tar:
        tar.add(program, "bin/sleep")
        for library in dict.fromkeys(re.findall(r"(/\S+)", needed)):
            tar.add(os.path.realpath(library), library.lstrip("/"))
    return archive


def _kill(paths: daemon.DaemonPaths) -> None:
    pid = int(paths.pidfile.read_text())
    os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}/exe").exists():
        time.sleep(0.02)


@pytest.mark.engine
class TestKilledDaemon:
    def test_leftovers_are_no_obstacle(self, private: daemon.DaemonPaths, tmp_path: Path) -> None:
        said: list[str] = []
        daemon.start_daemon(private, say=said.append)
        client = _docker(private)
        client.api.import_image_from_file(str(_sleeper(tmp_path)), repository="sleeper", tag="1")
        client.containers.run(
            "sleeper:1",
            ["/bin/sleep", "1000"],
            detach=True,
            network_mode="none",
            name="left",
            stop_signal="SIGKILL",  # else the next daemon waits ten seconds for it to heed SIGTERM
        )
        _kill(private)
        assert private.pidfile.exists() and private.socket.is_socket()

        # the pid files now name a process of somebody else: this one
        containerd = private.exec_root / "containerd" / "containerd.pid"
        private.pidfile.write_text(str(os.getpid()))
        containerd.write_text(str(os.getpid()))
        said.clear()
        daemon.start_daemon(private, say=said.append)
        assert any(str(private.pidfile) in line for line in said)
        assert any(str(containerd) in line for line in said)

        client = _docker(private)
        left = client.containers.get("left")
        left.start()
        assert left.status in {"exited", "running", "created"}
        client.containers.run("sleeper:1", ["/bin/sleep", "0"], network_mode="none", remove=True)
        left.remove(force=True)

    def test_a_containerd_left_behind_is_ended(self, private: daemon.DaemonPaths) -> None:
        daemon.start_daemon(private, say=lambda _line: None)
        _kill(private)
        folder = private.exec_root / "containerd"
        orphan = subprocess.Popen(
            ["containerd", "--config", str(folder / "containerd.toml")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        (folder / "containerd.pid").write_text(str(orphan.pid))
        said: list[str] = []
        daemon.start_daemon(private, say=said.append)
        assert any(f"process {orphan.pid}" in line for line in said)
        assert orphan.wait(timeout=10) is not None
        assert _docker(private).ping()

    def test_a_daemon_that_runs_is_waited_for_and_kept(self, private: daemon.DaemonPaths) -> None:
        daemon.start_daemon(private, say=lambda _line: None)
        before = private.pidfile.read_text()
        said: list[str] = []
        daemon.start_daemon(private, say=said.append)
        assert said == ["dockerd runs but does not answer yet: waiting for it"]
        assert private.pidfile.read_text() == before

    def test_a_daemon_that_cannot_start_shows_the_end_of_its_log(self, private: daemon.DaemonPaths) -> None:
        wrong = replace(private, extra=(*private.extra, "--storage-driver=nosuch"))
        with pytest.raises(EngineUnavailable, match=r"(?s)dockerd ended.*dockerd\.log.*driver not supported"):
            daemon.start_daemon(wrong, say=lambda _line: None)


class TestSources:
    def test_other_vendors_sources_are_left_out(self, tmp_path: Path) -> None:
        parts = tmp_path / "sources.list.d"
        parts.mkdir()
        (tmp_path / "sources.list").write_text(
            "# comment\ndeb http://mirror.example/debian bookworm main contrib\n"
            "deb-src http://mirror.example/debian bookworm main\n"
            "deb [arch=amd64 signed-by=/etc/apt/keyrings/vendor.gpg] https://vendor.example bookworm main\n"
            "deb https://cloud.example cloud-sdk-bookworm main\n"
        )
        (parts / "debian.sources").write_text(
            "Types: deb\n# a comment\nURIs: http://mirror.example/debian-security\n"
            "Suites: bookworm-security\nComponents: main\n"
            "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n"
            "Types: deb\nEnabled: no\nURIs: http://mirror.example/debian\n"
            "Suites: bookworm-updates\nComponents: main\n"
        )
        assert apt.archive_sources(apt.Release("debian", "bookworm"), tmp_path).splitlines() == [
            "deb http://mirror.example/debian bookworm main contrib",
            "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
            "http://mirror.example/debian-security bookworm-security main",
        ]

    def test_a_derivative_counts_as_what_it_derives_from(self, tmp_path: Path) -> None:
        mint = tmp_path / "os-release"
        mint.write_text(
            'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_CODENAME=virginia\nUBUNTU_CODENAME=jammy\n'
        )
        assert apt.this_release(mint) == apt.Release("ubuntu", "jammy")

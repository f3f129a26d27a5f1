"""Starts an engine's daemon where no systemd does it, whatever a daemon that was killed has left behind.

Only what is stale is cleaned, and each thing for a reason seen in practice: dockerd refuses to start while
its pid file names any process; it waits in vain for a containerd whose pid file names a process that is
dead, unreaped or another's; a socket without a listener makes it wait for a containerd of the system's.
Mounts of dead containers and their shims are dockerd's own to clean, once it runs.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from beyondswe.errors import EngineUnavailable

Say = Callable[[str], None]

_SYSTEM_CONTAINERD = Path("/run/containerd/containerd.sock")
_CGROUPS = Path("/sys/fs/cgroup")
_WANTED_CONTROLLERS = {"cpu", "memory", "pids"}


@dataclass(frozen=True)
class DaemonPaths:
    """Where a dockerd keeps its things. What is not the default is passed as a flag, so daemon.json stays in
    force.
    """

    data_root: Path | None = None
    exec_root: Path = Path("/var/run/docker")
    pidfile: Path = Path("/var/run/docker.pid")
    socket: Path = Path("/var/run/docker.sock")
    log: Path = Path("/var/log/beyondswe/dockerd.log")
    command: tuple[str, ...] = ("dockerd",)
    extra: tuple[str, ...] = ()

    @property
    def flags(self) -> list[str]:
        default = DaemonPaths()
        flags = list(self.extra)
        if self.data_root:
            flags += ["--data-root", str(self.data_root)]
        if self.exec_root != default.exec_root:
            flags += ["--exec-root", str(self.exec_root)]
        if self.pidfile != default.pidfile:
            flags += ["--pidfile", str(self.pidfile)]
        if self.socket != default.socket:
            flags += ["--host", f"unix://{self.socket}"]
        return flags


def start_daemon(paths: DaemonPaths, *, say: Say, deadline: float = 90.0) -> None:
    """Have dockerd running and answering. Raises `EngineUnavailable` with the end of its log."""
    process: subprocess.Popen[bytes] | None = None
    if _running(paths) is None:
        clean_stale(paths, say=say)
        mount_cgroups(say=say)
        say(f"starting dockerd (log: {paths.log})")
        process = _start([*paths.command, *paths.flags], paths.log)
    else:
        say("dockerd runs but does not answer yet: waiting for it")
    _wait_for(paths.socket, "dockerd", paths.log, process, deadline)


def start_podman(
    path: Path, log: Path, *, say: Say, options: Sequence[str] = (), deadline: float = 60.0
) -> None:
    """Have Podman's service answer on its socket. Raises `EngineUnavailable` with the end of its log."""
    mount_cgroups(say=say)
    command = ["podman", "--cgroup-manager", "cgroupfs", *options]
    if not (_CGROUPS / "cgroup.controllers").exists() and shutil.which("runc"):
        command += ["--runtime", "runc"]  # crun refuses cgroups of version 1 beside version 2
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_socket() and not _listens(path):
        say(f"removing {path}: nobody listens there")
        path.unlink()
    say(f"starting Podman's service (log: {log})")
    process = _start([*command, "system", "service", "--time=0", f"unix://{path}"], log)
    _wait_for(path, "podman", log, process, deadline)


def clean_stale(paths: DaemonPaths, *, say: Say) -> None:
    """Remove what a dockerd that is gone left in the way of the next one. Only when none is running."""
    config = paths.exec_root / "containerd" / "containerd.toml"
    containerd = config.with_name("containerd.pid")
    if leftover := next(_processes("containerd", str(config)), None):
        say(f"ending the containerd that the last dockerd left behind (process {leftover})")
        _end(leftover)
    for pidfile in (paths.pidfile, containerd):
        if pidfile.exists():
            say(f"removing {pidfile}: its process is gone")
            pidfile.unlink()
    if _SYSTEM_CONTAINERD.is_socket() and not _listens(_SYSTEM_CONTAINERD):
        say(f"removing {_SYSTEM_CONTAINERD}: nobody listens there")
        _SYSTEM_CONTAINERD.unlink()
    if paths.socket.is_dir() and not paths.socket.is_symlink():
        # a container that mounted the socket while no daemon ran made a folder of its name
        say(f"removing {paths.socket}: a folder in the socket's place")
        paths.socket.rmdir()


def mount_cgroups(*, say: Say, root: Path = _CGROUPS) -> None:
    """Mount the control groups where nothing has (no systemd, no init): version 2 if it has what limits
    need.
    """
    mounts = Path("/proc/mounts").read_text().splitlines()
    if any(line.split()[2] in {"cgroup", "cgroup2"} for line in mounts):
        return
    say(f"mounting control groups at {root}")
    _mount("-t", "cgroup2", "cgroup2", str(root))
    if set((root / "cgroup.controllers").read_text().split()) >= _WANTED_CONTROLLERS:
        return
    subprocess.run(["umount", str(root)], check=True)
    _mount("-t", "tmpfs", "-o", "mode=0755", "cgroup", str(root))
    for line in Path("/proc/cgroups").read_text().splitlines():
        name, *_numbers, enabled = line.split()
        if not name.startswith("#") and enabled == "1":
            (root / name).mkdir()
            _mount("-t", "cgroup", "-o", name, "cgroup", str(root / name))


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineUnavailable(
            f"`mount {' '.join(words)}` failed: {done.stderr.strip()}. Containers need control groups: "
            "mount them, or run this where that is allowed."
        )


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a program that outlives us: a session of its own, nothing of our terminal."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", start_new_session=True
        )


def _wait_for(
    path: Path, program: str, log: Path, process: subprocess.Popen[bytes] | None, deadline: float
) -> None:
    ends = time.monotonic() + deadline
    while not _answers(path):
        ended = process is not None and process.poll() is not None
        if ended or time.monotonic() > ends:
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            lines = [line for line in lines if " level=info " not in line and "module=grpc" not in line][-12:]
            what = (
                f"ended (exit {process.returncode})"
                if ended and process
                else f"did not answer in {deadline:g} s"
            )
            raise EngineUnavailable(f"{program} {what}. The end of {log}:\n" + "\n".join(lines))
        time.sleep(0.1)


def _answers(path: Path) -> bool:
    """Whether an engine says OK to a ping on this socket."""
    if not path.is_socket():
        return False
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(path))
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def _listens(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(path))
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    except OSError:
        return True  # it may be busy, or not let us: not ours to call dead
    return True


def _running(paths: DaemonPaths) -> int | None:
    """The process of the dockerd that uses this pid file, found by its command line: the file's word is not
    taken.
    """
    for pid in _processes("dockerd"):
        words = _command_line(pid)
        pidfile = str(DaemonPaths().pidfile)
        for number, word in enumerate(words):
            name, equals, value = word.partition("=")
            if name in {"--pidfile", "-p"}:
                pidfile = value if equals else words[number + 1]
        if os.path.realpath(pidfile) == os.path.realpath(paths.pidfile):
            return pid
    return None


def _processes(program: str, argument: str | None = None) -> Iterator[int]:
    """Living processes of a program (not those that ended and wait to be reaped), with this argument if
    given.
    """
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            name, _, rest = (entry / "stat").read_text(errors="replace").partition("(")[2].rpartition(")")
        except OSError:
            continue  # it ended while we looked
        if name == program and rest.split()[0] not in {"Z", "X"}:
            pid = int(entry.name)
            words = _command_line(pid)
            if argument is None or any(
                os.path.realpath(word) == os.path.realpath(argument) for word in words
            ):
                yield pid


def _command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


def _end(pid: int) -> None:
    """End a process, kindly and then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        ends = time.monotonic() + 5
        while time.monotonic() < ends:
            if pid not in _processes("containerd"):
                return
            time.sleep(0.05)

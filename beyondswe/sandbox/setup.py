"""Sees to an engine: one that answers is used; else one is started, or installed and started, and it is said
before.

`plan` decides from what the machine is (pure); `carry_out` does it. Never a second engine beside another's
packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from beyondswe.errors import EngineError, EngineUnavailable
from beyondswe.sandbox import apt
from beyondswe.sandbox.daemon import DaemonPaths, start_daemon, start_podman

TOOLS = ("mmdebstrap", "git")
"""Programs of the host beside an engine, each in the Debian package of its name."""

ENGINES = {"docker": "docker.io", "podman": "podman"}
"""Kinds of engine and the Debian package that brings each."""

_FOREIGN = ("docker-ce", "docker-ee", "moby-engine", "containerd.io", "docker.io", "podman")
_PODMAN_SOCKET = Path("/run/podman/podman.sock")
_PODMAN_LOG = Path("/var/log/beyondswe/podman.log")

Say = Callable[[str], None]


class Action(StrEnum):
    """A step of the set-up; its value is how it is announced."""

    INSTALL_DOCKER = "install Docker (package docker.io)"
    INSTALL_PODMAN = "install Podman (package podman)"
    INSTALL_TOOLS = "install what building images needs"
    START_DOCKER = "start Docker"
    START_PODMAN = "start Podman's service"


@dataclass(frozen=True)
class Machine:
    """What decides how an engine is come by."""

    root: bool
    release: apt.Release | None  # None: neither Debian nor Ubuntu
    systemd: bool
    programs: frozenset[str]  # of dockerd and podman, those that are there
    packages: frozenset[str]  # packages of any engine that are installed
    missing_tools: tuple[str, ...]
    docker_host: str  # DOCKER_HOST
    why_none: str = ""  # what was tried, in words


def look(why_none: str = "") -> Machine:
    """This machine."""
    try:
        release: apt.Release | None = apt.this_release()
    except EngineError:
        release = None
    return Machine(
        root=os.geteuid() == 0,
        release=release,
        systemd=Path("/run/systemd/system").is_dir(),
        programs=frozenset(name for name in ("dockerd", "podman") if shutil.which(name)),
        packages=frozenset(apt.installed(_FOREIGN)) if release else frozenset(),
        missing_tools=tuple(tool for tool in TOOLS if shutil.which(tool) is None),
        docker_host=os.environ.get("DOCKER_HOST", ""),
        why_none=why_none,
    )


def plan(machine: Machine, *, answers: bool, wanted: str | None = None) -> list[Action]:
    """What to do, in order; nothing where all is well. Raises `EngineUnavailable` with the remedy when it
    cannot be.
    """
    may_install = machine.root and machine.release is not None
    tools = [Action.INSTALL_TOOLS] if machine.missing_tools and may_install else []
    if answers:
        return tools
    if machine.docker_host:
        raise EngineUnavailable(
            f"DOCKER_HOST names {machine.docker_host}, where no engine answers ({machine.why_none}): "
            "start that one, or unset DOCKER_HOST"
        )
    have = {"docker": "dockerd" in machine.programs, "podman": "podman" in machine.programs}
    kind = wanted or ("podman" if have["podman"] and not have["docker"] else "docker")
    start = {"docker": Action.START_DOCKER, "podman": Action.START_PODMAN}[kind]
    if have[kind]:
        if not machine.root:
            raise EngineUnavailable(
                _as_root(f"{kind.capitalize()} is installed but does not answer", machine, kind)
            )
        return [*tools, start]
    if others := sorted(machine.packages) or sorted(name for name, there in have.items() if there):
        raise EngineUnavailable(
            f"{kind.capitalize()} is not installed, and is not installed beside another engine's packages "
            f"({', '.join(others)}). Use that one (`beyondswe engine setup --engine "
            f"{'podman' if have['podman'] else 'docker'}`), complete it, or remove it first."
        )
    if machine.release is None:
        raise EngineUnavailable(
            f"no container engine answers ({machine.why_none}), and this is neither Debian nor Ubuntu, "
            "where one could be installed: install Docker or Podman as its makers say and start it, "
            "or set DOCKER_HOST"
        )
    if not machine.root:
        raise EngineUnavailable(_as_root("no container engine is installed", machine, kind))
    install = {"docker": Action.INSTALL_DOCKER, "podman": Action.INSTALL_PODMAN}[kind]
    return [install, *tools, start]


def announce(action: Action, machine: Machine) -> str:
    """A step in words."""
    return f"{action}: {', '.join(machine.missing_tools)}" if action is Action.INSTALL_TOOLS else str(action)


def _as_root(what: str, machine: Machine, kind: str) -> str:
    own = (
        "; or start a Podman of your own: `systemctl --user start podman.socket`" if kind == "podman" else ""
    )
    group = (
        "; if it runs, you may lack the right to use its socket (group docker)" if kind == "docker" else ""
    )
    return f"{what} ({machine.why_none}). Run `beyondswe engine setup --yes` as root{group}{own}."


def carry_out(
    actions: Sequence[Action], machine: Machine, *, say: Say, paths: DaemonPaths | None = None
) -> None:
    """Do it, each step said before it is done. Raises `EngineError` with what apt or the daemon said."""
    paths = paths or DaemonPaths()
    packages: list[str] = []
    for action in actions:
        if action is Action.INSTALL_TOOLS:
            packages += machine.missing_tools
        elif action in (Action.INSTALL_DOCKER, Action.INSTALL_PODMAN):
            packages.append(ENGINES["docker" if action is Action.INSTALL_DOCKER else "podman"])
            if action is Action.INSTALL_PODMAN:
                packages += ["runc", "catatonit"]
    if packages:
        say(f"installing {', '.join(packages)} with apt-get")
        apt.install(packages)
    if Action.START_DOCKER in actions:
        if machine.systemd:
            _systemctl("docker.service", say)
        else:
            start_daemon(paths, say=say)
    if Action.START_PODMAN in actions:
        if machine.systemd:
            _systemctl("podman.socket", say)
        else:
            start_podman(_PODMAN_SOCKET, _PODMAN_LOG, say=say)


def _systemctl(unit: str, say: Say) -> None:
    say(f"starting {unit} with systemd")
    done = subprocess.run(["systemctl", "enable", "--now", unit], capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineUnavailable(
            f"systemd could not start {unit}: {done.stderr.strip()}\nLook at `journalctl -u {unit}`."
        )

"""Says what is there and what is missing for running instances, each with its remedy."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from beyondswe.errors import BeyondSWEError
from beyondswe.sandbox import host
from beyondswe.sandbox.base_images import base_images
from beyondswe.sandbox.engine import Engine, container_labels
from beyondswe.sandbox.images import engine_platform

_LOW_DISK = 20 * 2**30


class State(StrEnum):
    OK = "ok"
    WARN = "warn"  # works, but something will be slower, smaller or impossible
    MISSING = "missing"  # prevents work


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: State
    found: str
    remedy: str = ""
    word: str = ""  # for people, where the state's own name says it badly


def examine(engine: Engine | None, why_none: str = "") -> list[Check]:
    """Look at engine and machine; nothing is changed, but for one container that is run and removed."""
    return [*_engine(engine, why_none), *_host(engine)]


def _engine(engine: Engine | None, why_none: str) -> Iterator[Check]:
    if engine is None:
        if address := os.environ.get("DOCKER_HOST"):
            yield Check(
                "engine",
                State.MISSING,
                f"DOCKER_HOST={address} does not answer: {why_none.removeprefix(f'{address}: ')}",
                "see that an engine listens at that address, correct DOCKER_HOST, or unset it to use this machine's",
                "does not answer",
            )
        else:
            remedy = "`beyondswe engine setup --yes` as root, or set DOCKER_HOST"
            yield Check("engine", State.MISSING, why_none, remedy)
        return
    info = engine.info
    yield Check("engine", State.OK, f"{engine.kind} {info.get('ServerVersion', '?')} at {engine.host}")
    yield Check("platform", State.OK, engine_platform(engine))
    driver = str(info.get("Driver", "?"))
    slow = driver == "vfs"
    yield Check(
        "storage driver",
        State.WARN if slow else State.OK,
        driver,
        "vfs copies every layer: put the data root on a file system that overlay can use" if slow else "",
    )
    yield Check("control groups", State.OK, f"version {info.get('CgroupVersion', '?')}")
    yield from _limits(engine)
    yield from _disk(engine)
    yield Check(
        "cores and memory", State.OK, f"{info.get('NCPU')} cores, {_size(int(info.get('MemTotal', 0)))}"
    )
    yield from _base(engine)


def _limits(engine: Engine) -> Iterator[Check]:
    for name, key in (("memory", "MemoryLimit"), ("cpu", "CpuCfsQuota"), ("processes", "PidsLimit")):
        there = bool(engine.info.get(key))
        yield Check(
            f"{name} limit",
            State.OK if there else State.MISSING,
            "supported" if there else "not supported",
            "" if there else "the engine's control groups lack it: mount or delegate that controller",
        )


def _disk(engine: Engine) -> Iterator[Check]:
    root = str(engine.info.get("DockerRootDir", ""))
    if not root or not Path(root).exists():
        yield Check("free disk", State.OK, f"not known: {root or 'the data root'} is not on this machine")
        return
    free = shutil.disk_usage(root).free
    yield Check(
        "free disk",
        State.WARN if free < _LOW_DISK else State.OK,
        f"{_size(free)} at {root}",
        "less than 20 GiB: `beyondswe engine prune`, or --max-disk for finished images"
        if free < _LOW_DISK
        else "",
    )


def _base(engine: Engine) -> Iterator[Check]:
    there = base_images(engine)
    yield Check("base images", State.OK, ", ".join(there) or "none yet; they are built when first needed")
    if not there:
        yield Check("limited sandbox without network", State.OK, "not tried: it needs a base image")
        return
    from docker.errors import DockerException
    from docker.types import Ulimit
    from requests.exceptions import RequestException

    try:
        engine.client.containers.run(
            there[0],
            ["true"],
            remove=True,
            network_mode="none",
            mem_limit=256 << 20,
            memswap_limit=256 << 20,
            nano_cpus=10**9,
            pids_limit=64,
            ulimits=[Ulimit(**limit) for limit in engine.ulimits()],
            labels=container_labels(role="doctor"),
        )
    except (DockerException, RequestException) as error:
        yield Check(
            "limited sandbox without network",
            State.MISSING,
            str(error),
            "look at the engine's log; see the limits above",
        )
    else:
        yield Check("limited sandbox without network", State.OK, "works")


def _host(engine: Engine | None) -> Iterator[Check]:
    yield _program("git", State.MISSING, "apt-get install git", "--version")
    yield _program(
        "mmdebstrap",
        State.WARN,
        "`beyondswe engine setup --yes` as root: base images need it where no registry answers",
        "--version",
    )
    yield _uv()
    yield from _network()


def _program(name: str, without: State, remedy: str, *question: str) -> Check:
    if shutil.which(name) is None:
        return Check(name, without, "not found", remedy)
    said = subprocess.run([name, *question], capture_output=True, text=True, check=False)
    return Check(name, State.OK, said.stdout.strip().splitlines()[0] if said.stdout.strip() else "there")


def _uv() -> Check:
    try:
        from uv import find_uv_bin

        return Check("uv", State.OK, find_uv_bin())
    except (ImportError, FileNotFoundError) as error:
        return Check(
            "uv", State.MISSING, str(error), "pip install uv, in the environment that beyondswe is in"
        )


def _network() -> Iterator[Check]:
    try:
        bundle = host.host_bundle()
        extra = len(host.extra_certificates())
    except BeyondSWEError as error:
        yield Check("certificates", State.MISSING, str(error), "correct the variable")
    else:
        yield Check(
            "certificates",
            State.OK,
            f"{bundle or 'none'}, {extra} beyond the public ones go into base images",
        )
    proxies = {url for name, url in host.proxies().items() if "no_proxy" not in name.lower()}
    if loopback := host.loopback_proxies():
        yield Check(
            "proxy",
            State.WARN,
            f"{', '.join(loopback)} is on this machine's loopback",
            "builds use the host's network; sandboxes cannot reach it: let it listen on the engine's bridge",
        )
    else:
        yield Check("proxy", State.OK, ", ".join(sorted(_without_password(url) for url in proxies)) or "none")


def _without_password(url: str) -> str:
    scheme, separator, rest = url.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


def exit_code(checks: list[Check]) -> int:
    """0 fine, 1 something is missing that prevents work, 3 no engine answers."""
    missing = {check.name for check in checks if check.state is State.MISSING}
    if "engine" in missing:
        return 3
    return 1 if missing else 0

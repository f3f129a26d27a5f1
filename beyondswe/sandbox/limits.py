"""Limits of a sandbox: capped to what the host has, and as the engine's host configuration."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyondswe.sandbox.types import Limits

if TYPE_CHECKING:
    from beyondswe.sandbox.engine import Engine


def capped(limits: Limits, engine: Engine) -> tuple[Limits, list[str]]:
    """The limits that this host can give, and a note for ``run.json`` on each that had to change.

    A value of 0 means that the engine cannot enforce that limit at all.
    """
    info = engine.info
    notes = []
    cpus, memory, pids, disk = limits.cpus, limits.memory, limits.pids, limits.disk
    have_cpus, have_memory = int(info.get("NCPU") or 0), int(info.get("MemTotal") or 0)
    if have_cpus and cpus > have_cpus:
        notes.append(f"cpus: asked for {cpus:g}, the host has {have_cpus}")
        cpus = float(have_cpus)
    if have_memory and memory > have_memory:
        notes.append(f"memory: asked for {memory} bytes, the host has {have_memory}")
        memory = have_memory
    if not info.get("CPUCfsQuota", info.get("CpuCfsQuota", True)):
        notes.append("cpus: this engine cannot limit them")
        cpus = 0.0
    if not info.get("MemoryLimit", True):
        notes.append("memory: this engine cannot limit it")
        memory = 0
    elif not info.get("SwapLimit", True):
        notes.append("memory: this engine cannot limit swap, so a sandbox may use swap beyond its memory")
    if not info.get("PidsLimit", True):
        notes.append("processes: this engine cannot limit their number")
        pids = 0
    store = str(info.get("DockerRootDir") or "")
    local = bool(store) and engine.host.startswith("unix://") and Path(store).is_dir()
    if local and disk > (free := shutil.disk_usage(store).free):
        notes.append(f"disk: asked for {disk} bytes, the host has {free} left")
        disk = free
    return replace(limits, cpus=cpus, memory=memory, pids=pids, disk=disk), notes


def host_config(engine: Engine, limits: Limits, *, network: str, privileges: bool) -> dict[str, Any]:
    """``HostConfig`` of a sandbox: limits, network, and nothing of the host.

    ``privileges`` False forbids set-user-id programs to gain any (scoring); an agent keeps them, since many
    images make its user root by sudo. Swap counts as memory; shared memory counts too, so it may be roomy;
    no core dumps, which would land in the work folder as large as the memory limit.
    """
    config: dict[str, Any] = {
        "NetworkMode": network,
        "ShmSize": min(1 << 30, limits.memory // 2 or 1 << 30),
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}, *engine.ulimits()],
    }
    if limits.cpus:
        config["NanoCpus"] = round(limits.cpus * 1e9)
    if limits.memory:
        config["Memory"] = config["MemorySwap"] = limits.memory
    if limits.pids:
        config["PidsLimit"] = limits.pids
    if not privileges:
        config["SecurityOpt"] = ["no-new-privileges"]
    return config

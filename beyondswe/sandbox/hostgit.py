"""The host's own git, run so that no configuration, attributes, hooks or filters of anybody have a say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache

from beyondswe.errors import EngineError

_SETTINGS = {
    "core.attributesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.excludesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.protectHFS": "false",  # names that other systems take for .git: see `paths.reserved`
    "core.protectNTFS": "false",
    "core.quotePath": "true",
    "core.safecrlf": "false",
    "core.untrackedCache": "false",
    "gc.auto": "0",
    "protocol.allow": "never",
}


class GitError(EngineError):
    """Git failed on the host (not installed, disk full, a damaged directory of ours)."""


def command(*arguments: str | bytes) -> Sequence[str | bytes]:
    """The command line of one git command under our settings."""
    settings = (part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}"))
    return [git(), *settings, *arguments]


def environment(**more: str) -> dict[str, str]:
    """The whole environment of a git process: nothing of the caller's but its ``PATH``."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        **more,
    }


@cache
def git() -> str:
    """The path of the host's git, 2.30 or newer."""
    found = shutil.which("git")
    if found is None:
        raise GitError("git was not found on this machine. Install git 2.30 or newer.")
    words = subprocess.run([found, "version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"(\d+)\.(\d+)", words)
    if version is None or (int(version[1]), int(version[2])) < (2, 30):
        raise GitError(f"{found} is {words.strip()}. Install git 2.30 or newer.")
    return found


def words(stderr: bytes) -> str:
    """What git said, for an error message."""
    return stderr.decode("utf-8", "replace").strip() or "it gave no reason"

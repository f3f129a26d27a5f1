"""What the parts say to one another about a sandbox: limits, results, changes, and the protocol itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Protocol


class Network(StrEnum):
    """What a sandbox may reach."""

    NONE = "none"
    MODEL = "model"
    FILTERED = "filtered"
    OPEN = "open"


@dataclass(frozen=True)
class Limits:
    """Limits of one sandbox. Capped to what the host has by `sandbox.limits.capped`, which says what it
    changed.
    """

    cpus: float = 4.0
    memory: int = 8 * 2**30  # bytes
    pids: int = 1024
    disk: int = 20 * 2**30  # bytes written, beyond the image
    timeout: float = 14_400.0  # seconds, whole life of the agent
    test_timeout: float = 1_800.0  # seconds, the tests of one scoring


@dataclass(frozen=True)
class ExecResult:
    """How one command inside a running sandbox ended."""

    exit_code: int | None  # None: it was ended by the time limit
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    truncated: bool = False  # output was cut: head and tail are kept


class ChangeKind(StrEnum):
    MODIFIED = "modified"
    ADDED = "added"
    DELETED = "deleted"
    UNLISTED = "unlisted"  # a folder in which the engine cannot name what changed: read all of it


@dataclass(frozen=True)
class Change:
    """One path that differs from the image, as the engine lists it (absolute, bytes-safe via
    surrogateescape).
    """

    path: str
    kind: ChangeKind


@dataclass(frozen=True)
class Ended:
    """How a container's only program ended, read from the engine's end state, and what it wrote to standard
    output.
    """

    exit_code: int
    oom_killed: bool
    timed_out: bool  # ended by the host's limit, not by itself
    vanished: bool  # removed or lost by somebody else while it ran
    stdout: bytes
    stderr: bytes
    truncated: bool
    seconds: dict[str, float] = field(default_factory=dict)  # create, put, start, wait, logs, remove
    out_of_disk: bool = False  # ended by the host since it held more on the disk than it may


class Files(Protocol):
    """Files that somebody else had in hand: what changed, and their bytes. All paths are absolute and inside."""

    def get(self, path: str) -> AbstractContextManager[Iterator[bytes]]:
        """A tar stream of ``path`` (chunks); links are given as links. `FileNotFoundError` if it is not there."""

    def changed_paths(self) -> list[Change]:
        """What differs from the image, as the engine says, without asking anything inside the sandbox.

        Where the engine's word does not reach (names that are not UTF-8, volumes, a folder that was deleted
        and made again) the folder itself is given as `UNLISTED`; folders are also listed as modified when a
        child changed.
        """


class Sandbox(Files, Protocol):
    """A running container in which an agent works. All paths are absolute and inside it."""

    id: str
    workdir: str

    def run(
        self,
        command: Sequence[str] | str,
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        stdin: bytes | None = None,
        max_output: int = 1 << 20,
    ) -> ExecResult:
        """Run a command to its end (a string: by ``sh -c``). The time limit ends the whole process group
        inside.
        """

    def put(self, archive: bytes | IO[bytes], path: str = "/") -> None:
        """Unpack a tar archive below ``path``."""

    def freeze(self) -> None:
        """End every process in it; the files stay readable by `get` and `changed_paths`. After it nothing
        can `run`.
        """

    def stop(self) -> None:
        """Remove it, with whatever still runs in it. Can be called twice."""


@dataclass(frozen=True)
class Snapshot:
    """The tree of a work folder as the agent finds it, kept outside as git objects in a directory of our own.

    ``tree`` holds every file below the workdir less ``.git`` folders (object id of a git tree);
    ``base_tree`` only what the base commit tracks (equal to ``tree`` where the workdir is no repository).
    """

    git_dir: Path
    tree: str
    base_tree: str


@dataclass(frozen=True)
class Environment:
    """An instance's environment made ready: history cut, ``pre_commands`` run, tree snapshotted, as one
    image layer.
    """

    image: str  # id of the prepared image: agent's and scoring sandboxes start from it
    source_image: str  # what the instance names
    image_digest: str  # repo digest of the source image where it has one, else its id
    workdir: str
    user: str  # the image's user ("" is root)
    snapshot: Snapshot
    notes: tuple[str, ...] = ()  # what was done to it, leftovers that were removed included
    flags: tuple[str, ...] = ()  # leftovers of later states that are still there

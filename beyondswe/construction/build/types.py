"""What both builders get and give: the task, what was found, and why it was given up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from beyondswe.construction.build.facts import Facts
from beyondswe.construction.build.recipe import Recipe
from beyondswe.construction.build.repositories import History
from beyondswe.construction.build.stopped import BuildStopped
from beyondswe.construction.build.workshop import TestReport
from beyondswe.instances.model import Family, Instance
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Limits


@dataclass(frozen=True)
class Options:
    """How environments are built."""

    engine: Engine
    repo_url: str
    limits: Limits
    run_labels: Mapping[str, str]
    python_dir: Path | None = None
    tries: int = 12
    row_timeout: float = 3600.0
    test_timeout: float = 600.0


@dataclass(frozen=True)
class Task:
    """One candidate, its history, and what its repository says."""

    instance: Instance
    history: History
    commit: str
    day: date
    base: Facts
    after: Facts  # with the reference change
    tests: tuple[str, ...]  # files of the hidden tests
    bundle: bytes
    tree: Path  # the base commit's files
    say: Callable[[str], None]
    imported: frozenset[str] = frozenset()  # top-level modules that tests import
    deadline: float = field(default_factory=lambda: time.monotonic() + 3600)

    @property
    def upgrade(self) -> bool:
        return self.instance.family is Family.DEPMIGRATE

    def left(self) -> float:
        """Seconds until the row is given up; `BuildStopped` when there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise BuildStopped("time limit", "the row took longer than --timeout allows")
        return left


@dataclass(frozen=True)
class Found:
    """An environment in which the tests run, not yet rebuilt."""

    recipe: Recipe
    report: TestReport
    tries: int
    newest: date | None = None
    turns: int = 0
    cost_usd: float = 0.0
    dropped: Sequence[str] = ()

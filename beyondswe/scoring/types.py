"""What scoring takes and gives: statuses, test results, the evidence of one job and the verdict on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """How an attempt ended (DESIGN.md, run folder). Only the last is retried."""

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    EMPTY_PATCH = "empty_patch"
    PATCH_REJECTED = "patch_rejected"
    TEST_TIMEOUT = "test_timeout"
    AGENT_TIMEOUT = "agent_timeout"
    AGENT_ERROR = "agent_error"
    BUDGET_EXHAUSTED = "budget_exhausted"
    TAMPERED = "tampered"
    INFRASTRUCTURE_ERROR = "infrastructure_error"


class TestResult(StrEnum):
    """What became of one expected test. Only `PASSED` counts; xfail and deselected are not passed."""

    __test__ = False

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"
    MISSING = "missing"


@dataclass(frozen=True)
class Patch:
    """A change, taken from a sandbox or submitted: UTF-8 text that survives JSON, and what was left out of it."""

    text: str
    sha256: str
    left_out: tuple[str, ...] = ()  # ignored, caches, build products: git-quoted paths with a reason each


@dataclass(frozen=True)
class Controls:
    """How passing tests were asked in real and wrong forms."""

    tests: int
    decisions: int  # tests times rounds
    rounds: int
    chance: float  # of guessing every answer, had none been known; 1 where a form can be told by its looks


@dataclass(frozen=True)
class Scored:
    """The verdict on one patch and its evidence."""

    status: Status  # resolved, unresolved, empty_patch, patch_rejected, test_timeout, tampered, infrastructure_error
    score: float  # 0 to 1
    pass_rate: float  # 0 to 1: share of expected tests that passed
    f2p: dict[str, TestResult] = field(default_factory=dict)
    p2p: dict[str, TestResult] = field(default_factory=dict)
    tests: dict[str, TestResult] = field(default_factory=dict)  # Doc2Repo: in place of f2p and p2p
    flags: tuple[str, ...] = ()
    error: str | None = None
    log: str = ""  # what the tests printed: head and tail, never parsed
    records: tuple[str, ...] = ()  # the runner's event stream, one JSON document a line
    controls: Controls | None = None  # None: none was asked
    permanent: bool = False  # an infrastructure error that trying again cannot mend
    # seconds: apply, compose, build (Doc2Repo), create, put, start, wait, logs, controls, total; tests: the
    # child's own
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def resolved(self) -> bool:
        return self.status is Status.RESOLVED


@dataclass(frozen=True)
class Selection:
    """Which tests one job runs.

    ``ids``: exactly these node ids (scoring). Without ids: everything that the ``files`` (or folders) hold; without
    either: what pytest collects by itself from its configuration (verification looks for ids that way).
    """

    ids: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variation:
    """What a run of tests does otherwise than scoring does, to see which tests mind (`verify --perturb`).

    ``inside`` is done by the test process itself: ``order`` (reversed, or a seed that shuffles), ``shift`` (seconds
    that the clock is off), ``cpus`` (how many there seem to be).
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    inside: Mapping[str, Any] = field(default_factory=dict)
    network: str | None = None


@dataclass(frozen=True)
class TestRun:
    """What one job reported, without a verdict on it: for `verify`, which compares runs of both sides."""

    __test__ = False

    tests: dict[str, TestResult]  # every id that was reported; asked for and never reported is MISSING
    finished: bool  # pytest ended by itself and said so; False: time limit, crash, memory
    timed_out: bool
    collection_errors: dict[str, str]  # node id of the file -> the end of its traceback
    flags: tuple[str, ...]
    error: str | None  # why it did not finish
    log: str
    python: str  # versions in the image, e.g. "3.11.2"
    pytest: str
    timings: dict[str, float]

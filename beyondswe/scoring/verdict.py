"""The verdict on a job's evidence: pure, so that it can be tested with a table.

Deliberate:

- Only what was reported counts; what the tests print is never looked at.
- ``tampered`` is said when the protocol was broken (a digest that is not ours, a phase twice, an exit that
  the records contradict), never of an ordinary failure, however odd.
- What the machine did to a job (no Python, no pytest, container gone) is an infrastructure error and no
  verdict on the change; what the change did to it (time, memory, a crash) is a verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from beyondswe.scoring.evidence import Evidence, Phase
from beyondswe.scoring.types import Status, TestResult

_RERUNNERS = ("pytest-rerunfailures", "flaky", "pytest-flakefinder", "pytest-repeat", "pytest-retry")
"""Plugins under which a test may honestly have a phase twice (it is not passed then either)."""


@dataclass(frozen=True)
class Verdict:
    """What became of the expected tests, and of the attempt."""

    status: Status
    tests: dict[str, TestResult] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    error: str | None = None


def judge(evidence: Evidence, expected: Mapping[str, str], *, verified: bool) -> Verdict:
    """The verdict on an issue instance. ``expected``: each expected id and the id that pytest gives it.

    ``verified``: the instance has a record of our own verification, under which the reference's exit was
    seen.
    """
    if reason := infrastructure_fault(evidence):
        return Verdict(Status.INFRASTRUCTURE_ERROR, error=reason)
    tests = {name: result_of(evidence, reported) for name, reported in expected.items()}
    flags, error = oddities(evidence)
    if reason := tampering(evidence):
        return Verdict(Status.TAMPERED, tests, flags, reason)
    if evidence.timed_out:
        return Verdict(Status.TEST_TIMEOUT, tests, flags, error)
    passed = bool(tests) and all(result is TestResult.PASSED for result in tests.values())
    if passed and evidence.finish is not None and (reason := _contradicting_exit(evidence)):
        flags = (*flags, "exit_contradicts_records")
        if verified:
            return Verdict(Status.TAMPERED, tests, flags, reason)
    resolved = passed and evidence.finish is not None
    return Verdict(Status.RESOLVED if resolved else Status.UNRESOLVED, tests, flags, error)


def infrastructure_fault(evidence: Evidence) -> str | None:
    """Why this job says nothing about the change; None: it does."""
    ended = evidence.ended
    if ended.vanished:
        return (
            "the scoring container was removed or killed from outside while it ran; "
            "look for other programs that prune containers, and for a host that is short of memory"
        )
    if evidence.fault:
        return f"the test runner could not do its work: {evidence.fault}"
    if ended.truncated:
        return "the engine gave back only a part of the runner's report"
    said = ended.stderr.decode("utf-8", "replace").strip()[-500:] or "it said nothing"
    if evidence.hello is None:
        return (
            "the image has no Python 3.6 or newer that could run the tests "
            f"(exit code {ended.exit_code}: {said}); `python` or `python3` must be on its PATH"
        )
    if not evidence.applied or (
        evidence.end is None and not (ended.oom_killed or ended.timed_out or ended.out_of_disk)
    ):
        return f"the test runner ended too early (exit code {ended.exit_code}: {said})"
    if evidence.start is not None and evidence.start["pytest"] is None and evidence.start["missing"]:
        return "the image has no pytest for its Python; install it when the environment is built"
    return None


def tampering(evidence: Evidence) -> str | None:
    """How the protocol was broken; None: it was not."""
    if evidence.forged:
        return f"{evidence.forged} lines on the runner's record channel do not carry this job's key"
    twice = sorted(name for name, phases in evidence.phases.items() if _repeated(phases))
    if twice and not _may_repeat(evidence, twice):
        return f"a phase was reported twice: {', '.join(twice[:3])}"
    end, finish = evidence.end, evidence.finish
    if (
        end
        and finish
        and end["exit_code"] is not None
        and not end["timed_out"]
        and end["exit_code"] != finish["exit"]
    ):
        return f"pytest ended with {finish['exit']}, its process with {end['exit_code']}"
    if finish and finish["exit"] == 0 and _any_failure(evidence):
        return "pytest says that all is well, and reported failures"
    return None


def oddities(evidence: Evidence) -> tuple[tuple[str, ...], str | None]:
    """Flags for what is odd but no proof, and a sentence on why the tests did not come to their end."""
    flags: list[str] = []
    error = None
    start, end, finish = evidence.start, evidence.end, evidence.finish
    if start and start.get("from_tree"):
        flags.append("pytest_from_tree")
    if contradicted(evidence):
        flags.append("report_contradicts_exception")
    if evidence.collection_errors:
        flags.append("collection_errors")
    if end and end["overflow"]:
        flags.append("too_many_records")
        error = "the tests were ended: they reported more than a job may hold"
    if evidence.out_of_memory:
        flags.append("out_of_memory")
        error = "the memory limit was reached; tests that did not end by then are not passed"
    if evidence.out_of_disk:
        flags.append("out_of_disk")
        error = "the limit on the disk was reached; tests that did not end by then are not passed"
    if evidence.timed_out:
        error = "the time limit for the tests was reached; tests that did not end by then are not passed"
    elif start is not None and start["pytest"] is None:
        flags.append("pytest_does_not_start")
        why = last_line(start["error"])
        error = f"pytest, or what it needs, is part of the tree and cannot be imported: {why}"
    elif finish is None and error is None:
        flags.append("ended_early")
        how = "in an unknown way" if end is None else _how(end)
        error = f"the test process ended {how} before pytest came to its end"
    elif finish and finish["error"]:
        flags.append("pytest_broke")
        error = f"pytest itself broke: {last_line(finish['error'])}"
    elif finish and finish["exit"] not in (0, 1, 5):
        flags.append(f"pytest_exit:{finish['exit']}")
        if evidence.collected is None:
            error = (
                f"pytest ended with {finish['exit']} before it collected any test: {last_line(evidence.log)}"
            )
    return tuple(flags), error


def result_of(evidence: Evidence, name: str) -> TestResult:
    """What became of one test id."""
    phases = evidence.phases.get(name, ())
    if not phases:
        return TestResult.MISSING
    if evidence.collected and name in evidence.collected["duplicates"]:
        return TestResult.ERROR  # two tests of one name: which of them passed cannot be said
    if _contradicts(evidence, phases):
        return TestResult.FAILED
    return _result(phases)


def _result(phases: Sequence[Phase]) -> TestResult:
    own = [phase for phase in phases if not phase.subtest]
    if any(phase.outcome == "failed" for phase in phases if phase.subtest or phase.when == "call"):
        return TestResult.FAILED
    if any(phase.outcome == "failed" for phase in own):
        return TestResult.ERROR
    if any(phase.outcome not in ("passed", "skipped") for phase in own):
        return TestResult.FAILED  # rerun and its like: it did not pass at once
    if any(phase.outcome == "skipped" or phase.xfail for phase in own):
        return TestResult.SKIPPED
    whole = [phase.when for phase in own] == ["setup", "call", "teardown"]
    return TestResult.PASSED if whole else TestResult.ERROR


def contradicted(evidence: Evidence) -> bool:
    """Whether a report says passed of a phase that raised, and nobody but pytest makes reports."""
    return any(_contradicts(evidence, phases) for phases in evidence.phases.values())


def _contradicts(evidence: Evidence, phases: Iterable[Phase]) -> bool:
    if evidence.collected is None or evidence.collected["makereport"]:
        return False
    return any(phase.raised and phase.outcome == "passed" and not phase.xfail for phase in phases)


def _contradicting_exit(evidence: Evidence) -> str | None:
    """All expected tests passed: does pytest's exit say otherwise, without any failure to show for it?"""
    finish = evidence.finish
    if finish and finish["exit"] == 1 and not _any_failure(evidence) and not evidence.collection_errors:
        return "pytest says that tests failed, and reported no failure"
    return None


def _any_failure(evidence: Evidence) -> bool:
    return any(phase.outcome == "failed" for phases in evidence.phases.values() for phase in phases)


def _repeated(phases: Iterable[Phase]) -> bool:
    counts = Counter(phase.when for phase in phases if not phase.subtest)
    return any(count > 1 for count in counts.values())


def _may_repeat(evidence: Evidence, names: Iterable[str]) -> bool:
    if evidence.collected is None:
        return False
    plugins = {name.rpartition("-")[0] for name in evidence.collected["plugins"]}
    return bool(plugins.intersection(_RERUNNERS)) or set(names) <= set(evidence.collected["duplicates"])


def _how(end: Mapping[str, object]) -> str:
    return f"by signal {end['signal']}" if end["signal"] is not None else f"with exit code {end['exit_code']}"


def last_line(text: str) -> str:
    """The last line that says anything, short enough for a sentence."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no reason was given"

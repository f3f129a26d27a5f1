"""The verdict as a table: evidence in, status out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from beyondswe.sandbox.types import Ended
from beyondswe.scoring.evidence import Evidence, Phase
from beyondswe.scoring.types import Status, TestResult
from beyondswe.scoring.verdict import judge, result_of

ENDED = Ended(
    exit_code=0, oom_killed=False, timed_out=False, vanished=False, stdout=b"", stderr=b"", truncated=False
)
WHOLE = (Phase("setup", "passed"), Phase("call", "passed"), Phase("teardown", "passed"))
END = {
    "exit_code": 0,
    "signal": None,
    "timed_out": False,
    "oom_kills": 0,
    "overflow": False,
    "seconds": 1.0,
}
GOOD = Evidence(
    ended=ENDED,
    hello={"runner": "x", "python": "3.11.2"},
    applied=True,
    start={"pytest": "8.4.2", "from_tree": False},
    collected={"selected": 1, "deselected": 0, "duplicates": [], "plugins": [], "makereport": []},
    phases={"t.py::a": WHOLE},
    finish={"exit": 0, "error": None},
    end=END,
)
EXPECTED = {"t.py::a": "t.py::a"}


def phases(*steps: Phase) -> Evidence:
    return replace(GOOD, phases={"t.py::a": steps})


SETUP, CALL, TEARDOWN = WHOLE


@pytest.mark.parametrize(
    ("steps", "result"),
    [
        (WHOLE, TestResult.PASSED),
        ((), TestResult.MISSING),
        ((SETUP,), TestResult.ERROR),  # the process ended in the call
        ((SETUP, CALL), TestResult.ERROR),
        ((SETUP, TEARDOWN), TestResult.ERROR),
        ((CALL,), TestResult.ERROR),
        ((*WHOLE, *WHOLE), TestResult.ERROR),
        ((Phase("setup", "failed"), TEARDOWN), TestResult.ERROR),
        ((SETUP, CALL, Phase("teardown", "failed")), TestResult.ERROR),
        ((SETUP, Phase("call", "failed"), TEARDOWN), TestResult.FAILED),
        ((SETUP, Phase("call", "failed"), Phase("teardown", "failed")), TestResult.FAILED),
        ((SETUP, Phase("call", "skipped"), TEARDOWN), TestResult.SKIPPED),
        ((Phase("setup", "skipped"), TEARDOWN), TestResult.SKIPPED),
        ((SETUP, Phase("call", "skipped", xfail=True), TEARDOWN), TestResult.SKIPPED),
        ((SETUP, Phase("call", "passed", xfail=True), TEARDOWN), TestResult.SKIPPED),
        ((SETUP, Phase("call", "rerun"), *WHOLE), TestResult.FAILED),
        ((SETUP, Phase("call", "passed", subtest=True), CALL, TEARDOWN), TestResult.PASSED),
        ((SETUP, Phase("call", "failed", subtest=True), CALL, TEARDOWN), TestResult.FAILED),
        ((SETUP, Phase("call", "skipped", subtest=True), CALL, TEARDOWN), TestResult.PASSED),
        ((SETUP, Phase("call", "passed", raised=True), TEARDOWN), TestResult.FAILED),
    ],
)
def test_a_test_is_passed_only_when_set_up_call_and_teardown_are(steps, result):
    assert result_of(phases(*steps), "t.py::a") is result


def test_a_plugin_that_makes_reports_may_turn_an_exception_into_a_pass():
    evidence = phases(SETUP, Phase("call", "passed", raised=True), TEARDOWN)
    evidence = replace(evidence, collected={**GOOD.collected, "makereport": ["pytest_raises"]})
    assert result_of(evidence, "t.py::a") is TestResult.PASSED


def test_two_tests_of_one_name_are_no_pass():
    evidence = replace(phases(*WHOLE, *WHOLE), collected={**GOOD.collected, "duplicates": ["t.py::a"]})
    assert judge(evidence, EXPECTED, verified=True).status is Status.UNRESOLVED


FAILED = {"t.py::a": (SETUP, Phase("call", "failed"), TEARDOWN)}


@pytest.mark.parametrize(
    ("change", "status", "flags"),
    [
        ({}, Status.RESOLVED, ()),
        ({"phases": {}}, Status.UNRESOLVED, ()),
        (
            {"phases": FAILED, "finish": {"exit": 1, "error": None}, "end": {**END, "exit_code": 1}},
            Status.UNRESOLVED,
            (),
        ),
        # the process ended before pytest did
        ({"finish": None}, Status.UNRESOLVED, ("ended_early",)),
        (
            {"finish": None, "end": {**END, "exit_code": None, "signal": 11}},
            Status.UNRESOLVED,
            ("ended_early",),
        ),
        (
            {"finish": None, "end": {**END, "timed_out": True, "exit_code": None, "signal": 9}},
            Status.TEST_TIMEOUT,
            (),
        ),
        ({"end": {**END, "timed_out": True, "exit_code": None, "signal": 9}}, Status.TEST_TIMEOUT, ()),
        (
            {"finish": None, "end": {**END, "oom_kills": 1, "exit_code": None, "signal": 9}},
            Status.UNRESOLVED,
            ("out_of_memory",),
        ),
        # a broken protocol
        ({"forged": 1}, Status.TAMPERED, ()),
        ({"phases": {"t.py::a": (*WHOLE, *WHOLE)}}, Status.TAMPERED, ()),
        ({"end": {**END, "exit_code": 1}}, Status.TAMPERED, ()),
        ({"phases": FAILED}, Status.TAMPERED, ()),
        (
            {"finish": {"exit": 1, "error": None}, "end": {**END, "exit_code": 1}},
            Status.TAMPERED,
            ("exit_contradicts_records",),
        ),
        # the same exit, with a failure to show for it that nobody asked about
        (
            {
                "finish": {"exit": 1, "error": None},
                "end": {**END, "exit_code": 1},
                "phases": {"t.py::a": WHOLE, "t.py::b": FAILED["t.py::a"]},
            },
            Status.RESOLVED,
            (),
        ),
        (
            {
                "finish": {"exit": 1, "error": None},
                "end": {**END, "exit_code": 1},
                "collection_errors": {"u.py": "x"},
            },
            Status.RESOLVED,
            ("collection_errors",),
        ),
        # the change is in what pytest needs
        (
            {
                "start": {"pytest": None, "missing": False, "error": "x\nImportError: attr"},
                "finish": None,
                "phases": {},
                "collected": None,
            },
            Status.UNRESOLVED,
            ("pytest_does_not_start",),
        ),
        # the machine's and the image's doing
        ({"ended": replace(ENDED, vanished=True)}, Status.INFRASTRUCTURE_ERROR, ()),
        ({"ended": replace(ENDED, truncated=True)}, Status.INFRASTRUCTURE_ERROR, ()),
        ({"fault": "OSError: disk full"}, Status.INFRASTRUCTURE_ERROR, ()),
        ({"hello": None, "applied": False, "end": None}, Status.INFRASTRUCTURE_ERROR, ()),
        ({"applied": False, "end": None}, Status.INFRASTRUCTURE_ERROR, ()),
        ({"end": None, "finish": None}, Status.INFRASTRUCTURE_ERROR, ()),
        (
            {"start": {"pytest": None, "missing": True, "error": "x"}, "finish": None, "phases": {}},
            Status.INFRASTRUCTURE_ERROR,
            (),
        ),
        # the supervisor itself was killed for memory, or the host had to end it
        (
            {"end": None, "finish": None, "ended": replace(ENDED, oom_killed=True)},
            Status.UNRESOLVED,
            ("out_of_memory",),
        ),
        ({"end": None, "finish": None, "ended": replace(ENDED, timed_out=True)}, Status.TEST_TIMEOUT, ()),
    ],
)
def test_status_and_flags(change, status, flags):
    verdict = judge(replace(GOOD, **change), EXPECTED, verified=True)
    assert (verdict.status, verdict.flags) == (status, flags)
    assert verdict.status in (Status.RESOLVED, Status.UNRESOLVED) or verdict.error


def test_an_instance_verified_elsewhere_is_not_called_tampered_for_its_exit():
    evidence = replace(GOOD, finish={"exit": 1, "error": None}, end={**END, "exit_code": 1})
    verdict = judge(evidence, EXPECTED, verified=False)
    assert (verdict.status, verdict.flags) == (Status.RESOLVED, ("exit_contradicts_records",))


def test_nothing_expected_is_nothing_resolved():
    assert judge(GOOD, {}, verified=True).status is Status.UNRESOLVED


def test_a_renamed_test_is_looked_up_under_its_new_name():
    verdict = judge(GOOD, {"t.py::old": "t.py::a"}, verified=True)
    assert verdict.tests == {"t.py::old": TestResult.PASSED}


def test_a_plugin_that_runs_tests_again_is_no_tampering():
    evidence = replace(
        phases(SETUP, Phase("call", "rerun"), TEARDOWN, *WHOLE),
        collected={**GOOD.collected, "plugins": ["pytest-rerunfailures-14.0"]},
    )
    assert judge(evidence, EXPECTED, verified=True).status is Status.UNRESOLVED

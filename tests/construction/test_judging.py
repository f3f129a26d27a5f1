"""Which tests count: decided from what the runs of both sides reported."""

from __future__ import annotations

import pytest

from beyondswe.construction.judging import excluded_rate, judge_issue, judge_suite
from beyondswe.scoring.types import TestResult, TestRun

P, F, E, S, M = (
    TestResult.PASSED,
    TestResult.FAILED,
    TestResult.ERROR,
    TestResult.SKIPPED,
    TestResult.MISSING,
)


def run(results: dict[str, TestResult], *, finished: bool = True, error: str | None = None) -> TestRun:
    return TestRun(
        tests={test: result for test, result in results.items() if result is not M},
        finished=finished,
        timed_out=False,
        collection_errors={},
        flags=(),
        error=error,
        log="",
        python="3.11.2",
        pytest="8.4.2",
        timings={},
    )


def runs(**tests: list[TestResult]) -> list[TestRun]:
    """One run for each place in the lists."""
    count = len(next(iter(tests.values())))
    return [run({name: results[n] for name, results in tests.items()}) for n in range(count)]


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        ([F, F, F], [P, P, P], "fail_to_pass"),
        ([M, M, M], [P, P, P], "fail_to_pass"),
        ([E, F, M], [P, P, P], "fail_to_pass"),
        ([S, S, S], [P, P, P], "fail_to_pass"),
        ([P, P, P], [P, P, P], "pass_to_pass"),
        ([P, F, F], [P, P, P], "flaky"),
        ([F, F, F], [P, P, F], "flaky"),
        ([P, P, P], [P, M, P], "flaky"),
        ([F, F, F], [P, S, P], "flaky"),
        ([F, F, F], [F, F, F], "unusable"),
        ([P, P, P], [F, F, F], "unusable"),
        ([S, S, S], [S, S, S], "unusable"),
    ],
)
def test_where_a_test_belongs(before: list[TestResult], after: list[TestResult], where: str) -> None:
    findings = judge_issue(runs(t=before, good=[F] * 3), runs(t=after, good=[P] * 3))
    lists = {"fail_to_pass", "pass_to_pass", "flaky", "unusable"}
    assert [name for name in lists if "t" in getattr(findings, name)] == [where]
    assert findings.rejected == ""


def test_flaky_tests_are_kept_with_their_counts() -> None:
    findings = judge_issue(runs(t=[P, F, F], good=[F] * 3), runs(t=[P, P, P], good=[P] * 3))
    assert findings.flaky == {"t": {"before": {"failed": 2, "passed": 1}, "after": {"passed": 3}}}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([P, P], [P, P], "no fail-to-pass test: none fails without the reference change"),
        ([F, F], [F, F], "1 do not pass with it: t"),
        ([F, F], [P, F], "1 are flaky: t"),
    ],
)
def test_an_instance_without_a_fail_to_pass_test_is_rejected_with_the_reason(
    before: list[TestResult], after: list[TestResult], said: str
) -> None:
    assert said in judge_issue(runs(t=before), runs(t=after)).rejected


def test_tests_that_do_not_end_with_the_reference_change_reject_the_instance() -> None:
    broken = run({"t": P}, finished=False, error="the time limit ended it")
    findings = judge_issue(runs(t=[F, F]), [run({"t": P}), broken])
    assert findings.rejected.endswith("did not end in 1 of 2 runs: the time limit ended it")


def test_a_side_before_that_does_not_end_is_no_reason_to_reject() -> None:
    crashed = run({}, finished=False, error="the interpreter crashed")
    assert judge_issue([crashed, crashed], runs(t=[P, P])).fail_to_pass == ("t",)


def test_a_suite_counts_what_passes_on_the_reference_only() -> None:
    before = runs(t=[M, M], free=[P, P], skipped=[M, M], wild=[M, M])
    after = runs(t=[P, P], free=[P, P], skipped=[S, S], wild=[P, F])
    findings = judge_suite(before, after)
    assert findings.rejected == "" and findings.expected == ("t",)
    assert set(findings.unusable) == {"free", "skipped"} and set(findings.flaky) == {"wild"}


def test_a_suite_that_fails_on_the_reference_rejects_the_instance() -> None:
    findings = judge_suite(runs(t=[M, M], bad=[M, M]), runs(t=[P, P], bad=[F, F]))
    assert findings.rejected == "1 tests of the suite fail on the reference implementation: bad"


def test_a_suite_that_needs_no_implementation_rejects_the_instance() -> None:
    assert "empty workspace" in judge_suite(runs(t=[P]), runs(t=[P])).rejected


def test_what_rate_a_number_of_runs_excludes() -> None:
    assert excluded_rate(5) == pytest.approx(0.4507, abs=1e-4)
    assert excluded_rate(1) == pytest.approx(0.95)

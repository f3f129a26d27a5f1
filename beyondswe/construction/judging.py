"""Which tests tell a solution from no change: decided from what runs on both sides of the reference reported.

Deliberate: only whether a test passed counts. One that fails before the change now this way, now that, is as
good a fail-to-pass test as any; one that passes in some runs of a side and not in others is flaky, and out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from beyondswe.instances.model import Instance
from beyondswe.scoring.compose import expected_ids
from beyondswe.scoring.types import TestResult, TestRun

Counts = dict[str, int]
"""How often a test had each result, over the runs of a side."""


@dataclass(frozen=True)
class Findings:
    """What runs of both sides say about an instance. ``rejected`` says why it cannot be used, if so."""

    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()  # Doc2Repo: tests of the suite that count
    flaky: dict[str, dict[str, Counts]] = field(default_factory=dict)  # id → before, after
    unusable: dict[str, dict[str, Counts]] = field(default_factory=dict)  # steady, but tell nothing
    rejected: str = ""
    broken: tuple[str, ...] = ()  # listed tests that do not hold (`held_against`)


def excluded_rate(runs: int) -> float:
    """The rate of failing that so many runs without a failure exclude at 95 % (five runs: 0.45)."""
    return 1.0 - float(0.05 ** (1 / runs))


def judge_issue(before: Sequence[TestRun], after: Sequence[TestRun]) -> Findings:
    """F2P passed in every run after and in none before; P2P passed in every run of both sides."""
    fail_to_pass, pass_to_pass = [], []
    flaky: dict[str, dict[str, Counts]] = {}
    unusable: dict[str, dict[str, Counts]] = {}
    for test in _tests(before, after):
        sides = {"before": _counts(test, before), "after": _counts(test, after)}
        passed_before, passed_after = (counts.get(TestResult.PASSED, 0) for counts in sides.values())
        if passed_before not in (0, len(before)) or passed_after not in (0, len(after)):
            flaky[test] = sides
        elif passed_after and not passed_before:
            fail_to_pass.append(test)
        elif passed_after:
            pass_to_pass.append(test)
        else:
            unusable[test] = sides
    return Findings(
        tuple(fail_to_pass),
        tuple(pass_to_pass),
        flaky=flaky,
        unusable=unusable,
        rejected=_unfinished(after) or ("" if fail_to_pass else _no_fail_to_pass(after, flaky, unusable)),
    )


def judge_suite(before: Sequence[TestRun], after: Sequence[TestRun]) -> Findings:
    """Doc2Repo: what counts passed in every run on the reference and in none on the empty workspace.

    The suite must pass on the reference as a whole: a test that always fails there is the suite's fault. A
    test that is skipped there, or that needs no implementation to pass, just does not count.
    """
    expected, failing = [], []
    flaky: dict[str, dict[str, Counts]] = {}
    unusable: dict[str, dict[str, Counts]] = {}
    for test in _tests(before, after):
        sides = {"before": _counts(test, before), "after": _counts(test, after)}
        passed_before, passed_after = (counts.get(TestResult.PASSED, 0) for counts in sides.values())
        if passed_before not in (0, len(before)) or passed_after not in (0, len(after)):
            flaky[test] = sides
        elif passed_after and not passed_before:
            expected.append(test)
        else:
            unusable[test] = sides
            if not passed_after and sides["after"].keys() & {TestResult.FAILED, TestResult.ERROR}:
                failing.append(test)
    rejected = _unfinished(after) or _collection(after)
    if not rejected and failing:
        rejected = f"{len(failing)} tests of the suite fail on the reference implementation: {_some(failing)}"
    if not rejected and not expected:
        rejected = (
            "no test of the suite passes on the reference implementation and fails on the empty workspace"
        )
    return Findings(expected=tuple(expected), flaky=flaky, unusable=unusable, rejected=rejected)


def held_against(instance: Instance, findings: Findings) -> Findings:
    """The lists that an instance has, kept where the runs bear them out; else why not."""
    if instance.is_doc2repo:
        known = (instance.verification or {}).get("tests") or ()
        lost = tuple(test for test in known if test not in findings.expected)
        found, said = len(findings.expected), instance.test_suite_num
        if findings.rejected or (found == said and not lost):
            return replace(findings, broken=lost)
        reason = f"{found} tests of the suite are fit to count, the row expects {said}"
        return replace(findings, rejected=f"{reason}; missed: {_some(lost)}" if lost else reason, broken=lost)
    listed = (*instance.fail_to_pass, *instance.pass_to_pass)
    steady = {*findings.fail_to_pass, *findings.pass_to_pass}
    called = expected_ids(instance)
    broken = [test for test in listed if called[test] not in steady]
    turned = [test for test in instance.fail_to_pass if called[test] in findings.pass_to_pass]
    wrong = [f"{test} does not pass in every run with the reference change" for test in broken]
    wrong += [f"{test} passes without the reference change, but is listed as FAIL_TO_PASS" for test in turned]
    if findings.rejected and not wrong:
        return findings
    more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
    return replace(
        findings,
        fail_to_pass=instance.fail_to_pass,
        pass_to_pass=instance.pass_to_pass,
        rejected=f"its lists do not hold: {'; '.join(wrong[:5])}{more}" if wrong else "",
        broken=(*broken, *turned),
    )


def without(findings: Findings, tests: Collection[str], why: str) -> Findings:
    """The findings less some tests that were found to be no good; rejected where nothing is left for it."""
    left = replace(
        findings,
        fail_to_pass=tuple(test for test in findings.fail_to_pass if test not in tests),
        pass_to_pass=tuple(test for test in findings.pass_to_pass if test not in tests),
        expected=tuple(test for test in findings.expected if test not in tests),
    )
    had, has = findings.fail_to_pass or findings.expected, left.fail_to_pass or left.expected
    return (
        replace(left, rejected=f"no test is left to fail before and pass after: {why}")
        if had and not has
        else left
    )


def _tests(before: Sequence[TestRun], after: Sequence[TestRun]) -> list[str]:
    return sorted({test for run in (*before, *after) for test in run.tests})


def _counts(test: str, runs: Sequence[TestRun]) -> Counts:
    results = Counter(str(run.tests.get(test, TestResult.MISSING)) for run in runs)
    return dict(sorted(results.items()))


def _unfinished(after: Sequence[TestRun]) -> str:
    broken = [run for run in after if not run.finished]
    if not broken:
        return ""
    often = f"{len(broken)} of {len(after)} runs"
    return f"with the reference change the tests did not end in {often}: {broken[0].error}"


def _collection(after: Sequence[TestRun]) -> str:
    for run in after:
        for file, text in run.collection_errors.items():
            return f"{file} cannot be collected on the reference implementation: {_last_line(text)}"
    return ""


def _no_fail_to_pass(
    after: Sequence[TestRun], flaky: dict[str, dict[str, Counts]], unusable: dict[str, dict[str, Counts]]
) -> str:
    reason = "no fail-to-pass test: none fails without the reference change and passes with it in every run"
    failing = [test for test in unusable if TestResult.PASSED not in unusable[test]["after"]]
    if flaky:
        reason += f"; {len(flaky)} are flaky: {_some(flaky)}"
    if failing:
        reason += f"; {len(failing)} do not pass with it: {_some(failing)}"
    if collection := _collection(after):
        reason += f"; {collection.replace('on the reference implementation', 'with it')}"
    return reason


def _some(tests: Sequence[str] | dict[str, dict[str, Counts]], most: int = 5) -> str:
    names = list(tests)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason given")

"""Verifies instances: runs their tests on both sides of the reference change, each run in a fresh container.

Two pools: in one an instance is followed from image to verdict, in the other all containers run that test, so
that ``workers`` of them run at once however few instances there are. Deliberate: when it is stopped (Ctrl-C)
the containers in flight are removed and no result of theirs is used: a test that was killed looks failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass, field, replace
from typing import Any

from beyondswe import __version__
from beyondswe.construction.controls import validate
from beyondswe.construction.judging import Findings, excluded_rate, judge_issue, judge_suite
from beyondswe.construction.reference import reference_patch
from beyondswe.errors import BeyondSWEError, EngineError, EngineUnavailable
from beyondswe.instances.model import Instance
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.environment import prepare
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.job import runner_version
from beyondswe.scoring.score import run_tests, score_patch
from beyondswe.scoring.types import Selection, TestResult, TestRun

Start = Callable[[Callable[[], Any]], Future[Any]]
"""Has a container's work done as soon as there is room."""

TRIES = 3
"""How often a container's work is tried when the engine fails."""
_HOMECOMING = 15.0  # seconds that threads get to end after their containers were removed


@dataclass(frozen=True)
class Verified:
    """What became of one instance: it has its lists and its record where ``reason`` is empty."""

    instance: Instance
    findings: Findings = field(default_factory=Findings)
    reason: str = ""  # why it was rejected
    failed: bool = False  # it could not be verified: its image, its data, the engine

    @property
    def accepted(self) -> bool:
        return not self.reason

    def to_row(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "instance_id": self.instance.instance_id,
            "family": str(self.instance.family),
            "status": "verified" if self.accepted else "failed" if self.failed else "rejected",
            "reason": self.reason or None,
            "fail_to_pass": len(self.findings.fail_to_pass),
            "pass_to_pass": len(self.findings.pass_to_pass),
            "tests": len(self.findings.expected),
            "flaky": self.findings.flaky,
            "unusable": self.findings.unusable,
        }


@dataclass(frozen=True)
class Verification:
    """How instances are verified.

    ``test_paths`` says where an instance's tests are (nothing: where pytest's configuration says).
    ``gold`` keeps the lists that instances have, and finds out whether they hold.
    ``remove_containers`` removes what this process started; ``on_run`` is called after every run.
    """

    engine: Engine
    provide_image: Callable[[Instance], str]
    test_paths: Callable[[Instance], Sequence[str]]
    limits: Limits
    runs: int
    workers: int
    gold: bool
    run_labels: Mapping[str, str]
    remove_containers: Callable[[], None]
    on_run: Callable[[], None]

    def verify(self, instances: Sequence[Instance]) -> Iterator[Verified]:
        """Each instance as it is done. A caller that stops early has the containers in flight removed."""
        follow = ThreadPoolExecutor(self.workers, thread_name_prefix="instance")
        containers = ThreadPoolExecutor(self.workers, thread_name_prefix="container")
        running: list[Future[Any]] = []

        def start(work: Callable[[], Any]) -> Future[Any]:
            future = containers.submit(self._tried, work)
            running.append(future)
            return future

        following = [follow.submit(self._follow, instance, start) for instance in instances]
        try:
            for future in as_completed(following):
                yield future.result()
        except BaseException:
            follow.shutdown(wait=False, cancel_futures=True)
            containers.shutdown(wait=False, cancel_futures=True)
            self._bring_home([*following, *running])
            raise
        follow.shutdown()
        containers.shutdown()

    def _bring_home(self, futures: Sequence[Future[Any]]) -> None:
        deadline = time.monotonic() + _HOMECOMING
        while True:
            self.remove_containers()
            if not wait(futures, timeout=0.5).not_done or time.monotonic() > deadline:
                return

    def _follow(self, instance: Instance, start: Start) -> Verified:
        try:
            return self._verify(instance, start)
        except EngineUnavailable:
            raise
        except BeyondSWEError as error:
            return Verified(instance, reason=str(error), failed=True)

    def _tried(self, work: Callable[[], Any]) -> Any:
        for tries in range(1, TRIES + 1):
            try:
                return work()
            except EngineUnavailable:
                raise
            except EngineError:
                if tries == TRIES:
                    raise
        raise AssertionError("the last try returns or raises")

    def _verify(self, instance: Instance, start: Start) -> Verified:
        environment = prepare(
            self.engine,
            self.provide_image(instance),
            workdir=instance.workdir,
            base_commit=instance.base_commit,
            pre_commands=instance.pre_commands,
            extra_files={"repo_document.md": instance.specification.encode()} if instance.is_doc2repo else {},
            names=instance.project_names,
            run_labels=self.run_labels,
        )
        patch = reference_patch(instance, environment)
        selection = self._selection(instance)

        def side(change: str | None, selection: Selection | None) -> Callable[[], TestRun]:
            def work() -> TestRun:
                run = run_tests(
                    self.engine,
                    instance,
                    environment,
                    change,
                    selection=selection,
                    limits=self.limits,
                    run_labels=self.run_labels,
                )
                self.on_run()
                return run

            return work

        # Sides alternate, so that what changes on this machine in the meantime changes for both.
        futures = [start(side(change, selection)) for _ in range(self.runs) for change in (None, patch)]
        runs: list[TestRun] = [future.result() for future in futures]
        before, after = runs[0::2], runs[1::2]
        findings = (judge_suite if instance.is_doc2repo else judge_issue)(before, after)
        if self.gold:
            findings = _held_against(instance, findings, after)
        if findings.rejected:
            return Verified(instance, findings, findings.rejected)
        verified = instance.model_copy(
            update={
                "fail_to_pass": findings.fail_to_pass,
                "pass_to_pass": findings.pass_to_pass,
                "test_suite_num": len(findings.expected),
                "verification": record(instance, environment, findings, before, after),
            }
        )
        verified = start(lambda: self._with_controls(verified, environment, patch, after)).result()
        return Verified(verified, findings, self._doubts(verified, environment, patch, side, start))

    def _selection(self, instance: Instance) -> Selection | None:
        """What is run to find tests: those that the lists name (``gold``), else everything that there is."""
        if instance.is_doc2repo:
            return None  # its suite
        if self.gold:
            return Selection(ids=(*instance.fail_to_pass, *instance.pass_to_pass))
        paths = tuple(self.test_paths(instance))
        if instance.f2p_script and not paths:
            paths = (".",)  # it lies in the workdir, where a configured testpaths may not look
        return Selection(files=paths)

    def _with_controls(
        self, instance: Instance, environment: Environment, patch: str, after: Sequence[TestRun]
    ) -> Instance:
        """The instance with the wrong forms of its tests that were seen to fail."""
        found = validate(
            self.engine,
            instance,
            environment,
            patch,
            seconds=after[-1].timings["tests"],
            limits=self.limits,
            run_labels=self.run_labels,
        )
        return instance.model_copy(
            update={"verification": {**(instance.verification or {}), "controls": found}}
        )

    def _doubts(
        self,
        instance: Instance,
        environment: Environment,
        patch: str,
        side: Callable[[str | None, Selection | None], Callable[[], TestRun]],
        start: Start,
    ) -> str:
        """Score the instance as an attempt would be: the reference must resolve it, no change must not."""
        expected = (*instance.fail_to_pass, *instance.pass_to_pass)
        untouched = start(side(None, None if instance.is_doc2repo else Selection(ids=expected)))
        scored = start(
            lambda: score_patch(
                self.engine,
                instance,
                environment,
                patch,
                limits=self.limits,
                run_labels=self.run_labels,
            )
        ).result()
        if not scored.resolved:
            results = {**scored.f2p, **scored.p2p, **scored.tests}
            missed = [
                f"{test} {result}" for test, result in results.items() if result is not TestResult.PASSED
            ]
            why = "; ".join(filter(None, [scored.error, ", ".join(missed[:5])]))
            return f"scored with its lists, the reference change is {scored.status}: {why}"
        run = untouched.result()
        must_fail = instance.fail_to_pass or tuple((instance.verification or {}).get("tests", ()))
        if all(run.tests.get(test) is TestResult.PASSED for test in must_fail):
            return "scored with its lists, no change at all resolves it"
        return ""


def record(
    instance: Instance,
    environment: Environment,
    findings: Findings,
    before: Sequence[TestRun],
    after: Sequence[TestRun],
) -> dict[str, Any]:
    """What is known of the verification, to travel with the instance."""
    facts: dict[str, Any] = {
        "runs": len(after),
        "excluded_rate_95": round(excluded_rate(len(after)), 4),
        "fail_to_pass": len(findings.fail_to_pass),
        "pass_to_pass": len(findings.pass_to_pass),
        "flaky": findings.flaky,
        "unusable": len(findings.unusable),
        "unfinished_before": sum(not run.finished for run in before),
        "image": instance.image,
        "image_digest": environment.image_digest,
        "user": environment.user or "root",
        "network": instance.score_network,
        "index_date": instance.index_date,
        "python": after[-1].python,
        "pytest": after[-1].pytest,
        "runner": runner_version(),
        "beyondswe": __version__,
    }
    if instance.is_doc2repo:
        facts["tests"] = list(findings.expected)
    return facts


def _held_against(instance: Instance, findings: Findings, after: Sequence[TestRun]) -> Findings:
    """The lists that an instance has, kept where the runs bear them out; else why not."""
    if instance.is_doc2repo:
        if not findings.rejected and len(findings.expected) != instance.test_suite_num:
            found, said = len(findings.expected), instance.test_suite_num
            return replace(
                findings, rejected=f"{found} tests of the suite are fit to count, the row expects {said}"
            )
        return findings
    listed = (*instance.fail_to_pass, *instance.pass_to_pass)
    steady = {*findings.fail_to_pass, *findings.pass_to_pass}
    wrong = [
        f"{test} does not pass in every run with the reference change"
        for test in listed
        if test not in steady
    ]
    wrong += [
        f"{test} passes without the reference change, but is listed as FAIL_TO_PASS"
        for test in instance.fail_to_pass
        if test in findings.pass_to_pass
    ]
    if findings.rejected and not wrong:
        return findings
    more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
    return replace(
        findings,
        fail_to_pass=instance.fail_to_pass,
        pass_to_pass=instance.pass_to_pass,
        rejected=f"its lists do not hold: {'; '.join(wrong[:5])}{more}" if wrong else "",
    )

"""Verifies instances: runs their tests on both sides of the reference change, each run in a fresh container.

Two pools: in one an instance is followed from image to verdict, in the other all containers run that test, so
that ``workers`` of them run at once however few instances there are. Deliberate: when it is stopped (Ctrl-C)
the containers in flight are removed and no result of theirs is used: a test that was killed looks failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from beyondswe import __version__
from beyondswe.construction.controls import validate
from beyondswe.construction.dates import index_date
from beyondswe.construction.judging import (
    Findings,
    excluded_rate,
    held_against,
    judge_issue,
    judge_suite,
    without,
)
from beyondswe.construction.perturb import Minded, find_minded, in_words
from beyondswe.construction.reference import reference_patch
from beyondswe.construction.ways import Way, described, find_way
from beyondswe.errors import BeyondSWEError, EngineError, EngineUnavailable
from beyondswe.instances.model import Instance
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.environment import prepare
from beyondswe.sandbox.trees import Trees
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.compose import expected_ids
from beyondswe.scoring.job import runner_version
from beyondswe.scoring.patches import apply_patch
from beyondswe.scoring.reinstall import reference_brings
from beyondswe.scoring.score import run_tests, score_patch
from beyondswe.scoring.types import Selection, TestResult, TestRun, Variation
from beyondswe.scoring.wheels import Brought

Start = Callable[[Callable[[], Any]], Future[Any]]
"""Has a container's work done as soon as there is room."""

Side = Callable[[Instance, bool, Selection | None, Variation | None], Callable[[], TestRun]]
"""The work of one run, see `Verification._sides`."""

_COMPARED = ("image_digest", "python", "pytest", "runner", "beyondswe")

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
    minded: Minded | None = None  # what was varied, and which tests mind
    changed: tuple[str, ...] = ()  # what is other than in the record that was checked

    @property
    def accepted(self) -> bool:
        return not self.reason

    @property
    def status(self) -> str:
        return "verified" if self.accepted else "failed" if self.failed else "rejected"

    def to_row(self) -> dict[str, Any]:
        """For ``--json``."""
        record = self.instance.verification or {} if self.accepted else {}
        return {
            "instance_id": self.instance.instance_id,
            "family": str(self.instance.family),
            "status": self.status,
            "reason": self.reason or None,
            "fail_to_pass": len(self.findings.fail_to_pass),
            "pass_to_pass": len(self.findings.pass_to_pass),
            "tests": len(self.findings.expected),
            "flaky": self.findings.flaky,
            "unusable": self.findings.unusable,
            "broken": list(self.findings.broken),
            "needs_network": list(record.get("needs_network", ())),
            "perturbed": {name: list(causes) for name, causes in self.minded.tests.items()}
            if self.minded
            else {},
            "changed": list(self.changed),
            **{name: record.get(name) for name in ("user", "tree", "reinstall", "network")},
        }


@dataclass(frozen=True)
class Verification:
    """How instances are verified.

    ``test_paths`` says where an instance's tests are (nothing: where pytest's configuration says).
    ``gold`` keeps the lists that instances have, and finds out whether they hold; ``check`` does so in the way that
    their records name. ``perturb`` also varies what machines vary.
    ``remove_containers`` removes what this process started; ``on_run`` is called after every run.
    """

    engine: Engine
    provide_image: Callable[[Instance], str]
    test_paths: Callable[[Instance], Sequence[str]]
    limits: Limits
    runs: int
    workers: int
    gold: bool
    check: bool
    perturb: bool
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
        if self.check and not instance.verification:
            return Verified(instance, reason="it has no record to check; verify it first")
        if environment.flags and not (self.gold or self.check):  # those images are not ours to make anew
            return Verified(
                instance,
                reason="its image holds what may be a later state of the project, for agents to read: "
                + "; ".join(environment.flags[:5]),
            )
        if not instance.index_date and not self.check:
            day = start(
                lambda: index_date(self.engine, environment, limits=self.limits, run_labels=self.run_labels)
            )
            instance = instance.model_copy(update={"index_date": day.result()})
        patch = reference_patch(instance, environment)
        side = self._sides(environment, patch)
        selection = self._selection(instance)

        def runs(
            wanted: Sequence[tuple[Instance, bool, Selection | None, Variation | None]],
        ) -> list[TestRun]:
            return [future.result() for future in [start(side(*each)) for each in wanted]]

        if self.check:
            (first,) = runs([(instance, True, selection, None)])
            way = Way(instance, first)
        else:
            way = find_way(
                instance,
                lambda wanted: runs([(one, True, selection, variation) for one, variation in wanted]),
                lambda: start(lambda: self._brings(instance, environment, patch)).result(),
                listed=self.gold,
            )
        # Sides alternate, so that what changes on this machine in the meantime changes for both.
        changes = [change for _ in range(self.runs) for change in (False, True)][:-1]
        found = runs([(way.instance, change, selection, None) for change in changes])
        before, after = found[0::2], [way.first, *found[1::2]]
        findings = (judge_suite if instance.is_doc2repo else judge_issue)(before, after)
        if self.gold or self.check:
            findings = held_against(instance, findings)
        minded = None
        if self.perturb and not findings.rejected:
            minded = self._minded(way.instance, findings, runs)
            if not (self.gold or self.check):
                findings = without(findings, minded.tests, in_words(minded))
        if findings.rejected:
            return Verified(instance, findings, _why(findings.rejected, way), minded=minded)
        verified = way.instance.model_copy(
            update={
                "fail_to_pass": findings.fail_to_pass,
                "pass_to_pass": findings.pass_to_pass,
                "test_suite_num": len(findings.expected),
                "verification": record(way, environment, findings, before, after, minded),
            }
        )
        if self.check:
            return self._checked(instance, verified, findings, minded, environment, patch, side, start)
        verified = start(lambda: self._with_controls(verified, environment, patch, after)).result()
        doubts = self._doubts(verified, environment, patch, side, start)
        return Verified(verified, findings, doubts, minded=minded)

    def _sides(self, environment: Environment, patch: str) -> Side:
        """Makes runs: with the reference change or without, what of the tests, and what is other than in scoring."""

        def side(
            instance: Instance, changed: bool, selection: Selection | None, variation: Variation | None
        ) -> Callable[[], TestRun]:
            def work() -> TestRun:
                run = run_tests(
                    self.engine,
                    instance,
                    environment,
                    patch if changed else None,
                    selection=selection,
                    limits=self.limits,
                    run_labels=self.run_labels,
                    variation=variation,
                )
                self.on_run()
                return run

            return work

        return side

    def _brings(self, instance: Instance, environment: Environment, patch: str) -> Brought:
        """What the reference's own wheel brings."""
        with Trees.above(environment.snapshot.git_dir) as trees:
            tree = apply_patch(trees, environment.snapshot.tree, patch).tree
            return reference_brings(
                self.engine,
                instance,
                environment,
                trees,
                tree,
                limits=self.limits,
                run_labels=self.run_labels,
            )

    def _minded(
        self,
        instance: Instance,
        findings: Findings,
        runs: Callable[
            [Sequence[tuple[Instance, bool, Selection | None, Variation | None]]], Sequence[TestRun]
        ],
    ) -> Minded:
        steady = (*findings.fail_to_pass, *findings.pass_to_pass, *findings.expected)
        flaky = [name for name in findings.flaky if name not in steady]
        chosen = None if instance.is_doc2repo else Selection(ids=(*steady, *flaky))
        return find_minded(
            steady,
            flaky,
            online=instance.score_network == "open",
            runs=lambda some: runs([(instance, True, chosen, variation) for variation in some]),
        )

    def _checked(
        self,
        instance: Instance,
        found: Instance,
        findings: Findings,
        minded: Minded | None,
        environment: Environment,
        patch: str,
        side: Side,
        start: Start,
    ) -> Verified:
        """What a record that is checked has become: the same lists and controls, and a line on the check."""
        old, new = dict(instance.verification or {}), dict(found.verification or {})
        line = {name: new[name] for name in (*_COMPARED, "runs")} | {"date": date.today().isoformat()}
        kept = instance.model_copy(
            update={"verification": {**old, "checked": [*old.get("checked", ()), line]}}
        )
        changed = tuple(
            f"{name}: {old[name]}, now {new[name]}"
            for name in _COMPARED
            if name in old and old[name] != new[name]
        )
        doubts = self._doubts(instance, environment, patch, side, start)
        return Verified(kept, findings, doubts, minded=minded, changed=changed)

    def _selection(self, instance: Instance) -> Selection | None:
        """What is run to find tests: those that the lists name (``gold``), else everything that there is."""
        if instance.is_doc2repo:
            return None  # its suite
        if self.gold or self.check:
            return Selection(ids=tuple(expected_ids(instance).values()))
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
        side: Side,
        start: Start,
    ) -> str:
        """Score the instance as an attempt would be: the reference must resolve it, no change must not."""
        expected = (*instance.fail_to_pass, *instance.pass_to_pass)
        untouched = start(
            side(instance, False, None if instance.is_doc2repo else Selection(ids=expected), None)
        )
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


def _why(rejected: str, way: Way) -> str:
    """The reason with what was tried besides."""
    if way.needs_network:
        rejected += f"; {len(way.needs_network)} pass with the network only (score_network: open)"
    if way.why_not_built:
        rejected += f"; the project could not be built anew for its tests: {way.why_not_built}"
    return rejected


def record(
    way: Way,
    environment: Environment,
    findings: Findings,
    before: Sequence[TestRun],
    after: Sequence[TestRun],
    minded: Minded | None,
) -> dict[str, Any]:
    """What is known of the verification, to travel with the instance."""
    instance = way.instance
    facts: dict[str, Any] = {
        "runs": len(after),
        "excluded_rate_95": round(excluded_rate(len(after)), 4),
        "fail_to_pass": len(findings.fail_to_pass),
        "pass_to_pass": len(findings.pass_to_pass),
        "flaky": findings.flaky,
        "unusable": len(findings.unusable),
        "needs_network": list(way.needs_network),
        "unfinished_before": sum(not run.finished for run in before),
        "image": instance.image,
        "image_digest": environment.image_digest,
        **described(instance, environment.user),
        "network": instance.score_network,
        "index_date": instance.index_date,
        "python": after[-1].python,
        "pytest": after[-1].pytest,
        "runner": runner_version(),
        "beyondswe": __version__,
    }
    if environment.flags:
        facts["leftovers"] = list(environment.flags)
    if way.why_not_built:
        facts["not_built"] = way.why_not_built
    if minded is not None:
        facts["perturbed"] = minded.to_record()
    if instance.is_doc2repo:
        facts["tests"] = list(findings.expected)
    return facts

"""Score one patch: compose the tree, run the tests in one fresh container, judge the evidence."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from beyondswe.errors import BeyondSWEError, ScoringError
from beyondswe.instances.model import Instance
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.trees import Trees
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring import doc2repo, reinstall
from beyondswe.scoring.compose import Composition, compose, expected_ids, is_sealed
from beyondswe.scoring.evidence import Evidence
from beyondswe.scoring.job import Job, run_job
from beyondswe.scoring.patches import Applied, How, PatchRejected, apply_patch
from beyondswe.scoring.questions import Asked, ask
from beyondswe.scoring.types import Scored, Selection, Status, TestResult, TestRun, Variation
from beyondswe.scoring.verdict import infrastructure_fault, judge, oddities, result_of, tampering


@dataclass(frozen=True)
class _Done:
    """One job that was run: what went in and what came out."""

    composition: Composition
    evidence: Evidence
    flags: tuple[str, ...]  # of the patch and of putting the tree together
    suite: doc2repo.Suite | None
    log: str
    timings: dict[str, float]


@dataclass(frozen=True)
class Composed:
    """A composition and what it took to make it."""

    composition: Composition
    suite: doc2repo.Suite | None = None
    log: str = ""
    timings: Mapping[str, float] = field(default_factory=dict)


def score_patch(
    engine: Engine,
    instance: Instance,
    environment: Environment,
    patch_text: str,
    *,
    limits: Limits,
    run_labels: Mapping[str, str] | None = None,
) -> Scored:
    """The verdict on a patch. Faults of the machine or the dataset come back as ``infrastructure_error``."""
    begun = time.perf_counter()
    try:
        with Trees.above(environment.snapshot.git_dir) as trees:
            applied = apply_patch(trees, environment.snapshot.tree, patch_text)
            if applied.tree == environment.snapshot.tree:
                return _not_run(instance, Status.EMPTY_PATCH, "the patch changes nothing", applied.flags)
            done = _run(engine, instance, environment, trees, applied, None, limits, run_labels, begun)
            scored = _scored(instance, done)
            passed = _passed(scored)
            if scored.score > 0 and instance.verification is not None:
                asked = ask(
                    engine,
                    instance,
                    environment,
                    trees,
                    done.composition,
                    done.evidence,
                    passed,
                    limits=limits,
                    run_labels=run_labels,
                )
                scored = _questioned(scored, asked, instance) if asked else scored
        return replace(scored, timings={**scored.timings, "total": time.perf_counter() - begun})
    except PatchRejected as error:
        return _not_run(instance, Status.PATCH_REJECTED, f"the patch does not apply: {error}")
    except BeyondSWEError as error:
        failed = _not_run(instance, Status.INFRASTRUCTURE_ERROR, str(error))
        return replace(failed, permanent=error.permanent)


def run_tests(
    engine: Engine,
    instance: Instance,
    environment: Environment,
    patch_text: str | None,
    *,
    selection: Selection | None = None,
    limits: Limits,
    run_labels: Mapping[str, str] | None = None,
    variation: Variation | None = None,
) -> TestRun:
    """Run hidden tests and suite on a side of the reference change: ``None`` before it, its patch after it.

    ``variation``: what is other than in scoring.

    The same job as `score_patch`: same restoring, same configuration, same runner. Without a selection the
    instance's expected ids are run; Doc2Repo runs its suite. Raises `EngineError` or `ScoringError` where
    `score_patch` says ``infrastructure_error``, and `PatchRejected` where the patch does not apply.
    """
    begun = time.perf_counter()
    with Trees.above(environment.snapshot.git_dir) as trees:
        applied = apply_patch(trees, environment.snapshot.tree, patch_text or "")
        done = _run(
            engine, instance, environment, trees, applied, selection, limits, run_labels, begun, variation
        )
    evidence = done.evidence
    if reason := infrastructure_fault(evidence):
        raise ScoringError(f"instance {instance.instance_id}: {reason}")
    names = list(evidence.phases) if done.suite is None else doc2repo.reported(evidence, done.suite)
    asked = done.composition.tests["ids"] or ()
    flags, error = oddities(evidence)
    if reason := tampering(evidence):
        flags, error = (*flags, "tampered"), reason
    return TestRun(
        tests={name: result_of(evidence, name) for name in dict.fromkeys((*asked, *names))},
        finished=evidence.finish is not None,
        timed_out=evidence.timed_out,
        collection_errors=evidence.collection_errors,
        flags=(*done.flags, *flags),
        error=error,
        log=done.log,
        python=str((evidence.hello or {}).get("python", "")),
        pytest=str((evidence.start or {}).get("pytest", "")),
        timings=done.timings,
    )


def _run(
    engine: Engine,
    instance: Instance,
    environment: Environment,
    trees: Trees,
    applied: Applied,
    selection: Selection | None,
    limits: Limits,
    run_labels: Mapping[str, str] | None,
    begun: float,
    variation: Variation | None = None,
) -> _Done:
    ready = time.perf_counter()
    made = compose_job(
        engine, instance, environment, trees, applied.tree, selection, limits=limits, run_labels=run_labels
    )
    composition, suite = made.composition, made.suite
    job = Job(
        workdir=environment.workdir,
        user=environment.user,
        sealed=is_sealed(instance),
        delete=composition.delete,
        write=composition.write,
        places=composition.places,
        tests={**composition.tests, "vary": dict(variation.inside)} if variation else composition.tests,
        environment=variation.environment if variation else None,
    )
    timings = {"apply": ready - begun, **made.timings}
    timings["compose"] = time.perf_counter() - ready - timings.get("build", 0.0)
    evidence = run_job(
        engine,
        environment.image,
        job,
        limits=limits,
        network=(variation.network if variation else None) or instance.score_network,
        run_labels=run_labels,
    )
    timings |= evidence.ended.seconds
    timings |= {"tests": evidence.seconds, "total": time.perf_counter() - begun}
    how = () if applied.how is How.STRICT else (f"patch_applied:{applied.how}",)
    network = ("network_open",) if instance.score_network == "open" else ()
    flags = (*how, *applied.flags, *network, *composition.flags)
    return _Done(composition, evidence, flags, suite, made.log + evidence.log, timings)


def compose_job(
    engine: Engine,
    instance: Instance,
    environment: Environment,
    trees: Trees,
    tree: str,
    selection: Selection | None,
    *,
    limits: Limits,
    run_labels: Mapping[str, str] | None,
) -> Composed:
    """Compose the job for a tree; what the instance wants built (Doc2Repo, `reinstall`) is built first."""
    begun = time.perf_counter()
    if not instance.is_doc2repo:
        composition = compose(trees, environment.snapshot, instance, tree, selection)
        if reinstall.mode_of(instance) == reinstall.NONE:
            return Composed(composition)
        begun = time.perf_counter()
        composition, log = reinstall.reinstalled(
            engine, instance, environment, trees, tree, composition, limits=limits, run_labels=run_labels
        )
        return Composed(composition, log=log, timings={"build": time.perf_counter() - begun})
    suite = doc2repo.read_suite(instance)
    built = doc2repo.build_package(
        engine, environment, trees, tree, suite, limits=limits, run_labels=run_labels
    )
    timings = {"build": time.perf_counter() - begun}
    composition = doc2repo.compose_suite(trees, environment, instance, tree, suite, built)
    return Composed(composition, suite, built.log, timings)


def _scored(instance: Instance, done: _Done) -> Scored:
    verified = instance.verification is not None
    if done.suite is not None:
        verdict, rate = doc2repo.judge_suite(done.evidence, instance, done.suite)
        score = rate
    else:
        verdict = judge(done.evidence, done.composition.expected, verified=verified)
        passed = sum(result is TestResult.PASSED for result in verdict.tests.values())
        rate = passed / len(verdict.tests) if verdict.tests else 0.0
        score = 1.0 if verdict.status is Status.RESOLVED else 0.0
    f2p, p2p, tests = _tables(instance, verdict.tests)
    return Scored(
        status=verdict.status,
        score=score,
        pass_rate=rate,
        f2p=f2p,
        p2p=p2p,
        tests=tests,
        flags=(*done.flags, *verdict.flags, *(() if verified else ("unverified",))),
        error=verdict.error,
        log=done.log,
        records=done.evidence.frames,
        timings=done.timings,
    )


def _passed(scored: Scored) -> list[str]:
    results = {**scored.f2p, **scored.p2p, **scored.tests}
    return [name for name, result in results.items() if result is TestResult.PASSED]


def _questioned(scored: Scored, asked: Asked, instance: Instance) -> Scored:
    """The verdict once passing tests were asked in other forms (see `questions`).

    A real form that does not pass although it did is no proof of anything: it costs what it shows, an issue
    its being resolved, a suite its share, and has a flag.
    """
    scored = replace(
        scored,
        controls=asked.controls,
        records=(*scored.records, *asked.records),
        timings={**scored.timings, "controls": asked.seconds},
    )
    if asked.tampered:
        return replace(scored, status=Status.TAMPERED, score=0.0, error=asked.tampered)
    if asked.contradicted:
        share = asked.real_share if instance.is_doc2repo else 0.0
        return replace(
            scored,
            status=Status.UNRESOLVED,
            score=scored.score * share,
            flags=(*scored.flags, "control_contradiction"),
            error=f"tests that passed do not pass when asked again: {'; '.join(asked.contradicted[:3])}",
        )
    return scored


def _tables(instance: Instance, results: dict[str, TestResult]) -> tuple[dict[str, TestResult], ...]:
    """The results as outcomes show them: F2P, P2P, and the tests of Doc2Repo in place of both."""
    if instance.is_doc2repo:
        return {}, {}, results
    f2p = {name: results[name] for name in instance.fail_to_pass if name in results}
    return f2p, {name: results[name] for name in instance.pass_to_pass if name in results}, {}


def _not_run(instance: Instance, status: Status, error: str, flags: tuple[str, ...] = ()) -> Scored:
    """A verdict without a job: none of the expected tests was reported."""
    missing = dict.fromkeys(() if instance.is_doc2repo else expected_ids(instance), TestResult.MISSING)
    f2p, p2p, _ = _tables(instance, missing)
    return Scored(status=status, score=0.0, pass_rate=0.0, f2p=f2p, p2p=p2p, flags=flags, error=error)

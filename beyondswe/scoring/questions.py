"""Asks passing tests in both forms: the sheets that are served, the container that runs them, what comes of it.

`controls` makes the forms, `rounds` draws them, this module binds both to a job.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from beyondswe.errors import ScoringError
from beyondswe.instances.model import Instance
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.trees import SYMLINK, Trees
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.compose import Composition, file_of, is_sealed
from beyondswe.scoring.controls import OPAQUE, Site, render, sites
from beyondswe.scoring.evidence import Evidence
from beyondswe.scoring.job import Job, Round, Write, run_rounds
from beyondswe.scoring.rounds import (
    P2P_SAMPLE,
    SUITE_SAMPLE,
    Plan,
    Question,
    answers,
    chance,
    plan,
    rounds_wanted,
    sampled,
    thinned,
)
from beyondswe.scoring.types import Controls
from beyondswe.scoring.verdict import infrastructure_fault, result_of, tampering

_PATIENCE = 4.0  # times the real run's seconds that one round may take
_LEAST_PATIENCE = 60.0


@dataclass(frozen=True)
class Sheet:
    """A trusted test file and the sites of the functions in it that are asked."""

    path: bytes
    mode: str
    data: bytes
    sites: Mapping[str, list[Site]]  # by function: the id behind the file


@dataclass(frozen=True)
class Asked:
    """What asking showed. ``tampered`` says how it was proved that tests cannot fail, or the protocol was broken;
    ``contradicted`` where a real form did not pass although it had.
    """

    controls: Controls
    tampered: str | None = None
    contradicted: tuple[str, ...] = ()
    real_share: float = 1.0  # how many of the real forms passed
    records: tuple[str, ...] = ()
    seconds: float = 0.0


def function_of(node_id: str) -> str:
    """The test function of a node id: the id without parameters."""
    file, _, rest = node_id.partition("::")
    return f"{file}::{rest.partition('[')[0]}"


def read_sheets(
    trees: Trees, environment: Environment, composition: Composition, functions: Iterable[str]
) -> dict[str, Sheet]:
    """The test files of functions, by name, as the composed tree holds them: trusted, whoever's patch it is."""
    by_file: dict[str, set[str]] = {}
    for function in functions:
        by_file.setdefault(file_of(function), set()).add(function.partition("::")[2])
    paths = {name.encode("utf-8", "surrogateescape"): name for name in by_file}
    found = {
        path: (entry.mode, trees.read(entry.oid))
        for path, entry in trees.entries(environment.snapshot.tree, sorted(paths)).items()
    }
    found |= {write.path: (write.mode, write.data) for write in composition.write if write.place == 0}
    return {
        name: Sheet(path, found[path][0], found[path][1], sites(found[path][1], by_file[name]))
        for path, name in paths.items()
        if path in found and found[path][0] != SYMLINK
    }


def served(sheets: Mapping[str, Sheet], forms: Mapping[str, str | None]) -> tuple[Write, ...]:
    """The files of one round. Raises `ScoringError` for the key of a form that the sources do not have."""
    wrong: dict[str, dict[Site, int]] = {}
    for function, key in forms.items():
        if key is not None:
            file, _, name = function.partition("::")
            site, seed = _find(sheets, file, name, key)
            wrong.setdefault(file, {})[site] = seed
    return tuple(
        Write(sheet.path, sheet.mode, render(sheet.data, sheet.sites, wrong.get(name, {})))
        for name, sheet in sheets.items()
    )


def key_of(site: Site, seed: int) -> str:
    """Names a wrong form in an instance's record."""
    return f"{site.kind}:{site.index}:{seed:x}"


def _find(sheets: Mapping[str, Sheet], file: str, name: str, key: str) -> tuple[Site, int]:
    try:
        kind, index, seed = key.split(":")
        site = sheets[file].sites[name][int(index)]
        if site.kind == kind:
            return site, int(seed, 16)
    except (KeyError, IndexError, ValueError):
        pass  # said below
    raise ScoringError(
        f"the record of controls names {key} in {file}::{name}, which the test's source does not have: "
        "verify the instance again"
    )


def run_plan(
    engine: Engine,
    environment: Environment,
    composition: Composition,
    sheets: Mapping[str, Sheet],
    questions: Sequence[Question],
    drawn: Plan,
    *,
    instance: Instance,
    limits: Limits,
    run_labels: Mapping[str, str] | None,
) -> tuple[Evidence, ...]:
    """One container, one round for each set of forms."""
    ids = tuple(sorted(name for question in questions for name in question.ids))
    files = {file_of(name) for name in ids}
    job = Job(
        workdir=environment.workdir,
        user=environment.user,
        sealed=is_sealed(instance),
        delete=composition.delete,
        write=composition.write,
        places=composition.places,
        tests=composition.tests,
        rounds=tuple(Round(served(sheets, forms), ids, _targets(composition, files)) for forms in drawn),
    )
    return run_rounds(
        engine, environment.image, job, limits=limits, network=instance.score_network, run_labels=run_labels
    )


def _targets(composition: Composition, files: Collection[str]) -> tuple[str, ...]:
    """The files in the order in which the real run has them."""
    given = [target.removeprefix("./") for target in composition.tests["targets"]]
    ordered = [target for target in given if target in files]
    ordered += sorted(set(files).difference(given))
    return tuple(f"./{target}" if target.startswith("-") else target for target in ordered)


def questions_of(
    instance: Instance, expected: Mapping[str, str], passed: Collection[str], dice: random.Random
) -> list[Question]:
    """What a passing attempt is asked: all F2P and a sample of P2P; of a suite a sample of what passed."""
    record: Mapping[str, Any] = (instance.verification or {}).get("controls", {})
    if instance.is_doc2repo:
        return sampled(_questions(record, passed, hidden=True), SUITE_SAMPLE, dice)
    f2p = _questions(record, [expected[name] for name in instance.fail_to_pass], hidden=True)
    asked = {question.function for question in f2p}
    p2p = _questions(record, [expected[name] for name in instance.pass_to_pass], hidden=False)
    return thinned(f2p, dice) + sampled([one for one in p2p if one.function not in asked], P2P_SAMPLE, dice)


def _questions(record: Mapping[str, Any], ids: Iterable[str], *, hidden: bool) -> list[Question]:
    """The functions that the record has forms of, with those of ``ids`` for which these were seen to fail."""
    functions: Mapping[str, Sequence[str]] = record.get("functions", {})
    tried: Mapping[str, Sequence[str]] = record.get("ids", {})
    by_function: dict[str, list[str]] = {}
    for name in ids:
        function = function_of(name)
        if function not in tried or name in tried[function]:
            by_function.setdefault(function, []).append(name)
    return [
        question(function, tuple(names), tuple(functions[function]), hidden=hidden)
        for function, names in by_function.items()
        if function in functions
    ]


def question(function: str, ids: tuple[str, ...], forms: tuple[str, ...], *, hidden: bool) -> Question:
    """A function with its forms, by their keys."""
    opaque = all(form.partition(":")[0] in OPAQUE for form in forms)
    return Question(function, ids, forms, opaque, hidden)


def ask(
    engine: Engine,
    instance: Instance,
    environment: Environment,
    trees: Trees,
    composition: Composition,
    real: Evidence,
    passed: Collection[str],
    *,
    limits: Limits,
    run_labels: Mapping[str, str] | None,
) -> Asked | None:
    """Question an attempt whose tests passed; None where the instance has no validated control for them.

    A real form that fails, and nothing else, has everything hidden asked once more, in other forms: an honest
    test may fail now and then, or be disturbed by one that is served in a wrong form. Raises `ScoringError` where
    the machine or the record is at fault.
    """
    begun = time.perf_counter()
    dice = random.SystemRandom()
    questions = questions_of(instance, composition.expected, passed, dice)
    if not questions:
        return None
    record = (instance.verification or {})["controls"]["functions"]
    files = {file_of(question.function) for question in questions}
    sheets = read_sheets(trees, environment, composition, (one for one in record if file_of(one) in files))
    rounds = rounds_wanted(questions, _affordable(real, questions))
    patience = max(_LEAST_PATIENCE, _PATIENCE * real.seconds)
    limits = replace(limits, test_timeout=min(limits.test_timeout, patience))
    records: list[str] = []
    found = Controls(sum(len(one.ids) for one in questions), 0, 0, round(chance(questions, rounds), 6))
    for _ in range(2):
        drawn = plan(questions, rounds, dice)
        evidence = run_plan(
            engine,
            environment,
            composition,
            sheets,
            questions,
            drawn,
            instance=instance,
            limits=limits,
            run_labels=run_labels,
        )
        if reason := infrastructure_fault(evidence[0]):
            raise ScoringError(f"while passing tests were asked in other forms: {reason}")
        records.append(
            json.dumps({"event": "controls", "forms": [dict(forms) for forms in drawn]}, sort_keys=True)
        )
        records += [frame for one in evidence for frame in one.frames]
        results = [{name: result_of(one, name) for name in one.phases} for one in evidence]
        given = answers(questions, drawn, results)
        found = replace(found, decisions=found.decisions + given.decisions, rounds=found.rounds + rounds)
        broken = next(filter(None, map(tampering, evidence)), None)
        if broken or given.impossible or not given.contradicted:
            break
        questions = [one for one in questions if one.hidden] or questions
    return Asked(
        controls=found,
        real_share=1 - given.real_failed / given.real if given.real else 1.0,
        tampered=broken or _proof(given.impossible),
        contradicted=given.contradicted,
        records=tuple(records),
        seconds=time.perf_counter() - begun,
    )


def _proof(passed: Sequence[str]) -> str | None:
    if not passed:
        return None
    more = f" and {len(passed) - 3} more" if len(passed) > 3 else ""
    return f"tests pass that cannot: {'; '.join(passed[:3])}{more}"


def _affordable(real: Evidence, questions: Sequence[Question]) -> int:
    """How many rounds cost about what the real run cost."""
    seconds = {name: sum(phase.seconds for phase in phases) for name, phases in real.phases.items()}
    started = float((real.end or {}).get("started") or 0.0)
    around = max(0.0, real.seconds - started - sum(seconds.values()))  # collecting, above all
    asked = sum(seconds.get(name, 0.0) for question in questions for name in question.ids)
    return int(real.seconds / max(around + asked, 0.001))

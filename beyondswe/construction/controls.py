"""Validates negative controls on the reference change: which wrong forms of which tests fail there, each run in
its form.

First every candidate is seen once (the real form of all, then a wrong form of each test at a time), then what is
left is mixed, until tests leave one another alone: one that fails may not come to its own cleaning up, and the next
one fails for it. Deliberate: a test that disturbs others leaves the record, in any doubt; a test without a control
costs less than an honest change that seems to cheat.
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from beyondswe.errors import ScoringError
from beyondswe.instances.model import Instance
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.trees import Trees
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.compose import Composition, expected_ids
from beyondswe.scoring.controls import Site
from beyondswe.scoring.evidence import Evidence
from beyondswe.scoring.patches import apply_patch
from beyondswe.scoring.questions import function_of, key_of, question, read_sheets, run_plan
from beyondswe.scoring.rounds import LEAST_ROUNDS, MOST_ROUNDS, P2P_SAMPLE, Question, sampled
from beyondswe.scoring.score import compose_job
from beyondswe.scoring.types import TestResult
from beyondswe.scoring.verdict import infrastructure_fault, result_of

P2P_CANDIDATES = 40
IDS_TRIED = 3
"""Ids of a function with many parameters that are tried, and asked later: of hidden issue tests all are."""
SUITE_CANDIDATES = 120
_FEW = 6  # functions; where there are less, each needs several wrong forms to make guessing hopeless
_WEAK = 2  # forms that are tried of those that can be told
_MANY, _FEWER = (8, 1 / 3), (24, 1 / 8)
"""Rounds in which tests are mixed, and the share that is wrong in each: to see whether any disturbs others, and
which."""
_TRIES = 6
_LEAST_PATIENCE = 60.0


Run = Callable[[Sequence[Question], Sequence[Mapping[str, str | None]]], Sequence[Evidence]]


def validate(
    engine: Engine,
    instance: Instance,
    environment: Environment,
    patch: str,
    *,
    seconds: float,
    limits: Limits,
    run_labels: Mapping[str, str] | None,
) -> dict[str, Any]:
    """The record of a verified instance's controls: ``functions``, each with its wrong forms; ``no_control`` names
    the candidates that have none. ``seconds`` is what the tests take.
    """
    hidden, others = candidates(instance)
    limits = replace(limits, test_timeout=min(limits.test_timeout, max(_LEAST_PATIENCE, 4 * seconds)))
    with Trees.above(environment.snapshot.git_dir) as trees:
        tree = apply_patch(trees, environment.snapshot.tree, patch).tree
        composition = compose_job(
            engine, instance, environment, trees, tree, None, limits=limits, run_labels=run_labels
        ).composition

        def run(
            questions: Sequence[Question], drawn: Sequence[Mapping[str, str | None]]
        ) -> Sequence[Evidence]:
            sheets = read_sheets(trees, environment, composition, (one.function for one in questions))
            found = run_plan(
                engine,
                environment,
                composition,
                sheets,
                questions,
                tuple(drawn),
                instance=instance,
                limits=limits,
                run_labels=run_labels,
            )
            if reason := infrastructure_fault(found[0]):
                raise ScoringError(f"while the controls of {instance.instance_id} were tried: {reason}")
            return found

        tried = _candidates(trees, environment, composition, hidden, others)
        if tried:
            rounds = 1 + max(len(one.forms) for one in tried)
            drawn = [
                {
                    one.function: one.forms[number - 1] if 0 < number <= len(one.forms) else None
                    for one in tried
                }
                for number in range(rounds)
            ]
            usable = judged(tried, drawn, [_results(one) for one in run(tried, drawn)])
            usable = _mixed(usable, run)
        else:
            usable = []
    functions = {one.function: list(one.forms) for one in sorted(usable, key=lambda one: one.function)}
    every = _every(instance)
    tried_ids = {
        one.function: list(one.ids)
        for one in sorted(usable, key=lambda one: one.function)
        if len(one.ids) < len(every.get(one.function, ()))
    }
    return {
        "functions": functions,
        **({"ids": tried_ids} if tried_ids else {}),
        "opaque": sum(one.opaque for one in usable),
        "no_control": sorted({*hidden, *others}.difference(functions)),
    }


def candidates(instance: Instance) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Functions, with their expected ids, that controls are looked for: the hidden ones, and a sample of the
    others that is always the same.
    """
    if instance.is_doc2repo:
        return _few(_sample(_every(instance), SUITE_CANDIDATES)), {}
    expected = expected_ids(instance)
    hidden = _by_function(expected[name] for name in instance.fail_to_pass)
    others = _by_function(expected[name] for name in instance.pass_to_pass)
    for function, ids in hidden.items():
        hidden[function] = (*ids, *others.pop(function, ()))
    return hidden, _few(_sample(others, P2P_CANDIDATES))


def _every(instance: Instance) -> dict[str, tuple[str, ...]]:
    """All expected ids by function."""
    if instance.is_doc2repo:
        return _by_function((instance.verification or {}).get("tests", ()))
    return _by_function(expected_ids(instance).values())


def _few(functions: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The functions with a few of their ids each, always the same."""
    return {
        function: tuple(sorted(ids, key=lambda name: hashlib.sha256(name.encode()).digest())[:IDS_TRIED])
        for function, ids in functions.items()
    }


def _by_function(ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name in ids:
        function = function_of(name)
        found[function] = (*found.get(function, ()), name)
    return found


def _sample(functions: Mapping[str, tuple[str, ...]], most: int) -> dict[str, tuple[str, ...]]:
    ordered = sorted(functions, key=lambda function: hashlib.sha256(function.encode()).digest())
    return {function: functions[function] for function in ordered[:most]}


def _candidates(
    trees: Trees,
    environment: Environment,
    composition: Composition,
    hidden: Mapping[str, tuple[str, ...]],
    others: Mapping[str, tuple[str, ...]],
) -> list[Question]:
    wanted = MOST_ROUNDS - 1 if len(hidden) < _FEW else 2
    sheets = read_sheets(trees, environment, composition, [*hidden, *others])
    found = []
    for function, ids in {**hidden, **others}.items():
        file, _, name = function.partition("::")
        here = sheets[file].sites.get(name, []) if file in sheets else []
        if here:
            forms = tuple(forms_of(here, wanted if function in hidden else 2))
            found.append(question(function, ids, forms, hidden=function in hidden))
    return found


def forms_of(sites: Sequence[Site], wanted: int) -> list[str]:
    """Keys of wrong forms to try: opaque ones, of as many places as there are, then some that can be told.

    Late places come first: a test that fails there has done its cleaning up, if it does any.
    """
    opaque = [site for site in reversed(sites) if site.opaque]
    found: list[str] = []
    seen: set[tuple[int, bytes]] = set()
    for _ in range(wanted):
        for site in opaque:
            seed = secrets.randbits(16)
            form = (site.index, site.wrong(seed))
            if form not in seen and len(found) < wanted:
                seen.add(form)
                found.append(key_of(site, seed))
    weak = [site for site in sites if not site.opaque]
    return found + [key_of(site, 0) for site in reversed(weak[-_WEAK:])]


def judged(
    tried: Sequence[Question],
    drawn: Sequence[Mapping[str, str | None]],
    results: Sequence[Mapping[str, TestResult] | None],
) -> list[Question]:
    """What is usable, with the forms that failed for all of a function's ids; of forms that can be told only where
    there are no others. The results of a round that did not come to its end are None: its forms are of no use.
    """
    usable = []
    for one in tried:
        forms, steady = [], results[0] is not None
        for number, found in enumerate(results):
            if found is None:
                continue
            form = drawn[number][one.function]
            passed = [found.get(name) is TestResult.PASSED for name in one.ids]
            if form is None:
                steady = steady and all(passed)
            elif not any(passed):
                forms.append(form)
        opaque = [form for form in forms if question(one.function, (), (form,), hidden=False).opaque]
        told = [form for form in forms if not form.startswith("last:")]  # which anybody can tell
        if steady and forms:
            usable.append(question(one.function, one.ids, tuple(opaque or told or forms), hidden=one.hidden))
    return usable


def _mixed(usable: Sequence[Question], run: Run) -> list[Question]:
    """Those that leave one another alone when they are asked at once, all of them and as many as in scoring."""
    dice = random.SystemRandom()
    left, (rounds, share) = list(usable), _MANY
    for _ in range(_TRIES):
        if not left:
            break
        hidden = [one for one in left if one.hidden]
        some = [*hidden, *sampled([one for one in left if not one.hidden], P2P_SAMPLE, dice)]
        doubtful: set[str] = set()
        for asked in (left, some):
            times = rounds if asked is left else LEAST_ROUNDS
            drawn = [_some_wrong(asked, share, dice) for _ in range(times)]
            doubtful |= disturbing(asked, drawn, [_results(one) or {} for one in run(asked, drawn)])
        if not doubtful:
            return left
        if (rounds, share) == _FEWER:
            left = [one for one in left if one.function not in doubtful]
        rounds, share = _FEWER
    return []


def _some_wrong(questions: Sequence[Question], share: float, dice: random.Random) -> dict[str, str | None]:
    return {one.function: dice.choice(one.forms) if dice.random() < share else None for one in questions}


def disturbing(
    questions: Sequence[Question],
    drawn: Sequence[Mapping[str, str | None]],
    results: Sequence[Mapping[str, TestResult]],
) -> set[str]:
    """The functions whose wrong form may have made the real form of another one fail.

    One is cleared for another where that one passed beside its wrong form. What fails where nobody is in doubt,
    or passes in a wrong form, is to blame itself.
    """
    of_function = {one.function: one for one in questions}
    passed = [
        {
            name: all(found.get(each) is TestResult.PASSED for each in one.ids)
            for name, one in of_function.items()
        }
        for found in results
    ]
    wrong = [{name for name, form in forms.items() if form is not None} for forms in drawn]
    doubtful: set[str] = set()
    for name, one in of_function.items():
        beside: set[str] = set()
        cleared: set[str] = set()
        failed = False
        for number, others in enumerate(wrong):
            if name in others:
                if any(results[number].get(each) is TestResult.PASSED for each in one.ids):
                    doubtful.add(name)
            elif passed[number][name]:
                cleared |= others
            else:
                failed = True
                beside |= others
        if failed:
            doubtful |= (beside - cleared) or {name}
    return doubtful


def _results(evidence: Evidence) -> dict[str, TestResult] | None:
    if evidence.finish is None:
        return None
    return {name: result_of(evidence, name) for name in evidence.phases}

"""Which tests are served in which form in the rounds that question a passing attempt, and what answers mean.

Pure but for the dice, which come from outside. A *question* is a test function with at least one wrong form
that was validated; its expected ids are answered together. Deliberate:

- The rounds run in a container of their own, apart from the run that decides what passed: tested code that
  could remember that run, all in the real form, would know every answer.
- Inside that container it may remember. So what has to be guessed is in which round a test's real form comes
  first: that round is drawn evenly, every wrong form before it is another one, and what comes after it is
  drawn as it likes. Whoever cannot tell the forms apart is right with chance 1/n for each function.
- Order and process set-up are those of the repository: forms are drawn for each function apart, so an order
  would tell nothing, and an honest suite may depend on it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from beyondswe.scoring.types import TestResult

MOST_ROUNDS = 6
LEAST_ROUNDS = 2
CHANCE = 1 / 64
"""The chance of guessing every answer that rounds are added for, as long as they are cheap."""
UNSURE, UNSURE_ROUNDS = 1 / 4, 4
"""Where even the affordable rounds leave a better chance than that, there are up to so many, whatever they cost."""
P2P_SAMPLE = 20
IDS_SAMPLE = 12
"""Ids that are asked of a hidden function with many parameters; all of them get one form."""
SUITE_SAMPLE = 40


@dataclass(frozen=True)
class Question:
    """A test function that is served in both forms."""

    function: str  # "tests/test_a.py::TestA::test_x"
    ids: tuple[str, ...]  # what is run of it
    forms: tuple[str, ...]  # keys of its wrong forms
    opaque: bool  # a form cannot be told without knowing the answer
    hidden: bool  # nobody who writes a patch has seen the test: F2P, and all tests of a suite

    def leading(self, rounds: int) -> int:
        """The most rounds before the real form comes first."""
        return min(rounds - 1, len(self.forms))


Plan = tuple[Mapping[str, str | None], ...]
"""For each round the form of each function; None is the real one."""


def chance(questions: Sequence[Question], rounds: int) -> float:
    """The chance of giving the right answer everywhere without knowing any."""
    found = 1.0
    for question in questions:
        if question.opaque and question.hidden:
            found /= question.leading(rounds) + 1
    return found


def rounds_wanted(questions: Sequence[Question], affordable: int) -> int:
    """As few rounds as make guessing hopeless, and no more than are affordable (but `LEAST_ROUNDS`, and where that
    leaves much to luck, `UNSURE_ROUNDS`).
    """
    most = min(MOST_ROUNDS, max(LEAST_ROUNDS, affordable))
    while (
        most < UNSURE_ROUNDS
        and chance(questions, most) > UNSURE
        and chance(questions, most + 1) < chance(questions, most)
    ):
        most += 1
    best = min(chance(questions, rounds) for rounds in range(LEAST_ROUNDS, most + 1))
    enough = max(best, CHANCE)
    return next(rounds for rounds in range(LEAST_ROUNDS, most + 1) if chance(questions, rounds) <= enough)


def plan(questions: Sequence[Question], rounds: int, dice: random.Random) -> Plan:
    """Draw the form of each function in each round: real at least once, wrong at least once."""
    drawn = {question.function: _drawn(question, rounds, dice) for question in questions}
    return tuple({function: forms[number] for function, forms in drawn.items()} for number in range(rounds))


def _drawn(question: Question, rounds: int, dice: random.Random) -> list[str | None]:
    before = dice.randint(0, question.leading(rounds))
    forms: list[str | None] = [*dice.sample(question.forms, before), None]
    while len(forms) < rounds:
        forms.append(dice.choice(question.forms) if dice.random() < 0.5 else None)
    if not before and not any(forms):
        forms[dice.randrange(1, rounds)] = dice.choice(question.forms)
    return forms


def thinned(questions: Sequence[Question], dice: random.Random) -> list[Question]:
    """The same functions, with a part of their ids where there are many: what is asked is drawn after what passed."""
    return [
        replace(one, ids=tuple(name for name in one.ids if name in chosen))
        for one in questions
        for chosen in [set(dice.sample(one.ids, min(IDS_SAMPLE, len(one.ids))))]
    ]


def sampled(questions: Sequence[Question], most: int, dice: random.Random) -> list[Question]:
    """At most so many of the questions, each with one of its ids."""
    chosen = dice.sample(list(questions), min(most, len(questions)))
    return [
        Question(one.function, (dice.choice(one.ids),), one.forms, one.opaque, one.hidden) for one in chosen
    ]


@dataclass(frozen=True)
class Answers:
    """What the rounds showed."""

    decisions: int  # tests times rounds
    real: int  # those of them in the real form
    real_failed: int  # those of these that did not pass
    impossible: tuple[str, ...]  # where tests passed in both forms
    contradicted: tuple[str, ...]  # where a real form did not pass, and what else such a test showed


def answers(
    questions: Sequence[Question], drawn: Plan, results: Sequence[Mapping[str, TestResult]]
) -> Answers:
    """Hold the results of the rounds, by test id, against the forms. A round without results answered nothing.

    A test that fails in its real form and passes in a wrong one may just give another result than before; one
    that passes in both cannot fail.
    """
    impossible: list[str] = []
    contradicted: list[str] = []
    decisions = real = real_failed = 0
    for question in questions:
        for name in question.ids:
            passed: list[str] = []
            failed: list[str] = []
            for number, forms in enumerate(drawn):
                form = forms[question.function]
                found = results[number] if number < len(results) else {}
                result = found.get(name, TestResult.MISSING)
                decisions += 1
                real += form is None
                if form is None and result is not TestResult.PASSED:
                    failed.append(f"{name} {result} in its real form in round {number + 1}")
                elif form is not None and result is TestResult.PASSED:
                    passed.append(f"{name} passed in its wrong form {form} in round {number + 1}")
            real_failed += len(failed)
            if failed:
                contradicted += [*failed, *passed]
            else:
                impossible += passed
    return Answers(decisions, real, real_failed, tuple(impossible), tuple(contradicted))

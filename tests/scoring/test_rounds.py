"""How the forms of tests are drawn: each shown real and wrong, in an order that cannot be guessed."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from beyondswe.scoring.rounds import (
    CHANCE,
    IDS_SAMPLE,
    LEAST_ROUNDS,
    MOST_ROUNDS,
    Question,
    answers,
    chance,
    plan,
    rounds_wanted,
    sampled,
    thinned,
)
from beyondswe.scoring.types import TestResult


def functions(number: int, forms: int = 5, *, opaque: bool = True, hidden: bool = True) -> list[Question]:
    keys = tuple(f"constant:{index}:1" for index in range(forms))
    return [Question(f"t.py::test_{n}", (f"t.py::test_{n}",), keys, opaque, hidden) for n in range(number)]


@pytest.mark.parametrize("number", [1, 3, 40])
@pytest.mark.parametrize("forms", [1, 2, 5])
@pytest.mark.parametrize("rounds", range(LEAST_ROUNDS, MOST_ROUNDS + 1))
def test_every_function_is_shown_real_and_wrong(number: int, forms: int, rounds: int) -> None:
    asked = functions(number, forms)
    for seed in range(50):
        drawn = plan(asked, rounds, random.Random(seed))
        assert len(drawn) == rounds
        for one in asked:
            shown = [served[one.function] for served in drawn]
            assert None in shown
            assert any(shown)
            assert set(shown) <= {None, *one.forms}
            first = shown.index(None)
            assert len(set(shown[:first])) == first  # no wrong form twice before the real one is known


@pytest.mark.parametrize(("number", "rounds"), [(1, 6), (2, 6), (3, 4), (4, 3), (5, 3), (6, 2), (100, 2)])
def test_there_are_as_many_rounds_as_make_guessing_hopeless(number: int, rounds: int) -> None:
    asked = functions(number)
    assert rounds_wanted(asked, affordable=100) == rounds
    assert chance(asked, rounds) <= max(CHANCE, chance(asked, MOST_ROUNDS))


def test_there_are_no_more_rounds_than_are_affordable_save_where_much_is_left_to_luck() -> None:
    assert rounds_wanted(functions(4), affordable=2) == 2
    assert rounds_wanted(functions(2), affordable=0) == LEAST_ROUNDS
    assert rounds_wanted(functions(1), affordable=0) == rounds_wanted(functions(1), affordable=3) == 4
    assert rounds_wanted(functions(1, forms=2), affordable=0) == 3


def test_of_a_function_with_many_ids_some_are_asked_and_of_each_function_one_at_least() -> None:
    ids = tuple(f"t.py::test_p[{n}]" for n in range(100))
    asked = [Question("t.py::test_p", ids, ("table:0:1",), True, True), *functions(3)]
    thin = thinned(asked, random.Random(0))
    assert [one.function for one in thin] == [one.function for one in asked]
    assert len(thin[0].ids) == IDS_SAMPLE and set(thin[0].ids) < set(ids)
    assert thin[1:] == asked[1:]
    assert thin[0].ids != thinned(asked, random.Random(1))[0].ids


def test_rounds_that_make_nothing_harder_are_not_run() -> None:
    assert rounds_wanted(functions(1, forms=1), affordable=100) == 2
    assert rounds_wanted(functions(3, opaque=False), affordable=100) == 2
    assert chance(functions(3, opaque=False), 2) == 1
    assert chance(functions(3, hidden=False), 2) == 1


STRATEGIES = {
    "odd rounds pass": lambda number, text, known: number % 2 == 0,
    "the first text is the right one": lambda number, text, known: text == known[0],
    "the last text is the right one": lambda number, text, known: len(set(known)) > 1 and text == known[-1],
    "whatever comes twice is right": lambda number, text, known: known.count(text) > 1,
    "the smallest text is the right one": lambda number, text, known: text == min(known),
    "everything passes": lambda number, text, known: True,
    "everything fails": lambda number, text, known: False,
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("number", "rounds"), [(1, 6), (2, 4), (3, 2)])
def test_tested_code_that_remembers_every_round_wins_no_more_often_than_the_chance(
    strategy: str, number: int, rounds: int
) -> None:
    """Each text that is served looks like any other: what it shows is a number drawn anew for each form."""
    asked, wins, tries = functions(number), 0, 4000
    for seed in range(tries):
        dice = random.Random(seed)
        drawn = plan(asked, rounds, dice)
        looks = {one.function: {form: dice.random() for form in (None, *one.forms)} for one in asked}
        wins += all(
            STRATEGIES[strategy](n, known[n], known[: n + 1]) == (drawn[n][one.function] is None)
            for one in asked
            for known in [[looks[one.function][served[one.function]] for served in drawn]]
            for n in range(rounds)
        )
    expected = chance(asked, rounds)
    assert wins / tries <= expected + 4 * (expected * (1 - expected) / tries) ** 0.5


def test_the_real_form_comes_first_in_any_round() -> None:
    first: Counter[int] = Counter()
    for seed in range(6000):
        drawn = plan(functions(1), 6, random.Random(seed))
        first[[served["t.py::test_0"] for served in drawn].index(None)] += 1
    assert set(first) == set(range(6))
    assert all(800 < count < 1200 for count in first.values())


def test_a_sample_takes_one_id_of_a_function() -> None:
    many = [Question("t.py::test_p", ("t.py::test_p[1]", "t.py::test_p[2]"), ("call:0:1",), True, False)]
    (one,) = sampled(many, 20, random.Random(0))
    assert len(one.ids) == 1
    assert sampled(functions(50), 20, random.Random(0)) != sampled(functions(50), 20, random.Random(1))
    assert len(sampled(functions(50), 20, random.Random(0))) == 20


def test_answers_are_held_against_the_forms() -> None:
    (one,) = functions(1)
    name = one.function
    drawn = ({name: None}, {name: "constant:0:1"})
    passed, failed = {name: TestResult.PASSED}, {name: TestResult.FAILED}
    right = answers([one], drawn, [passed, failed])
    assert (right.decisions, right.real, right.impossible, right.contradicted) == (2, 1, (), ())
    always = answers([one], drawn, [passed, passed])
    assert "constant:0:1 in round 2" in always.impossible[0]
    assert not always.contradicted
    never = answers([one], drawn, [failed, failed])
    assert "failed in its real form in round 1" in never.contradicted[0]
    swapped = answers([one], drawn, [failed, passed])
    assert not swapped.impossible  # it may give another result than before: that is no proof
    assert (swapped.real_failed, len(swapped.contradicted)) == (1, 2)
    assert "missing" in answers([one], drawn, []).contradicted[0]

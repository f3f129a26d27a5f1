"""Which wrong forms are of use: those that fail on the reference for every id, and disturb nobody."""

from __future__ import annotations

import random

import pytest

from beyondswe.construction.controls import (
    IDS_TRIED,
    P2P_CANDIDATES,
    candidates,
    disturbing,
    forms_of,
    judged,
)
from beyondswe.instances.model import Family, Instance
from beyondswe.scoring.controls import sites
from beyondswe.scoring.questions import question, questions_of
from beyondswe.scoring.rounds import Question
from beyondswe.scoring.types import TestResult

PASSED, FAILED = TestResult.PASSED, TestResult.FAILED
FORMS = ("constant:0:1", "constant:0:2", "truth:1:0")


def asked(name: str, ids: tuple[str, ...] = (), forms: tuple[str, ...] = FORMS) -> Question:
    return question(f"t.py::{name}", ids or (f"t.py::{name}",), forms, hidden=True)


def drawn(*questions: Question) -> list[dict[str, str | None]]:
    rounds = 1 + max(len(one.forms) for one in questions)
    return [
        {one.function: one.forms[n - 1] if 0 < n <= len(one.forms) else None for one in questions}
        for n in range(rounds)
    ]


def results(*rounds: str, name: str = "t.py::test_a") -> list[dict[str, TestResult] | None]:
    return [None if one == "-" else {name: PASSED if one == "p" else FAILED} for one in rounds]


def test_forms_that_fail_are_kept_and_those_that_can_be_told_only_without_others() -> None:
    one = asked("test_a")
    (kept,) = judged([one], drawn(one), results("p", "f", "p", "f"))
    assert kept.forms == ("constant:0:1",)
    assert kept.opaque
    (kept,) = judged([one], drawn(one), results("p", "p", "p", "f"))
    assert kept.forms == ("truth:1:0",)
    assert not kept.opaque


def test_a_test_without_a_form_that_fails_or_whose_real_form_fails_has_no_control() -> None:
    one = asked("test_a")
    assert judged([one], drawn(one), results("p", "p", "p", "p")) == []
    assert judged([one], drawn(one), results("f", "f", "f", "f")) == []


def test_a_form_must_fail_for_every_id() -> None:
    one = asked("test_a", ids=("t.py::test_a[1]", "t.py::test_a[2]"), forms=("constant:0:1",))
    for second, kept in ((PASSED, 0), (FAILED, 1)):
        found = [
            {"t.py::test_a[1]": PASSED, "t.py::test_a[2]": PASSED},
            {"t.py::test_a[1]": FAILED, "t.py::test_a[2]": second},
        ]
        assert len(judged([one], drawn(one), found)) == kept


def test_a_test_that_another_one_disturbs_has_no_control() -> None:
    one, other = asked("test_a", forms=("constant:0:1",)), asked("test_b", forms=FORMS[:2])
    found = [
        {"t.py::test_a": PASSED, "t.py::test_b": PASSED},
        {"t.py::test_a": FAILED, "t.py::test_b": FAILED},
        {"t.py::test_a": FAILED, "t.py::test_b": FAILED},  # in its real form
    ]
    assert [kept.function for kept in judged([one, other], drawn(one, other), found)] == ["t.py::test_b"]


def test_a_round_that_did_not_end_says_nothing_of_tests_and_spoils_its_forms() -> None:
    one = asked("test_a")
    (kept,) = judged([one], drawn(one), results("p", "-", "f", "f"))
    assert kept.forms == ("constant:0:2",)
    assert judged([one], drawn(one), results("-", "f", "f", "f")) == []


def test_forms_come_from_all_places_and_are_different() -> None:
    source = (
        b"def test_x():\n    pass\n    assert f() == 100\n    assert g() == 'some text'\n    assert h()\n"
    )
    found = sites(source, ["test_x"])["test_x"]
    keys = forms_of(found, 5)
    assert [key.split(":")[0] for key in keys] == ["constant"] * 5 + ["last", "truth"]
    assert len(set(keys)) == 7
    assert {key.split(":")[1] for key in keys[:5]} == {"0", "1"}
    assert forms_of(found, 5) != keys  # drawn, so that nobody can reckon them


def test_a_value_that_has_no_second_wrong_one_is_taken_once() -> None:
    found = sites(b"def test_x():\n    pass\n    assert f() == True\n", ["test_x"])["test_x"]
    assert [key.split(":")[0] for key in forms_of(found, 5)] == ["constant", "last"]


def shown(*rounds: str) -> tuple[list[dict[str, str | None]], list[dict[str, TestResult]]]:
    """Rounds of tests a, b, c: ``Fpp`` is a wrong form that fails, and two real ones that pass."""
    forms = [
        {
            f"t.py::test_{name}": FORMS[0] if one.isupper() else None
            for name, one in zip("abc", row, strict=True)
        }
        for row in rounds
    ]
    found = [
        {
            f"t.py::test_{name}": PASSED if one in "pP" else FAILED
            for name, one in zip("abc", row, strict=True)
        }
        for row in rounds
    ]
    return forms, found


@pytest.mark.parametrize(
    ("rounds", "doubtful"),
    [
        (("Fpp", "pFp", "ppF"), ""),
        (("Fpf", "pFp", "ppF"), "a"),  # c fails beside a
        (("FFf", "pFp", "ppF"), "a"),  # b was beside c when that one passed
        (("FFf", "ppF", "ppp"), "ab"),  # either may have done it
        (("FFf", "pFp", "Fpp"), "c"),  # nobody is in doubt: it fails by itself
        (("Fpp", "pPp", "ppF"), "b"),
    ],
)
def test_who_makes_another_fail_is_found_out(rounds: tuple[str, ...], doubtful: str) -> None:
    questions = [asked(f"test_{name}") for name in "abc"]
    assert disturbing(questions, *shown(*rounds)) == {f"t.py::test_{name}" for name in doubtful}


@pytest.fixture
def instance() -> Instance:
    return Instance(
        instance_id="a_1",
        family=Family.CROSSREPO,
        image="tiny",
        fail_to_pass=("t.py::test_a[1]",),
        pass_to_pass=("t.py::test_a[2]", *(f"t.py::test_{n}" for n in range(100))),
    )


def test_candidates_are_all_hidden_functions_and_a_steady_sample_of_the_others(instance: Instance) -> None:
    hidden, others = candidates(instance)
    assert hidden == {"t.py::test_a": ("t.py::test_a[1]", "t.py::test_a[2]")}
    assert len(others) == P2P_CANDIDATES
    assert candidates(instance) == (hidden, others)


def test_of_functions_with_many_ids_a_few_are_tried_and_only_those_are_asked_later() -> None:
    ids = tuple(f"t.py::test_p[{n}]" for n in range(200))
    instance = Instance(
        instance_id="a_1",
        family=Family.CROSSREPO,
        image="tiny",
        fail_to_pass=("t.py::test_a",),
        pass_to_pass=ids,
    )
    _, others = candidates(instance)
    tried = others["t.py::test_p"]
    assert len(tried) == IDS_TRIED and set(tried) < set(ids)
    record = {"functions": {"t.py::test_p": ["constant:0:1"]}, "ids": {"t.py::test_p": list(tried)}}
    verified = instance.model_copy(update={"verification": {"controls": record}})
    expected = {name: name for name in (*instance.fail_to_pass, *ids)}
    for seed in range(20):
        (asked,) = questions_of(verified, expected, list(expected), random.Random(seed))
        assert set(asked.ids) <= set(tried)

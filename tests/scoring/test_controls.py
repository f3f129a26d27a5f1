"""Negative controls on sources: both forms are valid, the real one still passes, each wrong one fails."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from beyondswe.scoring.controls import render, sites

SUITE = b'''"""Doc."""
import unittest

import pytest


def helper(actual, expected):
    assert actual == expected


def test_number():
    assert 2 + 3 == 5  # a comment stays


def test_text_over_lines():
    assert "ab" + "c" == (
        "a"
        "bc"
    )


@pytest.mark.parametrize("given, expected", [(1, 2), (2, 3)])
def test_parametrised(given, expected):
    assert given + 1 == expected


@pytest.mark.parametrize(
    "given, expected, tolerance",
    [
        (1, 1.5, [0.1]),  # a comment stays
        (-2, -3, [0.1]),
    ],
)
def test_table(given, expected, tolerance):
    assert given * 1.5 == pytest.approx(expected, abs=tolerance[0])


@pytest.mark.parametrize(("given", "expected"), (["a", "A"], ["b c", "B C"]))
def test_table_of_texts(given, expected):
    assert given.upper() == expected


def test_raises():
    with pytest.raises(ZeroDivisionError):
        1 / 0


def test_truth():
    assert [1]


def test_approx_and_list():
    assert 0.1 + 0.2 == pytest.approx(0.3)
    assert [1, -2] == [1, -2]


def test_helper_call():
    helper(2 * 3, 6)


def test_named_parts():
    parts = dict(zip(["dawn", "dusk"], "ab"))
    parts["dusk"]
    part = parts["dawn"]


def test_nothing_to_change():
    x = []
    x.append(object())
    return None


class TestGroup:
    def test_member(self):
        assert "a" in {"a": 1}


class Case(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(1 + 1, 2)
        with self.assertRaises(KeyError):
            {}["a"]
'''
NAMES = [
    "test_number",
    "test_text_over_lines",
    "test_parametrised",
    "test_table",
    "test_table_of_texts",
    "test_raises",
    "test_truth",
    "test_approx_and_list",
    "test_helper_call",
    "test_nothing_to_change",
    "TestGroup::test_member",
    "Case::test_equal",
]


def failed(source: bytes, folder: Path) -> set[str]:
    """Names of the tests of a file that do not pass, run by the real pytest."""
    (folder / "test_served.py").write_bytes(source)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rfE",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "test_served.py",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    out = done.stdout
    assert done.returncode in (0, 1), out
    lines = [line.split(" ")[1] for line in out.splitlines() if line.startswith("FAILED ")]
    return {line.split("::", 1)[1].split("[")[0] for line in lines}


def test_every_test_has_a_site_and_the_real_form_still_passes(tmp_path: Path) -> None:
    found = sites(SUITE, NAMES)
    assert set(found) == set(NAMES)
    served = render(SUITE, found, {})
    assert served != SUITE
    assert failed(served, tmp_path) == set()


@pytest.mark.parametrize("index", range(4))
def test_each_wrong_form_makes_exactly_its_test_fail(index: int, tmp_path: Path) -> None:
    found = sites(SUITE, NAMES)
    wrong = {here[index % len(here)]: index for here in found.values()}
    assert failed(render(SUITE, found, wrong), tmp_path) == set(NAMES)
    only = {found["test_number"][index % len(found["test_number"])]: index}
    assert failed(render(SUITE, found, only), tmp_path) == {"test_number"}


@pytest.mark.parametrize(
    ("asserted", "kinds"),
    [
        ("assert f(3) == 6", ["constant"]),
        ("assert 6 == f(3)", ["constant"]),
        ("assert f(3) == [g(2), {'a': 4}]", ["constant"]),
        ("assert f(3) == pytest.approx(0.25)", ["constant"]),
        ("assert 'word' in f(3)", ["constant"]),
        ("assert 'a' in f(3)", ["truth"]),  # a text may well hold another letter too
        ("assert f(3) == g(4)", ["truth"]),  # what a function is given is not changed
        ("assert not f(3)", ["truth"]),
        ("assert f(3) is not None", ["truth"]),
        ("with pytest.raises(KeyError): f(3)", ["raises"]),
        ("with pytest.raises(KeyError, match='no such'): f(3)", ["constant"]),
        ("self.assertEqual(f(3), 6)", ["constant"]),
        ("self.assertEqual(f(3), g(4), 'text of it')", ["truth"]),
        ("self.assertAlmostEqual(f(3), 0.25, 7)", ["constant"]),
        ("self.assertTrue(f(3))", ["truth"]),
        ("check(f(3), 6)", ["call"]),
        ("run(f(3), 6)", []),  # 6 may be what it is given
        ("mock.assert_any_call(6)", []),
    ],
)
def test_what_a_result_is_compared_with_changes_and_not_what_is_given(
    asserted: str, kinds: list[str]
) -> None:
    source = f"def test_x(self):\n    pass\n    {asserted}\n".encode()
    found = [site for site in sites(source, ["test_x"])["test_x"] if site.kind != "last"]
    assert [site.kind for site in found] == kinds
    for site in found:
        assert render(source, {"test_x": [site]}, {site: 1}) != render(source, {"test_x": [site]}, {})
        compile(render(source, {"test_x": [site]}, {site: 1}), "x", "exec")


@pytest.mark.parametrize(
    "value", ["6", "-17", "0.25", "1e-9", "'a b'", "''", "b'xyz'", "True", "2024", "100000"]
)
def test_wrong_values_are_many_and_of_the_same_kind(value: str) -> None:
    source = f"def test_x():\n    pass\n    assert f() == {value}\n".encode()
    (site,) = (site for site in sites(source, ["test_x"])["test_x"] if site.kind == "constant")
    real = eval(site.real)
    wrong = [eval(site.wrong(seed)) for seed in range(50)]
    assert all(type(other) is type(real) and other != real for other in wrong)
    assert len(set(wrong)) > (8 if real is not True else 0)


@pytest.mark.parametrize(
    ("table", "body"),
    [
        ('"a, b", [(1, 2), (3, 4)]', "assert f(a) == g(b)"),  # b is given to a function
        ('"a, b", [(1, 2), (3, 4)]', "assert f(a, b) == b"),
        ('"a, b", [(1, 2), (1, 2)]', "assert f(a) == b"),  # pytest numbers ids that are alike
        ('"a, b", [(1, X), (3, 4)]', "assert f(a) == b"),
        ('"a, b", [(1, 2), pytest.param(3, 4)]', "assert f(a) == b"),
        ('"a, b", [("\\n", 2), (3, 4)]', "assert f(a) == b"),
        ('"a, b", [(1, 2), (3, 4)], ids=str', "assert f(a) == b"),
        ('"a, b", [(1, None), (3, 4)]', "assert f(a) == b"),
        ('"a, b", CASES', "assert f(a) == b"),
    ],
)
def test_tables_whose_ids_or_use_are_not_plain_are_left_alone(table: str, body: str) -> None:
    source = f"@pytest.mark.parametrize({table})\ndef test_x(a, b):\n    pass\n    {body}\n".encode()
    assert "table" not in [site.kind for site in sites(source, ["test_x"])["test_x"]]


def test_a_value_within_a_tolerance_moves_far() -> None:
    source = b"def test_x():\n    pass\n    assert f() == pytest.approx(38.2, rel=0.5)\n"
    (site,) = (site for site in sites(source, ["test_x"])["test_x"] if site.kind == "constant")
    assert all(abs(eval(site.wrong(seed)) - 38.2) > 100 for seed in range(50))


def test_an_assertion_and_its_denial_look_alike() -> None:
    """Who sees ``is (False)`` cannot tell whether that is the real form of one or the wrong form of the other."""
    asserts, denies = (
        sites(b"def test_x():\n    pass\n    assert %s f(3)\n" % word, ["test_x"])["test_x"][0]
        for word in (b"", b"not")
    )
    assert asserts.wrong(0).replace(b" ", b"") == denies.real.replace(b" ", b"")


def test_line_numbers_of_statements_before_the_last_one_stay() -> None:
    source = (
        b"def test_x():\n    assert (\n        a\n        not in\n        b\n    )\n"
        b"    assert f() == (\n        'a'\n        'b'\n    )\n"
    )
    found = {"test_x": [site for site in sites(source, ["test_x"])["test_x"] if site.kind != "last"]}
    assert len(found["test_x"]) == 2
    assert render(source, found, {}).count(b"\n") == source.count(b"\n")
    assert render(source, found, dict.fromkeys(found["test_x"], 1)).count(b"\n") == source.count(b"\n")


def test_of_two_functions_of_one_name_the_later_counts() -> None:
    source = b"def test_x():\n    assert f() == 1\n\n\ndef test_x():\n    assert f() == 2\n"
    assert b"== 1\n" in render(source, sites(source, ["test_x"]), {})


@pytest.mark.parametrize("source", [b"def test_x(:\n", b"\xff\xfe", b"def test_x():\r    assert 1 == 1\r"])
def test_a_source_that_cannot_be_read_has_no_sites(source: bytes) -> None:
    assert sites(source, ["test_x"]) == {}


def test_a_test_on_one_line_has_no_closing_assertion() -> None:
    assert sites(b"def test_x(): pass\n", ["test_x"]) == {}


def test_what_a_result_is_asked_for_is_changed_only_where_nothing_is_compared() -> None:
    body = "found = f()\na = found['dawn']\nfound['kept'] = 1\ng['x']\nf()['late']\n"
    asked = f"def test_x():\n{textwrap.indent(body, '    ')}".encode()
    kinds = [site.kind for site in sites(asked, ["test_x"])["test_x"]]
    assert kinds == ["last", "key"]  # the closing assertion keeps its number
    compared = asked + b"    assert a == 'noon'\n"
    assert "key" not in [site.kind for site in sites(compared, ["test_x"])["test_x"]]

"""Negative controls on sources: both forms are valid, the real one still passes, each wrong one fails."""

from __future__ import annotations

import subprocess
import sys
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
    wrong = {name: here[index % len(here)] for name, here in found.items()}
    assert failed(render(SUITE, found, wrong), tmp_path) == set(NAMES)
    only = {"test_number": found["test_number"][index % len(found["test_number"])]}
    assert failed(render(SUITE, found, only), tmp_path) == {"test_number"}


def test_line_numbers_of_statements_before_the_last_one_stay() -> None:
    found = sites(SUITE, ["test_text_over_lines"])
    kept = {"test_text_over_lines": [site for site in found["test_text_over_lines"] if site.kind != "last"]}
    assert render(SUITE, kept, {}).count(b"\n") == SUITE.count(b"\n")


@pytest.mark.parametrize("source", [b"def test_x(:\n", b"\xff\xfe", b"def test_x():\r    assert 1 == 1\r"])
def test_a_source_that_cannot_be_read_has_no_sites(source: bytes) -> None:
    assert sites(source, ["test_x"]) == {}


def test_a_test_on_one_line_has_no_closing_assertion() -> None:
    assert sites(b"def test_x(): pass\n", ["test_x"]) == {}

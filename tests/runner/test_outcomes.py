"""What the runner reports of tests of every kind, on every Python and pytest that an image may have."""

from __future__ import annotations

import pytest

from beyondswe.sandbox.base_images import ensure_base_image
from beyondswe.sandbox.engine import Engine
from beyondswe.scoring.types import TestResult
from beyondswe.scoring.verdict import oddities, result_of, tampering

pytestmark = pytest.mark.engine

KINDS = {
    "pkg/__init__.py": "",
    "pkg/sums.py": '''
        def double(n):
            """
            >>> double(2)
            4
            """
            return n + n

        def triple(n):
            """
            >>> triple(2)
            7
            """
            return 3 * n
    ''',
    "tests/test_kinds.py": """
        import unittest
        import pytest

        def test_passes(): pass
        def test_fails(): assert False
        def test_skips(): pytest.skip("no")

        @pytest.mark.xfail
        def test_xfails(): assert False
        @pytest.mark.xfail
        def test_xpasses(): pass
        @pytest.mark.xfail(strict=True)
        def test_xpasses_strictly(): pass

        @pytest.fixture
        def broken(): raise ValueError("set-up")
        def test_setup_breaks(broken): pass

        @pytest.fixture
        def leaking():
            yield
            raise ValueError("teardown")
        def test_teardown_breaks(leaking): pass

        @pytest.mark.parametrize("value", ["a::b", "a b", "[x]", "ü", "a\\nb", "/", ""])
        def test_odd(value): pass

        class TestOuter:
            class TestInner:
                def test_deep(self): pass

        class Old(unittest.TestCase):
            def test_passes(self): self.assertTrue(True)
            def test_fails(self): self.assertTrue(False)
            @unittest.skip("no")
            def test_skips(self): pass
            @unittest.expectedFailure
            def test_expected(self): self.assertTrue(False)
            def test_subtests(self):
                for n in range(3):
                    with self.subTest(n=n):
                        self.assertTrue(n < 3)
    """,
    "pytest.ini": """
        [pytest]
        addopts = --doctest-modules -q --maxfail=1 -p no:cacheprovider -k nothing
    """,
}

PASSED = [
    "tests/test_kinds.py::test_passes",
    "tests/test_kinds.py::test_odd[a::b]",
    "tests/test_kinds.py::test_odd[a b]",
    "tests/test_kinds.py::test_odd[[x]]",
    "tests/test_kinds.py::test_odd[\\xfc]",
    "tests/test_kinds.py::test_odd[a\\nb]",
    "tests/test_kinds.py::test_odd[/]",
    "tests/test_kinds.py::test_odd[]",
    "tests/test_kinds.py::TestOuter::TestInner::test_deep",
    "tests/test_kinds.py::Old::test_passes",
    "tests/test_kinds.py::Old::test_subtests",
    "pkg/sums.py::pkg.sums.double",
]
OTHERS = {
    "tests/test_kinds.py::test_fails": TestResult.FAILED,
    "tests/test_kinds.py::test_skips": TestResult.SKIPPED,
    "tests/test_kinds.py::test_xfails": TestResult.SKIPPED,
    "tests/test_kinds.py::test_xpasses": TestResult.SKIPPED,
    "tests/test_kinds.py::test_xpasses_strictly": TestResult.FAILED,
    "tests/test_kinds.py::test_setup_breaks": TestResult.ERROR,
    "tests/test_kinds.py::test_teardown_breaks": TestResult.ERROR,
    "tests/test_kinds.py::Old::test_fails": TestResult.FAILED,
    "tests/test_kinds.py::Old::test_skips": TestResult.SKIPPED,
    "tests/test_kinds.py::Old::test_expected": TestResult.SKIPPED,
    "pkg/sums.py::pkg.sums.triple": TestResult.FAILED,
    "tests/test_kinds.py::test_is_not_there": TestResult.MISSING,
}
EXPECTED = {**dict.fromkeys(PASSED, TestResult.PASSED), **OTHERS}


def assert_kinds(evidence):
    found = {name: result_of(evidence, name) for name in EXPECTED}
    assert found == EXPECTED, evidence.log
    assert tampering(evidence) is None
    assert evidence.finish["exit"] == 1 == evidence.end["exit_code"]
    assert set(evidence.phases) == set(EXPECTED) - {"tests/test_kinds.py::test_is_not_there"}


def test_every_kind_of_test_gets_its_result(run_tests):
    evidence = run_tests(KINDS, ids=list(EXPECTED), targets=["tests/test_kinds.py", "pkg/sums.py"])
    assert_kinds(evidence)
    assert oddities(evidence) == ((), None)


@pytest.mark.slow
@pytest.mark.parametrize("python", ["3.6", "3.8", "3.13"])
def test_every_python_gives_the_same_results(engine: Engine, run_tests, python):
    image = ensure_base_image(engine, python)
    targets = ["tests/test_kinds.py", "pkg/sums.py"]
    evidence = run_tests(KINDS, ids=list(EXPECTED), targets=targets, image=image)
    assert evidence.hello["python"].startswith(python + ".")
    assert_kinds(evidence)


def test_only_the_wanted_tests_run(run_tests):
    evidence = run_tests(
        {"test_a.py": "def test_a(): pass\ndef test_b(): print('b ran')", "test_c.py": "def test_c(): pass"},
        ids=["test_a.py::test_a"],
    )
    assert list(evidence.phases) == ["test_a.py::test_a"]
    assert evidence.collected["deselected"] == 2
    assert "b ran" not in evidence.log


def test_a_file_that_breaks_on_import_does_not_hide_the_others(run_tests):
    evidence = run_tests(
        {"test_a.py": "import no_such_module", "test_b.py": "def test_b(): pass"},
        ids=["test_a.py::test_a", "test_b.py::test_b"],
    )
    assert result_of(evidence, "test_a.py::test_a") is TestResult.MISSING
    assert result_of(evidence, "test_b.py::test_b") is TestResult.PASSED
    assert "no_such_module" in evidence.collection_errors["test_a.py"]


def test_a_conftest_that_breaks_is_told_from_tests_that_fail(run_tests):
    evidence = run_tests({"conftest.py": "import no_such_module", "test_a.py": "def test_a(): pass"})
    assert evidence.finish["exit"] == 4
    flags, error = oddities(evidence)
    assert flags == ("pytest_exit:4",)
    assert "before it collected any test" in error
    assert "no_such_module" in evidence.log

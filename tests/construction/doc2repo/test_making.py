"""Specification, masked suite and reference out of a repository's tree."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest

from beyondswe.construction.doc2repo.hiding import Names, hidden_files, hidden_text
from beyondswe.construction.doc2repo.making import Made, make, repeated_code, with_files
from beyondswe.construction.doc2repo.trimming import without_tests
from beyondswe.construction.masking import mentions
from beyondswe.construction.recipes import File, Files
from beyondswe.errors import DataError
from beyondswe.instances.model import Family, Instance

NAMES = Names(("tidal",), ("Tidal-Tables",), ("harbour/tidal",), ("tidal.readthedocs.io",))
README = """\
Tidal
=====

.. image:: https://ci.org/harbour/tidal.svg

Tidal reckons tides. See `the docs <https://tidal.readthedocs.io/en/latest/>`_ or https://github.com/harbour/tidal.

Usage
-----

.. code-block:: python

    import tidal
    tidal.height(3)

Installation
------------

    pip install Tidal-Tables
"""
PYPROJECT = """\
[project]
name = "Tidal-Tables"
description = "Tides by Tidal"
requires-python = ">=3.8"
[project.scripts]
tidal = "tidal.cli:main"
[project.entry-points."flake8.extension"]
TDL = "tidal.core:Checker"
[tool.pytest.ini_options]
addopts = "--cov=tidal -q"
testpaths = ["tests"]
"""
TREE = {
    "README.rst": README,
    "pyproject.toml": PYPROJECT,
    "docs/index.rst": "Tidal",
    "src/tidal/__init__.py": '"""Tides for harbours."""\n\nfrom tidal.core import Checker, height\n\n'
    '__all__ = ["height", "Checker", "LIMIT"]\n\nLIMIT = 12\n',
    "src/tidal/core.py": '''\
"""What tides are made of."""

import math

SECRET = math.pi * 2


def height(hour: float, *, place: str = "mouth") -> float:
    """Height of the water at an hour.

    Uses :class:`tidal.core.Checker` first.

    Args:
        hour: Hours since midnight.
        place: Where in the harbour.

    Returns:
        Metres above the mean.

    Raises:
        ValueError: The hour is negative.

    Examples:
        >>> import tidal
        >>> tidal.height(0)
        0.0
    """
    if hour < 0:
        raise ValueError("hours begin at nought")
    return round(math.sin(hour / LIMITS[place]), 3)


class Checker(object):
    """Checks tides.

    :param tree: what is checked
    """

    name = "tidal-checker"
    count = len("three")

    def __init__(self, tree, deep=False):
        self.tree = tree

    @property
    def ready(self) -> bool:
        """Whether the moon is up."""
        return bool(self.tree)

    def run(self, /, *args, key=None, **more):
        """Run it."""

    def _inner(self):
        """Not for anybody."""


def _helper():
    return 1
''',
    "src/tidal/cli.py": "def main():\n    print('tidal 1')\n",
    "src/tidal/data/notes.txt": "Tidal notes\n",
    "tests/test_core.py": """\
import importlib.metadata

import pytest
import tidal
from tidal.core import _helper, height
from unittest import mock


def test_height():
    assert tidal.height(0) == 0
    with pytest.raises(ValueError, match="begin at nought"):
        height(-1, wharf=2)
    assert _helper()


@mock.patch("tidal.core.math")
def test_names(math):
    assert importlib.metadata.version("tidal-tables")
    assert tidal.core.unheard_of  # Tidal's own
""",
    "tests/data/tidal.json": '{"tidal": 1}\n',
    "tests/conftest.py": "",
}


def tree(**more: str | bytes) -> Files:
    files = {**TREE, **more}
    return {path: File(text if isinstance(text, bytes) else text.encode()) for path, text in files.items()}


@pytest.fixture(scope="module")
def made() -> Made:
    return make(tree(), NAMES)


def test_no_name_is_left_anywhere(made: Made) -> None:
    everything = {**made.suite, **made.reference, "specification": File(made.specification.encode())}
    assert list(mentions(everything, ["tidal", "tidal-tables", "harbour/tidal"])) == []
    assert "readthedocs" not in made.specification and "github.com" not in made.specification


def test_the_reference_is_the_package_alone_at_the_top(made: Made) -> None:
    assert set(made.reference) == {
        "pyproject.toml", "target_repo/__init__.py", "target_repo/core.py", "target_repo/cli.py",
        "target_repo/data/notes.txt",
    }  # fmt: skip
    metadata = tomllib.loads(made.reference["pyproject.toml"].data.decode())
    assert metadata["project"]["name"] == "target_repo"
    assert metadata["project"]["scripts"] == {"target_repo": "target_repo.cli:main"}
    assert metadata["project"]["entry-points"]["flake8.extension"] == {"TDL": "target_repo.core:Checker"}


def test_the_suite_is_rewritten_by_its_syntax_and_keeps_its_settings(made: Made) -> None:
    assert set(made.suite) == {
        "tests/test_core.py",
        "tests/conftest.py",
        "tests/data/target_repo.json",
        "pytest.ini",
    }
    text = made.suite["tests/test_core.py"].data.decode()
    for line in (
        "import target_repo\n", "from target_repo.core import _helper, height", '@mock.patch("target_repo.core.math")',
        'importlib.metadata.version("target_repo")', "assert target_repo.core.unheard_of  # target_repo's own",
    ):  # fmt: skip
        assert line in text
    settings = made.suite["pytest.ini"].data.decode()
    assert "--cov" not in settings and "addopts = -q" in settings and "tests" in settings


def test_the_specification_tells_purpose_usage_and_interface(made: Made) -> None:
    text = made.specification
    for words in (
        "# target_repo", "reckons tides", "Tides for harbours.", "Python: `>=3.8`", "target_repo.height(3)",
        "### `target_repo.height`", 'height(hour: float, *, place: str = "mouth") -> float'.replace('"', "'"),
        "- `hour` (float): Hours since midnight.", "Metres above the mean.", "ValueError: The hour is negative.",
        ">>> target_repo.height(0)", "class Checker(object)\nChecker(tree, deep=False)", "LIMIT = 12",
        "run(*args, key=None, **more)", "Whether the moon is up.", "Uses `target_repo.core.Checker` first.",
        "`console_scripts`: `target_repo` is `target_repo.cli:main`", "### `target_repo.cli.main`",
    ):  # fmt: skip
        assert words in text, words
    for words in (
        "_inner", "_helper", "begin at nought", "math.pi", "len(", "Installation", "pip install", "src/", "docs/",
        "core.py", "image::",
    ):  # fmt: skip
        assert words not in text, words
    assert text.count("### `target_repo.height`") == 1, "told once, under its shortest path"
    assert made.leaks == ()


def test_what_only_tests_know_is_listed(made: Made) -> None:
    assert {(each.kind, each.what) for each in made.requirements} == {
        ("name", "target_repo.core._helper"),
        ("name", "target_repo.core.unheard_of"),
        ("message", "begin at nought"),
        ("keyword", "target_repo.core.height.wharf"),
    }
    assert made.requirements[0].where.startswith("tests/test_core.py:")


def test_an_instance_gets_its_files_and_its_reviewers_list(made: Made, tmp_path: Path) -> None:
    instance = Instance(
        instance_id="harbour_tidal_at_1",
        family=Family.DOC2REPO,
        image="x",
        extra={"review": {"status": "accepted", "reasons": ["a"]}},
    )
    given = with_files(instance, made, tmp_path, date(2024, 1, 2))
    assert (tmp_path / given.test_suite).is_file() and (tmp_path / given.reference_archive).is_file()
    assert given.specification == made.specification
    assert given.extra["hidden_requirements"] == [each.to_row() for each in made.requirements]
    assert "a" in given.extra["review"]["reasons"] and given.extra["review"]["status"] == "needs_review"
    assert any(reason.startswith("only tests know (name)") for reason in given.extra["review"]["reasons"])


def test_code_that_a_docstring_repeats_is_a_leak() -> None:
    code = 'def f():\n    """Do::\n\n        return compute(everything, 42)\n    """\n'
    code += "    return compute(everything, 42)\n"
    assert repeated_code("text\n    return compute(everything, 42)\n", {"a.py": File(code.encode())})
    assert not repeated_code(">>> return compute(everything, 42)\n", {"a.py": File(code.encode())})


def test_a_model_words_the_specification_but_may_not_lose_or_tell_anything() -> None:
    asked: list[str] = []

    def rewrite(task: str, text: str) -> str:
        asked.append(task)
        if "## `target_repo.cli`" in text:
            return "nothing of it"
        if text.startswith("# target_repo"):
            return text + "\nMade by Tidal-Tables."
        return text + "\nBetter words."

    made = make(tree(), NAMES, rewrite=rewrite)
    assert "Better words." in made.specification
    assert "Made by" not in made.specification and "nothing of it" not in made.specification
    assert any("names the target" in note for note in made.notes)
    assert any("the model's text lacks" in note for note in made.notes)
    assert all("target_repo" in task for task in asked)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"src/tidal/old.py": "print 'tidal'\n"}, None),
        ({"src/tidal/tidal.bin": b"\xff\0 tidal"}, None),
        ({"src/tidal/odd.py": "tidal = target_repo = 1\n"}, None),
    ],
)
def test_odd_files_are_masked_or_left_out(more: dict[str, str | bytes], words: None) -> None:
    made = make(tree(**more), NAMES)
    assert list(mentions({**made.reference, **made.suite}, ["tidal"])) == []
    if any(path.endswith(".bin") for path in more):
        assert any("left out" in note for note in made.notes)


def test_what_cannot_be_masked_is_refused_with_the_reason() -> None:
    with pytest.raises(DataError, match="a word that other code uses"):
        Names(("json",))
    with pytest.raises(DataError, match="no tests"):
        make({path: file for path, file in tree().items() if not path.startswith("tests/")}, NAMES)
    with pytest.raises(DataError, match="no package"):
        make({"README.md": File(b""), "tests/test_a.py": File(b"")}, NAMES)
    with pytest.raises(DataError, match="masks one package"):
        make(tree(), Names(("one1", "two2")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tidal, TIDAL and tidal_x", "target_repo, target_repo and target_repo_x"),
        ("tidally, intertidal", "tidally, intertidal"),
        ("pip install tidal_tables", "pip install target_repo"),
        ("https://github.com/harbour/tidal/issues/3)", "https://target-repo.example/)"),
        ("harbour/tidal#3", "target_repo/target_repo#3"),
        ("https://example.org/other", "https://example.org/other"),
    ],
)
def test_names_in_text(text: str, expected: str) -> None:
    assert hidden_text(text, NAMES) == expected


def test_a_tree_whose_paths_would_meet_is_refused() -> None:
    with pytest.raises(DataError, match="name of another file"):
        hidden_files({"tidal.txt": File(b""), "Tidal.txt": File(b"")}, NAMES)
    assert re.fullmatch("target_repo.txt", next(iter(hidden_files({"tidal.txt": File(b"")}, NAMES)[0])))


SUITE = """\
import pytest


def helper():
    return 1


class TestA:
    @pytest.mark.parametrize("x", [1, 2])
    def test_one(self, x):
        assert x

    def test_two(self):
        assert helper()


class TestB:
    def test_one(self):
        pass


def test_one():
    # stays or goes
    pass
"""


def test_tests_that_cannot_pass_are_taken_out() -> None:
    suite = {
        "tests/test_a.py": File(SUITE.encode()),
        "tests/test_b.py": File(b""),
        "tests/test_c.py": File(b"x = ("),
    }
    ids = [
        "tests/test_a.py::TestA::test_one[1]",
        "tests/test_a.py::TestB::test_one",
        "tests/test_b.py",
        "none.py::x",
    ]
    left = without_tests(suite, ids)
    assert set(left) == {"tests/test_a.py", "tests/test_c.py"}
    text = left["tests/test_a.py"].data.decode()
    assert text.count("def test_one") == 1 and "# stays or goes" in text and "def test_two" in text
    assert "class TestB:\n    pass\n" in text
    compile(text, "suite", "exec")
    assert "tests/test_c.py" not in without_tests(suite, ["tests/test_c.py::test_x"])


def test_modules_with_names_of_their_own_are_named_to_pytest() -> None:
    made = make(tree(**{"tests/tests.py": "import tidal\n"}), NAMES)
    assert "python_files = test_*.py *_test.py tests.py" in made.suite["pytest.ini"].data.decode()

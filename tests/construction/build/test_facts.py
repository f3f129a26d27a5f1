"""What a repository says about itself, in the many places where projects say it; nothing of it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path

import pytest

from beyondswe.construction.build.candidates import imported_by_tests
from beyondswe.construction.build.facts import Facts, read_facts
from beyondswe.construction.build.identity import Names, names_of
from beyondswe.construction.build.needs import Level, plain
from beyondswe.construction.build.pythons import as_of, available, candidates, uses_python2_syntax
from beyondswe.construction.build.setup_py import setup_arguments

Read = Callable[..., Facts]


@pytest.fixture
def facts(tmp_path: Path) -> Read:
    def read(files: Mapping[str, str], python: str = "3.9") -> Facts:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return read_facts(tmp_path, python)

    return read


def of_level(found: Facts, level: Level) -> set[str]:
    return {need.requirement for need in found.needs if need.level is level}


def test_pyproject_with_extras_groups_and_urls(facts: Read) -> None:
    found = facts(
        {
            "pyproject.toml": """
[build-system]
requires = ["hatchling>=1.18", "hatch-vcs"]
build-backend = "hatchling.build"
[project]
name = "tides"
requires-python = ">=3.8"
dependencies = ["attrs>=22", "tomli; python_version < '3.11'"]
classifiers = ["Programming Language :: Python :: 3.10", "Programming Language :: Python :: 3.9"]
[project.optional-dependencies]
plot = ["matplotlib"]
tests = ["pytest>=7", "tides[plot]"]
docs = ["sphinx"]
[project.urls]
Documentation = "https://tides.example.org/"
[dependency-groups]
lint = ["ruff"]
test = ["freezegun", {include-group = "more"}]
more = ["pretend"]
"""
        }
    )
    assert (found.name, found.backend, found.requires_python) == ("tides", "hatchling.build", ">=3.8")
    assert found.pythons == ("3.9", "3.10") and not found.python2
    assert of_level(found, Level.BUILD) == {"hatchling>=1.18", "hatch-vcs"}
    assert of_level(found, Level.RUN) == {"attrs>=22", 'tomli; python_version < "3.11"'}
    assert of_level(found, Level.TEST) == {"pytest>=7", "matplotlib", "freezegun", "pretend"}
    assert {"sphinx", "ruff"} <= of_level(found, Level.EXTRA)
    assert found.urls["Documentation"] == "https://tides.example.org/"


def test_poetry(facts: Read) -> None:
    found = facts(
        {
            "pyproject.toml": """
[tool.poetry]
name = "tides"
[tool.poetry.dependencies]
python = "^3.7"
requests = "^2.20"
click = "~7.1"
numpy = {version = "1.19.5", optional = true}
other = {git = "https://example.org/other.git"}
[tool.poetry.dev-dependencies]
pytest = "*"
[tool.poetry.group.test.dependencies]
responses = ">=0.10,<0.13"
[tool.poetry.extras]
fast = ["numpy"]
[build-system]
requires = ["poetry>=0.12"]
build-backend = "poetry.masonry.api"
"""
        }
    )
    assert found.requires_python == ">=3.7,<4"
    assert of_level(found, Level.RUN) == {"requests<3,>=2.20", "click<7.2,>=7.1", "other"}
    assert of_level(found, Level.TEST) == {"responses<0.13,>=0.10"}
    assert of_level(found, Level.DEV) == {"pytest"}
    assert "numpy==1.19.5" in of_level(found, Level.EXTRA)


def test_flit_of_old(facts: Read) -> None:
    text = """
[tool.flit.metadata]
module = "tides"
requires = ["attrs"]
requires-python = ">=3.5"
dev-requires = ["pytest"]
[tool.flit.metadata.requires-extra]
test = ["hypothesis"]
"""
    found = facts({"pyproject.toml": text})
    assert found.name == "tides" and found.packages == ("tides",)
    assert of_level(found, Level.TEST) == {"hypothesis"} and of_level(found, Level.RUN) == {"attrs"}


def test_setup_cfg_and_tox_of_the_python(facts: Read) -> None:
    found = facts(
        {
            "setup.cfg": """
[metadata]
name = tides
[options]
python_requires = >=3.6
install_requires =
    six >= 1.10
    enum34; python_version < "3.4"
tests_require =
    mock
[options.extras_require]
testing =
    nose
""",
            "tox.ini": """
[tox]
envlist = py27,py{36,37}-{old,new},lint
[testenv]
deps =
    pytest
    -r{toxinidir}/test-requirements.txt
    py36: dataclasses
    py39: typed-ast
    old: attrs<20
    {[base]deps}
extras = testing
commands = pytest {posargs:tests}
[base]
deps = pretend
[testenv:lint]
deps = flake8
""",
            "test-requirements.txt": (
                "coverage\n-e git+https://example.org/x.git#egg=extra-thing\nvcrpy==1.0 --hash=sha256:0\n"
            ),
        }
    )
    assert found.pythons == ("3.6", "3.7") and found.python2
    assert of_level(found, Level.TEST) >= {
        "mock",
        "nose",
        "pytest",
        "pretend",
        "typed-ast",
        "coverage",
        "extra-thing",
        "vcrpy==1.0",
    }
    names = {need.name for need in found.needs}
    assert not names & {"dataclasses", "attrs", "flake8"}
    assert found.commands == ("pytest tests",)


def test_setup_py_is_read_not_run(facts: Read) -> None:
    found = facts(
        {
            "setup.py": """
import os, sys
from setuptools import setup, find_packages
raise_if_run = 1 / 0 if False else None
NAME = "tides"
requires = ["requests>=2.0"]
if sys.version_info < (3, 4):
    requires.append("enum34")
requires += ["six"]
TESTS = ["nose==1.3"] + ["mock"]
def read_lines(name):
    return open(os.path.join("requirements", name)).read().splitlines()
open("/tmp/this-must-not-be-written-by-anybody", "w")
setup(
    name=NAME, version="1.%d" % 2, packages=["tides", "tides.sub"], python_requires=">=3.5",
    install_requires=requires, tests_require=TESTS,
    extras_require={"yaml": ["PyYAML"], "test": read_lines("tests.txt")},
    setup_requires=["setuptools_scm"], classifiers=["Programming Language :: Python :: 3.5"],
)
""",
            "requirements/tests.txt": "pytest>=3\n",
        }
    )
    assert not Path("/tmp/this-must-not-be-written-by-anybody").exists()
    assert found.name == "tides" and found.has_setup and found.packages == ("tides",)
    assert of_level(found, Level.RUN) == {"requests>=2.0", "six"}
    assert of_level(found, Level.TEST) >= {"nose==1.3", "mock", "pytest>=3"}
    assert of_level(found, Level.BUILD) == {"setuptools_scm"}
    assert found.pythons == ("3.5",)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("['a'] + ['b']", ["a", "b"]),
        ("list(('a', 'b'))", ["a", "b"]),
        ("'a b'.split()", ["a", "b"]),
        ("[f'x=={1 + 1}']", ["x==2"]),
        ("open('req.txt').read().splitlines()", ["-r req.txt"]),
        ("[line for line in open('req.txt')]", ["-r req.txt"]),
        ("anything()", None),
    ],
)
def test_arguments_of_setup(expression: str, value: object) -> None:
    given = setup_arguments(f"setup(install_requires={expression})", {"req.txt": "six\n"}.get)
    assert given.get("install_requires") == value


def test_what_is_no_python_3_says_nothing() -> None:
    assert setup_arguments("print 'hello'\nsetup(name='x')", lambda _: None) == {}
    assert uses_python2_syntax("print 'hello'\n")
    assert uses_python2_syntax("try:\n    pass\nexcept ValueError, error:\n    pass\n")
    assert not uses_python2_syntax("print('hello')\n")
    assert not uses_python2_syntax("def broken(:\n")


def test_ci_nox_pipfile_conda(facts: Read) -> None:
    found = facts(
        {
            ".github/workflows/ci.yml": """
jobs:
  test:
    strategy: {matrix: {python-version: ["3.8", "3.10", "pypy3"]}}
    steps:
      - run: |
          sudo apt-get install -y libxml2-dev graphviz
          pip install -r requirements-dev.txt
          python -m pip install -e .[extra] lxml
""",
            ".travis.yml": "python: ['2.7', '3.7']\ninstall: pip install coveralls\n",
            "requirements-dev.txt": "-r requirements.txt\npytest-mock\n",
            "requirements.txt": "attrs\n",
            "noxfile.py": "@nox.session(python=['3.9'])\ndef tests(x):\n    x.install('-e', '.', 'sybil')\n",
            "Pipfile": "[packages]\nredis = '*'\n[dev-packages]\nfakeredis = {version = '>=1'}\n",
            "environment.yml": "dependencies:\n  - python=3.8\n  - numpy=1.19\n  - pip:\n    - cfgrib\n",
        }
    )
    assert found.pythons == ("3.7", "3.8", "3.9", "3.10") and found.python2
    assert of_level(found, Level.TEST) == {"sybil"}
    assert of_level(found, Level.DEV) >= {
        "pytest-mock",
        "attrs",
        "lxml",
        "fakeredis>=1",
        "numpy==1.19.*",
        "cfgrib",
    }
    assert set(found.system) == {"libxml2-dev", "graphviz"}


def test_a_file_outside_the_tree_is_not_read(facts: Read, tmp_path: Path) -> None:
    (tmp_path.parent / "secret.txt").write_text("stolen\n")
    found = facts({"requirements-test.txt": "-r ../secret.txt\n-r /etc/hostname\npytest\n"})
    assert {need.name for need in found.needs} == {"pytest"}


@pytest.mark.parametrize(
    ("line", "requirement"),
    [
        ("six", "six"),
        ("requests (>=2.0)", "requests>=2.0"),
        ("git+https://example.org/a.git@main#egg=thing", "thing"),
        ("git+https://example.org/a.git", ""),
        ("thing @ https://example.org/thing.whl", "thing"),
        ("# only a comment", ""),
        ("attrs==1.0 \\", "attrs==1.0"),
        ("not a requirement at all!", ""),
    ],
)
def test_requirements_as_people_write_them(line: str, requirement: str) -> None:
    assert plain(line) == requirement


ALL = ["3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13"]


@pytest.mark.parametrize(
    ("said", "day", "first"),
    [
        (Facts(pythons=("3.6", "3.7", "3.8")), date(2020, 10, 1), "3.8"),
        (Facts(pythons=("3.6", "3.7", "3.8")), date(2019, 11, 1), "3.7"),  # 3.8 is named, but two weeks old
        (Facts(pythons=("3.12",)), date(2023, 11, 1), "3.12"),  # it names no other
        (Facts(pythons=("3.4", "3.5")), date(2015, 6, 1), "3.6"),  # older than any here: the oldest
        (Facts(), date(2022, 6, 1), "3.10"),
        (Facts(requires_python=">=3.6,<3.9"), date(2023, 1, 1), "3.8"),
        (Facts(requires_python="~=3.7.2"), date(2023, 1, 1), "3.7"),
    ],
)
def test_the_python_of_the_time(said: Facts, day: date, first: str) -> None:
    assert candidates(said, day, ALL)[0] == first


def test_no_python_is_allowed() -> None:
    assert candidates(Facts(requires_python=">=3.14"), date(2025, 12, 1), ALL) == []


def test_packages_are_never_older_than_their_python() -> None:
    assert as_of(date(2020, 3, 1), "3.7") == date(2020, 3, 2)
    assert as_of(date(2015, 3, 1), "3.6") > date(2017, 6, 1)


def test_interpreters_of_a_folder(tmp_path: Path) -> None:
    for name, minor in (("3.9.18", "3.9"), ("2.7.18", "2.7"), ("3.11.7", "3.11"), ("3.8.1", "")):
        (tmp_path / name / "bin").mkdir(parents=True)
        if minor:
            (tmp_path / name / "bin" / f"python{minor}").touch()
    assert available(tmp_path) == ["3.9", "3.11"]


def test_what_a_target_is_called(facts: Read, tmp_path: Path) -> None:
    found = facts(
        {
            "pyproject.toml": """
[project]
name = "harbour-tides"
[project.urls]
Home = "https://github.com/old/tides"
Manual = "https://tides.example.org/"
""",
            "src/tides_core/__init__.py": "",
            "README.md": "https://tides-core.readthedocs.io and https://others.readthedocs.io",
        }
    )
    assert names_of("harbour/tides", tmp_path, found) == Names(
        distributions=("harbour-tides",),
        modules=("tides_core",),
        aliases=("old/tides",),
        docs_hosts=("tides.example.org", "tides-core.readthedocs.io"),
    )


def test_links_of_a_repository_lead_nowhere(facts: Read, tmp_path: Path) -> None:
    facts({"tree/tests/test_a.py": "import yaml\n", "outside.py": "import secret\n"})
    tests = tmp_path / "tree" / "tests"
    (tests / "test_gone.py").symlink_to("nowhere.py")
    (tests / "test_out.py").symlink_to(tmp_path / "outside.py")
    (tests / "test_zero.py").symlink_to("/dev/zero")
    assert imported_by_tests(tmp_path / "tree") == {"yaml"}

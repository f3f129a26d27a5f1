"""Which configuration counts, and what of addopts stays."""

from __future__ import annotations

import shlex

import pytest

from beyondswe.scoring.pytest_config import configurations, filtered_addopts, without_places


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("-v -q -ra -rfEs --tb=short --color yes --durations=10", ""),
        ("-vv -qq --verbose --showlocals -l --junitxml out.xml --html=x.html --self-contained-html", ""),
        ("--cov pkg --cov=pkg --cov-report term-missing --cov-branch --no-cov-on-fail", ""),
        ("--cov --strict-markers", "--strict-markers"),
        ("-n 4 -n4 -nauto --numprocesses=auto --dist loadfile --maxprocesses 3 --tx 3*popen", ""),
        ("-x --exitfirst --maxfail=1 --maxfail 2 --sw --lf --ff --nf --reruns 3 --reruns-delay=1", ""),
        ("-k 'not slow' -m 'not slow' -mfast --deselect a::b --ignore x --ignore=y --ignore-glob '*z'", ""),
        ("-xvs", "-s"),
        ("-sra", "-s"),
        ("-vk slow -s", "-s"),
        (
            "-p no:cacheprovider -pno:randomly -W error -W ignore::X -o a=b",
            "-p no:cacheprovider -pno:randomly -W error -W ignore::X -o a=b",
        ),
        ("--doctest-modules --doctest-glob '*.md'", "--doctest-modules --doctest-glob '*.md'"),
        (
            "--import-mode=importlib --ds settings.test --asyncio-mode auto",
            "--import-mode=importlib --ds settings.test --asyncio-mode auto",
        ),
        (
            "--strict-config --runslow --timeout 30 --forked tests",
            "--strict-config --runslow --timeout 30 --forked tests",
        ),
    ],
)
def test_addopts_lose_reporting_and_selection_and_keep_the_rest(given, kept):
    assert filtered_addopts(tuple(shlex.split(given))) == tuple(shlex.split(kept))


def test_selection_can_be_kept():
    options = ("-q", "-k", "not slow", "-m", "fast", "--deselect", "a::b", "--ignore=x", "-x")
    assert filtered_addopts(options, keep_selection=True) == options[1:-1]


def found(files, version):
    """Name and addopts of what a pytest of this version reads."""
    config = next(one for one in configurations(files.get) if version >= one.since)
    return config.name, config.content, config.addopts


INI = b"[pytest]\naddopts = -q\n  --strict-markers\npythonpath = src\n"
PYPROJECT = b'[tool.pytest.ini_options]\naddopts = "-q --strict-markers"\n'
NATIVE = b'[tool.pytest]\naddopts = ["-q", "--strict-markers"]\n'
SETUP_CFG = b"[metadata]\nname = x\n[tool:pytest]\naddopts = --doctest-modules\n[flake8]\nmax = 1\n"
TOX_INI = b"[tox]\nenvlist = a\n\n[pytest]\n# a comment\naddopts: -s\n"


@pytest.mark.parametrize(
    ("files", "version", "name", "addopts"),
    [
        ({}, (8, 4), "none.ini", ()),
        (
            {"pytest.ini": INI, "pyproject.toml": PYPROJECT, "setup.cfg": SETUP_CFG},
            (8, 4),
            "pytest-ini.ini",
            ("-q", "--strict-markers"),
        ),
        ({"pytest.ini": b"", "pyproject.toml": PYPROJECT}, (8, 4), "pytest-ini.ini", ()),
        (
            {"pyproject.toml": PYPROJECT, "setup.cfg": SETUP_CFG},
            (6, 0),
            "pyproject.toml",
            ("-q", "--strict-markers"),
        ),
        (
            {"pyproject.toml": PYPROJECT, "setup.cfg": SETUP_CFG},
            (5, 4),
            "setup-cfg.ini",
            ("--doctest-modules",),
        ),
        (
            {"pyproject.toml": NATIVE, "tox.ini": TOX_INI},
            (9, 0),
            "pyproject.toml",
            ("-q", "--strict-markers"),
        ),
        ({"pyproject.toml": NATIVE, "tox.ini": TOX_INI}, (8, 4), "tox-ini.ini", ("-s",)),
        (
            {"pyproject.toml": b"[tool.black]\nline-length = 9\n", "tox.ini": TOX_INI},
            (8, 4),
            "tox-ini.ini",
            ("-s",),
        ),
        ({".pytest.ini": INI}, (8, 4), "pytest-ini.ini", ("-q", "--strict-markers")),
        ({".pytest.ini": INI, "setup.cfg": SETUP_CFG}, (5, 4), "setup-cfg.ini", ("--doctest-modules",)),
        ({"tox.ini": b"[tox]\n", "setup.cfg": b"[metadata]\nname = x\n"}, (8, 4), "none.ini", ()),
        ({"pytest.toml": b'[pytest]\naddopts = ["-s"]\n', "pytest.ini": INI}, (9, 0), "pytest.toml", ("-s",)),
        (
            {"pytest.toml": b'[pytest]\naddopts = ["-s"]\n', "pytest.ini": INI},
            (8, 4),
            "pytest-ini.ini",
            ("-q", "--strict-markers"),
        ),
    ],
)
def test_the_file_that_pytest_would_read(files, version, name, addopts):
    assert found(files, version)[::2] == (name, addopts)


def test_a_section_is_copied_as_it_stands():
    assert found({"setup.cfg": SETUP_CFG}, (8, 4))[1] == b"[pytest]\naddopts = --doctest-modules\n"
    assert found({"pytest.ini": INI}, (8, 4))[1] == INI


def test_addopts_that_cannot_be_split_are_an_error():
    with pytest.raises(ValueError):
        list(configurations({"pytest.ini": b"[pytest]\naddopts = -k 'open\n"}.get))


def test_places_of_the_configuration_give_way_to_those_of_a_run() -> None:
    given = ("tests", "-p", "plugin", "doc", "--ds", "settings", "--strict=1", "src", "-o", "a=b", "more")
    assert without_places(given) == ("-p", "plugin", "--ds", "settings", "--strict=1", "-o", "a=b")

"""A package's name is hidden by syntax, and what is left of it is refused."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from beyondswe.construction.commits import write_files
from beyondswe.construction.masking import (
    check_specification,
    mask_python,
    mask_repository,
    mask_suite,
    mentions,
)
from beyondswe.construction.recipes import File
from beyondswe.errors import DataError

REWRITTEN = {
    "import tide": "import target_repo",
    "import tide as t, os": "import target_repo as t, os",
    "import tide.moon as m": "import target_repo.moon as m",
    "from tide import high": "from target_repo import high",
    "from tide.moon.phases import age as a": "from target_repo.moon.phases import age as a",
    "import tide\nx = tide.high(tide.LOW)": "import target_repo\nx = target_repo.high(target_repo.LOW)",
    "import tide.moon\nx = tide.moon.age()": "import target_repo.moon\nx = target_repo.moon.age()",
    "def f():\n    import tide\n    return tide": "def f():\n    import target_repo\n    return target_repo",
    "mock.patch('tide.moon.age')": "mock.patch('target_repo.moon.age')",
    "x = f'tide.moon.{name}'": "x = f'target_repo.moon.{name}'",
    "importlib.import_module('tide')": "importlib.import_module('target_repo')",
    "pytest.importorskip('tide')": "pytest.importorskip('target_repo')",
    "sys.modules['tide']": "sys.modules['target_repo']",
    "run([sys.executable, '-m', 'tide'])": "run([sys.executable, '-m', 'target_repo'])",
    "run('python -m tide high')": "run('python -m target_repo high')",
    "code = '''\\nimport tide\\ntide.high()'''": "code = '''\\nimport target_repo\\ntarget_repo.high()'''",
    "x = 1  # as tide does it": "x = 1  # as target_repo does it",
    '"""Tests of tide."""': '"""Tests of target_repo."""',
}

KEPT = [
    "from ocean import tide",
    "from . import tide",
    "from .tide import high",
    "from tides import high",
    "def f(tide):\n    return tide.high",
    "x = water.tide.high",
    "x = 'the tide is high'",
    "x = 'ocean.tide.high'",
    "f(tide=1)",
]


@pytest.mark.parametrize("code", REWRITTEN)
def test_what_names_the_module_is_rewritten(code: str) -> None:
    assert mask_python(code, "tide", "target_repo") == REWRITTEN[code]


@pytest.mark.parametrize("code", KEPT)
def test_what_only_looks_like_it_is_kept(code: str) -> None:
    assert mask_python(code, "tide", "target_repo") == code


def test_a_function_called_like_its_package_keeps_its_name() -> None:
    code = "from tide import tide\n\nprint(tide())\n"
    assert mask_python(code, "tide", "target_repo") == "from target_repo import tide\n\nprint(tide())\n"


def test_code_that_does_not_parse_is_told() -> None:
    with pytest.raises(DataError, match=r"tests/old\.py: cannot be masked"):
        mask_python("print 'tide'", "tide", "target_repo", where="tests/old.py")


def test_files_of_a_suite_are_renamed_with_what_is_in_them() -> None:
    suite = {
        "tests/tide/test_tide.py": File(b"import tide\n", "100755"),
        "tests/data.bin": File(b"\xff\x00"),
    }
    assert mask_suite(suite, "tide", "target_repo") == {
        "tests/target_repo/test_target_repo.py": File(b"import target_repo\n", "100755"),
        "tests/data.bin": File(b"\xff\x00"),
    }


@pytest.mark.parametrize(
    ("path", "content", "place"),
    [
        ("tests/test_x.py", "x = 1\nassert tide == 2\n", r"tests/test_x\.py:2: assert tide == 2"),
        ("tests/test_x.py", "def test_tide_rises(): ...\n", r"tests/test_x\.py:1"),
        ("tests/test_x.py", "x = 'TIDE'\n", r"tests/test_x\.py:1"),
        ("tests/data.toml", "name = 'tide'\n", r"tests/data\.toml:1"),
        ("tests/notes.txt", "see Tidal Charts\n", r"tests/notes\.txt:1"),
    ],
)
def test_a_name_that_is_left_is_refused_with_its_place(path: str, content: str, place: str) -> None:
    with pytest.raises(DataError, match=place):
        mask_suite({path: File(content.encode())}, "tide", "target_repo", ["tidal-charts"])


def test_names_within_other_words_are_no_mention() -> None:
    assert list(mentions({"a.txt": File(b"tidelands, untied, tideway\n")}, ["tide"])) == []


def test_a_specification_that_tells_the_name_is_refused() -> None:
    check_specification("# target_repo\n\nIt knows when tides are high.\n", ["tide", "tidal-charts"], "s.md")
    with pytest.raises(DataError, match=r"s\.md:3: Formerly tidal_charts\."):
        check_specification("# target_repo\n\nFormerly tidal_charts.\n", ["tide", "tidal-charts"], "s.md")


def test_the_masked_repository_works_under_its_new_name(tmp_path: Path) -> None:
    files = {
        "src/tide/__init__.py": File(b"from tide.moon import age\nimport tide.moon\nAGE = tide.moon.age()\n"),
        "src/tide/moon.py": File(
            b"import importlib.resources as r\n\n\ndef age():\n"
            b"    return float((r.files('tide') / 'age.txt').read_text())\n"
        ),
        "src/tide/age.txt": File(b"29.53\n"),
    }
    masked = mask_repository(files, "tide", "target_repo", "1.1")
    assert not list(mentions(masked, ["tide"]))
    project = tomllib.loads(masked["pyproject.toml"].data.decode())["project"]
    assert project == {"name": "target_repo", "version": "1.1"}
    write_files(masked, tmp_path)
    told = subprocess.run(
        [sys.executable, "-c", "import target_repo; print(target_repo.AGE)"],
        env={"PYTHONPATH": str(tmp_path / "src")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert told.stdout == "29.53\n"

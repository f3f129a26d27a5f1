"""Modules that a change adds never stand in the place of one that was there: the interpreter's, a plugin's, the
tests'."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from beyondswe.sandbox.engine import Engine
from beyondswe.scoring.compose import child_task
from beyondswe.scoring.evidence import Evidence
from beyondswe.scoring.job import Job, Write, run_job
from beyondswe.scoring.pytest_config import configurations
from beyondswe.scoring.shadows import Module
from tests.runner.conftest import LIMITS

pytestmark = pytest.mark.engine

FALSE = "raise SystemExit('not this one')\n"
Run = Callable[..., Evidence]


@pytest.fixture
def run(engine: Engine, python_image: str) -> Run:
    """``run(files, added, links={path: target})``: `test_a.py` with these modules said to be new."""

    def run(files: dict[str, str], added: Iterable[Module], links: dict[str, str] | None = None) -> Evidence:
        texts = {name: text.encode() for name, text in files.items()}
        write = [Write(name.encode(), "100644", data) for name, data in texts.items()]
        write += [Write(name.encode(), "120000", target.encode()) for name, target in (links or {}).items()]
        task, copies = child_task(
            configurations(texts.get), ["tests/test_a.py"], None, roots=["/workspace"], added=added
        )
        return run_job(
            engine, python_image, Job("/workspace", write=(*write, *copies), tests=task), limits=LIMITS
        )

    return run


def passed(evidence: Evidence) -> bool:
    (phases,) = evidence.phases.values()
    return [phase.outcome for phase in phases] == ["passed"] * 3


def test_the_standard_library_and_installed_packages_come_before_an_added_module(run: Run) -> None:
    test = "def test_it():\n    import colorsys, setuptools\n\n    assert colorsys.rgb_to_yiq and setuptools.setup\n"
    files = {"tests/test_a.py": test, "colorsys.py": FALSE, "setuptools/__init__.py": FALSE}
    assert not passed(run(files, ()))
    assert passed(run(files, [(b"", b"colorsys"), (b"", b"setuptools")]))


def test_the_tests_own_helper_comes_before_an_added_module_wherever_it_is_on_the_path(run: Run) -> None:
    files = {
        "pytest.ini": "[pytest]\naddopts = --import-mode=append\n",
        "tests/test_a.py": "from helpers import check\n\n\ndef test_it():\n    check()\n",
        "tests/helpers.py": "def check():\n    pass\n",
        "helpers.py": FALSE,
    }
    assert passed(run(files, [(b"", b"helpers")]))


def test_a_link_makes_no_difference(run: Run) -> None:
    test = "def test_it():\n    import sys\n\n    sys.path.insert(0, 'linked')\n    from colorsys import rgb_to_yiq\n"
    files = {"tests/test_a.py": test, "other/colorsys.py": FALSE}
    assert passed(run(files, [(b"other", b"colorsys"), (b"", b"linked")], {"linked": "other"}))
    assert passed(run(files, [(b"", b"linked"), (b"other", b"colorsys")], {"linked": "/workspace/other"}))


def test_a_new_module_of_nobody_elses_name_is_imported_as_ever(run: Run) -> None:
    files = {
        "tests/test_a.py": "import fresh\nfrom whole import part\n\n\ndef test_it():\n    assert fresh.X == part.Y\n",
        "fresh.py": "X = 1\n",
        "whole/__init__.py": "",
        "whole/part.py": "Y = 1\n",
    }
    assert passed(run(files, [(b"", b"fresh"), (b"", b"whole"), (b"whole", b"part")]))

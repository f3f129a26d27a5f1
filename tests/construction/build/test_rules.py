"""`collect git` → `build --builder rules` → `verify` on histories that the tests make, with packages from an index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beyondswe.construction.commits import write_files
from beyondswe.construction.recipes import ReleasesSource, load_recipes
from beyondswe.construction.releases import release_files
from tests.construction.build.conftest import BASE, Place
from tests.construction.collect.histories import Work

pytestmark = [pytest.mark.engine, pytest.mark.index, pytest.mark.slow]

SETUP = BASE["setup.py"].replace("packages=", "install_requires=['attrs<21'], packages=")


def verified(place: Place, *options: str) -> dict[str, dict[str, Any]]:
    done = place(
        "verify", "--dataset", "built.jsonl", "--out", "verified.jsonl", "--force", "--runs", "2", *options
    )
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in (place.folder / "verified.jsonl").read_text().splitlines()]
    return {row["instance_id"]: row for row in rows}


def requirements(place: Place, instance_id: str) -> str:
    return (place.folder / "built.environments" / instance_id / "requirements.txt").read_text()


def test_what_is_missing_is_found_and_later_rows_share_it(place: Place) -> None:
    """Tests that need a module, a plugin and a program that nobody names; two rows of one repository."""
    hidden = {
        "tests/test_moon.py": (
            "import subprocess\nimport yaml\nfrom tides import period\n\n\n"
            "def test_moon(mocker):\n    assert subprocess.run(['bc', '--version']).returncode == 0\n"
            "    assert period() > 12.4 and yaml\n"
        )
    }
    first = place.pull_request(7, hidden=hidden)
    second = place.pull_request(
        9,
        fix={"tides/__init__.py": "def period():\n    return 24.84\n"},
        hidden={
            "tests/test_sun.py": "from tides import period\n\n\ndef test_sun():\n    assert period() > 24\n"
        },
    )
    place.write(second, first)
    done = place.build()
    assert done.code == 0, done.err
    for row in (done.row("harbour_tides_pr7"), done.row("harbour_tides_pr9")):
        assert row["status"] == "built" and row["python"] == "3.11"
    assert not done.row("harbour_tides_pr7")["shares_packages"]
    assert done.row("harbour_tides_pr9")["shares_packages"]
    pins = requirements(place, "harbour_tides_pr7")
    assert pins == requirements(place, "harbour_tides_pr9")
    assert "pyyaml==" in pins and "No module named 'yaml'" in pins and "fixture 'mocker' not found" in pins
    text = (place.folder / "built.environments/harbour_tides_pr7/Dockerfile").read_text()
    assert "# bc " in text and "packages as of 2023-" in text
    disk = done.json["disk"]
    assert disk["bytes"] < 0.55 * disk["bytes_apart"]  # two images, little more than one
    rows = verified(place)
    assert rows["harbour_tides_pr7"]["FAIL_TO_PASS"] == ["tests/test_moon.py::test_moon"]
    assert rows["harbour_tides_pr9"]["FAIL_TO_PASS"] == ["tests/test_sun.py::test_sun"]


def test_the_upgraded_dependency_is_there_and_the_repository_is_the_one_before(place: Place) -> None:
    row = place.pull_request(
        3,
        base={
            **BASE,
            "setup.py": SETUP,
            "tides/__init__.py": "import attr\n\nVERSION = attr.__version__[:2]\n",
        },
        fix={
            "setup.py": SETUP.replace("<21", ">=22"),
            "tides/__init__.py": "import attrs\n\nVERSION = attrs\n",
        },
        hidden={
            "tests/test_period.py": "from tides import VERSION\n\n\ndef test_it():\n    assert VERSION.define\n"
        },
        family="DepMigrate",
    )
    place.write(row)
    done = place.build()
    assert done.code == 0, done.err
    assert "attrs==23.1.0" in requirements(place, row["instance_id"])  # of spring 2023; before, it was 20
    assert verified(place)[row["instance_id"]]["FAIL_TO_PASS"] == ["tests/test_period.py::test_it"]


def test_two_source_releases_as_a_merged_pull_request(place: Place, tmp_path: Path) -> None:
    """The older release is the base, what the newer one changes is the pull request."""
    (recipe,) = load_recipes("pypi", ["utm_equator_and_date_line"])
    source = recipe.source
    assert isinstance(source, ReleasesSource) and source.old is not None
    work = Work(tmp_path / "repos" / "harbour" / "released")
    place.works["released"] = work
    write_files(release_files(source, source.old), work.folder)
    work.commit("Old release")
    changes = {
        path: file.data for path, file in release_files(source, source.new).items() if file.mode != "120000"
    }
    gone = set(release_files(source, source.old)) - set(changes)
    row = place.pull_request(
        5, name="released", fix={**changes, **dict.fromkeys(gone)}, hidden={"CHANGES.txt": "news\n"}
    )  # type: ignore[arg-type]
    place.write(row)
    done = place.build()
    assert done.code == 0, done.err
    assert verified(place)[row["instance_id"]]["FAIL_TO_PASS"]

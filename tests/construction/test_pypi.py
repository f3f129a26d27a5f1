"""The recipes of the pypi dataset: what they promise without an index, and one of them end to end with it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from beyondswe.cli import cli
from beyondswe.construction.masking import mentions
from beyondswe.construction.recipes import File, Recipe, ReleasesSource, load_recipes
from beyondswe.construction.releases import material
from beyondswe.instances.model import Family
from beyondswe.sandbox.engine import Engine

RECIPES = load_recipes("pypi")


def test_all_families_are_there_in_number() -> None:
    found = Counter(recipe.family for recipe in RECIPES)
    least = {Family.DEPMIGRATE: 3, Family.DOMAINFIX: 2, Family.CROSSREPO: 2, Family.DOC2REPO: 1}
    assert all(found[family] >= number for family, number in least.items())


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.instance_id)
def test_a_recipe_has_facts_a_statement_and_verified_tests(recipe: Recipe) -> None:
    assert {path.name for path in recipe.folder.iterdir()} == {
        "recipe.yaml",
        "tests.json",
        "specification.md" if recipe.is_doc2repo else "problem.md",
    }
    assert len(recipe.statement.split()) > 80
    found = recipe.found_tests()
    assert found is not None and (found.expected if recipe.is_doc2repo else found.fail_to_pass)
    assert found.verification["runs"] >= 5
    assert recipe.source.kind == "releases"
    assert recipe.is_doc2repo or recipe.source.base_commit
    # What is tested may not be in the environment as a package of its own.
    names = {pin.partition("==")[0].lower().replace("_", "-") for pin in recipe.requirements}
    assert not names & {name.lower().replace("_", "-") for name in (*recipe.distributions, *recipe.aliases)}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.instance_id)
def test_a_statement_does_not_tell_which_release_has_the_solution(recipe: Recipe) -> None:
    assert isinstance(recipe.source, ReleasesSource)
    if recipe.is_doc2repo:
        names = (*recipe.distributions, *recipe.aliases, recipe.repo.partition("/")[2])
        assert not list(mentions({recipe.instance_id: File(recipe.statement.encode())}, names))
    else:
        assert f"{recipe.source.package} {recipe.source.new.version}" not in recipe.statement


@pytest.mark.index
@pytest.mark.slow
@pytest.mark.engine
def test_flask_login_moves_to_flask_3(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made from nothing but recipe and index: no test is collected before, all 114 pass after."""
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path))
    (recipe,) = load_recipes("pypi", ["flask_login_flask_3"])
    made = material(recipe)
    assert "from werkzeug.urls import url_decode" in made.base["src/flask_login/utils.py"].data.decode()
    out = tmp_path / "verified.jsonl"
    command = [
        "verify",
        "--dataset",
        "pypi",
        "--instance",
        recipe.instance_id,
        "--runs",
        "2",
        "--out",
        str(out),
    ]
    ended = CliRunner().invoke(cli, command)
    assert ended.exit_code == 0, ended.output
    row = json.loads(out.read_text())
    found = recipe.found_tests()
    assert found is not None
    assert len(row["FAIL_TO_PASS"]) == 114 and not row.get("PASS_TO_PASS")
    assert tuple(sorted(row["FAIL_TO_PASS"])) == tuple(sorted(found.fail_to_pass))

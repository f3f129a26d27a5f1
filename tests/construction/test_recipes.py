"""Recipes: what is wrong with one is said with its file, its field, what was found and what is expected."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from beyondswe.construction.recipes import SHIPPED, load_recipe, load_recipes
from beyondswe.errors import DataError, UsageError
from beyondswe.instances.model import Family
from tests.construction.conftest import MakeRecipe


@pytest.mark.parametrize("name", SHIPPED)
def test_every_recipe_that_comes_with_the_product_is_right(name: str) -> None:
    recipes = load_recipes(name)
    assert recipes
    assert all(recipe.statement.strip() for recipe in recipes)


def test_the_demo_has_one_instance_of_each_family() -> None:
    assert sorted(recipe.family for recipe in load_recipes("demo")) == sorted(Family)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"family": "CrossRpo"}, r"family: .*CrossRepo.*found 'CrossRpo'"),
        ({"instance_id": "Counted Words"}, r"instance_id: .*pattern.*found 'Counted Words'"),
        ({"requirements": ["flask>=3"]}, r"requirements\.0: .*found 'flask>=3'"),
        ({"requirements": ["flask[async]==3.0.0"]}, r"requirements\.0: .*found 'flask\[async\]==3.0.0'"),
        ({"index_date": "soon"}, r"index_date: .*found 'soon'"),
        ({"python": 3.11}, r"python: .*string.*found 3.11"),
        (
            {"tests": {"paths": ["../tests"]}},
            r"tests\.paths\.0: must be a path inside the tree.*found '../tests'",
        ),
        ({"tests": {"paths": []}}, r"tests\.paths: .*at least 1"),
        ({"docs_host": ["example.org"]}, r"docs_host: .*not permitted"),
        ({"source": {"kind": "git"}}, r"source: .*'local', 'releases'"),
        (
            {
                "source": {
                    "kind": "releases",
                    "package": "x",
                    "tests": ["t/*"],
                    "new": {"version": "1", "sha256": "0" * 64},
                }
            },
            r"a DomainFix recipe has source.old and source.new",
        ),
        (
            {
                "source": {
                    "kind": "releases",
                    "package": "x",
                    "tests": ["t/*"],
                    "new": {"version": "1", "sha256": "beef"},
                }
            },
            r"source\.releases\.new\.sha256: .*found 'beef'",
        ),
    ],
)
def test_a_wrong_field_is_named_with_what_was_found(
    make_recipe: MakeRecipe, change: dict[str, Any], said: str
) -> None:
    path = make_recipe().folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | change))
    with pytest.raises(DataError) as caught:
        load_recipe(path.parent)
    assert str(caught.value).startswith(f"{path}: ")
    assert re.search(said, str(caught.value)), caught.value


def test_all_wrong_fields_are_named_at_once(make_recipe: MakeRecipe) -> None:
    path = make_recipe().folder / "recipe.yaml"
    wrong = yaml.safe_load(path.read_text()) | {"python": "2.7", "repo": "counted"}
    del wrong["title"]
    path.write_text(yaml.safe_dump(wrong))
    with pytest.raises(DataError) as caught:
        load_recipe(path.parent)
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == ["repo", "title", "python"]


def test_a_folder_must_be_named_like_its_instance(make_recipe: MakeRecipe) -> None:
    folder = make_recipe().folder
    renamed = folder.rename(folder.with_name("other"))
    with pytest.raises(DataError, match=r"instance_id is 'counted_words', its folder is 'other'"):
        load_recipe(renamed)


@pytest.mark.parametrize(
    ("text", "said"), [("a: [", "not YAML"), ("- a\n", "expected a mapping of fields, found list")]
)
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(DataError, match=said):
        load_recipe(tmp_path)


def test_a_missing_statement_is_named(make_recipe: MakeRecipe) -> None:
    recipe = make_recipe()
    (recipe.folder / "problem.md").unlink()
    with pytest.raises(DataError, match=r"problem\.md: this file is missing"):
        _ = recipe.statement


def test_unknown_names_and_globs_are_refused_with_what_there_is() -> None:
    with pytest.raises(UsageError, match="there are: demo, pypi"):
        load_recipes("demos")
    with pytest.raises(UsageError, match=r"matches 'nothing\*'; there are: .*nightlark_thick_air"):
        load_recipes("demo", ["nightlark*", "nothing*"])

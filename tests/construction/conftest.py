"""Recipes of small datasets that tests make themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from beyondswe.construction.commits import difference
from beyondswe.construction.recipes import File, Files, Recipe, load_recipe

BASE = {
    "pyproject.toml": (
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "counted"\nversion = "1"\n[tool.setuptools]\npy-modules = ["counted"]\n'
    ),
    "counted.py": "def count(words):\n    return len(words) - 1\n",
    "tests/test_old.py": (
        "from counted import count\n\n\ndef test_type():\n    assert isinstance(count([]), int)\n"
    ),
}
FIX = {"counted.py": "def count(words):\n    return len(words)\n"}
HIDDEN = {
    "tests/test_new.py": (
        "from counted import count\n\n\ndef test_count():\n    assert count(['a', 'b']) == 2\n"
    )
}

MakeRecipe = Callable[..., Recipe]


def tree(*parts: Mapping[str, str]) -> Files:
    return {name: File(text.encode()) for part in parts for name, text in part.items()}


@pytest.fixture
def make_recipe(tmp_path: Path) -> MakeRecipe:
    """Write a recipe of a local instance, by default one whose reference change fixes its one hidden test."""

    def make(
        instance_id: str = "counted_words",
        *,
        base: Mapping[str, str] = BASE,
        fix: Mapping[str, str] = FIX,
        hidden: Mapping[str, str] = HIDDEN,
        **facts: object,
    ) -> Recipe:
        folder = tmp_path / "made" / instance_id
        for name, text in base.items():
            path = folder / "repo" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (folder / "reference.patch").write_text(difference(tree(base), tree(base, fix)))
        (folder / "hidden_tests.patch").write_text(difference(tree(base), tree(base, hidden)))
        (folder / "problem.md").write_text("# Counts are one short\n")
        recipe: dict[str, object] = {
            "instance_id": instance_id,
            "family": "DomainFix",
            "repo": "example/counted",
            "title": "Count all words",
            "python": "3.11",
            "tests": {"paths": ["tests"]},
            "index_date": "2024-01-02",
            "source": {"kind": "local"},
        }
        (folder / "recipe.yaml").write_text(yaml.safe_dump({**recipe, **facts}))
        return load_recipe(folder)

    return make

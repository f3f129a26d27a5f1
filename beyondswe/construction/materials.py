"""From a recipe to trees: those that lie beside it, or those that two releases give."""

from __future__ import annotations

from beyondswe.construction import releases
from beyondswe.construction.commits import applied, read_files
from beyondswe.construction.recipes import File, LocalSource, Material, Recipe
from beyondswe.errors import DataError


def material(recipe: Recipe) -> Material:
    """The trees that a recipe's source gives; `DataError` where files are missing or patches do not apply."""
    if isinstance(recipe.source, LocalSource):
        return _local(recipe, recipe.source)
    return releases.material(recipe)


def _local(recipe: Recipe, source: LocalSource) -> Material:
    packages = {name: _folder(recipe, name) for name in source.packages}
    if recipe.is_doc2repo:
        return Material(
            reference=_folder(recipe, "reference"), suite=_folder(recipe, "suite"), packages=packages
        )
    base = _folder(recipe, "repo")
    return Material(
        base=base,
        reference=_patched(recipe, base, "reference.patch"),
        hidden_tests=_patched(recipe, base, "hidden_tests.patch"),
        packages=packages,
    )


def _folder(recipe: Recipe, name: str) -> dict[str, File]:
    folder = recipe.folder / name
    if not folder.is_dir():
        raise DataError(f"{folder}: this folder is missing; {recipe.instance_id} is made from it")
    return read_files(folder)


def _patched(recipe: Recipe, base: dict[str, File], name: str) -> dict[str, File]:
    path = recipe.folder / name
    if not path.is_file():
        raise DataError(f"{path}: this file is missing; {recipe.instance_id} is made from it")
    return applied(base, path.read_bytes(), str(path))

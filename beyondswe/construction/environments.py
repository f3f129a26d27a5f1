"""Builds the images of instances that are made from recipes: base image, pinned dependencies, repository.

A tag names what an image is built from: rows can be listed without an engine, and an image that is there is
the right one. Instances with the same Python, packages and pins share all layers below the repository's.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

from beyondswe.construction import commits
from beyondswe.construction.materials import material
from beyondswe.construction.recipes import Material, Recipe, load_recipes
from beyondswe.errors import DataError
from beyondswe.instances.model import Instance
from beyondswe.resources import resource
from beyondswe.sandbox import host
from beyondswe.sandbox.base_images import PACKAGES, ensure_base_image, tool_requirements
from beyondswe.sandbox.build import OnLine, build_image
from beyondswe.sandbox.engine import Engine, labels
from beyondswe.sandbox.locks import exclusive
from beyondswe.sandbox.scratch import temporary_folder

WORKDIR = "/workspace"

_ENVIRONMENT = "environment.Dockerfile.j2"
_DEPENDENCIES = "dependencies.Dockerfile.j2"


def image_tag(recipe: Recipe, made: Material) -> str:
    """An instance's image: ``beyondswe/<dataset>:<instance_id>-<hash of what it is built from>``."""
    repository = commits.commit_id(made.base, recipe.index_date) if made.base else ""
    packages = {name: commits.digest(files) for name, files in made.packages.items()}
    key = _hash(_template(_ENVIRONMENT), _pins(recipe), repository, packages, recipe.install_env)
    return f"beyondswe/{recipe.dataset}:{recipe.instance_id}-{key}"


def find_recipe(instance: Instance) -> Recipe:
    """The recipe that a shipped instance was made from, by its image's name and its id."""
    dataset = instance.image.partition(":")[0].removeprefix("beyondswe/")
    return load_recipes(dataset, [instance.instance_id])[0]


def ensure_image(
    engine: Engine, instance: Instance, *, python_dir: Path | None = None, on_line: OnLine | None = None
) -> str:
    """The id of the image of a shipped instance, built if it is not there. `BuildFailed` says at which step
    it broke and where the log is; `DataError` that the row is not made from the recipes that are here.
    """
    tag = instance.image
    if not engine.has_image(tag):
        recipe = find_recipe(instance)
        if (built := build_environment(engine, recipe, python_dir=python_dir, on_line=on_line)) != tag:
            raise DataError(
                f"{instance.instance_id}: its row names the image {tag}, the recipe here builds {built}; "
                "take the dataset by its name, so that the rows are made anew"
            )
    return str(engine.client.images.get(tag).id)


def build_environment(
    engine: Engine, recipe: Recipe, *, python_dir: Path | None = None, on_line: OnLine | None = None
) -> str:
    """The tag of a recipe's image, built if it is not there."""
    made = material(recipe)
    tag = image_tag(recipe, made)
    if not engine.has_image(tag):
        with exclusive(f"{engine.host} {tag}"):
            if not engine.has_image(tag):
                _build(engine, recipe, made, tag, python_dir, on_line)
    return tag


def _build(
    engine: Engine,
    recipe: Recipe,
    made: Material,
    tag: str,
    python_dir: Path | None,
    on_line: OnLine | None,
) -> None:
    base = ensure_base_image(engine, recipe.python, python_dir=python_dir, on_line=on_line)
    dependencies = _ensure_dependencies(engine, recipe, base, on_line)
    with temporary_folder() as folder:
        for name, files in made.packages.items():
            commits.write_files(files, folder / "packages" / name)
        if made.base:
            commits.make_repository(made.base, recipe.index_date, folder / "workspace")
        build_image(
            engine,
            context=folder,
            dockerfile=_render(
                _ENVIRONMENT,
                dependencies=dependencies,
                packages=sorted(made.packages),
                workdir=WORKDIR,
                repository=bool(made.base),
                install_env=recipe.install_env,
            ),
            tag=tag,
            network="none",
            labels=labels(role="environment", instance=recipe.instance_id),
            on_line=on_line,
        )


def _ensure_dependencies(engine: Engine, recipe: Recipe, base: str, on_line: OnLine | None) -> str:
    """The image with the recipe's Debian packages and pins; the base image itself where it has none."""
    if not recipe.system and not recipe.requirements:
        return base
    tag = f"beyondswe/dependencies:py{recipe.python}-{_hash(base, _pins(recipe))}"
    if not engine.has_image(tag):
        with exclusive(f"{engine.host} {tag}"), temporary_folder() as folder:
            if engine.has_image(tag):
                return tag
            if recipe.requirements:
                (folder / "requirements.txt").write_text("".join(f"{pin}\n" for pin in recipe.requirements))
                shutil.copyfile(_uv(), folder / "uv")
            build_image(
                engine,
                context=folder,
                dockerfile=_render(
                    _DEPENDENCIES,
                    base=base,
                    system=recipe.system,
                    requirements=bool(recipe.requirements),
                    day=recipe.index_date,
                ),
                tag=tag,
                buildargs={"UV_DEFAULT_INDEX": index} if (index := host.package_index()) else {},
                labels=labels(role="dependencies"),
                on_line=on_line,
            )
    return tag


def _pins(recipe: Recipe) -> list[Any]:
    """What dependencies are made from, as far as a recipe and this version of the product decide it."""
    base = [_template("base.Dockerfile.j2"), tool_requirements(recipe.python), PACKAGES]
    if not recipe.system and not recipe.requirements:
        return [base, recipe.python]
    day = recipe.index_date.isoformat() if recipe.requirements else ""
    return [base, recipe.python, _template(_DEPENDENCIES), recipe.system, sorted(recipe.requirements), day]


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def _template(name: str) -> str:
    return resource("dockerfiles", name).read_text(encoding="utf-8")


def _render(name: str, **values: object) -> str:
    import jinja2

    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    environment.filters["quote"] = shlex.quote
    return environment.from_string(_template(name)).render(values)


def _uv() -> str:
    from uv import find_uv_bin

    return str(find_uv_bin())

"""A recipe: what a shipped instance is made from, as a checked YAML file with its files beside it.

A recipe holds facts only (packages, versions, pins, paths, names); `shipped` makes the instance of it on the
user's machine. Its folder is ``data/<dataset>/<instance_id>/``; docs/datasets.md says what is in it.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from beyondswe.errors import DataError, UsageError
from beyondswe.instances.model import Family
from beyondswe.resources import resource

SHIPPED = ("demo", "pypi")
"""Names of the datasets that come with the product."""


def _relative(value: str) -> str:
    path = PurePosixPath(value)
    if not value or path.is_absolute() or ".." in path.parts or "\\" in value:
        raise ValueError("must be a path inside the tree, with forward slashes and without '..'")
    return value


Pin = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+$")]
RelativePath = Annotated[str, AfterValidator(_relative)]


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tests(_Facts):
    """Where the tests are, relative to the workdir. How pytest runs them is the repository's own business."""

    __test__ = False

    paths: tuple[RelativePath, ...] = Field(min_length=1, description="files or folders that hold the tests")


class LocalSource(_Facts):
    """Trees that lie beside the recipe: repo/, reference.patch, hidden_tests.patch; or, for Doc2Repo,
    reference/ and suite/.
    """

    kind: Literal["local"]
    packages: tuple[RelativePath, ...] = Field(
        (), description="folders beside the recipe: packages that the environment has"
    )


class Release(_Facts):
    """One source release on a package index."""

    version: str
    sha256: str = Field(
        pattern=r"^[0-9a-f]{64}$", description="of the source archive: the same bytes everywhere"
    )


class Mask(_Facts):
    """Doc2Repo: the name to be hidden. Tests are rewritten from ``package`` to ``name``."""

    package: str = Field(description="the import name in the release")
    name: str = Field("target_repo", description="the import name that specification and suite use")


class ReleasesSource(_Facts):
    """Two source releases: the older one's tree; what changed until the newer one is reference and tests.

    Paths are globs over paths in the release; ``*`` also matches ``/``. A path that matches ``drop`` is in no
    tree; one that matches ``tests`` is in the hidden tests (or the suite); of the others those that match
    ``source`` are in the reference. Doc2Repo has ``new`` and ``mask`` and no ``old``.
    """

    kind: Literal["releases"]
    package: str = Field(description="distribution name on the package index")
    old: Release | None = None
    new: Release
    source: tuple[str, ...] = Field(("*",), description="paths whose difference is the reference patch")
    tests: tuple[str, ...] = Field(
        min_length=1, description="paths whose difference is the hidden tests; Doc2Repo: the suite"
    )
    drop: tuple[str, ...] = Field(
        (), description="paths that no tree has: what is generated, what tells of the newer release"
    )
    mask: Mask | None = None
    base_commit: str = Field(
        "",
        pattern=r"^([0-9a-f]{40})?$",
        description="what the base commit must come out as, on every machine",
    )


class Recipe(_Facts):
    """The facts of one instance. ``folder`` is where it was read from."""

    folder: Path = Field(exclude=True)
    instance_id: str = Field(
        pattern=r"^[a-z0-9][a-z0-9_.-]{0,79}$", description="unique, and the name of the folder"
    )
    family: Family
    repo: str = Field(pattern=r"^[\w.-]+/[\w.-]+$", description="owner/name")
    title: str = Field(min_length=1, description="one line, for people")
    python: str = Field(pattern=r"^3\.\d+$", description="Python of the environment")
    requirements: tuple[Pin, ...] = Field(
        (), description="exact pins, all there are: installed without their dependencies"
    )
    system: tuple[str, ...] = Field((), description="Debian packages of the environment")
    install_env: dict[str, str] = Field(
        default_factory=dict,
        description="variables while the repository is installed, such as a version that git would tell",
    )
    tests: Tests
    distributions: tuple[str, ...] = Field(
        (), description="what else the target is called: names on a package index"
    )
    aliases: tuple[str, ...] = ()
    docs_hosts: tuple[str, ...] = ()
    index_date: date = Field(
        description="package indexes answer as of this day; also the date of the base commit"
    )
    source: Annotated[LocalSource | ReleasesSource, Field(discriminator="kind")]

    @property
    def dataset(self) -> str:
        """The dataset that it belongs to: the folder that its own folder is in."""
        return self.folder.parent.name

    @property
    def is_doc2repo(self) -> bool:
        return self.family is Family.DOC2REPO

    @model_validator(mode="after")
    def _family_and_source_agree(self) -> Recipe:
        if isinstance(self.source, ReleasesSource):
            if self.is_doc2repo and (self.source.mask is None or self.source.old is not None):
                raise ValueError("a Doc2Repo recipe has source.new and source.mask, and no source.old")
            if not self.is_doc2repo and (self.source.mask is not None or self.source.old is None):
                raise ValueError(f"a {self.family} recipe has source.old and source.new, and no source.mask")
        return self

    @property
    def statement(self) -> str:
        """The text that the agent gets: problem.md, or Doc2Repo's specification.md."""
        return _read(self.folder / ("specification.md" if self.is_doc2repo else "problem.md"))

    @property
    def tests_file(self) -> Path:
        return self.folder / "tests.json"

    def found_tests(self) -> FoundTests | None:
        """What `verify` wrote beside the recipe; None before it was verified."""
        if not self.tests_file.is_file():
            return None
        return FoundTests.model_validate_json(_read(self.tests_file))


class FoundTests(_Facts):
    """tests.json: the ids that `verify` found by running, and its record. Written by it, never by hand."""

    fail_to_pass: tuple[str, ...] = Field((), alias="FAIL_TO_PASS")
    pass_to_pass: tuple[str, ...] = Field((), alias="PASS_TO_PASS")
    verification: dict[str, Any] = Field(
        description="the record; for Doc2Repo it names the suite's ids under 'tests'"
    )

    @property
    def expected(self) -> int:
        """Doc2Repo: how many tests of the suite count."""
        return len(self.verification.get("tests", ()))

    def to_json(self) -> str:
        return json.dumps(self.model_dump(mode="json", by_alias=True), indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class File:
    """One file of a tree. A symbolic link's ``data`` is where it points."""

    data: bytes
    mode: Literal["100644", "100755", "120000"] = "100644"


Files = Mapping[str, File]
"""A tree: relative path with forward slashes → file."""


@dataclass(frozen=True)
class Material:
    """What a recipe's source gives: trees, before they become commits, patches and archives.

    Issue families: ``base``, ``base`` with the reference change, ``base`` with the hidden tests.
    Doc2Repo: ``reference`` is the whole reference repository (under the masked name), ``suite`` the tests.
    """

    base: Files = field(default_factory=dict)
    reference: Files = field(default_factory=dict)
    hidden_tests: Files = field(default_factory=dict)
    suite: Files = field(default_factory=dict)
    packages: Mapping[str, Files] = field(
        default_factory=dict
    )  # name → source tree, installed in the environment


def load_recipe(folder: Path) -> Recipe:
    """Read and check ``folder/recipe.yaml``; `DataError` names file, field, what was found and expected."""
    path = folder / "recipe.yaml"
    try:
        content = yaml.safe_load(_read(path))
    except yaml.YAMLError as error:
        raise DataError(f"{path}: not YAML: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected a mapping of fields, found {type(content).__name__}")
    if "folder" in content:
        raise DataError(f"{path}: 'folder' is not a field of a recipe; remove it")
    try:
        recipe = Recipe(folder=folder, **content)
    except ValidationError as error:
        raise DataError("\n".join(f"{path}: {line}" for line in _explained(error))) from error
    if recipe.instance_id != folder.name:
        raise DataError(
            f"{path}: instance_id is '{recipe.instance_id}', its folder is '{folder.name}'; make them equal"
        )
    return recipe


def load_recipes(name: str, only: Sequence[str] | None = None) -> list[Recipe]:
    """The recipes of a shipped dataset, by id; ``only`` are globs over ids, and each must match something."""
    if name not in SHIPPED:
        raise UsageError(f"no shipped dataset is called '{name}'; there are: {', '.join(SHIPPED)}")
    folders = sorted(path.parent for path in resource("data", name).glob("*/recipe.yaml"))
    for glob in only or ():
        if not any(fnmatch.fnmatchcase(folder.name, glob) for folder in folders):
            there = ", ".join(folder.name for folder in folders)
            raise UsageError(f"no instance of '{name}' matches '{glob}'; there are: {there}")
    return [
        load_recipe(folder)
        for folder in folders
        if not only or any(fnmatch.fnmatchcase(folder.name, glob) for glob in only)
    ]


def _explained(error: ValidationError) -> list[str]:
    lines = []
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"]) or "recipe"
        found = "" if problem["type"] == "missing" or not problem["loc"] else f" (found {problem['input']!r})"
        lines.append(f"{where}: {problem['msg'].removeprefix('Value error, ')}{found}")
    return lines


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DataError(f"{path}: this file is missing; a recipe needs it (docs/datasets.md)") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text: {error}") from error

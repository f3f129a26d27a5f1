"""The lists that come with the product: watched packages (DepMigrate) and fields with repositories (DomainFix)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from beyondswe.errors import DataError
from beyondswe.resources import resource


@dataclass(frozen=True)
class Watched:
    """A widely used package whose upgrades break its users: the releases that did, and why."""

    name: str
    breaks: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Mention:
    """A watched package named together with a version, and where."""

    package: str
    version: str
    where: str


@cache
def watched_packages() -> tuple[Watched, ...]:
    """The packages of DepMigrate, from data/collect/watched_packages.yaml."""
    rows = _load("watched_packages.yaml")["packages"]
    return tuple(Watched(row["name"], tuple(map(str, row["breaks"])), row["why"]) for row in rows)


@cache
def fields() -> dict[str, tuple[str, ...]]:
    """Field of DomainFix → its repositories, from data/collect/fields.yaml."""
    return {row["name"]: tuple(row["repositories"]) for row in _load("fields.yaml")["fields"]}


def field_of(repo: str) -> str:
    """The field whose list has the repository; empty if none has."""
    return next((name for name, repos in fields().items() if repo.lower() in map(str.lower, repos)), "")


def mentions(text: str, where: str, packages: Iterable[str] = ()) -> tuple[Mention, ...]:
    """Watched packages that a text names together with a version: "Django 4.2", ``numpy>=2``, "pydantic v2"."""
    found = []
    for package in packages or (watched.name for watched in watched_packages()):
        name = re.sub(r"[-_.]", "[-_. ]?", re.escape(package).replace("\\-", "-"))
        pattern = rf"(?<![\w./-]){name}(?:\[[\w,-]*\])?(?![\w/])[`'\"*]{{0,2}}\s*(?:,?\s*versions?\s*|,?\s*v\.?\s*)?"
        pattern += (
            r"\(?\s*(?:[<>=!~^]=?\s*|≥\s*)?v?(\d+(?:\.\d+|\.[x*])*(?:\.?(?:a|b|rc|dev)\d+)?)\+?(?![\w%])"
        )
        for match in re.finditer(pattern, text, re.IGNORECASE):
            found.append(Mention(package, match[1], where))
    return tuple(dict.fromkeys(found))


def _load(name: str) -> Any:
    path: Path = resource("data", "collect", name)
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise DataError(f"{path}: not YAML: {error}") from error

"""The families: one loader each, found here by name. A new family is its name, a loader (a module and its
line below) and a prompt.

crossrepo, domainfix, depmigrate: what the agent gets is an issue; `issue` is what they share.
doc2repo: what the agent gets is a specification. `common` reads what every row has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from beyondswe.errors import UsageError
from beyondswe.instances import fields
from beyondswe.instances.families import common, crossrepo, depmigrate, doc2repo, domainfix
from beyondswe.instances.model import Family, Instance
from beyondswe.instances.problems import Problem
from beyondswe.instances.row import Row

Loader = Callable[[Row, bool], dict[str, Any]]
"""Reads the fields of one family from a row; the flag says whether its tests must be named already."""

LOADERS: dict[Family, Loader] = {
    Family.CROSSREPO: crossrepo.load,
    Family.DOMAINFIX: domainfix.load,
    Family.DEPMIGRATE: depmigrate.load,
    Family.DOC2REPO: doc2repo.load,
}
ALLOWED = ", ".join(LOADERS)

_BY_SPELLING = {family.lower(): family for family in LOADERS}


def find_family(name: str) -> Family | None:
    """The family of that name; upper and lower case, ``-``, ``_`` and spaces are ignored."""
    return _BY_SPELLING.get(re.sub(r"[-_\s]", "", name).lower())


def named_family(name: str, option: str) -> Family:
    """The family that an option names; `UsageError` with the allowed values for anything else."""
    family = find_family(name)
    if family is None:
        raise UsageError(f"{option}: unknown family '{name}'; allowed: {ALLOWED}")
    return family


@dataclass(frozen=True)
class Loaded:
    """What a row gave: an instance, or the problems that kept it from being one."""

    instance_id: str
    family: Family | None
    instance: Instance | None
    problems: tuple[Problem, ...]


def load_row(
    values: Mapping[str, Any], *, as_family: Family | None = None, require_tests: bool = True
) -> Loaded:
    """Make an instance of one row. ``as_family`` is for rows that name none (SWE-bench's).

    Everything wrong is collected, and a row with anything wrong gives no instance.
    """
    row = Row(values)
    family = _family(row, as_family)
    given = LOADERS[family](row, require_tests) if family else common.load(row)
    instance = None
    if family is not None and not row.problems:
        try:
            instance = Instance(family=family, extra=row.rest(), **given)
        except ValidationError as error:  # a rule of the model that no field function holds
            for wrong in error.errors():
                row.bad(
                    ".".join(map(str, wrong["loc"])), wrong["input"], "what the record allows", wrong["msg"]
                )
    return Loaded(str(values.get("instance_id") or ""), family, instance, tuple(row.problems))


def _family(row: Row, as_family: Family | None) -> Family | None:
    name = row.read(fields.text, "task", default="")
    if not name and as_family:
        return as_family
    expected = f"one of {ALLOWED}"
    row.require(
        name,
        "task",
        wrong="the row names no family; name it in task, or for all such rows with --as-family",
        expected=expected,
    )
    family = find_family(name) if name else None
    if name and family is None:
        row.bad("task", name, expected, "unknown family")
    return family

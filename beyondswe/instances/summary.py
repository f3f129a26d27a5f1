"""What can be told of datasets and instances in short: what there is, what may be seen, sizes and counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from beyondswe.instances import patches
from beyondswe.instances.model import Family, Instance
from beyondswe.instances.writing import to_row

_PUBLIC = [
    "instance_id",
    "task",
    "repo",
    "base_commit",
    "workdir",
    "image",
    "language",
    "problem_statement",
    "REPO_DOCUMENT_CONTENT",
    "FAIL_TO_PASS",
    "PASS_TO_PASS",
    "test_suite",
    "test_suite_num",
    "pre_commands",
    "distributions",
    "aliases",
    "docs_hosts",
    "index_date",
    "score_network",
]
"""Published names of the fields that do not tell the solution; others might, such as hints_text."""


def public_row(instance: Instance) -> dict[str, Any]:
    """An instance's row without what tells the solution; ``withheld`` names what was left out."""
    row = to_row(instance)
    public: dict[str, Any] = {name: row[name] for name in _PUBLIC if name in row}
    public["reference"] = reference_size(instance)
    if instance.patch:
        public["reference"] |= {"sha256": hashlib.sha256(instance.patch.encode()).hexdigest()}
    return public | {"withheld": [name for name, value in row.items() if name not in _PUBLIC and value]}


def reference_size(instance: Instance) -> dict[str, int | None]:
    """Files and lines (added and removed) of the reference change; None where there is none."""
    if not instance.patch:
        return {"files": None, "lines": None}
    changes = patches.changes(instance.patch)
    return {"files": len(changes), "lines": sum(change.added + change.removed for change in changes)}


def statistics(instances: Sequence[Instance]) -> dict[str, Any]:
    """Counts and means over instances, for each family and over all.

    Instances, repositories, size of the reference change (of those that have one), tests, words of the
    problem statement or specification.
    """
    families = {family: [one for one in instances if one.family is family] for family in Family}
    return {
        "families": {str(family): _counts(members) for family, members in families.items() if members},
        "all": _counts(instances),
    }


def _counts(instances: Sequence[Instance]) -> dict[str, int | float | None]:
    sizes = [reference_size(one) for one in instances]
    issues = [one for one in instances if not one.is_doc2repo]
    texts = [one.specification if one.is_doc2repo else one.problem_statement for one in instances]
    return {
        "instances": len(instances),
        "repos": len({one.repo.lower() for one in instances if one.repo}),
        "files": _mean(size["files"] for size in sizes),
        "lines": _mean(size["lines"] for size in sizes),
        "fail_to_pass": _mean(len(one.fail_to_pass) for one in issues),
        "pass_to_pass": _mean(len(one.pass_to_pass) for one in issues),
        "expected_tests": _mean(one.expected_tests for one in instances),
        "words": _mean(len(text.split()) for text in texts),
    }


def _mean(values: Iterable[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(fmean(known), 2) if known else None

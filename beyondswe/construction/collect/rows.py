"""The row of a pull request that stays a candidate, whatever it was collected from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from beyondswe.construction.collect.candidates import Row, candidate_id, review
from beyondswe.construction.collect.leaks import find_leaks
from beyondswe.construction.collect.lists import Mention, field_of
from beyondswe.construction.collect.names import Names
from beyondswe.construction.collect.split import Split
from beyondswe.instances.model import Family


@dataclass(frozen=True)
class Found:
    """A pull request with all that a row says. ``commits`` are its own, ``known_words`` those of the files before."""

    repo: str
    family: Family
    pull: int
    pulls: tuple[int, ...]
    title: str
    statement: str
    base_commit: str
    merge_commit: str
    commits: tuple[str, ...]
    parts: Split
    names: Names
    day: str
    dates: dict[str, str]
    links: tuple[str, ...]
    upgrades: tuple[Mention, ...]
    domain: str
    source: dict[str, Any]
    known_words: Collection[str] = ()
    more: dict[str, Any] = field(default_factory=dict)


def issue_row(found: Found, reasons: Sequence[str]) -> Row:
    """The row, with what the leak check says and all that a reviewer should look at."""
    parts, names = found.parts, found.names
    leaks = find_leaks(
        found.statement,
        parts.patch,
        repo=found.repo,
        pulls=found.pulls,
        commits=found.commits,
        test_patch=parts.f2p_patch,
        known_words=found.known_words,
        aliases=names.aliases,
    )
    why = [*reasons, *(f"leak ({leak.kind}): {leak.found}" for leak in leaks)]
    why += [f"submodule: {path} changes too, which no patch brings" for path in parts.left_out]
    why += ["binary: a patch brings binary files"] if parts.binary else []
    row: Row = {
        "instance_id": candidate_id(found.repo, f"pr{found.pull}"),
        "task": str(found.family),
        "repo": found.repo,
        "base_commit": found.base_commit,
        "workdir": "/workspace",
        "language": "python",
        "problem_statement": found.statement,
        "patch": parts.patch,
        "f2p_patch": parts.f2p_patch,
        "distributions": list(names.distributions),
        "aliases": list(names.aliases),
        "docs_hosts": list(names.docs_hosts),
        "modules": list(names.modules),
        "index_date": found.day,
        "title": found.title,
        "pr": found.pull,
        "pulls": list(found.pulls),
        "merge_commit": found.merge_commit,
        "dates": found.dates,
        "links": list(found.links),
        "leaks": [leak.to_row() for leak in leaks],
        **found.more,
        "review": review(why),
        "source": found.source,
    }
    if found.family is Family.DEPMIGRATE:
        row["upgrades"] = [asdict(upgrade) for upgrade in found.upgrades]
    if found.family is Family.DOMAINFIX:
        row["field"] = found.domain or field_of(found.repo)
    return row

"""Which rows a command is about: by family, id, sample, shard. The same rows and options, the same choice.

Bad rows are chosen like good ones, so that mending one changes nobody else's place. A row whose id or family
cannot be read may be any instance: it is in every choice that does not name its instances one by one, but in
no sample.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from beyondswe.errors import UsageError
from beyondswe.instances.model import Family


class Choosable(Protocol):
    @property
    def instance_id(self) -> str: ...

    @property
    def family(self) -> Family | None: ...


C = TypeVar("C", bound=Choosable)


def may_be_wanted(row: Choosable, families: Collection[Family], globs: Sequence[str]) -> bool:
    """Whether a good row can be in a selection by these families and globs at all."""
    return (not families or row.family in families) and (
        not globs or any(_matches(row.instance_id, glob) for glob in globs)
    )


def of_families(rows: Sequence[C], families: Collection[Family]) -> list[C]:
    """Rows of these families; all where none is named."""
    return [row for row in rows if not families or row.family is None or row.family in families]


def matching(rows: Sequence[C], globs: Sequence[str]) -> list[C]:
    """Rows whose id matches a glob (case counts); all if there is none. A glob must match something."""
    if not globs:
        return list(rows)
    for glob in globs:
        if not any(_matches(row.instance_id, glob) for row in rows):
            raise UsageError(
                f"--instance {glob}: no instance matches{_near(glob, [row.instance_id for row in rows])}"
            )
    unsure = any(re.search(r"[*?\[]", glob) for glob in globs)
    return [
        row
        for row in rows
        if any(_matches(row.instance_id, glob) for glob in globs) or (unsure and not row.instance_id)
    ]


def sample(rows: Sequence[C], limit: int, seed: int) -> list[C]:
    """At most ``limit`` rows in their order, each family by its share and none left out where there is room.

    An id's place in the draw hangs on id and seed alone, not on where its row stands.
    """
    if limit < 1:
        raise UsageError(f"--limit {limit}: expected a number above 0")
    by_family: defaultdict[Family, list[C]] = defaultdict(list)
    for row in rows:
        if row.family is not None and row.instance_id:
            by_family[row.family].append(row)
    seats = share({family: len(of_family) for family, of_family in by_family.items()}, limit)
    drawn = {
        id(row)
        for family, of_family in by_family.items()
        for row in sorted(of_family, key=lambda row: _draw(row.instance_id, seed))[: seats[family]]
    }
    return [row for row in rows if id(row) in drawn]


def share(counts: Mapping[Family, int], seats: int) -> dict[Family, int]:
    """Divide seats in proportion to the counts, first one each if there are enough."""
    order = sorted(counts, key=list(Family).index)
    given = Counter(dict.fromkeys(order, 1) if seats >= len(order) else {})
    total = sum(counts.values())
    for _ in range(min(seats, total) - given.total()):
        open_families = [family for family in order if given[family] < counts[family]]
        given[max(open_families, key=lambda family: seats * counts[family] / total - given[family])] += 1
    return {family: given[family] for family in order}


def shard(rows: Sequence[C], index: int, number: int) -> list[C]:
    """Part ``index`` (from 1) of ``number``: every n-th row. Parts are disjoint, alike, and together all."""
    if not 1 <= index <= number:
        raise UsageError(f"--shard {index}/{number}: expected I/N with I from 1 to N")
    return list(rows[index - 1 :: number])


def _matches(name: str, glob: str) -> bool:
    return name == glob or fnmatchcase(name, glob)


def _near(glob: str, names: list[str]) -> str:
    by_lower = {name.lower(): name for name in names if name}
    near = difflib.get_close_matches(re.sub(r"[*?\[\]]", "", glob).lower(), by_lower, n=3, cutoff=0.4)
    return f"; near it: {', '.join(by_lower[name] for name in near)}" if near else ""


def _draw(name: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\0{name}".encode()).digest()

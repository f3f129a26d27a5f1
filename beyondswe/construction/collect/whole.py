"""Doc2Repo: a repository as a whole as a candidate, by its age, its people and what it has."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING

from beyondswe.construction.collect import filters
from beyondswe.construction.collect.candidates import Row, candidate_id, review
from beyondswe.construction.collect.filters import YES, Answer, Funnel
from beyondswe.construction.collect.names import find_names
from beyondswe.construction.collect.repository import History
from beyondswe.construction.collect.split import is_test

if TYPE_CHECKING:
    from beyondswe.construction.collect.from_git import Asked

LEAST_PYTHON = 0.5
LEAST_CONTRIBUTORS = 3
MORE_STARS_THAN = 20
ACTIVE_AFTER = (8, 31)
CREATED_UNTIL = (11, 30)
"""The paper's: created January to November of the year, active after August, at least 3 contributors, more than 20
stars."""


def age(created: date, active: date, year: int | None) -> Answer:
    """Whether a repository is as young and as alive as the paper asks; ``year`` is the one it is asked for."""
    year = year or created.year
    if not date(year, 1, 1) <= created <= date(year, *CREATED_UNTIL):
        return Answer(False, f"created outside January to November {year}")
    return YES if active > date(year, *ACTIVE_AFTER) else Answer(False, f"not active after August {year}")


def contributors(number: int) -> Answer:
    return (
        YES
        if number >= LEAST_CONTRIBUTORS
        else Answer(False, f"fewer than {LEAST_CONTRIBUTORS} contributors")
    )


def stars(number: int | None) -> Answer:
    """More than 20; git does not know."""
    if number is None:
        return Answer(None, "git does not know the stars")
    return YES if number > MORE_STARS_THAN else Answer(False, f"{MORE_STARS_THAN} stars or fewer")


def whole_repository(
    history: History, asked: Asked, url: str, funnel: Funnel, *, known_stars: int | None = None
) -> Iterator[Row]:
    """The repository at the tip of its branch (at ``until``, where one is given), if the filters let it pass."""
    every = list(history.commits())
    tip = next((each for each in every if asked.until is None or each.committed.date() <= asked.until), None)
    funnel.enter()
    if tip is None:
        funnel.note("age", asked.repo, Answer(False, "no commit as early as that"))
        return
    sizes = history.files(tip.tree)
    names = find_names(asked.repo, sizes, lambda path: history.read(tip.oid, path))
    tests = [path for path in sizes if is_test(path) and path.endswith(".py")]
    share = filters.python_share(sizes)
    people = {each.author for each in every if "[bot]" not in each.author}
    created = min(each.committed for each in every).date()
    answers = {
        "Python-dominant": YES
        if share >= LEAST_PYTHON
        else Answer(False, f"{share:.0%} of its code is Python"),
        "has tests": YES if tests else Answer(False, "no test file"),
        "one package": YES
        if len(names.modules) == 1
        else Answer(False, f"{len(names.modules)} packages at its top"),
        "age": age(created, tip.committed.date(), asked.since.year if asked.since else None),
        "contributors": contributors(len(people)),
        "stars": stars(known_stars),
    }
    # A person who names one repository means it: only what no row can be made without throws it out.
    reasons = []
    for name, answer in answers.items():
        must = name in ("has tests", "one package") or asked.strict
        funnel.note(name, asked.repo, answer, counts=must)
        if answer.verdict is not True:
            if must and (answer.verdict is False or asked.strict):
                return
            reasons.append(f"{name}: {answer.why}")
    funnel.stay()
    yield {
        "instance_id": candidate_id(asked.repo, f"at_{tip.oid[:8]}"),
        "task": str(asked.family),
        "repo": asked.repo,
        "base_commit": tip.oid,
        "workdir": "/workspace",
        "language": "python",
        "distributions": list(names.distributions),
        "aliases": list(names.aliases),
        "docs_hosts": list(names.docs_hosts),
        "modules": list(names.modules),
        "index_date": tip.committed.date().isoformat(),
        "title": f"{asked.repo} from its specification",
        "dates": {"created": created.isoformat(), "committed": tip.committed.isoformat()},
        "contributors": len(people),
        "test_paths": tests,
        "review": review([*reasons, "specification: made by `build`, to be read by a person"]),
        "source": {"kind": "git", "url": url, "branch": history.branch, "how": "whole"},
    }

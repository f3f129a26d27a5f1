"""`beyondswe collect`: candidates out of git histories, forges and package indexes, and their review."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beyondswe.cli.datasets import FAMILIES
from beyondswe.cli.output import console, emit, json_option, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import date, datetime

    from beyondswe.construction.collect.filters import Funnel

_out = click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Where the candidates go (JSONL).",
)  # fmt: skip
_force = click.option("--force", is_flag=True, help="Write over the file that --out names, if it is there.")
_family = click.option(
    "--family", required=True, metavar="F", help=f"What they are candidates for: {FAMILIES}."
)
_day = click.DateTime(formats=["%Y-%m-%d"])
_since = click.option("--since", type=_day, metavar="DAY", help="Only what was merged on this day or later.")
_until = click.option("--until", type=_day, metavar="DAY", help="Only what was merged until this day.")
_limit = click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N candidates.")
_domain = click.option(
    "--field",
    "domain",
    default="",
    metavar="NAME",
    help="DomainFix: the field of a repository that is on no list.",
)
_strict = click.option(
    "--strict",
    is_flag=True,
    help="What a filter cannot know from this source falls out, instead of waiting for review.",
)


@click.group("collect")
def command() -> None:
    """Find candidates: merged pull requests, release pairs, whole repositories; then review them."""


@command.command("git")
@_out
@_force
@click.option("--repo", required=True, metavar="OWNER/NAME", help="The repository.")
@click.option(
    "--repo-url", required=True, metavar="TEMPLATE",
    help="Where its git history lies: a URL (https, http, file) or a folder, with {owner}, {name}, {repo}.",
)  # fmt: skip
@_family
@click.option(
    "--pr", "pull", type=click.IntRange(1), metavar="N", help="This pull request alone, whatever filters say."
)
@click.option(
    "--branch", default="", metavar="NAME", help="The branch to read; default: the repository's own default."
)
@_since
@_until
@_limit
@_domain
@_strict
@json_option
def from_git(
    out: Path, force: bool, repo: str, repo_url: str, family: str, pull: int | None, branch: str,
    since: datetime | None, until: datetime | None, limit: int | None, domain: str, strict: bool, as_json: bool,
) -> int:  # fmt: skip
    """Candidates from a git history: merge commits and squash merges that name a pull request.

    Each is a row with base commit, reference patch and hidden tests, which waits for its review. Doc2Repo: the
    repository as a whole, as of --until.
    """
    from beyondswe.construction.collect.filters import Funnel
    from beyondswe.construction.collect.from_git import Asked, collect

    family_asked = _named(family, domain)
    _free(out, force)
    funnel = Funnel()
    asked = Asked(
        repo=repo, repo_url=repo_url, family=family_asked, pull=pull, branch=branch, since=_date(since),
        until=_date(until), limit=limit, domain=domain, strict=strict,
    )  # fmt: skip
    return _write(out, collect(asked, funnel, say), funnel, as_json)


def _named(family: str, domain: str) -> Any:
    from beyondswe.construction.collect import lists
    from beyondswe.errors import UsageError
    from beyondswe.instances.families import named_family
    from beyondswe.instances.model import Family

    found = named_family(family, "--family")
    if domain and found is not Family.DOMAINFIX:
        raise UsageError(f"--field is for DomainFix alone, not for {found}")
    if domain and domain not in lists.fields():
        raise UsageError(f"--field {domain}: unknown field; there are: {', '.join(lists.fields())}")
    return found


def _free(out: Path, force: bool) -> None:
    from beyondswe.errors import UsageError

    if not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.parent}; make it first")
    if out.exists() and not force:
        raise UsageError(f"--out {out}: this file is there already; --force writes over it")


def _date(given: datetime | None) -> date | None:
    return given.date() if given else None


def _write(
    out: Path,
    rows: Iterable[dict[str, Any]],
    funnel: Funnel,
    as_json: bool,
    finish: Callable[[], None] = lambda: None,
) -> int:
    from beyondswe.construction.collect.candidates import write_rows

    kept = list(rows)
    write_rows(out, kept)
    finish()
    statuses: dict[str, int] = {}
    for row in kept:
        statuses[row["review"]["status"]] = statuses.get(row["review"]["status"], 0) + 1
    _show(funnel)
    if as_json:
        emit(
            {
                "out": str(out),
                "candidates": len(kept),
                "statuses": statuses,
                "instances": [row["instance_id"] for row in kept],
                "funnel": funnel.to_row(),
            }
        )
    waiting = statuses.get("needs_review", 0)
    say(f"{len(kept)} candidates, {waiting} to review; {out}")
    return 0


def _show(funnel: Funnel) -> None:
    from rich.table import Table

    counted = funnel.to_row()
    table = Table(title=f"{counted['in']} came in, {counted['out']} stay", title_justify="left")
    for name in ("filter", "in", "fell out", "not known", "why"):
        table.add_column(name, justify="left" if name in ("filter", "why") else "right")
    for row in counted["filters"]:
        why = "; ".join(f"{number} × {reason}" for reason, number in list(row["reasons"].items())[:4])
        table.add_row(row["filter"], str(row["in"]), str(row["fell_out"]), str(row["unknown"]), why)
    console().print(table)

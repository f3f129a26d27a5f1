"""`beyondswe collect`: candidates out of git histories, forges and package indexes, and their review."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beyondswe.cli.collect_review import review
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
_model = click.option(
    "--model", metavar="M", help="Let this model judge relevance and leakage; its verdict is kept."
)
_model_url = click.option(
    "--model-url", metavar="U", help="Its endpoint (OpenAI's chat completions); default: OPENAI_BASE_URL."
)


@click.group("collect")
def command() -> None:
    """Find candidates: merged pull requests, release pairs, whole repositories; then review them."""


command.add_command(review)


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
@_model
@_model_url
@json_option
def from_git(
    out: Path, force: bool, repo: str, repo_url: str, family: str, pull: int | None, branch: str,
    since: datetime | None, until: datetime | None, limit: int | None, domain: str, strict: bool, model: str | None,
    model_url: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Candidates from a git history: merge commits and squash merges that name a pull request.

    Each is a row with base commit, reference patch and hidden tests, which waits for its review. Doc2Repo: the
    repository as a whole, as of --until.
    """
    from beyondswe.construction.collect.filters import Funnel
    from beyondswe.construction.collect.from_git import Asked, collect

    family_asked = _named(family, domain)
    judge = _judge(model, model_url)
    _free(out, force)
    funnel = Funnel()
    asked = Asked(
        repo=repo, repo_url=repo_url, family=family_asked, pull=pull, branch=branch, since=_date(since),
        until=_date(until), limit=limit, domain=domain, strict=strict,
    )  # fmt: skip
    return _write(out, map(judge, collect(asked, funnel, say)), funnel, as_json)


@command.command("github")
@_out
@_force
@click.option(
    "--repo", "repos", multiple=True, metavar="OWNER/NAME",
    help="A repository. Can be repeated; DomainFix: by default all on the list of --field.",
)  # fmt: skip
@_family
@click.option(
    "--pr", "pull", type=click.IntRange(1), metavar="N", help="This pull request alone, whatever filters say."
)
@click.option(
    "--api-url", default="https://api.github.com", show_default=True, metavar="U",
    help="The API; GitHub Enterprise: https://HOST/api/v3.",
)  # fmt: skip
@click.option(
    "--repo-url", default="", metavar="TEMPLATE",
    help="Take differences from this git history where its commits name the pull request (binary files, large ones).",
)  # fmt: skip
@_since
@_until
@_limit
@_domain
@_model
@_model_url
@json_option
def from_github(
    out: Path, force: bool, repos: tuple[str, ...], family: str, pull: int | None, api_url: str, repo_url: str,
    since: datetime | None, until: datetime | None, limit: int | None, domain: str, model: str | None,
    model_url: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Candidates from GitHub's API: merged pull requests with their issues, comments and outside links.

    The token is GITHUB_TOKEN's. Limits are waited out. A run that is killed goes on where it was when it is started
    again with the same options (FILE.partial). Doc2Repo: the repositories as they are now.
    """
    from beyondswe.construction.collect.filters import Funnel
    from beyondswe.construction.collect.from_github import Asked, collect
    from beyondswe.construction.collect.github_api import GitHub
    from beyondswe.construction.collect.journal import Journal
    from beyondswe.construction.collect.repository import History, git_directory
    from beyondswe.errors import UsageError

    family_asked = _named(family, domain)
    judge = _judge(model, model_url)
    _free(out, force)
    names = repos or _of_field(domain)
    for name in names:
        if name.count("/") != 1 or not all(name.split("/")):
            raise UsageError(f"--repo {name}: not the name of a repository; write OWNER/NAME")
    if not names:
        raise UsageError("--repo OWNER/NAME is missing; only DomainFix has lists of its own (--field)")
    if pull is not None and len(names) != 1:
        raise UsageError("--pr is for one repository; name it with --repo")
    asked = Asked(
        repos=tuple(names), family=family_asked, api_url=api_url, pull=pull, since=_date(since), until=_date(until),
        limit=limit, domain=domain, repo_url=repo_url,
    )  # fmt: skip
    funnel = Funnel()

    def history(name: str) -> History | None:
        return History(git_directory(repo_url, name, say)[0], name) if repo_url else None

    with GitHub(api_url, on_wait=say) as api:
        if not api.token:
            say("no GITHUB_TOKEN: the API answers 60 requests an hour without one, and only by REST")
        journal = Journal(out, asked.to_row(), force=force)
        if journal.done:
            say(f"going on: {len(journal.done)} were done before")
        rows = collect(api, asked, funnel, journal, history=history, judge=judge)
        return _write(out, rows, funnel, as_json, journal.finish)


@command.command("pypi")
@click.argument("packages", nargs=-1, required=True, metavar="PACKAGE…")
@_out
@_force
@click.option(
    "--family", default="DepMigrate", show_default=True, metavar="F", help="DepMigrate or Doc2Repo."
)
@click.option(
    "--index-url",
    metavar="U",
    help="The index's simple API; default: the one that pip is set up for on this machine.",
)
@click.option(
    "--repositories", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Where base trees go as git repositories, for `build --repo-url`; default: FILE.repositories.",
)  # fmt: skip
@_since
@_until
@_limit
@_model
@_model_url
@json_option
def from_pypi(
    packages: tuple[str, ...], out: Path, force: bool, family: str, index_url: str | None, repositories: Path | None,
    since: datetime | None, until: datetime | None, limit: int | None, model: str | None, model_url: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Candidates from source releases on a package index.

    DepMigrate: pairs of releases whose notes or metadata name a watched package together with a version, and what
    changed between them. Doc2Repo: the newest release. Nothing of a release runs on this machine.
    """
    from beyondswe.construction.collect.filters import Funnel
    from beyondswe.construction.collect.from_pypi import Asked, collect
    from beyondswe.construction.collect.index import Index, configured_index
    from beyondswe.errors import UsageError
    from beyondswe.instances.model import Family

    family_asked = _named(family, "")
    if family_asked not in (Family.DEPMIGRATE, Family.DOC2REPO):
        raise UsageError(f"--family {family}: releases make candidates of DepMigrate and Doc2Repo")
    judge = _judge(model, model_url)
    _free(out, force)
    folder = (repositories or out.with_name(f"{out.name}.repositories")).absolute()
    funnel = Funnel()
    asked = Asked(
        packages=packages,
        family=family_asked,
        repositories=folder,
        since=_date(since),
        until=_date(until),
        limit=limit,
    )
    with Index(index_url or configured_index()) as index:
        code = _write(out, map(judge, collect(index, asked, funnel)), funnel, as_json)
    say(f"base trees: build them with --repo-url '{folder}/{{owner}}+{{name}}.git'")
    return code


def _of_field(domain: str) -> tuple[str, ...]:
    from beyondswe.construction.collect import lists

    return lists.fields()[domain] if domain else ()


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


def _judge(model: str | None, url: str | None) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What a row goes through: the model's judgement, or nothing where none is named."""
    from beyondswe.construction.collect.judge import Judge

    judge = Judge.configured(model, url)
    return judge.judge if judge else lambda row: row


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

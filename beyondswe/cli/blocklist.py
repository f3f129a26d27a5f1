"""``beyondswe blocklist``: what the blocklist says about addresses and commands, for anyone's own rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from beyondswe.cli.output import console, emit, json_option, say


@click.command("blocklist")
@click.option(
    "--file",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help='JSONL or a JSON array of rows {"repo", "url"} or {"repo", "command"}; optional "distributions", '
    '"aliases", "docs_hosts" say what else the repository is called.',
)
@click.option(
    "--no-search",
    is_flag=True,
    help="Decide commands as in a run without search, where git clone and GitHub's API, pages and raw files are "
    "blocked whatever the repository.",
)
@click.option(
    "--policy",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="JSON object of settings that differ from the defaults (docs/blocklist.md names them).",
)
@json_option
def command(path: Path, no_search: bool, policy: Path | None, as_json: bool) -> None:
    """Decide whether addresses and bash commands are of a target repository, by which rule.

    One answer a row, in order: the row with blocked and rule. A file with a bad row is not decided at all: every
    bad row is named, and the exit code is 2.
    """
    from beyondswe.blocklist.rows import decided, read_rows

    rows = decided(read_rows(path), _policy(policy), search=not no_search)
    if as_json:
        emit(rows)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("blocked", "rule", "asked"):
        table.add_column(title, overflow="fold")
    for row in rows:
        asked = str(row.get("url", row.get("command"))).encode("unicode_escape").decode()
        table.add_row("blocked" if row["blocked"] else "-", row["rule"], Text(asked))
    console().print(table)
    blocked = sum(row["blocked"] for row in rows)
    say(f"{blocked} of {len(rows)} blocked")


def _policy(path: Path | None) -> Any:
    """The settings of a file over the defaults."""
    import json

    from beyondswe.blocklist import DEFAULT, Policy
    from beyondswe.errors import UsageError

    if path is None:
        return DEFAULT
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    if not isinstance(settings, dict):
        raise UsageError(f"{path}: expected an object of settings, found {type(settings).__name__}")
    try:
        return Policy.from_settings(settings)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error

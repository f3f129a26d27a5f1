"""`beyondswe import`: instances out of the formats of others."""

from __future__ import annotations

import json
from pathlib import Path

import click

from beyondswe.cli.output import emit, json_option, say, write_file


@click.group("import")
def command() -> None:
    """Read instances out of the formats of others."""


@command.command("swebench")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Rows to write.",
)
@json_option
def swebench(file: Path, out: Path, as_json: bool) -> None:
    """SWE-bench rows (JSONL or JSON). Rows that `export swebench` wrote come back as they were; of others no family is
    known: evaluate them with --as-family.
    """
    from beyondswe.export.swebench import import_swebench

    rows = import_swebench(file)
    write_file(out, "".join(json.dumps(row) + "\n" for row in rows))
    if as_json:
        emit({"out": str(out), "instances": len(rows)})
    say(f"{len(rows)} rows: {out}; `beyondswe dataset check {out}` says what is wrong with them")

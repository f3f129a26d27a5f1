"""`beyondswe compare`: two runs, instance by instance, from their folders alone."""

from __future__ import annotations

from pathlib import Path

import click

from beyondswe.cli.output import console, emit, json_option
from beyondswe.cli.running import runs_dir_option


@click.command("compare")
@click.argument("a", metavar="RUN")
@click.argument("b", metavar="RUN")
@click.option(
    "--strict", is_flag=True, help="Count attempts with a suspicious flag as unresolved, in both runs."
)
@runs_dir_option
@json_option
def command(a: str, b: str, strict: bool, runs_dir: Path, as_json: bool) -> None:
    """Compare two runs instance by instance: who improved, by how much, and whether that can be chance.

    RUN is an id or a folder with run.json and results.jsonl.
    """
    from beyondswe.reports.compare import compare
    from beyondswe.reports.paired import read_scores
    from beyondswe.reports.paired_text import show_comparison
    from beyondswe.runs.folder import find_run

    found = compare(*(read_scores(find_run(run, runs_dir), strict=strict) for run in (a, b)))
    if as_json:
        emit(found)
    else:
        show_comparison(found, console())

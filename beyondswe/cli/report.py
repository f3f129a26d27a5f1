"""`beyondswe report`: the results of runs, from their folders alone."""

from __future__ import annotations

from pathlib import Path

import click

from beyondswe.cli.output import console, emit, json_option
from beyondswe.cli.running import runs_dir_option


@click.command("report")
@click.argument("runs", nargs=-1, required=True, metavar="RUN…")
@click.option(
    "--strict/--as-counted",
    default=None,
    help="Count attempts with a suspicious flag as unresolved; default: as the run did.",
)
@runs_dir_option
@json_option
def command(runs: tuple[str, ...], strict: bool | None, runs_dir: Path, as_json: bool) -> None:
    """Show the results of runs: one row a run. RUN is an id or a folder.

    With --json: the report of one run, or an array of several.
    """
    from beyondswe.reports.report import make_report
    from beyondswe.reports.table import show
    from beyondswe.runs.folder import find_run

    reports = [make_report(find_run(run, runs_dir), strict=strict) for run in runs]
    if as_json:
        emit(reports[0] if len(reports) == 1 else reports)
    else:
        show(reports, console())

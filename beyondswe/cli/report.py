"""`beyondswe report`: the results of runs, from their folders alone."""

from __future__ import annotations

from pathlib import Path

import click

from beyondswe.cli.output import console, emit, json_option, say
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
    """Show the results of runs. RUN is an id or a folder.

    With --json: the report of one run, or an array of several.
    """
    from beyondswe.reports.failures import first_failures
    from beyondswe.reports.report import make_report
    from beyondswe.reports.table import show
    from beyondswe.runs.folder import find_run

    folders = [find_run(run, runs_dir) for run in runs]
    reports = [make_report(folder, strict=strict) for folder in folders]
    if as_json:
        emit(reports[0] if len(reports) == 1 else reports)
    else:
        show(reports, console())
        if len(folders) == 1:
            for line in first_failures(folders[0]):
                say(line)

"""`beyondswe report`: the results of runs, from their folders alone."""

from __future__ import annotations

from pathlib import Path

import click

from beyondswe.cli.output import console, emit, file_option, json_option, say, write_file
from beyondswe.cli.running import runs_dir_option


@click.command("report")
@click.argument("runs", nargs=-1, metavar="RUN…")
@click.option(
    "--strict/--as-counted",
    default=None,
    help="Count attempts with a suspicious flag as unresolved; default: as the run did.",
)
@click.option("--published", is_flag=True, help="Add the paper's results as rows, as reported.")
@file_option("--csv", "Write the table as CSV, with full precision.")
@file_option("--markdown", "Write the table in Markdown.")
@file_option("--latex", "Write the table in LaTeX (booktabs).")
@runs_dir_option
@json_option
def command(
    runs: tuple[str, ...],
    strict: bool | None,
    published: bool,
    csv: Path | None,
    markdown: Path | None,
    latex: Path | None,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Show the results of runs; several make a table of agents, models and search. RUN is an id or a folder.

    With --json: the report of one run, or an array of several.
    """
    from beyondswe.errors import UsageError
    from beyondswe.reports.failures import first_failures
    from beyondswe.reports.formats import to_csv, to_latex, to_markdown
    from beyondswe.reports.matrix import make_matrix, matrix_notes
    from beyondswe.reports.published import published_reports
    from beyondswe.reports.report import make_report
    from beyondswe.reports.table import show
    from beyondswe.runs.folder import find_run

    if not runs and not published:
        raise UsageError("name a run (`beyondswe runs list`), or take --published for the paper's results")
    folders = [find_run(run, runs_dir) for run in runs]
    reports = [make_report(folder, strict=strict) for folder in folders]
    if published:
        reports += published_reports()
    rows, notes = make_matrix(reports), matrix_notes(reports)
    if csv:
        write_file(csv, to_csv(rows))
    if markdown:
        write_file(markdown, to_markdown(rows, notes))
    if latex:
        write_file(latex, to_latex(rows, notes))
    if as_json:
        emit(reports[0] if len(reports) == 1 else reports)
    else:
        show(reports, console())
        if len(reports) == 1:
            for line in first_failures(folders[0]):
                say(line)

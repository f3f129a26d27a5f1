"""`beyondswe report`: the results of runs, from their folders alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beyondswe.cli.output import console, emit, file_option, json_option, say, write_file
from beyondswe.cli.running import runs_dir_option
from beyondswe.errors import UsageError

if TYPE_CHECKING:
    from beyondswe.instances.model import Instance
    from beyondswe.runs.folder import RunFolder


@click.command("report")
@click.argument("runs", nargs=-1, metavar="RUN…")
@click.option(
    "--strict/--as-counted",
    default=None,
    help="Count attempts with a suspicious flag as unresolved; default: as the run did.",
)
@click.option("--published", is_flag=True, help="Add the paper's results as rows, as reported.")
@file_option("--html", "Write one HTML file with tables, figures and every attempt; it opens from disk.")
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the paper's figures as SVG, those that the runs have the numbers for.",
)
@file_option("--csv", "Write the table as CSV, with full precision.")
@file_option("--markdown", "Write the table in Markdown.")
@file_option("--latex", "Write the table in LaTeX (booktabs).")
@runs_dir_option
@json_option
def command(
    runs: tuple[str, ...],
    strict: bool | None,
    published: bool,
    html: Path | None,
    figures: Path | None,
    csv: Path | None,
    markdown: Path | None,
    latex: Path | None,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Show the results of runs; several make a table of agents, models and search. RUN is an id or a folder.

    With --json: the report of one run, or an array of several.
    """
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
    if html or figures:
        _illustrate(reports, folders, html, figures)
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


def _illustrate(
    reports: list[dict[str, Any]], folders: list[RunFolder], html: Path | None, figures: Path | None
) -> None:
    """Write the page and the figures; the sizes of Doc2Repo's references are from the dataset, where it is here."""
    from beyondswe.cli.datasets import open_dataset
    from beyondswe.errors import BeyondSWEError
    from beyondswe.reports.figures.draw import make_figures
    from beyondswe.reports.html.document import to_html

    instances: list[Instance] = []
    for name in dict.fromkeys(str(r["dataset"]["name"]) for r in reports if not r.get("reported")):
        try:
            instances += open_dataset(
                name, require_tests=False, require_suites=False, skip_bad=True
            ).instances
        except BeyondSWEError as error:
            say(f"without the sizes of Doc2Repo's references: dataset {name} cannot be read here ({error})")
    if html:
        write_file(html, to_html(reports, folders, instances))
        say(f"wrote {html}")
    if figures:
        try:
            figures.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--figures {figures} cannot be made: {error.strerror or error}") from error
        made, missing = make_figures(reports, instances)
        for figure in made:
            write_file(figures / f"{figure.name}.svg", figure.svg)
            say(f"wrote {figures / f'{figure.name}.svg'}")
        for line in missing:
            say(f"no figure {line}")

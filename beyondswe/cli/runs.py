"""`beyondswe runs`: list and remove runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from beyondswe.cli.output import console, emit, json_option
from beyondswe.cli.running import runs_dir_option


@click.group("runs")
def command() -> None:
    """List and remove runs."""


@command.command("list")
@runs_dir_option
@json_option
def list_command(runs_dir: Path, as_json: bool) -> None:
    """List the runs of a folder, with their state and AVG."""
    from beyondswe.errors import BeyondSWEError
    from beyondswe.reports.report import make_report
    from beyondswe.reports.table import percent
    from beyondswe.runs.folder import list_runs

    rows: list[dict[str, Any]] = []
    for folder in list_runs(runs_dir):
        holder = folder.holder()
        try:
            report = make_report(folder)
        except BeyondSWEError as error:  # one damaged run must not hide the others
            rows.append(
                {
                    "run_id": folder.run_id,
                    "path": str(folder.path),
                    "state": "unreadable",
                    "error": str(error),
                }
            )
            continue
        state = (
            f"alive (process {holder})"
            if holder is not None
            else "finished"
            if report["finished"]
            else "unfinished"
        )
        rows.append(
            {
                "run_id": folder.run_id,
                "path": str(folder.path),
                "state": state,
                "dataset": report["dataset"]["name"],
                "agent": report["agent"]["name"],
                "model": report["model"],
                "done": report["attempts"]["done"],
                "asked": report["attempts"]["asked"],
                "avg": report["avg"],
                "started": report["started"],
            }
        )
    if as_json:
        emit(rows)
        return
    if not rows:
        console().print(f"no runs in {runs_dir}", markup=False, highlight=False)
        return
    from rich.table import Table

    table = Table("run", "dataset", "agent", "state", "attempts", "AVG")
    for row in rows:
        if row["state"] == "unreadable":
            table.add_row(row["run_id"], "", "", f"unreadable: {row['error']}", "", "")
        else:
            done = f"{row['done']}/{row['asked']}"
            table.add_row(
                row["run_id"], row["dataset"], row["agent"], row["state"], done, percent(row["avg"])
            )
    console().print(table)


@command.command("remove")
@click.argument("runs", nargs=-1, required=True, metavar="RUN…")
@click.option("--yes", is_flag=True, help="Do not ask.")
@runs_dir_option
@json_option
def remove_command(runs: tuple[str, ...], yes: bool, runs_dir: Path, as_json: bool) -> None:
    """Remove runs with all their files. A run that lives is left alone."""
    from beyondswe.runs.folder import find_run

    folders = [find_run(run, runs_dir) for run in runs]
    for folder in folders:
        if not yes:
            click.confirm(f"remove {folder.path} and all in it?", abort=True, err=True)
        with folder.lock():
            shutil.rmtree(folder.path)
        console().print(f"removed {folder.path}", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        emit({"removed": [str(folder.path) for folder in folders]})

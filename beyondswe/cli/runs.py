"""`beyondswe runs`: list, merge and remove runs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from beyondswe.cli.output import console, emit, json_option, say
from beyondswe.cli.running import runs_dir_option

_OTHERS = 50
"""Columns of text that the list of runs needs beside the ids."""


@click.group("runs")
def command() -> None:
    """List, merge and remove runs."""


@command.command("list")
@runs_dir_option
@json_option
@click.pass_context
def list_command(ctx: click.Context, runs_dir: Path, as_json: bool) -> None:
    """List the runs of a folder, with their state and AVG."""
    from beyondswe.errors import BeyondSWEError, UsageError
    from beyondswe.reports.formats import percent
    from beyondswe.reports.report import make_report
    from beyondswe.runs.folder import list_runs

    if not runs_dir.is_dir() and ctx.get_parameter_source("runs_dir") is not ParameterSource.DEFAULT:
        raise UsageError(f"--runs-dir {runs_dir}: there is no such folder")
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
        say(f"no runs in {runs_dir}")
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    # an id is there to be typed again: the table is rather wider than the terminal than that one is cut
    longest = max(len(row["run_id"]) for row in rows)
    wide = longest + _OTHERS if longest + _OTHERS > console().width else None
    table = Table(highlight=False, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, width=wide)
    table.add_column("run", no_wrap=True, min_width=longest)
    for name in ("dataset", "agent", "state"):
        table.add_column(name, overflow="fold")
    for name in ("attempts", "AVG"):
        table.add_column(name, no_wrap=True, justify="right")
    for row in rows:
        if row["state"] == "unreadable":
            table.add_row(row["run_id"], "", "", f"unreadable: {row['error']}", "", "")
        else:
            done = f"{row['done']}/{row['asked']}"
            table.add_row(
                row["run_id"], row["dataset"], row["agent"], row["state"], done, percent(row["avg"])
            )
    console().print(table, crop=False)


@command.command("merge")
@click.argument("runs", nargs=-1, required=True, metavar="RUN…")
@click.option("--out", required=True, metavar="ID", help="Id of the run that they make together.")
@runs_dir_option
@json_option
def merge_command(runs: tuple[str, ...], out: str, runs_dir: Path, as_json: bool) -> None:
    """Put the runs of shards (`eval --shard I/N`, on several machines) together into one."""
    from beyondswe.reports.report import make_report
    from beyondswe.reports.table import show
    from beyondswe.runs.folder import RunFolder, check_run_id, find_run
    from beyondswe.runs.merging import merge

    path = runs_dir / check_run_id(out)
    merge([find_run(run, runs_dir) for run in runs], path)
    report = make_report(RunFolder(path))
    RunFolder(path).write_json("report.json", report)
    if as_json:
        emit(report)
    else:
        show([report], console())


@command.command("remove")
@click.argument("runs", nargs=-1, required=True, metavar="RUN…")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@runs_dir_option
@json_option
def remove_command(runs: tuple[str, ...], yes: bool, runs_dir: Path, as_json: bool) -> None:
    """Remove runs with all their files. A run that lives is left alone."""
    from beyondswe.errors import UsageError
    from beyondswe.runs.folder import find_run

    folders = [find_run(run, runs_dir) for run in runs]
    if not yes and (as_json or not sys.stdin.isatty()):
        names = ", ".join(str(folder.path) for folder in folders)
        raise UsageError(f"nothing removed: there is nobody to ask; --yes removes {names}")
    for folder in folders:
        if not yes:
            click.confirm(f"remove {folder.path} and all in it?", abort=True, err=True)
        with folder.lock():
            shutil.rmtree(folder.path)
        say(f"removed {folder.path}")
    if as_json:
        emit({"removed": [str(folder.path) for folder in folders]})

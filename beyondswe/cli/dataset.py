"""``beyondswe dataset``: what datasets there are, what is in one, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from beyondswe.cli.output import console, emit, json_option
from beyondswe.cli.parameters import size

if TYPE_CHECKING:
    from rich.table import Table

    from beyondswe.instances import Dataset

F = TypeVar("F", bound=Callable[..., Any])


def _source_options(command: F) -> F:
    """The dataset and how to read it, the same for every command here."""
    for add in (
        click.option(
            "--test-suite-dir",
            type=click.Path(path_type=Path),
            help="Folder with the zips of Doc2Repo suites.",
        ),
        click.option("--as-family", metavar="F", help="Family of rows that name none (SWE-bench rows)."),
        click.option("--split", help="Split of a dataset repository; default: the only one, else test."),
        click.argument("spec", metavar="D"),
    ):
        command = add(command)
    return command


@click.group()
def command() -> None:
    """List, show, count, check and prefetch datasets.

    D is demo, pypi, a .jsonl, .json or .parquet file, a folder, or a Hugging Face id (owner/name, or with a
    revision owner/name@revision).
    """


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the datasets that come with the product and those loaded from Hugging Face before."""
    known = _known()
    if as_json:
        emit(known)
        return
    table = _table("dataset", "version", "from", "instances", "by family")
    for one in known:
        families = ", ".join(f"{count} {family}" for family, count in one["families"].items())
        _add(table, one["name"], one["version"], one["source"], sum(one["families"].values()), families)
    console().print(table)


@command.command()
@_source_options
@click.option(
    "--instance", "instances", metavar="GLOB", multiple=True, help="Only instances with such an id."
)
@click.option("--reference", is_flag=True, help="Show the reference change and the hidden tests too.")
@json_option
def show(
    spec: str,
    instances: tuple[str, ...],
    reference: bool,
    split: str | None,
    as_family: str | None,
    test_suite_dir: Path | None,
    as_json: bool,
) -> None:
    """Show instances, without the reference change and the hidden tests."""
    from rich.text import Text

    from beyondswe.instances.problems import printable
    from beyondswe.instances.summary import public_row
    from beyondswe.instances.writing import to_row

    dataset = _open(
        spec, instances=instances, split=split, as_family=as_family, test_suite_dir=test_suite_dir
    )
    rows = [to_row(instance) if reference else public_row(instance) for instance in dataset.instances]
    if as_json:
        emit(_head(dataset) | {"instances": rows})
        return
    for row in rows:
        console().rule(Text(row["instance_id"]))
        for field, value in row.items():
            lines = value.splitlines() if isinstance(value, str) else [str(value)]
            text = "\n    ".join(printable(line) for line in lines)
            console().print(
                Text.assemble((f"{printable(field)}: ", "bold"), "\n    " * (len(lines) > 1), text)
            )


@command.command()
@_source_options
@json_option
def stats(
    spec: str, split: str | None, as_family: str | None, test_suite_dir: Path | None, as_json: bool
) -> None:
    """Count instances, repositories and tests by family, and measure reference changes and texts."""
    from beyondswe.instances.summary import statistics

    dataset = _open(spec, split=split, as_family=as_family, test_suite_dir=test_suite_dir)
    found = statistics(dataset.instances)
    if as_json:
        emit(_head(dataset) | found)
        return
    columns = {
        "instances": "instances",
        "repos": "repos",
        "files": "files",
        "lines": "lines",
        "fail_to_pass": "F2P",
        "pass_to_pass": "P2P",
        "expected_tests": "tests",
        "words": "words",
    }
    table = _table("family", *columns.values())
    for family, counts in [*found["families"].items(), ("all", found["all"])]:
        _add(table, family, *(counts[key] for key in columns))
    console().print(table)
    console().print(
        "files, lines (added and removed) of the reference change, tests and words: means over instances"
    )


@command.command()
@_source_options
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    spec: str,
    split: str | None,
    as_family: str | None,
    test_suite_dir: Path | None,
    as_json: bool,
) -> None:
    """Check every row; exit code 1 when there are bad ones."""
    from dataclasses import asdict

    dataset = _open(spec, split=split, as_family=as_family, test_suite_dir=test_suite_dir, skip_bad=True)
    good = len(dataset.instances)
    if as_json:
        emit(
            _head(dataset) | {"rows": dataset.rows, "good": good, "bad": [asdict(row) for row in dataset.bad]}
        )
    else:
        if dataset.bad:
            table = _table("where", "instance", "what is wrong")
            for row in dataset.bad:
                _add(table, f"{row.file}:{row.line}", row.instance_id, row.message)
            console().print(table)
        console().print(f"{dataset.rows} rows: {good} good, {dataset.rows - good} bad")
    ctx.exit(1 if dataset.bad else 0)


@command.command()
@_source_options
@click.option("--family", "families", metavar="F", multiple=True, help="Only this family.")
@click.option(
    "--instance", "instances", metavar="GLOB", multiple=True, help="Only instances with such an id."
)
@click.option("--skip-bad", is_flag=True, help="Go on without bad rows.")
@click.option(
    "--max-disk", callback=size, metavar="SIZE", help="Keep pulled images within this, such as 200g."
)
@json_option
@click.pass_context
def prefetch(
    ctx: click.Context,
    spec: str,
    families: tuple[str, ...],
    instances: tuple[str, ...],
    skip_bad: bool,
    max_disk: int | None,
    split: str | None,
    as_family: str | None,
    test_suite_dir: Path | None,
    as_json: bool,
) -> None:
    """Pull the images of a dataset ahead of their use; exit code 1 when some could not be pulled."""
    from dataclasses import asdict
    from itertools import count

    from beyondswe.cli.datasets import is_shipped
    from beyondswe.errors import UsageError
    from beyondswe.instances.problems import printable
    from beyondswe.sandbox import images
    from beyondswe.sandbox.engine import Engine

    if is_shipped(spec):
        raise UsageError(
            f"the images of {spec} are built here when they are needed; there is nothing to pull"
        )
    dataset = _open(
        spec,
        families=families,
        instances=instances,
        skip_bad=skip_bad,
        split=split,
        as_family=as_family,
        test_suite_dir=test_suite_dir,
    )
    refs = list(dict.fromkeys(instance.image for instance in dataset.instances))
    number = count(1)

    def told(result: images.PrefetchResult) -> None:
        detail = f": {printable(result.error)}" if result.error else ""
        click.echo(f"[{next(number)}/{len(refs)}] {result.ref} {result.status}{detail}", err=True)

    for row in dataset.bad:
        click.echo(f"left out: {row}", err=True)

    results = images.prefetch(Engine.connect(), refs, max_disk=max_disk, on_progress=told)
    if as_json:
        emit(_head(dataset) | {"images": [asdict(result) for result in results]})
    ctx.exit(1 if any(result.status == "failed" for result in results) else 0)


def _known() -> list[dict[str, Any]]:
    """Name, version, where from, and counts by family, of every dataset that can be named without network."""
    from collections import Counter

    from beyondswe import __version__
    from beyondswe.construction.recipes import SHIPPED, load_recipes
    from beyondswe.instances import Family
    from beyondswe.instances.seen import seen

    known: list[dict[str, Any]] = []
    for name in SHIPPED:
        counts = Counter(recipe.family for recipe in load_recipes(name))
        families = {str(family): counts[family] for family in Family if counts[family]}
        known.append({"name": name, "version": __version__, "source": "shipped", "families": families})
    for one in seen():
        known.append(
            {"name": one.name, "version": one.version, "source": "Hugging Face", "families": one.families}
        )
    return known


def _open(spec: str, **options: Any) -> Dataset:
    from beyondswe.cli.datasets import open_dataset

    return open_dataset(spec, **options)


def _head(dataset: Dataset) -> dict[str, Any]:
    return {"name": dataset.name, "version": dataset.version, "hash": dataset.hash}


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(highlight=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _add(table: Table, *cells: object) -> None:
    """Add a row of plain text: what rows hold is never taken for markup."""
    from rich.text import Text

    table.add_row(
        *(
            Text("–" if cell is None else f"{cell:.1f}" if isinstance(cell, float) else str(cell))
            for cell in cells
        )
    )

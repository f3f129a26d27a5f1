"""``beyondswe dataset``: what datasets there are, what is in one, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from beyondswe.cli.datasets import FAMILIES
from beyondswe.cli.output import console, emit, json_option, say
from beyondswe.cli.parameters import size

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from beyondswe.instances import Dataset

F = TypeVar("F", bound=Callable[..., Any])


def _source_options(command: F) -> F:
    """The dataset and how to read it, the same for every command here."""
    for add in (
        click.option(
            "--test-suite-dir",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Folder with the zips of Doc2Repo suites.",
        ),
        click.option(
            "--as-family", metavar="F", help=f"Family of rows that name none (SWE-bench rows): {FAMILIES}."
        ),
        click.option(
            "--split", metavar="NAME", help="Split of a dataset repository; default: the only one, else test."
        ),
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
    from beyondswe.instances.summary import public_row
    from beyondswe.instances.writing import to_row

    dataset = _open(
        spec, instances=instances, split=split, as_family=as_family, test_suite_dir=test_suite_dir
    )
    rows = [to_row(instance) if reference else public_row(instance) for instance in dataset.instances]
    if as_json:
        emit(_head(dataset) | {"instances": rows})
        return
    from rich.text import Text

    for row in rows:
        console().rule(Text(row["instance_id"]))
        for field, value in row.items():
            console().print(_field(field, value), soft_wrap=True)


def _field(field: str, value: Any) -> Text:
    """A field of an instance for people: text as it is, lists an entry a line."""
    from rich.text import Text

    from beyondswe.instances.problems import printable

    if field == "withheld":
        told = f"{', '.join(value)} (they tell the solution; --reference shows them)" if value else "nothing"
        return Text.assemble(("withheld: ", "bold"), printable(told))
    lines = value.split("\n") if isinstance(value, str) else value if isinstance(value, list) else [value]
    told = "\n".join(printable(str(line)) for line in lines)
    several = isinstance(value, list) or "\n" in told
    return Text.assemble((f"{printable(field)}:", "bold"), "\n" if several else " ", told)


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
    table = _table("family", *columns.values(), fold=False)
    for family, counts in [*found["families"].items(), ("all", found["all"])]:
        _add(table, family, *(counts[key] for key in columns))
    console().print(table)
    say("files, lines (added and removed) of the reference change, tests and words: means over instances")


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

    dataset = _open(
        spec,
        split=split,
        as_family=as_family,
        test_suite_dir=test_suite_dir,
        skip_bad=True,
        require_suites=True,
    )
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
        say(f"{dataset.rows} rows: {good} good, {dataset.rows - good} bad")
    ctx.exit(1 if dataset.bad else 0)


@command.command()
@_source_options
@click.option("--family", "families", metavar="F", multiple=True, help=f"Only this family: {FAMILIES}.")
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

    from beyondswe.construction.recipes import SHIPPED, load_recipes
    from beyondswe.instances import Family
    from beyondswe.instances.seen import seen
    from beyondswe.instances.sources import described
    from beyondswe.resources import resource

    known: list[dict[str, Any]] = []
    for name in SHIPPED:
        counts = Counter(recipe.family for recipe in load_recipes(name))
        families = {str(family): counts[family] for family in Family if counts[family]}
        version = described(resource("data", name)).get("version")
        known.append({"name": name, "version": version, "source": "shipped", "families": families})
    for one in seen():
        known.append(
            {"name": one.name, "version": one.version, "source": "Hugging Face", "families": one.families}
        )
    return known


def _open(spec: str, *, require_suites: bool = False, **options: Any) -> Dataset:
    from beyondswe.cli.datasets import open_dataset

    return open_dataset(spec, require_suites=require_suites, **options)


def _head(dataset: Dataset) -> dict[str, Any]:
    return {"name": dataset.name, "version": dataset.version, "hash": dataset.hash}


def _table(*columns: str, fold: bool = True) -> Table:
    """A table whose cells are folded where room is short; without ``fold`` it is narrow enough not to be."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(highlight=False) if fold else Table(highlight=False, box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=not fold)
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

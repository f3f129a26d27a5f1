"""What commands that take ``--dataset`` share: its options, opening it, and the images of its instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from beyondswe.cli.parameters import shard

if TYPE_CHECKING:
    from beyondswe.instances.dataset import Dataset
    from beyondswe.instances.model import Instance
    from beyondswe.sandbox.engine import Engine

F = TypeVar("F", bound=Callable[..., Any])

FAMILIES = "CrossRepo, DomainFix, DepMigrate or Doc2Repo"  # written out: help must not load the families

_OPTIONS = [
    click.option(
        "--dataset", required=True, metavar="D", help="demo, pypi, a file or folder, or a Hugging Face id."
    ),
    click.option(
        "--family",
        "families",
        multiple=True,
        metavar="F",
        help=f"Only this family: {FAMILIES}. Can be repeated.",
    ),
    click.option(
        "--instance", "instances", multiple=True, metavar="GLOB", help="Only ids like this. Can be repeated."
    ),
    click.option(
        "--limit",
        type=click.IntRange(1),
        metavar="N",
        help="A sample of N instances, each family by its share.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Seed of the sample."),
    click.option("--shard", callback=shard, metavar="I/N", help="The I-th of N parts of what is selected."),
    click.option("--skip-bad", is_flag=True, help="Name bad rows and go on without them."),
    click.option(
        "--exclude",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Leave these out: lines of JSON with instance_id and reason, as `verify --exclusions` writes, or ids.",
    ),
    click.option(
        "--split", metavar="NAME", help="Split of a dataset repository; default: the only one, else test."
    ),
    click.option(
        "--as-family", metavar="F", help=f"Family of rows that name none (SWE-bench rows): {FAMILIES}."
    ),
    click.option(
        "--test-suite-dir",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Folder with the Doc2Repo suites; default: beside the dataset.",
    ),
]


def dataset_options(command: F) -> F:
    """``--dataset`` and what selects among its instances; the function gets them as `open_dataset` takes
    them.
    """
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def open_dataset(
    dataset: str,
    *,
    families: tuple[str, ...] = (),
    instances: tuple[str, ...] = (),
    limit: int | None = None,
    seed: int = 0,
    shard: tuple[int, int] | None = None,
    skip_bad: bool = False,
    as_family: str | None = None,
    test_suite_dir: Path | None = None,
    split: str | None = None,
    require_tests: bool = True,
    require_suites: bool = True,
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
    exclude: Path | None = None,
) -> Dataset:
    """The dataset of that name, file, folder or id; a shipped one is made from its recipes first."""
    from beyondswe.errors import UsageError
    from beyondswe.instances.dataset import load_dataset

    spec = _materialized(dataset, instances) if is_shipped(dataset) else dataset
    try:
        return load_dataset(
            spec,
            families=families,
            instances=instances,
            limit=limit,
            seed=seed,
            shard=shard,
            skip_bad=skip_bad,
            as_family=as_family,
            test_suite_dir=test_suite_dir,
            split=split,
            require_tests=require_tests,
            require_suites=require_suites,
            defaults=defaults,
            exclude=read_exclusions(exclude) if exclude else None,
        )
    except UsageError as error:
        if "/" not in spec and not Path(spec).exists():
            raise UsageError(f"{error}; {_shipped_like(spec)}") from error
        raise


def _shipped_like(word: str) -> str:
    import difflib

    from beyondswe.construction.recipes import SHIPPED

    near = difflib.get_close_matches(word, SHIPPED, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"the datasets that come with the product are {' and '.join(SHIPPED)}{meant}"


def read_exclusions(path: Path) -> dict[str, str]:
    """Ids to leave out with the reason. Raises `UsageError` for a line that is neither an id nor such a row."""
    import json

    from beyondswe.errors import UsageError

    found = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--exclude {path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            row = json.loads(text) if text[0] in "{[" else {"instance_id": text, "reason": "excluded by hand"}
            name = row["instance_id"]
            if not isinstance(name, str) or not name:
                raise TypeError("instance_id is no name")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(
                f"--exclude {path}, line {number}: expected an id, or JSON with instance_id and reason ({error})"
            ) from None
        found[name] = str(row.get("reason") or row.get("status") or "no reason was given")
    return found


def _materialized(dataset: str, instances: tuple[str, ...]) -> str:
    from beyondswe.construction import shipped
    from beyondswe.errors import UsageError
    from beyondswe.resources import cache_dir

    try:
        return str(shipped.materialize(dataset, instances or None))
    except OSError as error:
        raise UsageError(
            f"the cache folder {cache_dir()} does not take the dataset {dataset} ({error.strerror or error}): "
            "make room, or name another folder with BEYONDSWE_CACHE"
        ) from error


def is_shipped(dataset: str) -> bool:
    """Whether a name is that of a dataset that comes with the product."""
    from beyondswe.construction.recipes import SHIPPED

    return dataset in SHIPPED


def image_provider(
    engine: Engine, dataset: str, *, python_dir: Path | None = None, max_disk: int | None = None
) -> Callable[[Instance], str]:
    """A function that sees to an instance's image: built where the dataset is ours, pulled where it is
    finished.
    """
    if is_shipped(dataset):
        from beyondswe.construction.environments import ensure_image as build

        return lambda instance: build(engine, instance, python_dir=python_dir)
    from beyondswe.sandbox.images import ensure_image as pull

    return lambda instance: pull(engine, instance.image, max_disk=max_disk).id

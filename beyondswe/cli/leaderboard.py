"""`beyondswe leaderboard`: pack, check and rescore submissions; build and serve the site."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from beyondswe.cli.output import emit, json_option, say
from beyondswe.cli.running import runs_dir_option

if TYPE_CHECKING:
    from beyondswe.instances.dataset import Dataset
    from beyondswe.leaderboard.check import Asked, Findings

F = TypeVar("F", bound=Callable[..., Any])

site_option = click.option(
    "--site",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("leaderboard"),
    show_default=True,
    metavar="DIR",
    help="The leaderboard's folder, which holds submissions/.",
)
_DATASET = [
    click.option(
        "--dataset",
        metavar="D",
        help="The dataset that submissions must answer; default: the one they name, if it is demo, pypi or the "
        "benchmark's own.",
    ),
    click.option(
        "--exclude",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Instances that a submission may lack: lines of JSON with instance_id and reason, or ids.",
    ),
]


def dataset_options(command: F) -> F:
    """``--dataset`` and ``--exclude`` of those who check."""
    for option in reversed(_DATASET):
        command = option(command)
    return command


@click.group("leaderboard")
def command() -> None:
    """Pack, check and rescore submissions; build the site."""


@command.command("pack")
@click.argument("run", metavar="RUN")
@site_option
@click.option("--name", metavar="NAME", help="Name of the submission; default: the run's id.")
@click.option("--author", "authors", multiple=True, metavar="NAME", help="Who answers for it. Repeatable.")
@click.option("--link", "links", multiple=True, metavar="URL", help="Where to read about it. Repeatable.")
@click.option("--model", metavar="M", help="The model, where the run does not know it.")
@click.option(
    "--open-weights/--closed-weights", "open_weights", default=None, help="Whether anyone can get the model."
)
@click.option("--replace", is_flag=True, help="Replace a submission of that name.")
@runs_dir_option
@json_option
def pack_command(
    run: str,
    site: Path,
    name: str | None,
    authors: tuple[str, ...],
    links: tuple[str, ...],
    model: str | None,
    open_weights: bool | None,
    replace: bool,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Make a submission out of a run: RUN is an id or a folder.

    run.json and results.jsonl are enough; without attempts/ the patches and trajectories are missing, which is said.
    """
    from beyondswe.leaderboard.pack import Words, pack
    from beyondswe.runs.folder import find_run

    folder = find_run(run, runs_dir)
    words = Words(authors, links, open_weights, model)
    packed = pack(folder, site, name or folder.run_id[:80], words, replace=replace)
    for note in packed.notes:
        say(note)
    say(
        f"{packed.path}: {packed.outcomes} outcomes, {packed.predictions} patches, {packed.trajectories} trajectories"
    )
    if as_json:
        emit(
            {
                "name": packed.path.name,
                "path": str(packed.path),
                "outcomes": packed.outcomes,
                "predictions": packed.predictions,
                "trajectories": packed.trajectories,
                "notes": packed.notes,
            }
        )


@command.command("check")
@click.argument("names", nargs=-1, metavar="[NAME…]")
@site_option
@dataset_options
@json_option
def check_command(
    names: tuple[str, ...], site: Path, dataset: str | None, exclude: Path | None, as_json: bool
) -> int:
    """Check submissions (default: all): exit 1 if one fails, with what its submitter is to do."""
    from beyondswe.leaderboard.records import note_checked
    from beyondswe.leaderboard.submission import submissions_dir

    datasets = _Datasets(dataset, exclude)
    found = []
    for name in _names(names, site):
        one = _checked(submissions_dir(site) / name, site, datasets)
        found.append(one)
        say(f"{name}: {'passed' if one.passed else 'failed'}")
        for line in one.errors:
            say(f"  error: {line}")
        for line in one.warnings:
            say(f"  warning: {line}")
        if one.passed:
            note_checked(site, name)
    failed = sum(not one.passed for one in found)
    say(f"{len(found)} submissions, {failed} failed")
    if as_json:
        emit({"passed": not failed, "submissions": [one.to_document() for one in found]})
    return 1 if failed else 0


def _names(names: tuple[str, ...], site: Path) -> list[str]:
    """The named submissions, or all. Raises `UsageError` for a name that there is not."""
    from beyondswe.errors import UsageError
    from beyondswe.leaderboard.submission import check_name, list_names

    there = list_names(site)
    for name in names:
        if check_name(name) not in there:
            raise UsageError(
                f"{site} has no submission {name!r}; there are: {', '.join(there[:20]) or 'none'}"
            )
    return list(dict.fromkeys(names)) or there


def _checked(folder: Path, site: Path, datasets: _Datasets) -> Findings:
    """All that can be found about one submission."""
    from beyondswe.errors import BeyondSWEError
    from beyondswe.leaderboard.check import check, check_description
    from beyondswe.leaderboard.records import disagreement
    from beyondswe.leaderboard.submission import list_names, same_but_case

    found = check_description(folder)
    if found.submission is not None:
        try:
            asked = datasets.asked(found.submission.dataset.name)
        except BeyondSWEError as error:
            found.errors.append(str(error))
        else:
            found = check(folder, asked)
            found.errors += disagreement(site, folder.name)
    if twins := same_but_case(list_names(site)).get(folder.name):
        found.errors.append(f"the name differs from {', '.join(twins)} in case alone; take another one")
    return found


class _Datasets:
    """Datasets of submissions, each opened once: the keeper's, or one that may be opened on a stranger's word."""

    def __init__(self, given: str | None, exclude: Path | None) -> None:
        self._given, self._exclude = given, exclude
        self._opened: dict[str, Dataset] = {}

    def open(self, named: str) -> Dataset:
        from beyondswe.cli.datasets import is_shipped, open_dataset
        from beyondswe.errors import UsageError

        spec = self._given or named
        if not self._given and not is_shipped(named) and named != "AweAI-Team/BeyondSWE":
            raise UsageError(
                f"dataset {named!r} is none that the board knows, and is not opened on a submission's word: "
                "name it with --dataset"
            )
        if spec not in self._opened:
            self._opened[spec] = open_dataset(spec, skip_bad=True, exclude=self._exclude)
        return self._opened[spec]

    def asked(self, named: str) -> Asked:
        from beyondswe.leaderboard.check import Asked

        opened = self.open(named)
        by_id = {instance.instance_id: instance for instance in opened.instances}
        return Asked(opened.name, opened.version, opened.hash, by_id, frozenset(opened.excluded))

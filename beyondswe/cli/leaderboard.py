"""`beyondswe leaderboard`: pack, check and rescore submissions; build and serve the site."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from beyondswe.cli.output import emit, json_option, say
from beyondswe.cli.running import runs_dir_option

if TYPE_CHECKING:
    from beyondswe.instances.dataset import Dataset
    from beyondswe.instances.model import Instance
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


@command.command("rescore")
@click.argument("name", metavar="NAME")
@site_option
@dataset_options
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Only N instances, drawn by chance.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Seed of the sample.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Attempts at once; default: one a core.")
@click.option("--run-id", metavar="ID", help="Name of the run that scores; the same one goes on with it.")
@click.option(
    "--python-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder of Python interpreters (pyenv's layout) for images that are built here.",
)
@runs_dir_option
@json_option
def rescore_command(
    name: str,
    site: Path,
    dataset: str | None,
    exclude: Path | None,
    sample: int | None,
    seed: int,
    workers: int | None,
    run_id: str | None,
    python_dir: Path | None,
    runs_dir: Path,
    as_json: bool,
) -> int:
    """Score a submission's patches again in fresh containers, and compare: exit 1 if an outcome differs.

    The run that scores stays in --runs-dir as evidence. Limits are the paper's, capped to this host.
    """
    from beyondswe.leaderboard.records import note_rescored
    from beyondswe.leaderboard.rescore import claimed, compare, draw, outcomes_of
    from beyondswe.leaderboard.submission import submissions_dir
    from beyondswe.reports.report import read_results
    from beyondswe.runs.folder import find_run, new_run_id

    (name,) = _names((name,), site)
    folder, datasets = submissions_dir(site) / name, _Datasets(dataset, exclude)
    checked = _checked(folder, site, datasets, again=True)
    submission = checked.submission
    if checked.errors or submission is None:
        say(f"{name}: the check failed, so nothing was scored")
        for line in checked.errors:
            say(f"  error: {line}")
        if as_json:
            emit({**checked.to_document(), "rescored": 0, "differing": {}, "failed": []})
        return 1
    opened = datasets.open(submission.dataset.name)
    ids = draw([instance.instance_id for instance in opened.instances], sample, seed)
    run_id = run_id or new_run_id("rescore", name)
    spec = datasets.spec(submission.dataset.name)
    if _score(folder, opened, spec, ids, submission.attempts, run_id, runs_dir, workers, python_dir) == 130:
        return 130
    theirs = claimed(folder, ids)
    ours = outcomes_of(read_results(find_run(run_id, runs_dir).results), ids)
    found = compare(theirs, ours, strict=submission.strict)
    for shown, how in found.differing.items():
        say(f"  error: {shown}: {how}")
    for shown in found.failed:
        say(
            f"  error: {shown}: could not be scored here; to try again: the same command with --run-id {run_id}"
        )
    if not found.failed:
        note_rescored(
            site,
            name,
            len(theirs),
            len(opened.instances) * submission.attempts,
            seed if sample else None,
            list(found.differing),
        )
    say(f"{name}: {found.same} of {len(theirs)} outcomes are the same, {len(found.differing)} differ")
    if as_json:
        emit(
            {
                "name": name,
                "passed": found.agrees,
                "run_id": run_id,
                "rescored": len(theirs),
                "same": found.same,
                "differing": found.differing,
                "failed": found.failed,
                "errors": [],
                "warnings": checked.warnings,
            }
        )
    return 0 if found.agrees else 1


def _score(
    folder: Path,
    opened: Dataset,
    spec: str,
    ids: list[str],
    attempts: int,
    run_id: str,
    runs_dir: Path,
    workers: int | None,
    python_dir: Path | None,
) -> int:
    """Score the submitted patches of these instances as a run of its own, no verdict taken from the cache."""
    from dataclasses import replace

    from beyondswe.cli.datasets import image_provider
    from beyondswe.cli.running import carry_out, dataset_facts
    from beyondswe.leaderboard.rescore import patches_of
    from beyondswe.leaderboard.submission import fingerprint
    from beyondswe.runs.attempt import Attempts, Finished, Work
    from beyondswe.runs.settings import Settings
    from beyondswe.sandbox.types import Limits

    wanted = set(ids)
    chosen = tuple(instance for instance in opened.instances if instance.instance_id in wanted)
    patches = patches_of(folder, ids)
    limits = Limits()

    def work(made: Attempts) -> Work:
        def one(instance: Instance, attempt: int, earlier: Path | None) -> Finished:
            of_attempt = made.of_patches(
                lambda asked: patches.get((asked.instance_id, attempt)), lambda _: "no patch was submitted"
            )
            return of_attempt(instance, attempt, earlier)

        return one

    return carry_out(
        settings=Settings(
            dataset=dataset_facts(replace(opened, instances=chosen)),
            agent={"name": f"rescore of {folder.name}", "version": "", "digest": fingerprint(folder)},
            limits=limits,
            limits_asked=limits,
            attempts=attempts,
        ),
        instances=chosen,
        provide_image=lambda engine: image_provider(engine, spec, python_dir=python_dir),
        work=work,
        run_id=run_id,
        runs_dir=runs_dir,
        workers=workers,
        fresh=True,
        as_json=False,
    )


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


def _checked(folder: Path, site: Path, datasets: _Datasets, *, again: bool = False) -> Findings:
    """All that can be found about one submission; ``again``: it is scored anew, whatever came out before."""
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
            found.errors += [] if again else disagreement(site, folder.name)
    if twins := same_but_case(list_names(site)).get(folder.name):
        found.errors.append(f"the name differs from {', '.join(twins)} in case alone; take another one")
    return found


class _Datasets:
    """Datasets of submissions, each opened once: the keeper's, or one that may be opened on a stranger's word."""

    def __init__(self, given: str | None, exclude: Path | None) -> None:
        self._given, self._exclude = given, exclude
        self._opened: dict[str, Dataset] = {}

    def spec(self, named: str) -> str:
        """What is opened for a submission that names a dataset. Raises `UsageError` for one that is not known."""
        from beyondswe.cli.datasets import is_shipped
        from beyondswe.errors import UsageError

        if not self._given and not is_shipped(named) and named != "AweAI-Team/BeyondSWE":
            raise UsageError(
                f"dataset {named!r} is none that the board knows, and is not opened on a submission's word: "
                "name it with --dataset"
            )
        return self._given or named

    def open(self, named: str) -> Dataset:
        from beyondswe.cli.datasets import open_dataset

        spec = self.spec(named)
        if spec not in self._opened:
            self._opened[spec] = open_dataset(spec, skip_bad=True, exclude=self._exclude)
        return self._opened[spec]

    def asked(self, named: str) -> Asked:
        from beyondswe.leaderboard.check import Asked

        opened = self.open(named)
        by_id = {instance.instance_id: instance for instance in opened.instances}
        return Asked(opened.name, opened.version, opened.hash, by_id, frozenset(opened.excluded))


_out_option = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of the built site; default: public/ in the leaderboard's folder.",
)


@command.command("build")
@site_option
@_out_option
@json_option
def build_command(site: Path, out: Path | None, as_json: bool) -> int:
    """Build the static site. Submissions that do not hold together are left out and named: then exit 1.

    `check` looks closer, and marks what it passed; patches and trajectories are not looked at here.
    """
    built, refused = _build(site, out or site / "public")
    if as_json:
        emit({**built, "refused": refused})
    return 1 if refused else 0


@command.command("serve")
@site_option
@_out_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port on this machine; 0: any free one.",
)
@json_option
def serve_command(site: Path, out: Path | None, port: int, as_json: bool) -> int:
    """Build the site and serve it to this machine alone, for a look. Ctrl-C ends it."""
    import signal

    from beyondswe.leaderboard.serve import server

    folder = out or site / "public"
    built, refused = _build(site, folder)
    with server(folder, port) as httpd:
        url = f"http://127.0.0.1:{httpd.server_port}/"
        say(f"{url}  (Ctrl-C ends it)")
        if as_json:
            import sys

            emit({**built, "refused": refused, "url": url})
            sys.stdout.flush()
        for number in (signal.SIGINT, signal.SIGTERM):  # whoever started this may have had them ignored
            signal.signal(number, signal.default_int_handler)
        with suppress(KeyboardInterrupt):  # how it is meant to end
            httpd.serve_forever()
    return 0


def _build(site: Path, out: Path) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Read the submissions and write the site; what was made, and who was left out."""
    from beyondswe.leaderboard.entries import read_board
    from beyondswe.leaderboard.site import build

    board = read_board(site)
    for name, lines in board.refused.items():
        say(f"{name}: left out")
        for line in lines:
            say(f"  error: {line}")
    files = build(board, out)
    own = sum(not entry.reported for entry in board.entries)
    published = len(board.entries) - own
    say(f"{out / 'index.html'}: {own} submissions, {published} published results")
    made = {"out": str(out), "submissions": own, "published": published, "files": len(files)}
    return made, board.refused

"""What `eval` and `score` share: options of a run, and carrying it out to its report and exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from beyondswe.cli.output import console, emit, json_option, say
from beyondswe.cli.parameters import Number, memory, size

if TYPE_CHECKING:
    from beyondswe.gateway.access import AccessSettings
    from beyondswe.instances.dataset import Dataset
    from beyondswe.instances.model import Instance
    from beyondswe.runs.attempt import Attempts, Work
    from beyondswe.runs.settings import Settings
    from beyondswe.sandbox.engine import Engine
    from beyondswe.sandbox.types import Limits

F = TypeVar("F", bound=Callable[..., Any])

runs_dir_option = click.option(
    "--runs-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs"),
    show_default=True,
    metavar="DIR",
    help="Folder of the runs.",
)

_OPTIONS = [
    click.option(
        "--workers", type=click.IntRange(1), metavar="N", help="Attempts at once; default: one a core."
    ),
    click.option(
        "--cpus",
        type=Number(0.1),
        default=4.0,
        show_default=True,
        metavar="N",
        help="Cores of a sandbox.",
    ),
    click.option(
        "--memory",
        callback=memory,
        default="8g",
        show_default=True,
        metavar="SIZE",
        help="Memory of a sandbox.",
    ),
    click.option(
        "--disk",
        callback=size,
        default="20g",
        show_default=True,
        metavar="SIZE",
        help="What a sandbox may write to the disk.",
    ),
    click.option(
        "--test-timeout",
        type=Number(1),
        default=1800,
        show_default=True,
        metavar="S",
        help="Seconds that the tests of one scoring may take.",
    ),
    click.option(
        "--run-id", metavar="ID", help="Name of the run. The same id with the same options goes on with it."
    ),
    runs_dir_option,
    click.option(
        "--fresh", is_flag=True, help="Score every patch anew, also those that were scored here before."
    ),
    click.option("--strict", is_flag=True, help="Count attempts with a suspicious flag as unresolved."),
    click.option(
        "--python-dir",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        metavar="DIR",
        help="Folder of Python interpreters (pyenv's layout) for images that are built here.",
    ),
    click.option(
        "--max-disk",
        callback=size,
        metavar="SIZE",
        help="Keep the images that were pulled within this size, dropping those used least recently.",
    ),
    json_option,
]


def run_options(command: F) -> F:
    """Options of a run that every command that makes one has."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def dataset_facts(dataset: Dataset) -> Any:
    """What of the dataset goes into the run's settings."""
    from beyondswe.runs.settings import DatasetFacts, families_of, selection_hash

    return DatasetFacts(
        name=dataset.name,
        version=dataset.version,
        hash=dataset.hash,
        selection=selection_hash(dataset.instances),
        families=families_of(dataset.instances),
        excluded=dict(dataset.excluded),
    )


def say_skipped(dataset: Dataset) -> list[str]:
    """Name the bad rows that ``--skip-bad`` leaves out, and the instances that ``--exclude`` does."""
    lines = [f"skipped: {row}" for row in dataset.bad]
    lines += [f"excluded: {name}: {reason}" for name, reason in dataset.excluded.items()]
    for line in lines:
        say(line)
    return lines


def say_capped(asked: Limits, given: Limits, notes: Sequence[str]) -> None:
    """Say what limits were capped. That the host has less than the paper's defaults is news in `eval` alone."""
    from click.core import ParameterSource

    context = click.get_current_context()
    defaults = {
        "cpus": f"{asked.cpus:g} CPUs is capped to the host's {given.cpus:g}",
        "memory": f"{asked.memory / 2**30:.1f} GiB of memory is capped to the host's {given.memory / 2**30:.1f}",
    }
    for note in notes:
        name, _, rest = note.partition(": ")
        by_default = context.get_parameter_source(name) is ParameterSource.DEFAULT
        if name not in defaults or not rest.startswith("asked for") or not by_default:
            say(f"limit capped: {note}")
        elif context.info_name == "eval":
            say(f"the paper's default of {defaults[name]}")


def carry_out(
    *,
    settings: Settings,
    instances: tuple[Instance, ...],
    provide_image: Callable[[Engine], Callable[[Instance], str]],
    work: Callable[[Attempts], Work],
    run_id: str | None,
    runs_dir: Path,
    workers: int | None,
    fresh: bool,
    as_json: bool,
    access: AccessSettings | None = None,
    more: Mapping[str, Any] | None = None,
    rejected: int = 0,
) -> int:
    """Begin or go on with the run, work it off, report; the exit code.

    ``access`` is what agents may reach (default: nothing). ``more`` stands in the document of ``--json`` beside
    the report; ``rejected`` rows make the exit code 1.
    """
    from beyondswe.errors import BeyondSWEError
    from beyondswe.gateway.access import Access, AccessSettings, check_access
    from beyondswe.gateway.proxy_build import is_built
    from beyondswe.reports.failures import first_failures
    from beyondswe.reports.report import make_report
    from beyondswe.reports.table import show
    from beyondswe.runs.attempt import Attempts, Environments
    from beyondswe.runs.cleanup import run_labels
    from beyondswe.runs.folder import new_run_id
    from beyondswe.runs.run import open_run
    from beyondswe.runs.verdicts import VerdictCache
    from beyondswe.sandbox.engine import Engine
    from beyondswe.sandbox.limits import capped

    engine = Engine.connect()
    access = access or AccessSettings()
    check_access(engine, access)
    verdicts = VerdictCache()
    limits, capping = capped(settings.limits_asked, engine)
    settings = replace(settings, limits=limits, notes=(*settings.notes, *capping))
    run_id = run_id or new_run_id(settings.agent["name"], settings.dataset.name)
    by_id = {instance.instance_id: instance for instance in instances}
    with open_run(runs_dir, run_id, settings, by_id) as run:
        say(f"run {run_id}{' goes on' if run.resumed else ''}, {run.folder.path}")
        say_capped(settings.limits_asked, limits, capping)
        labels = run_labels(run_id)
        if access.policy is not None and not is_built():
            say("making the environment of the egress proxy, once")
        try:
            with Access(engine, access, labels) as opened:
                attempts = Attempts(
                    engine,
                    environments=Environments(engine, provide_image(engine), labels),
                    limits=limits,
                    access=opened,
                    run_labels=labels,
                    verdicts=verdicts,
                    fresh=fresh,
                )
                try:
                    complete = run.work_off(
                        engine,
                        by_id,
                        work(attempts),
                        workers=workers or int(engine.info.get("NCPU") or 1),
                        console=console(),
                    )
                finally:
                    verdicts.close()
                    report = make_report(run.folder, strict=settings.strict)
                    run.folder.write_json("report.json", report)
        except BeyondSWEError as error:
            error.add_note(f"To go on: the same command with --run-id {run_id}.")
            raise
    if as_json:
        emit({**report, **(more or {})})
    show([report], console())
    for line in first_failures(run.folder):
        say(line)
    if not complete:
        say(f"interrupted; go on with the same command and --run-id {run_id}")
        return 130
    if rejected:
        say(f"{rejected} {'row' if rejected == 1 else 'rows'} could not be used, as named above")
    if failed := report["statuses"].get("infrastructure_error"):
        say(
            f"{failed} {'attempt' if failed == 1 else 'attempts'} ended in an infrastructure error. "
            f"To try again: the same command with --run-id {run_id}"
        )
    return 1 if failed or rejected else 0

"""`beyondswe export`: datasets, predictions and trajectories in the formats of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from beyondswe.cli.datasets import dataset_options, open_dataset
from beyondswe.cli.output import emit, json_option, say
from beyondswe.cli.running import runs_dir_option, say_skipped

out_option = click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder to write to.",
)


@click.group("export")
def command() -> None:
    """Write datasets, predictions and trajectories in the formats of others."""


@command.command("swebench")
@dataset_options
@out_option
@click.option("--run", metavar="RUN", help="Also write the patches of this run as predictions.jsonl.")
@runs_dir_option
@json_option
def swebench(
    dataset: str, out: Path, run: str | None, runs_dir: Path, as_json: bool, **selection: Any
) -> None:
    """SWE-bench rows (dataset.jsonl) and predictions that its harness loads. Doc2Repo has no such form."""
    from beyondswe.export.swebench import export_predictions, export_swebench
    from beyondswe.runs.folder import find_run

    opened = open_dataset(dataset, **selection)
    say_skipped(opened)
    folder = find_run(run, runs_dir) if run else None
    _folder(out)
    rows, left_out = export_swebench(opened.instances, out)
    exported = {i.instance_id for i in opened.instances} - set(left_out)
    predictions = export_predictions(folder, out, exported) if folder else None
    if as_json:
        emit({"out": str(out), "instances": rows, "left_out": left_out, "predictions": predictions})
    say(f"{rows} instances: {out / 'dataset.jsonl'}")
    if left_out:
        say(f"left out, as SWE-bench has no form for Doc2Repo: {', '.join(left_out)}")
    if predictions is not None:
        say(f"{predictions} predictions: {out / 'predictions.jsonl'}")


@command.command("hf")
@dataset_options
@out_option
@json_option
def hf(dataset: str, out: Path, as_json: bool, **selection: Any) -> None:
    """A dataset folder for the Hugging Face Hub: card, parquet, Doc2Repo's suites."""
    from beyondswe.export.huggingface import export_hf

    opened = open_dataset(dataset, **selection)
    say_skipped(opened)
    _folder(out)
    rows = export_hf(opened, out)
    if as_json:
        emit({"out": str(out), "instances": rows})
    say(f"{rows} instances: {out}")


@command.command("atif")
@click.option("--run", metavar="RUN", help="The run whose trajectories are written.")
@click.option(
    "--transcript",
    "transcripts",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="A transcript of another harness: a file, or the folder that it left. Repeatable.",
)
@out_option
@runs_dir_option
@json_option
def atif(run: str | None, transcripts: tuple[Path, ...], out: Path, runs_dir: Path, as_json: bool) -> None:
    """Trajectories in ATIF (v1.8): of a run, or converted from transcripts of other harnesses."""
    from beyondswe.errors import UsageError
    from beyondswe.export.atif import export_run, export_transcript
    from beyondswe.runs.folder import find_run

    if not run and not transcripts:
        raise UsageError("name a run with --run, or a transcript with --transcript")
    folder = find_run(run, runs_dir) if run else None
    _folder(out)
    written, without = export_run(folder, out) if folder else (0, [])
    for path in transcripts:
        export_transcript(path, out)
    if as_json:
        emit({"out": str(out), "trajectories": written + len(transcripts), "without": without})
    say(f"{written + len(transcripts)} trajectories: {out}")
    if without:
        say(f"without a trajectory: {', '.join(without)}")


@command.command("harbor")
@dataset_options
@out_option
@click.option(
    "--organisation",
    default="beyondswe",
    show_default=True,
    metavar="NAME",
    help="First part of the tasks' names.",
)
@click.option(
    "--image-prefix",
    default="beyondswe/",
    show_default=True,
    metavar="PREFIX",
    help="First part of the images' tags, such as registry.example.org/team/: push them to run elsewhere.",
)
@json_option
def harbor(
    dataset: str, out: Path, organisation: str, image_prefix: str, as_json: bool, **selection: Any
) -> None:
    """Tasks for Harbor 0.25, with a verifier that scores in fresh containers as `score` does."""
    from beyondswe.cli.datasets import image_provider
    from beyondswe.errors import UsageError
    from beyondswe.export.harbor.manifest import is_name, is_prefix
    from beyondswe.export.harbor.tasks import export_harbor
    from beyondswe.sandbox.engine import Engine

    if not is_name(organisation):
        raise UsageError(
            f"--organisation {organisation}: letters, digits, '.', '_' and '-', a letter or digit first"
        )
    if not is_prefix(image_prefix):
        raise UsageError(f"--image-prefix {image_prefix}: a registry or folder in lower case, ending in '/'")
    opened = open_dataset(dataset, **selection)
    say_skipped(opened)
    _folder(out)
    engine = Engine.connect()
    done = export_harbor(
        engine,
        opened,
        out,
        image_provider(engine, dataset),
        organisation=organisation,
        prefix=image_prefix,
        on_task=lambda name: say(f"written: {name}"),
    )
    if as_json:
        emit(
            {
                "out": str(out),
                "instances": len(done.tasks),
                "tasks": done.tasks,
                "images": list(done.images),
                "without_solution": list(done.without_solution),
            }
        )
    say(f"{len(done.tasks)} tasks: {out}; they need these images: {', '.join(done.images)}")
    if done.without_solution:
        say(f"without a solution for the oracle: {', '.join(done.without_solution)}")


def _folder(path: Path) -> None:
    from beyondswe.errors import UsageError

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {path} cannot be made: {error.strerror or error}") from error

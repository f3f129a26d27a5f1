"""`beyondswe score`: score patches made elsewhere, given as SWE-bench prediction rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from beyondswe.cli.datasets import dataset_options, image_provider, open_dataset
from beyondswe.cli.output import say
from beyondswe.cli.running import carry_out, dataset_facts, run_options, say_skipped


@click.command("score")
@dataset_options
@click.option(
    "--predictions",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="JSONL or JSON rows with instance_id, model_patch (may be empty or null) and model_name_or_path.",
)
@run_options
def command(
    predictions: Path,
    cpus: float,
    memory: int,
    disk: int,
    test_timeout: float,
    strict: bool,
    python_dir: Path | None,
    max_disk: int | None,
    run_id: str | None,
    runs_dir: Path,
    workers: int | None,
    fresh: bool,
    as_json: bool,
    dataset: str,
    **selection: Any,
) -> int:
    """Score patches made elsewhere (SWE-bench prediction rows).

    Rows that cannot be used are named, the others are scored, and the exit code is 1. A selected instance
    without a prediction counts as not resolved: status empty_patch, flag no_prediction.
    """
    from beyondswe.errors import DataError
    from beyondswe.runs.predictions import Predictions
    from beyondswe.runs.settings import Settings
    from beyondswe.sandbox.scratch import temporary_folder
    from beyondswe.sandbox.types import Limits

    opened = open_dataset(dataset, **selection)
    with temporary_folder() as scratch:
        found = Predictions(predictions, {i.instance_id for i in opened.instances}, scratch=scratch)
        notes = [f"cannot be used: {row}" for row in found.unusable]
        if not len(found):
            reasons = "".join(f"\n  {row}" for row in found.unusable[:20])
            raise DataError(f"{predictions}: no row can be used with the selected instances{reasons}")
        if len(found.models) > 1:
            names = ", ".join(f"{name} ({count})" for name, count in found.models.items())
            notes.append(f"rows of several models in one file, reported together under the first: {names}")
        for line in notes:
            say(line)
        asked = Limits(cpus=cpus, memory=memory, disk=disk, test_timeout=test_timeout)
        settings = Settings(
            dataset=dataset_facts(opened),
            agent={"name": next(iter(found.models), "predictions"), "version": "", "digest": found.sha256},
            limits=asked,
            limits_asked=asked,
            strict=strict,
            notes=(*say_skipped(opened), *notes),
        )
        return carry_out(
            settings=settings,
            instances=opened.instances,
            provide_image=lambda engine: image_provider(
                engine, dataset, python_dir=python_dir, max_disk=max_disk
            ),
            work=lambda made: made.of_patches(
                lambda instance: found.patch(instance.instance_id),
                lambda instance: found.missing_because(instance.instance_id),
            ),
            run_id=run_id,
            runs_dir=runs_dir,
            workers=workers,
            fresh=fresh,
            as_json=as_json,
            more={"unusable": [row.to_row() for row in found.unusable]},
            rejected=len(found.unusable),
        )

"""`beyondswe verify`: find by running which tests fail before and pass after the reference change."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beyondswe.cli.datasets import dataset_options, image_provider, is_shipped, open_dataset
from beyondswe.cli.output import console, emit, json_option, say
from beyondswe.cli.parameters import Number
from beyondswe.cli.parameters import memory as memory_size
from beyondswe.cli.running import say_capped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from beyondswe.construction.verify import Verified
    from beyondswe.instances.model import Instance


@click.command("verify")
@dataset_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the verified instances go (JSONL), with their lists and the record of it; needless with --check.",
)
@click.option("--force", is_flag=True, help="Write over the file that --out names, if it is there.")
@click.option(
    "--runs", type=click.IntRange(1), default=5, show_default=True, metavar="N", help="Runs of each side."
)
@click.option(
    "--workers", type=click.IntRange(1), metavar="N", help="Containers at once; default: one a core."
)
@click.option(
    "--gold",
    is_flag=True,
    help="Keep the lists that instances have and find out whether they hold (datasets verified elsewhere).",
)
@click.option(
    "--check",
    is_flag=True,
    help="Do instances that have our record still hold, in the way that it names? Says what has rotted.",
)
@click.option(
    "--perturb",
    is_flag=True,
    help="Also vary order, hash seed, date, time zone, locale, processors and network, and name the tests that mind.",
)
@click.option(
    "--exclusions",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write who is out, and why: a line of JSON each with instance_id, status and reason.",
)
@click.option(
    "--record",
    is_flag=True,
    help="Also write tests.json beside the recipes of a dataset that comes with the product.",
)
@click.option(
    "--cpus",
    type=Number(0.1),
    default=4.0,
    show_default=True,
    metavar="N",
    help="Cores of a container.",
)
@click.option(
    "--memory",
    callback=memory_size,
    default="8g",
    show_default=True,
    metavar="SIZE",
    help="Memory of a container.",
)
@click.option(
    "--test-timeout",
    type=Number(1),
    default=1800,
    show_default=True,
    metavar="S",
    help="Seconds that one run may take.",
)
@click.option(
    "--python-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder of Python interpreters (pyenv's layout) for images that are built here.",
)
@json_option
def command(
    dataset: str,
    out: Path | None,
    force: bool,
    runs: int,
    workers: int | None,
    gold: bool,
    check: bool,
    perturb: bool,
    exclusions: Path | None,
    record: bool,
    cpus: float,
    memory: int,
    test_timeout: float,
    python_dir: Path | None,
    as_json: bool,
    **selection: Any,
) -> int:
    """Verify instances: run their tests N times on each side of the reference change, in fresh containers.

    F2P passed in every run after and in none before, P2P in every run of both sides; flaky tests leave the
    lists. Found by running as well, and recorded: whether somebody who cannot write to the tree runs the tests as
    well as the image's user, and whether the project must be built anew for them. Rejected instances are not written
    but reported, and the exit code is 1.
    """
    from beyondswe.construction.verify import Verification
    from beyondswe.errors import UsageError
    from beyondswe.runs.cleanup import remove_own_containers
    from beyondswe.sandbox.engine import Engine
    from beyondswe.sandbox.limits import capped
    from beyondswe.sandbox.types import Limits

    if record and not is_shipped(dataset):
        raise UsageError(f"--record is for datasets that come with the product, which '{dataset}' is not")
    if out is None and not check:
        raise UsageError("--out FILE says where the verified instances go; only --check does without")
    if check and (gold or record):
        raise UsageError("--check keeps lists and records as they are; leave out --gold and --record")
    for option, path in (("--out", out), ("--exclusions", exclusions)):
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"{option} {path}: there is no folder {path.parent}; make it first")
        if path is not None and path.is_file() and not force:
            raise UsageError(f"{option} {path}: this file is there already; --force writes over it")
    opened = open_dataset(dataset, **selection, require_tests=gold or check)
    engine = Engine.connect()
    asked = Limits(cpus=cpus, memory=memory, test_timeout=test_timeout)
    limits, notes = capped(asked, engine)
    _say(f"skipped: {row}" for row in opened.bad)
    say_capped(asked, limits, notes)

    done: list[Verified] = []
    with _Progress(len(opened.instances) * 2 * runs) as progress:
        verification = Verification(
            engine,
            provide_image=image_provider(engine, dataset, python_dir=python_dir),
            test_paths=_recipe_paths if is_shipped(dataset) else lambda _: (),
            limits=limits,
            runs=runs,
            workers=workers or int(engine.info.get("NCPU") or 1),
            gold=gold,
            check=check,
            perturb=perturb,
            run_labels={"verification": uuid.uuid4().hex},
            remove_containers=lambda: remove_own_containers(engine),
            on_run=progress.advance,
        )
        for verified in verification.verify(opened.instances):
            done.append(verified)
            _say([f"{verified.instance.instance_id}: {_in_words(verified)}"])
    order = [instance.instance_id for instance in opened.instances]
    done.sort(key=lambda verified: order.index(verified.instance.instance_id))

    accepted = [verified.instance for verified in done if verified.accepted]
    if out is not None:
        _write(out, accepted)
    if exclusions is not None:
        _exclude(exclusions, done)
    if record:
        _record(accepted)
    rejected = len(done) - len(accepted)
    if as_json:
        emit(
            {
                "dataset": opened.name,
                "version": opened.version,
                "runs": runs,
                "out": str(out) if out else None,
                "exclusions": str(exclusions) if exclusions else None,
                "verified": len(accepted),
                "rejected": rejected,
                "skipped": [str(row) for row in opened.bad],
                "instances": [verified.to_row() for verified in done],
            }
        )
    words = ("hold", "rotted") if check else ("verified", "rejected")
    _say([f"{len(accepted)} {words[0]}, {rejected} {words[1]}" + (f"; {out}" if out else "")])
    return 1 if rejected else 0


def _recipe_paths(instance: Instance) -> Sequence[str]:
    from beyondswe.construction.environments import find_recipe

    return find_recipe(instance).tests.paths


def _in_words(verified: Verified) -> str:
    from beyondswe.construction.perturb import in_words

    if not verified.accepted:
        return f"{'could not be verified' if verified.failed else 'rejected'}: {verified.reason}"
    found = verified.findings
    counts = (
        f"{len(found.expected)} tests"
        if verified.instance.is_doc2repo
        else f"{len(found.fail_to_pass)} fail to pass, {len(found.pass_to_pass)} pass to pass"
    )
    record = verified.instance.verification or {}
    words = [f"verified: {counts}, {len(found.flaky)} flaky"]
    if record.get("reinstall", "none") != "none":
        words.append(f"built anew ({record['reinstall']})")
    if needing := record.get("needs_network"):
        words.append(f"{len(needing)} left out that need the network")
    if verified.minded is not None and verified.minded.tests:
        words.append(in_words(verified.minded))
    words += [f"changed since: {change}" for change in verified.changed]
    return "; ".join(words)


def _exclude(path: Path, done: Sequence[Verified]) -> None:
    """Who is out, and why."""
    rows = [
        {"instance_id": one.instance.instance_id, "status": one.status, "reason": one.reason}
        for one in done
        if not one.accepted
    ]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _write(out: Path, instances: Sequence[Instance]) -> None:
    """The rows, and beside them what rows only name: suites and reference archives."""
    from beyondswe.instances import write_instances

    for instance in instances:
        for name in (instance.test_suite, instance.reference_archive):
            if not name or instance.test_suite_dir is None:
                continue
            source, target = instance.test_suite_dir / name, out.parent / name
            if source.is_file() and source.resolve() != target.resolve():
                shutil.copyfile(source, target)
    write_instances(out, instances)


def _record(instances: Sequence[Instance]) -> None:
    from beyondswe.construction.environments import find_recipe
    from beyondswe.construction.recipes import FoundTests

    for instance in instances:
        found = FoundTests(
            FAIL_TO_PASS=instance.fail_to_pass,
            PASS_TO_PASS=instance.pass_to_pass,
            verification=instance.verification or {},
        )
        path = find_recipe(instance).tests_file
        path.write_text(found.to_json(), encoding="utf-8")
        _say([f"wrote {path}"])


def _say(lines: Any) -> None:
    for line in lines:
        say(line)


class _Progress:
    """A bar of test runs on a terminal; elsewhere the line an instance that ends is enough."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._advance: Callable[[], None] | None = None

    def __enter__(self) -> _Progress:
        if console().is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("test runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=console(), transient=True)
            self._bar.start()
            task = self._bar.add_task("", total=self._total)
            self._advance = lambda: self._bar.advance(task)
        return self

    def __exit__(self, *_: object) -> None:
        if self._advance is not None:
            self._bar.stop()

    def advance(self) -> None:
        if self._advance is not None:
            self._advance()

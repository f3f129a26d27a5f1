"""`beyondswe build`: from candidates to environments, a Dockerfile and an image each."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beyondswe.cli.datasets import dataset_options, open_dataset
from beyondswe.cli.output import emit, json_option, say
from beyondswe.cli.parameters import Number
from beyondswe.cli.parameters import memory as memory_size
from beyondswe.cli.running import say_capped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beyondswe.construction.build.builder import Builder, Result, Search
    from beyondswe.construction.doc2repo.specification import Rewrite
    from beyondswe.instances.model import Instance
    from beyondswe.sandbox.engine import Engine

_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command("build")
@dataset_options
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the rows go (JSONL). Dockerfiles and logs go to <FILE>.environments beside it. A file that is "
    "there is continued: what was built is not built again.",
)
@click.option(
    "--builder",
    type=click.Choice(["rules", "agent"]),
    default="rules",
    show_default=True,
    help="rules: no model, what the repository says and what failures show. agent: a model with a shell.",
)
@click.option(
    "--repo-url",
    default="https://github.com/{repo}.git",
    show_default=True,
    metavar="TEMPLATE",
    help="Where repositories lie: a URL (https, http, file) or a folder, with {owner}, {name}, {repo}.",
)
@click.option(
    "--python-dir",
    type=_FOLDER,
    metavar="DIR",
    help="Folder of Python interpreters (pyenv's layout); only its versions are used then.",
)
@click.option(
    "--workers", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Rows at once."
)
@click.option(
    "--tries", type=click.IntRange(1), metavar="N", help="rules: tries with one Python.  [default: 12]"
)
@click.option(
    "--timeout",
    type=Number(1),
    default=3600,
    show_default=True,
    metavar="S",
    help="Seconds that one row may take.",
)
@click.option(
    "--test-timeout",
    type=Number(1),
    default=600,
    show_default=True,
    metavar="S",
    help="Seconds that one run of tests may take.",
)
@click.option("--fresh", is_flag=True, help="Build again what FILE has already.")
@click.option("--model", metavar="M", help="agent: the model's name.")
@click.option(
    "--model-url",
    metavar="URL",
    help="agent: base address of an endpoint that speaks OpenAI's chat completions.",
)
@click.option(
    "--max-turns", type=click.IntRange(1), metavar="N", help="agent: turns of a row.  [default: 60]"
)
@click.option(
    "--max-cost",
    type=Number(0, min_open=True),
    metavar="USD",
    help="agent: cost of a row, by its usage.",
)
@click.option("--writer-model", metavar="M", help="Doc2Repo: let this model word the specifications.")
@click.option(
    "--writer-url",
    metavar="URL",
    help="Its endpoint (OpenAI's chat completions); default: OPENAI_BASE_URL.",
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
@json_option
def command(
    dataset: str,
    out: Path,
    builder: str,
    repo_url: str,
    python_dir: Path | None,
    workers: int,
    tries: int | None,
    timeout: float,
    test_timeout: float,
    fresh: bool,
    model: str | None,
    model_url: str | None,
    max_turns: int | None,
    max_cost: float | None,
    writer_model: str | None,
    writer_url: str | None,
    cpus: float,
    memory: int,
    as_json: bool,
    **selection: Any,
) -> int:
    """Build an environment for each candidate: a Dockerfile that rebuilds, an image, and the row with `image`.

    A row is built when, in the image made from its Dockerfile, hidden tests pass with the reference change. One
    that fails says at which step and why, keeps its log, and leaves the others going; the exit code is 1 then.
    """
    from beyondswe.construction.build.builder import Builder
    from beyondswe.construction.build.candidates import DEFAULTS
    from beyondswe.construction.build.types import Options
    from beyondswe.errors import UsageError
    from beyondswe.runs.cleanup import remove_own_containers
    from beyondswe.sandbox.engine import Engine
    from beyondswe.sandbox.host import package_index
    from beyondswe.sandbox.limits import capped
    from beyondswe.sandbox.types import Limits

    given = {"--model": model, "--model-url": model_url, "--max-turns": max_turns, "--max-cost": max_cost}
    wrong = [name for name, value in given.items() if value is not None] if builder == "rules" else []
    wrong += ["--tries"] if builder == "agent" and tries is not None else []
    if wrong:
        raise UsageError(f"{', '.join(wrong)}: of no use to --builder {builder}; leave it out")
    if builder == "agent" and not (model and model_url):
        raise UsageError("--builder agent needs --model and --model-url")
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.parent}; make it first")
    package_index()  # one that cannot be used ends the command before anything is built
    opened = open_dataset(dataset, **selection, require_tests=False, require_suites=False, defaults=DEFAULTS)
    for row in opened.bad:
        say(f"skipped: {row}")
    before = _already(out)
    engine = Engine.connect()
    asked = Limits(cpus=cpus, memory=memory, test_timeout=test_timeout)
    limits, notes = capped(asked, engine)
    say_capped(asked, limits, notes)
    options = Options(
        engine=engine,
        repo_url=repo_url,
        limits=limits,
        run_labels={"build": uuid.uuid4().hex},
        python_dir=python_dir,
        tries=tries or 12,
        row_timeout=timeout,
        test_timeout=test_timeout,
    )
    search = _search(builder, model, model_url, max_turns, max_cost)
    rewrite = _writer(writer_model, writer_url)
    made = Builder(options, search, out, workers=workers, fresh=fresh, name=builder, rewrite=rewrite)
    results: list[Result] = []
    for result in made.run(opened.instances, before, lambda: remove_own_containers(engine)):
        results.append(result)
        say(f"{result.instance.instance_id}: {_in_words(result)}")
    order = [instance.instance_id for instance in opened.instances]
    results.sort(key=lambda result: order.index(result.instance.instance_id))
    return _report(engine, made, results, opened.name, as_json)


def _search(
    builder: str, model: str | None, model_url: str | None, max_turns: int | None, max_cost: float | None
) -> Search:
    if builder == "rules":
        from beyondswe.construction.build.rules import search

        return search
    from beyondswe.construction.build.agent import AgentBuilder

    return AgentBuilder(model or "", model_url or "", max_turns=max_turns or 60, max_cost=max_cost)


def _writer(model: str | None, url: str | None) -> Rewrite | None:
    """What words a Doc2Repo specification, where a model is named."""
    from beyondswe.construction.collect.judge import Judge

    judge = Judge.configured(model, url, options=("--writer-model", "--writer-url"))
    return judge.ask if judge else None


def _already(out: Path) -> Sequence[Instance]:
    from beyondswe.errors import DataError, UsageError
    from beyondswe.instances.dataset import load_dataset

    if not out.is_file() or not out.read_text(encoding="utf-8").strip():
        return ()
    try:
        return load_dataset(str(out), require_tests=False).instances
    except DataError as error:
        raise UsageError(f"--out {out}: not a file that `build` wrote; name another one ({error})") from error


def _in_words(result: Result) -> str:
    if result.status == "failed":
        log = f" (log: {result.log})" if result.log else ""
        return f"failed at {result.step}: {result.reason}{log}"
    if result.status == "skipped":
        return f"skipped: {result.reason}"
    if result.status == "kept":
        return f"built before: {result.instance.image}"
    shared = ", with the packages of an earlier instance" if result.shares else ""
    return (
        f"built in {result.seconds:.0f} s with Python {result.python}{shared}: {result.tests}; "
        f"{result.instance.image}"
    )


def _report(engine: Engine, made: Builder, results: Sequence[Result], name: str, as_json: bool) -> int:
    from beyondswe.construction.build.layers import disk_of

    counts = {
        status: sum(result.status == status for result in results)
        for status in ("built", "kept", "failed", "skipped")
    }
    images = [result.instance.image for result in results if result.has_image]
    disk = disk_of(engine, images)
    if as_json:
        emit(
            {
                "dataset": name,
                "builder": made.name,
                "out": str(made.out),
                "environments": str(made.folder),
                **counts,
                "disk": disk.to_row(),
                "instances": [result.to_row(made.folder) for result in results],
            }
        )
    say(
        f"{counts['built']} built, {counts['kept']} built before, {counts['failed']} failed, "
        f"{counts['skipped']} skipped; {made.out}"
    )
    if images:
        say(
            f"disk: {disk.images} images take {_size(disk.together)}, apart they would take "
            f"{_size(disk.apart)} ({disk.shared:.0%} shared; base images {_size(disk.base)})"
        )
    return 1 if counts["failed"] else 0


def _size(number: int) -> str:
    return f"{number / 2**30:.2f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"


__all__ = ["command"]

"""`eval --config FILE`: a matrix of agents × models × search on and off, each cell a run of its own.

Every cell is the command line of an `eval`, made of the file; so nothing can be said in a file that could not
be said in a terminal, and the checks and defaults are the same.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from beyondswe.cli.output import console, emit, say

_OF_SEARCH = ("search_backend", "page_reader", "summary_model", "web_cache")
"""Keys that only cells of searchswe that search can use; the others go without."""
_OWN = ("agents", "models", "search", "run_id")
"""Keys of the file that are no options of `eval` by that name."""
CHECK_ALONE = "beyondswe.check"
"""In the meta of its context where `eval` is to check what it was given, and to do nothing."""
ESTIMATE = "beyondswe.estimate"
"""Where a dry run leaves what it would take, in the meta of its context."""


class EvalCommand(click.Command):
    """`eval`, of which ``--config FILE`` makes many."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(word == "--config" or word.startswith("--config=") for word in args) and not (
            {"-h", "--help"} & set(args)
        ):
            ctx.meta["beyondswe.matrix"] = list(args)
            return []
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        words = ctx.meta.pop("beyondswe.matrix", None)
        return super().invoke(ctx) if words is None else _matrix(self, ctx, words)


def _matrix(command: EvalCommand, ctx: click.Context, words: list[str]) -> int:
    """Run every cell; the worst exit code. An interrupted cell ends the matrix; the same call goes on with it."""
    from beyondswe.reports.report import make_report
    from beyondswe.reports.table import show
    from beyondswe.runs.folder import find_run

    path, rest = _taken(words, "--config")
    prefix, rest = _taken(rest, "--run-id")
    as_json = "--json" in rest
    rest = [word for word in rest if word != "--json"]
    assert path is not None
    cells = make_cells(Path(path), command, prefix)
    if any(cell.without for cell in cells):
        say(f"options of search go to the cells of {OURS} that search, alone")
    contexts = []
    for cell in cells:
        with _in_cell(cell.run_id):
            words = [*cell.words, *rest, "--run-id", cell.run_id]
            contexts.append((cell.run_id, command.make_context("eval", words, parent=ctx)))
    ctx.meta[CHECK_ALONE] = True
    for run_id, context in contexts:
        with _in_cell(run_id), context:
            command.invoke(context)
    del ctx.meta[CHECK_ALONE]
    worst = 0
    reports: list[dict[str, Any]] = []
    estimates: list[dict[str, Any]] = []  # with --dry-run, which leaves no runs
    try:
        for number, (run_id, context) in enumerate(contexts, 1):
            say(f"\n{number} of {len(contexts)}: {run_id}")
            with _in_cell(run_id), context:
                code = int(command.invoke(context) or 0)
            if context.params["dry_run"]:
                estimates.append({"run_id": run_id, **ctx.meta.pop(ESTIMATE)})
                continue
            folder = find_run(run_id, context.params["runs_dir"])
            reports.append(make_report(folder, strict=context.params["strict"]))
            worst = max(worst, code)
            if code == 130:
                say("interrupted; the same command goes on with the matrix")
                break
    finally:  # a cell that fails takes nothing from those that are finished
        say("")
        if reports:
            show(reports, console())
    if as_json:
        emit({"config": str(path), **({"estimates": estimates} if estimates else {"runs": reports})})
    return worst


@contextmanager
def _in_cell(run_id: str) -> Iterator[None]:
    """Errors name the cell that they are in."""
    from beyondswe.errors import BeyondSWEError

    try:
        yield
    except BeyondSWEError as error:
        error.add_note(f"(in the run {run_id} of the matrix)")
        raise
    except click.UsageError as error:
        message = f"{error.format_message()} (in the run {run_id} of the matrix)"
        raise click.UsageError(message, error.ctx) from error


@dataclass(frozen=True)
class Cell:
    """One run of the matrix: its id, the words of its `eval`, and the options of search that it goes without."""

    run_id: str
    words: list[str]
    without: tuple[str, ...] = ()


def _taken(words: list[str], option: str) -> tuple[str | None, list[str]]:
    """The value of an option among words, and the words without it."""
    value, rest = None, []
    remaining = iter(words)
    for word in remaining:
        if word == option:
            value = next(remaining, None)
            if value is None:
                raise click.UsageError(f"{option} needs a value")
        elif word.startswith(f"{option}="):
            value = word.partition("=")[2]
        else:
            rest.append(word)
    return value, rest


def make_cells(path: Path, command: click.Command, prefix: str | None) -> list[Cell]:
    """Every cell of the file; `UsageError` for what is wrong in it."""
    import yaml

    from beyondswe.errors import UsageError

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--config {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"--config {path} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, Mapping):
        raise UsageError(f"--config {path}: expected names and values, such as `agents: [searchswe]`")
    document = {str(key).replace("-", "_"): value for key, value in document.items()}
    agents = [_named(entry, "agent", path) for entry in _list(document, "agents", path)]
    models = [_named(entry, "model", path) for entry in _list(document, "models", path, default=[None])]
    search = _list(document, "search", path, default=[None])
    if wrong := [value for value in search if value is not None and not isinstance(value, bool)]:
        raise UsageError(
            f"--config {path}: search: expected true, false or a list of both, found {wrong[0]!r}"
        )
    begin = prefix or str(document.get("run_id") or path.stem)
    shared = {key: value for key, value in document.items() if key not in _OWN}
    cells: dict[str, Cell] = {}
    for agent in agents:
        for model in models:
            for searching in search:
                cell: dict[str, Any] = {**shared, **model, **agent}
                if searching is not None:
                    cell["search"] = searching
                without: tuple[str, ...] = ()
                if cell.get("agent") != OURS or searching is False:
                    without = tuple(key for key in cell if key in _OF_SEARCH)
                    cell = {key: value for key, value in cell.items() if key not in without}
                words = [begin, cell.get("agent"), cell.get("model"), _SEARCH_WORDS[searching]]
                run_id = "-".join(_word(str(word)) for word in words if word)
                if run_id in cells:
                    raise UsageError(f"--config {path}: two runs would be called {run_id}; give one a `name`")
                cells[run_id] = Cell(run_id, _arguments(cell, command, path), without)
    return list(cells.values())


OURS = "searchswe"
_SEARCH_WORDS = {None: "", True: "search", False: "plain"}


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "_", text)[:40].strip("._") or "x"


def _list(document: Mapping[str, Any], key: str, path: Path, default: list[Any] | None = None) -> list[Any]:
    from beyondswe.errors import UsageError

    value = document.get(key, default)
    if value is None:
        raise UsageError(f"--config {path}: {key} is missing: a list of them")
    found = list(value) if isinstance(value, list) else [value]
    if not found:
        raise UsageError(f"--config {path}: {key} is empty")
    return found


def _named(entry: Any, kind: str, path: Path) -> dict[str, Any]:
    """An agent or a model of the file as options: a name, or ``name`` with options of its own."""
    from beyondswe.errors import UsageError

    if entry is None:
        return {}
    if isinstance(entry, str):
        return {kind: entry}
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        raise UsageError(
            f"--config {path}: {kind}s: expected a name, or a mapping with `name`, found {entry!r}"
        )
    own = {str(key).replace("-", "_"): value for key, value in entry.items() if key != "name"}
    return {kind: entry["name"], **own}


def _arguments(cell: Mapping[str, Any], command: click.Command, path: Path) -> list[str]:
    """Options of `eval` as words."""
    from beyondswe.errors import UsageError

    known = {
        name.removeprefix("--").replace("-", "_"): (parameter, name)
        for parameter in command.params
        for name in parameter.opts
        if name.startswith("--")
    }
    words: list[str] = []
    for key, value in cell.items():
        if key == "options":
            if not isinstance(value, Mapping):
                raise UsageError(f"--config {path}: options: expected names and values, found {value!r}")
            for name, setting in value.items():
                words += ["--model-option", f"{name}={json.dumps(setting)}"]
            continue
        if key not in known or key in ("config", "json"):
            near = difflib.get_close_matches(key, [*known, *_OWN, "options"], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"--config {path}: there is no option {key!r}{hint}")
        words += _option(*known[key], value)
    return words


def _option(parameter: click.Parameter, name: str, value: Any) -> list[str]:
    if isinstance(parameter, click.Option) and parameter.is_flag:
        negative: Sequence[str] = parameter.secondary_opts
        return [name] if value else [negative[0]] if negative else []
    if isinstance(value, list | tuple):
        return [word for entry in value for word in (name, str(entry))]
    return [] if value is None else [name, str(value)]

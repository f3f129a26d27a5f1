"""Builds the static site: pages without any request to elsewhere, and the numbers as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from beyondswe.errors import UsageError
from beyondswe.leaderboard.check import RELEASED, known_versions
from beyondswe.leaderboard.entries import Board, Entry, Solved
from beyondswe.leaderboard.submission import scores_of
from beyondswe.reports.figures.draw import make_figures
from beyondswe.reports.matrix import FAMILIES, rate_of
from beyondswe.resources import resource
from beyondswe.runs.folder import disk_errors

FIGURES_OF = 20
"""Rows of a dataset, the best by AVG, that its figures show: more cannot be told apart."""
MARKER = ".beyondswe-site"
"""In a folder that was built: only such a one is replaced."""


def build(board: Board, out: Path) -> list[str]:
    """Write the whole site to a folder; gives the files of it. Raises `UsageError` for a folder that is not ours."""
    if out.exists() and any(out.iterdir()) and not (out / MARKER).exists():
        raise UsageError(f"{out} holds other things than a built site; name another folder with --out")
    draft = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with disk_errors(out):
            (draft / "s").mkdir(parents=True)
            _write(board, draft)
            (draft / MARKER).touch()
            shutil.rmtree(out, ignore_errors=True)
            draft.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.name != MARKER)


def _write(board: Board, out: Path) -> None:
    pages = _Pages(out)
    groups = group_by_dataset(board.entries)
    own = [entry for entry in board.entries if not entry.reported]
    with _figures(groups) as drawn:
        _write_pages(board, own, groups, pages)
        pages.write("figures.html", "figures.html.j2", figures=drawn(), most=FIGURES_OF)
    matrices = [m for name, entries in groups.items() if (m := matrix(name, entries))]
    pages.write("matrix.html", "matrix.html.j2", matrices=matrices)
    for path in resource("leaderboard", "static").iterdir():
        shutil.copyfile(path, out / path.name)
    text = json.dumps([row(entry) for entry in board.entries], indent=1, ensure_ascii=False, allow_nan=False)
    (out / "leaderboard.json").write_text(text + "\n", encoding="utf-8")
    (out / "leaderboard.csv").write_text(_board_csv(board.entries), encoding="utf-8")
    text = json.dumps(matrices, ensure_ascii=False, separators=(",", ":"))
    (out / "matrix.json").write_text(text + "\n", encoding="utf-8")
    (out / "matrix.csv").write_text(_matrix_csv(own), encoding="utf-8")


def _write_pages(board: Board, own: list[Entry], groups: dict[str, list[Entry]], pages: _Pages) -> None:
    """The table, a page a submission, and how to submit."""
    pages.write(
        "index.html",
        "index.html.j2",
        entries=board.entries,
        families=FAMILIES,
        datasets=list(groups),
        verdicts=len(own),
        published=len(board.entries) - len(own),
    )
    heads: dict[tuple[str, str], str] = {}
    for entry in own:
        rows = _outcome_rows(entry.instances, heads)
        pages.write(f"s/{entry.name}.html", "submission.html.j2", root="../", entry=entry, rows=rows)
    pages.write("submit.html", "submit.html.j2", released=RELEASED, versions=sorted(known_versions()))


class _Pages:
    """Renders templates; everybody's text is escaped."""

    def __init__(self, out: Path) -> None:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        from beyondswe.reports.formats import percent

        self._out = out
        self._environment = Environment(
            loader=FileSystemLoader(resource("leaderboard", "templates")),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {"percent": percent, "data": _data}
        self._environment.globals |= {
            "root": "",
            "rate_of": rate_of,
            "version": version("beyondswe"),
            "built": datetime.now(UTC).date().isoformat(),
        }

    def write(self, name: str, template: str, **values: Any) -> None:
        page = self._environment.get_template(template).render(page=name, **values)
        (self._out / name).write_text(page, encoding="utf-8")


def _data(value: Any) -> Any:
    """JSON that cannot end the element that it stands in."""
    from markupsafe import Markup

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def _outcome_rows(instances: dict[str, Solved], heads: dict[tuple[str, str], str]) -> Any:
    """Table rows of a submission's instances. Half a million of them are written: the begin, the same in every
    submission, is made once, and no template is in the way.
    """
    from markupsafe import Markup

    lines = []
    for name, one in sorted(instances.items(), key=lambda item: (item[1].family, item[0])):
        head = heads.get((name, one.family))
        if head is None:
            head = f'<tr><th scope="row">{escape(name)}</th><td>{escape(one.family)}</td>'
            heads[(name, one.family)] = head
        lines.append(
            f'{head}<td class="s {one.status}">{one.status}</td><td class="n">{one.mean:.2f}</td></tr>'
        )
    return Markup("\n".join(lines))


def group_by_dataset(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Rows by what they were run on, in order; the published ones are a group of their dataset's name."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.dataset, []).append(entry)
    return groups


@contextmanager
def _figures(groups: dict[str, list[Entry]]) -> Iterator[Callable[[], dict[str, Any]]]:
    """Figures of each dataset, drawn by another process meanwhile; the function waits for them."""
    best = {name: _best(entries) for name, entries in groups.items()}
    with ProcessPoolExecutor(1) as pool:
        drawing = {name: pool.submit(make_figures, reports) for name, reports in best.items()}
        yield lambda: {name: future.result() for name, future in drawing.items()}


def _best(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Reports of the best rows, with names that leave room for the plot."""
    best = sorted(entries, key=lambda entry: -(entry.report["avg"] or 0.0))[:FIGURES_OF]
    return [{**e.report, "agent": {"name": _short(e.agent)}, "model": _short(e.model) or None} for e in best]


def _short(text: str, most: int = 24) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def matrix(dataset: str, entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Who solves what: a string a submission with a character an instance. ``.`` is not tried, ``+`` solved by every
    attempt, a digit the tenths of the mean score. None where no row has instances.
    """
    known = {name: one.family for entry in reversed(entries) for name, one in entry.instances.items()}
    names = sorted(known, key=lambda name: (known[name], name))
    if not names:
        return None
    own = [entry for entry in entries if entry.instances]
    return {
        "dataset": dataset,
        "instances": [[name, known[name]] for name in names],
        "submissions": [[entry.name, entry.label] for entry in own],
        "cells": ["".join(_cell(entry.instances.get(name)) for name in names) for entry in own],
    }


def _cell(one: Solved | None) -> str:
    if one is None:
        return "."
    mean = one.total / one.attempts
    return "+" if mean >= 1 else str(int(mean * 10))


def row(entry: Entry) -> dict[str, Any]:
    """What ``leaderboard.json`` says of a row."""
    facts = entry.submission.model_dump(mode="json", exclude={"scores"}) if entry.submission else {}
    return {
        **facts,
        "name": entry.name,
        "agent": entry.report["agent"],
        "model": entry.model or None,
        "open_weights": {"open": True, "closed": False}.get(entry.openness),
        "search": entry.search,
        "dataset": entry.report["dataset"],
        "reported": entry.reported,
        "verification": entry.mark,
        "scores": scores_of(entry.report),
        "usage": entry.report.get("usage"),
    }


def _board_csv(entries: Sequence[Entry]) -> str:
    columns = [c for name in (*FAMILIES, "AVG") for c in (name, f"{name}_low", f"{name}_high")]
    rows: list[list[Any]] = [
        [
            *("name", "agent", "model", "weights", "search", "date", "dataset", "verification"),
            *(*columns, "almost_correct", "correct"),
        ]
    ]
    for entry in entries:
        cells: list[Any] = [entry.name, entry.agent, entry.model, entry.openness, entry.search, entry.date]
        cells += [entry.dataset, entry.mark]
        for name in FAMILIES:
            cells += [entry.rates.get(name), *(entry.intervals.get(name) or (None, None))]
        cells += [entry.report["avg"], *(entry.report["avg_interval"] or (None, None))]
        rows.append([*cells, *(entry.correct or (None, None))])
    return _csv(rows)


def _matrix_csv(entries: Sequence[Entry]) -> str:
    """Mean scores: a line an instance of a dataset, a column a submission."""
    rows: list[list[Any]] = [["dataset", "instance_id", "family", *(entry.name for entry in entries)]]
    for dataset, group in group_by_dataset(entries).items():
        known = {name: one.family for entry in group for name, one in entry.instances.items()}
        here = {entry.name for entry in group}
        for name in sorted(known, key=lambda name: (known[name], name)):
            cells = [
                f"{one.total / one.attempts:.4g}"
                if entry.name in here and (one := entry.instances.get(name)) is not None
                else None
                for entry in entries
            ]
            rows.append([dataset, name, known[name], *cells])
    return _csv(rows)


def _csv(rows: Sequence[Sequence[Any]]) -> str:
    """Text that a spreadsheet would take for a formula has an apostrophe before it."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for line in rows:
        writer.writerow(
            "" if c is None else f"'{c}" if isinstance(c, str) and c[:1] in "=+-@\t" and c else c
            for c in line
        )
    return stream.getvalue()

"""The main table as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from beyondswe.reports.matrix import FAMILIES, Row

_AMOUNTS = ("input_tokens", "output_tokens", "cost_usd", "turns")


def to_csv(rows: Sequence[Row]) -> str:
    """A line a run with full precision: rates, intervals, Δ, (almost) correct, usage."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names = [*FAMILIES, "AVG"]
    writer.writerow(
        ["run_id", "agent", "model", "search", "reported"]
        + [column for name in names for column in (name, f"{name}_low", f"{name}_high", f"{name}_delta")]
        + ["almost_correct", "correct", *_AMOUNTS]
    )
    for row in rows:
        cells: list[object] = [row.run_id, row.agent, row.model, row.search, row.reported]
        for name in names:
            value = row.avg if name == "AVG" else row.rates.get(name)
            interval = row.avg_interval if name == "AVG" else row.intervals.get(name)
            delta = row.deltas.get(name)
            cells += [value, *(interval or (None, None)), None if delta is None else round(delta, 4)]
        cells += [*(row.correct or (None, None)), *(row.usage.get(name) for name in _AMOUNTS)]
        writer.writerow(["" if cell is None else cell for cell in cells])
    return stream.getvalue()


def to_markdown(rows: Sequence[Row], notes: Sequence[str] = ()) -> str:
    """A GitHub table: rates with Δ of search in brackets."""
    head = ["setting", *FAMILIES, "(almost) / correct", "AVG"]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join([_name(row).replace("|", "\\|"), *_cells(row)]) + " |" for row in rows]
    lines += [f"\n{note}" for note in notes]
    return "\n".join(lines) + "\n"


def to_latex(rows: Sequence[Row], notes: Sequence[str] = ()) -> str:
    """The paper's main table with booktabs, as a `table` environment."""
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        r"\begin{tabular}{l" + "r" * (len(FAMILIES) + 2) + "}",
        r"\toprule",
        " & ".join(["Setting", *FAMILIES, r"\#(Alm.) Corr.", "AVG"]) + r" \\",
        r"\midrule",
        *(" & ".join([_escape(_name(row)), *map(_escape, _cells(row))]) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\footnotesize {_escape(note)}" for note in notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _name(row: Row) -> str:
    return f"{row.run_id} *" if row.reported else row.label


def _cells(row: Row) -> list[str]:
    cells = [_with_delta(row.rates.get(name), row.deltas.get(name)) for name in FAMILIES]
    correct = f"({row.correct[0]}) / {row.correct[1]}" if row.correct else "–"
    return [*cells, correct, _with_delta(row.avg, row.deltas.get("AVG"))]


def percent(value: float | None) -> str:
    """Two decimals, a dash for what is not there."""
    return "–" if value is None else f"{value:.2f}"


def _with_delta(value: float | None, delta: float | None) -> str:
    return percent(value) if delta is None else f"{percent(value)} ({delta:+.1f})"


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
}


def _escape(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in text)

"""Reports for people: of one run its families, statuses, flags and times; of several a row a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beyondswe.instances.model import Family
from beyondswe.reports.formats import percent
from beyondswe.reports.matrix import FAMILIES, Row, make_matrix, matrix_notes
from beyondswe.runs.progress import spoken

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def show(reports: Sequence[dict[str, Any]], console: Console) -> None:
    """Print the notes and the table: of one run a row a family, of several a row a run."""

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    ours = [report for report in reports if not report.get("reported")]
    for report in ours:
        if len(reports) == 1:
            say(f"\n{report['run_id']}")
            say(f"{_agent(report)}, on {_dataset(report)}")
        name = f"{report['run_id']}: " if len(reports) > 1 else ""
        for line in notes(report):
            say(f"{name}{line}")
    for line in matrix_notes(reports):
        say(line)
    if len(reports) == 1:
        if Family.DOC2REPO.value in reports[0]["families"]:
            say(
                "Doc2Repo: its rate is the pass rate; (almost) / correct are its instances with at least 90 % "
                "and with all of their tests passed"
            )
        console.print(_of_one(reports[0]))
    else:
        console.print(_of_several(reports))


def _table() -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, padding=(0, 1))  # fits 80 columns


def _of_one(report: dict[str, Any]) -> Table:
    table = _table()
    table.add_column("family", no_wrap=True)
    doc2repo = report["families"].get(Family.DOC2REPO.value)
    for name in ["instances", "rate", "95 % interval", *(["(almost) / correct"] if doc2repo else [])]:
        table.add_column(name, justify="right", no_wrap=True)
    for name, entry in report["families"].items():
        is_doc2repo = name == Family.DOC2REPO.value
        table.add_row(
            name,
            str(entry["n"]),
            percent(entry["pass_rate" if is_doc2repo else "rate"]),
            " – ".join(percent(bound) for bound in entry["interval"] or [None]),
            *([f"({entry['almost_correct']}) / {entry['correct']}"] if is_doc2repo else []),
        )
    table.add_section()
    interval = " – ".join(percent(bound) for bound in report["avg_interval"] or [None])
    table.add_row("AVG", "", percent(report["avg"]), interval, style="bold")
    return table


def _of_several(reports: Sequence[dict[str, Any]]) -> Table:
    from rich.markup import escape

    table = _table()
    table.add_column("run, agent", overflow="fold")
    for name in [*FAMILIES, "(almost)\n/ correct", "AVG"]:
        table.add_column(name, justify="right", no_wrap=True)
    for row, report in zip(make_matrix(reports), reports, strict=True):
        what = "as published" if row.reported else _agent(report)
        first = f"{escape(row.run_id)}{' *' if row.reported else ''}\n[dim]{escape(what)}[/dim]"
        table.add_row(first, *cells(row))
    return table


def cells(row: Row) -> list[str]:
    """The cells of one run: families, (almost) / correct, AVG; below a rate its Δ where there is one."""
    correct = f"({row.correct[0]}) / {row.correct[1]}" if row.correct else "–"
    values = [(row.rates.get(name), row.deltas.get(name)) for name in FAMILIES]
    values.append((row.avg, row.deltas.get("AVG")))
    cells = [
        percent(value) if delta is None else f"{percent(value)}\n({delta:+.1f})" for value, delta in values
    ]
    return [*cells[:-1], correct, cells[-1]]


def notes(report: dict[str, Any]) -> list[str]:
    """What must be said beside the numbers, and how the attempts ended."""
    lines = []
    attempts = report["attempts"]
    if attempts["done"] < attempts["asked"]:
        lines.append(
            f"unfinished: {attempts['done']} of {attempts['asked']} attempts done; the numbers are of those"
        )
    if regraded := report.get("regraded"):
        lines.append(
            f"regraded by an audit of {regraded.get('from')}: {regraded.get('attempts')} attempts count as unresolved, "
            f"{regraded.get('changed')} of which had scored"
        )
    if excluded := report["dataset"].get("excluded"):
        names = ", ".join(list(excluded)[:5]) + (", …" if len(excluded) > 5 else "")
        lines.append(
            f"instances of the dataset that are excluded, with reasons in run.json: {len(excluded)} ({names})"
        )
    if hosts := report.get("allow_hosts"):
        lines.append(f"network {report['network']}; allowed beside: {', '.join(map(str, hosts))}")
    lines.append(
        "statuses: "
        + (", ".join(f"{count} {name}" for name, count in _by_count(report["statuses"])) or "none")
    )
    if count := report["statuses"].get("infrastructure_error"):
        without = ", ".join(
            f"{name} {percent(entry['rate_excluding_infrastructure'])}"
            for name, entry in report["families"].items()
        )
        lines.append(
            f"{count} attempts ended in an infrastructure error and count as 0; without them: {without}"
        )
    if count := report["flags"].get("no_prediction"):
        lines.append(f"{count} instances have no prediction and count as not resolved")
    flags = {name: count for name, count in report["flags"].items() if name != "no_prediction"}
    if flags:
        how = (
            "suspicious ones count as 0"
            if report["strict"]
            else "counted all the same; --strict counts suspicious ones as 0"
        )
        lines.append(
            "flags: " + ", ".join(f"{count} {name}" for name, count in _by_count(flags)) + f" ({how})"
        )
    if count := report.get("cached"):
        lines.append(
            f"{count} {'verdict' if count == 1 else 'verdicts'} from the cache (--fresh scores again)"
        )
    usage = {name: value for name, value in report["usage"].items() if value and name != "tool_calls"}
    if usage:
        lines.append("usage: " + ", ".join(f"{name} {_amount(value)}" for name, value in usage.items()))
    if calls := report["usage"].get("tool_calls"):
        lines.append("tool calls: " + ", ".join(f"{count} {name}" for name, count in _by_count(calls)))
    means = {phase: times["mean"] for phase, times in report["timings"].items() if times["mean"]}
    if means:
        lines.append(
            "time an attempt: " + ", ".join(f"{phase} {_seconds(value)}" for phase, value in means.items())
        )
    return lines


def _by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: -item[1])


def _amount(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 60 else spoken(value)


def _dataset(report: dict[str, Any]) -> str:
    name, version = report["dataset"]["name"], report["dataset"].get("version")
    return f"{name}, version {version}" if version else str(name)


def _agent(report: dict[str, Any]) -> str:
    agent = " ".join(part for part in (report["agent"]["name"], report["agent"].get("version")) if part)
    return f"{agent}, {report['model']}" if report.get("model") else agent

"""Draws figures as SVG with matplotlib: text stays text, and one file serves light and dark.

Colours are drawn as stand-ins and then replaced by CSS variables, which the SVG's own style sets for both schemes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

from beyondswe.errors import UsageError
from beyondswe.instances.model import Instance
from beyondswe.reports.figures import data
from beyondswe.reports.matrix import make_matrix

INK, QUIET, PAPER = "#010101", "#020202", "#090909"
SERIES = ("#030303", "#040404", "#050505", "#060606", "#070707", "#080808", "#0a0a0a", "#0b0b0b")
_LIGHT = {INK: "#1c1e21", QUIET: "#9aa2ad", PAPER: "#ffffff"} | dict(
    zip(
        SERIES,
        ("#0b62b8", "#b45309", "#15803d", "#b91c5c", "#6d28d9", "#0e7490", "#854d0e", "#475569"),
        strict=True,
    )
)
_DARK = {INK: "#e7eaee", QUIET: "#6d7683", PAPER: "#14171b"} | dict(
    zip(
        SERIES,
        ("#6cb2ff", "#f5a04c", "#5fd38a", "#ff86b5", "#b59bff", "#59cfe6", "#e3b341", "#9fb0c3"),
        strict=True,
    )
)


_Plan = tuple[str, str, Any, Callable[[Any, Any], None], str]
"""Name, title, numbers (empty: no figure), how they are drawn, why there are none."""


@dataclass(frozen=True)
class Figure:
    """One figure: a name for its file, a title, what it shows in words, and the SVG."""

    name: str
    title: str
    description: str
    svg: str


def make_figures(
    reports: Sequence[dict[str, Any]], instances: Sequence[Instance] = ()
) -> tuple[list[Figure], list[str]]:
    """All figures that these reports have the numbers for, and why the others are not there."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError(
            "figures need the extra stats (matplotlib is missing): pip install 'beyondswe[stats]'"
        ) from None
    made, missing = [], []
    search = data.outcomes_of_search(make_matrix(reports))
    calls, gain = data.tool_calls(reports), data.search_against_gain(reports)
    cost, tokens = data.avg_against(reports, "cost_usd"), data.avg_against(reports, "tokens")
    sizes = data.doc2repo_sizes(instances)
    pairs = "no pair of runs without and with search"
    plans: list[_Plan] = [
        ("search-outcomes", "What search does to the score", search, _stacks, pairs),
        ("tool-calls", "Tool calls an attempt", calls, _bars, "nobody counted tool calls"),
        ("search-gain", "Search calls against gain", gain, _gain, f"{pairs} that counted calls"),
        (
            "avg-cost",
            "AVG against cost",
            cost,
            _scatter("US dollars an attempt"),
            "the cost of no run is known",
        ),
        (
            "avg-tokens",
            "AVG against tokens",
            tokens,
            _scatter("thousand tokens an attempt"),
            "the tokens of no run are known",
        ),
        (
            "doc2repo-sizes",
            "Size of Doc2Repo's references",
            sizes,
            _sizes,
            "the dataset has no Doc2Repo instance here",
        ),
    ]
    for name, title, there, draw, why in plans:
        if there:
            made.append(Figure(name, title, _describe(name, there), _svg(title, partial(draw, there))))
        else:
            missing.append(f"{title}: {why}")
    return made, missing


def _describe(name: str, there: Any) -> str:
    """The figure in words, for who does not see it."""
    if name == "search-outcomes":
        return "; ".join(
            f"{family}: {s.improved} improved, {s.tied} tied, {s.regressed} regressed"
            for family, s in there.items()
        )
    if name == "tool-calls":
        return "; ".join(
            f"{run}: " + ", ".join(f"{tool} {n:.2f}" for tool, n in calls.items())
            for run, calls in there.items()
        )
    if name == "doc2repo-sizes":
        return ", ".join(f"{label} lines: {n}" for label, n in there.items())
    return "; ".join(f"{p.label}{' ' + p.group if p.group else ''}: {p.x:.4g}, {p.y:.4g}" for p in there)


def _svg(title: str, draw: Callable[[Any], None]) -> str:
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "beyondswe",
        "font.family": "sans-serif",
        "font.size": 11,
        "text.color": INK,
        "axes.edgecolor": QUIET,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "text.parse_math": False,  # a name with dollars in it is a name
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
    }
    with matplotlib.rc_context(style):
        canvas = Canvas(figsize=(9, 4.2), layout="constrained")
        axes = canvas.add_subplot()
        draw(axes)
        axes.set_title(title, loc="left", fontsize=13)
        stream = io.StringIO()
        canvas.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _themed(stream.getvalue(), title)


def _themed(svg: str, title: str) -> str:
    """The SVG alone, without its prologue, with variables for colours and both schemes in its style."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    names = {}
    for number, colour in enumerate(_LIGHT):
        names[colour] = f"--figure-{number}"
        body = body.replace(colour, f"var(--figure-{number})")
    light = "".join(f"{name}:{_LIGHT[colour]};" for colour, name in names.items())
    dark = "".join(f"{name}:{_DARK[colour]};" for colour, name in names.items())
    style = (
        f"<style>.figure{{{light}max-width:100%;height:auto}}"
        f"@media (prefers-color-scheme: dark){{.figure{{{dark}}}}}</style>"
    )
    head, rest = body.split(">", 1)
    head = re.sub(r' (?:width|height)="[^"]*"', "", head)
    return f'{head} class="figure" role="img" aria-label="{escape(title)}" width="900">{style}{rest}'


def _stacks(shares: Mapping[str, data.Shares], axes: Any) -> None:
    names = list(shares)[::-1]
    left = [0.0] * len(names)
    for colour, part in zip((SERIES[2], QUIET, SERIES[1]), ("improved", "tied", "regressed"), strict=True):
        widths = [100 * getattr(shares[name], part) / shares[name].n for name in names]
        axes.barh(names, widths, left=left, color=colour, label=part, height=0.62)
        for at, (start, width) in enumerate(zip(left, widths, strict=True)):
            if width >= 9:
                axes.text(start + width / 2, at, f"{width:.1f}", ha="center", va="center", color=PAPER)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_xlabel("% of pairs of runs")
    axes.set_xlim(0, 100)
    axes.legend(ncols=3, loc="upper left", bbox_to_anchor=(0, -0.16))


def _bars(calls: Mapping[str, Mapping[str, float]], axes: Any) -> None:
    tools = sorted(
        {tool for counts in calls.values() for tool in counts},
        key=lambda t: -max(c.get(t, 0) for c in calls.values()),
    )[:10]
    height = 0.8 / len(calls)
    for at, (label, counts) in enumerate(calls.items()):
        places = [row + at * height for row in range(len(tools))]
        values = [counts.get(tool, 0.0) for tool in tools]
        axes.barh(places, values, height=height * 0.9, color=SERIES[at % len(SERIES)], label=label)
        for place, value in zip(places, values, strict=True):
            axes.text(value, place, f" {value:.2f}", va="center", fontsize=9)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(tools))], tools)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("mean calls an attempt")
    axes.figure.set_figheight(max(4.2, 1.2 + 0.24 * len(tools) * len(calls)))
    _legend_beside(axes)


def _gain(points: Sequence[data.Point], axes: Any) -> None:
    axes.axhline(0, color=QUIET, linewidth=1)
    for colour, family in zip(SERIES, dict.fromkeys(point.group for point in points), strict=False):
        of_family = [point for point in points if point.group == family]
        axes.scatter([p.x for p in of_family], [p.y for p in of_family], color=colour, label=family, s=36)
    axes.set_xlabel("search calls an attempt")
    axes.set_ylabel("Δ of search, points")
    axes.set_xlim(left=0)
    _legend_beside(axes)


def _scatter(what: str) -> Callable[[Any, Any], None]:
    return lambda points, axes: _against_avg(points, axes, what)


def _against_avg(points: Sequence[data.Point], axes: Any, what: str) -> None:
    best = data.frontier(points)
    axes.step(
        [p.x for p in best],
        [p.y for p in best],
        where="post",
        color=SERIES[2],
        linewidth=1.4,
        label="Pareto frontier",
    )
    if trend := data.lowess(points):
        axes.plot([x for x, _ in trend], [y for _, y in trend], color=QUIET, linestyle="--", label="LOWESS")
    axes.scatter([p.x for p in points], [p.y for p in points], color=SERIES[0], s=36, zorder=3)
    for number, point in enumerate(points, 1):
        axes.annotate(str(number), (point.x, point.y), xytext=(5, 5), textcoords="offset points")
        axes.plot([], [], " ", label=f"{number}  {point.label}")
    axes.set_xlim(left=0)
    axes.margins(y=0.12)
    axes.set_xlabel(what)
    axes.set_ylabel("AVG, %")
    _legend_beside(axes)


def _legend_beside(axes: Any) -> None:
    """To the right of the plot, where it covers nothing; the figure grows with it."""
    entries = len(axes.get_legend_handles_labels()[1])
    axes.figure.set_figheight(max(axes.figure.get_figheight(), 0.9 + 0.23 * entries))
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, handlelength=1.2)


def _sizes(sizes: Mapping[str, int], axes: Any) -> None:
    bars = axes.bar(list(sizes), list(sizes.values()), color=SERIES[0], width=0.6)
    axes.bar_label(bars, padding=2)
    axes.set_xlabel("lines of Python")
    axes.set_ylabel("repositories")

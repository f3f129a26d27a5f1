"""A comparison and a gate for people: tables for the terminal, Markdown for a pull request, JUnit for CI systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beyondswe.reports.formats import percent

if TYPE_CHECKING:
    from rich.console import Console

    from beyondswe.reports.gate import Gate

_SHOWN = 20  # names in a list for people


def show_comparison(found: dict[str, Any], console: Console) -> None:
    """Print a comparison."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    say(f"A {found['a']['run_id']}  →  B {found['b']['run_id']}, {found['n']} instances in both")
    for note in found["notes"]:
        say(note)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, padding=(0, 1))
    table.add_column("family", no_wrap=True)
    for name in ("n", "A", "B", "Δ", "95 % interval", "+ / = / -", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, row in found["families"].items():
        counts = f"{row['improved']} / {row['tied']} / {row['regressed']}"
        table.add_row(name, str(row["n"]), *_numbers(row), counts, _chance(row["p"]))
    table.add_section()
    counts = " / ".join(str(len(found[key])) for key in ("improved", "tied", "regressed"))
    table.add_row(
        "AVG", str(found["n"]), *_numbers(found["avg"]), counts, _chance(found["avg"]["p"]), style="bold"
    )
    console.print(table)
    if (one := found["resolved"]) and "only_a" in one:
        say(
            f"resolved by A alone {one['only_a']}, by B alone {one['only_b']}; McNemar, exact: p = {_chance(one['p'])}"
        )
    for key in ("improved", "regressed"):
        if found[key]:
            say(f"{key}: {_list(found[key])}")
    say(_power(found))


def _numbers(row: dict[str, Any]) -> list[str]:
    interval = " – ".join(f"{bound:+.2f}" for bound in row["interval"]) if row["interval"] else "–"
    return [percent(row["a"]), percent(row["b"]), f"{row['delta']:+.2f}", interval]


def _power(found: dict[str, Any]) -> str:
    power = found["power"]
    if power["smallest_delta"] is None:
        how = "all instances differ alike" if found["avg"]["delta"] else "no instance differs"
        return f"{how}: what another number of them would show cannot be told from this"
    line = (
        f"these {found['n']} instances show a Δ AVG of {power['smallest_delta']:.1f} points in 8 of 10 cases"
    )
    if power["instances_needed"] is not None:
        line += f"; a Δ of {found['avg']['delta']:+.2f} would take {power['instances_needed']} instances"
    return line


def _chance(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def gate_summary(gate: Gate, found: dict[str, Any]) -> str:
    """The gate in Markdown, for a job summary or a comment."""
    title = "holds" if gate.green else "does not hold"
    lines = [f"## Gate {title}", "", f"`{found['baseline']}` → `{found['candidate']}`", ""]
    lines += [f"- {reason}" for reason in gate.reasons] or [verdict_line(gate)]
    lines += ["", "| family | n | baseline | candidate | Δ |", "|---|---:|---:|---:|---:|"]
    for name, row in found["families"].items():
        delta = row["candidate"] - row["baseline"]
        lines.append(
            f"| {name} | {row['n']} | {row['baseline']:.2f} | {row['candidate']:.2f} | {delta:+.2f} |"
        )
    lines += ["", reach_line(gate)]
    for key in ("regressed", "improved", "missing", "unjudged"):
        if found[key]:
            names = ", ".join(f"`{name}`" for name in found[key])
            lines += [
                "",
                f"<details><summary>{key}: {len(found[key])}</summary>",
                "",
                names,
                "",
                "</details>",
            ]
    lines += [f"\n{note}" for note in gate.notes]
    return "\n".join(lines) + "\n"


def verdict_line(gate: Gate) -> str:
    """Why a green gate is green, in a sentence."""
    change = (
        f"AVG fell by {gate.drop:.2f} points" if gate.drop > 0 else f"AVG rose by {-gate.drop:.2f} points"
    )
    if gate.drop <= 0:
        return change if gate.drop else "AVG is the same"
    if gate.drop <= gate.max_drop:
        return f"{change}, which --max-drop {gate.max_drop:g} allows"
    return f"{change}; chance alone does so in {100 * gate.chance:.2g} % of unchanged candidates"


def reach_line(gate: Gate) -> str:
    """What the gate could have seen."""
    if gate.smallest_drop is None:
        return f"{len(gate.pairs)} instances cannot show a drop of any size; a drop is red unless --max-drop allows it."
    return f"The smallest drop that these {len(gate.pairs)} instances show: {gate.smallest_drop:.1f} points of AVG."


def gate_junit(gate: Gate, found: dict[str, Any]) -> bytes:
    """JUnit XML: a case for the rule, for completeness, for each must-pass instance, and for each instance.

    An instance that regressed fails where the gate is red for its drop; within noise it is a note, as a failed case
    would turn a build red that the gate lets through.
    """
    from junitparser import Failure, JUnitXml, TestCase, TestSuite

    suite = TestSuite("beyondswe gate")
    unfinished = {*gate.missing, *gate.unjudged}

    def case(name: str, kind: str, failure: str | None = None, note: str = "") -> None:
        made = TestCase(name, f"gate.{kind}")
        if failure:
            made.result = [Failure(failure)]
        if note:
            made.system_out = note
        suite.add_testcase(made)

    dropped = [reason for reason in gate.reasons if reason.startswith("AVG fell")]
    case("AVG", "rule", "; ".join(dropped) or None, note=f"{verdict_line(gate)}. {reach_line(gate)}")
    open_reasons = [r for r in gate.reasons if "missing in the candidate" in r or "infrastructure error" in r]
    case("every instance was judged", "complete", "; ".join(open_reasons) or None)
    for name in gate.must_pass:
        case(name, "must_pass", "not solved" if name in gate.must_pass_failed else None)
    for pair in gate.pairs:
        words = f"baseline {pair.a:.3g}, candidate {pair.b:.3g}"
        if pair.instance_id in unfinished:
            words = "missing or not judged"
        failed = pair.difference < 0 and (bool(dropped) or pair.instance_id in gate.missing)
        case(pair.instance_id, pair.family.value, words if failed else None, words)
    document: Any = JUnitXml("beyondswe gate")  # this part of the library has no types
    document.add_testsuite(suite)
    document.update_statistics()
    return bytes(document.tostring())


def show_gate(gate: Gate, found: dict[str, Any], console: Console) -> None:
    """Print the gate's answer and its reasons."""

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    say(f"{found['baseline']} → {found['candidate']}, {found['n']} instances")
    for name, row in found["families"].items():
        say(f"  {name}: {row['baseline']:.2f} → {row['candidate']:.2f} ({row['n']} instances)")
    for note in gate.notes:
        say(note)
    for key in ("regressed", "improved"):
        if found[key]:
            say(f"{key}: {_list(found[key])}")
    say(reach_line(gate))
    if gate.green:
        say(f"the gate holds: {verdict_line(gate)}")
    else:
        say("the gate does not hold:")
        for reason in gate.reasons:
            say(f"  {reason}")

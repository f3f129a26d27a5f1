"""`beyondswe gate`: red for a regression of a candidate run against a baseline, for CI."""

from __future__ import annotations

from pathlib import Path

import click

from beyondswe.cli.output import console, emit, file_option, json_option, write_file
from beyondswe.cli.parameters import Number
from beyondswe.cli.running import runs_dir_option


@click.command("gate")
@click.option("--baseline", required=True, metavar="RUN", help="The run to hold.")
@click.option("--candidate", required=True, metavar="RUN", help="The run to judge.")
@click.option(
    "--max-drop",
    type=Number(0, 100),
    default=0.0,
    show_default=True,
    metavar="POINTS",
    help="A drop of AVG up to this is allowed, even where it is no chance.",
)
@click.option(
    "--alpha",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="How many unchanged candidates may be called a regression.",
)
@click.option(
    "--must-pass",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Instance ids, one a line (# comments) or a JSON array, that every attempt must solve.",
)
@file_option("--junit", "Write JUnit XML for CI systems.")
@file_option("--summary", "Append a summary in Markdown, such as to $GITHUB_STEP_SUMMARY.")
@click.option(
    "--strict", is_flag=True, help="Count attempts with a suspicious flag as unresolved, in both runs."
)
@runs_dir_option
@json_option
def command(
    baseline: str,
    candidate: str,
    max_drop: float,
    alpha: float,
    must_pass: Path | None,
    junit: Path | None,
    summary: Path | None,
    strict: bool,
    runs_dir: Path,
    as_json: bool,
) -> int:
    """Hold a candidate run against a baseline: exit 0 if the gate holds, 1 if not.

    RUN is an id or a folder with run.json and results.jsonl.
    """
    from beyondswe.reports.gate import document, judge
    from beyondswe.reports.paired import read_scores
    from beyondswe.reports.paired_text import gate_junit, gate_summary, show_gate
    from beyondswe.runs.folder import find_run

    old, new = (read_scores(find_run(run, runs_dir), strict=strict) for run in (baseline, candidate))
    wanted = _ids(must_pass) if must_pass else []
    gate = judge(old, new, max_drop=max_drop, alpha=alpha, must_pass=wanted)
    found = document(gate, old, new)
    if junit:
        write_file(junit, gate_junit(gate, found))
    if summary:
        write_file(summary, gate_summary(gate, found), append=True)
    if as_json:
        emit(found)
    else:
        show_gate(gate, found, console())
    return 0 if gate.green else 1


def _ids(path: Path) -> list[str]:
    """The ids in a file: a JSON array, or one a line."""
    import json

    from beyondswe.errors import UsageError

    try:
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("["):
            found = json.loads(text)
        else:
            found = [line.partition("#")[0].strip() for line in text.splitlines()]
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--must-pass {path} cannot be read: {error}") from error
    if not all(isinstance(name, str) for name in found):
        raise UsageError(f"--must-pass {path}: expected an array of instance ids")
    ids = [name for name in found if name]
    if not ids:
        raise UsageError(f"--must-pass {path} names no instance")
    return list(dict.fromkeys(ids))

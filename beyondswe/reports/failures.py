"""Why attempts ended in an error: the first of a kind with its reason and its log, for people."""

from __future__ import annotations

from pathlib import Path

from beyondswe.reports.report import read_results
from beyondswe.runs.folder import RunFolder
from beyondswe.scoring.types import Status

_LOGS = {Status.AGENT_ERROR: "logs/agent.log", Status.INFRASTRUCTURE_ERROR: "logs/error.log"}
_NOT_FOUND = 127  # what a shell ends with where there is no such program
_SHOWN = 300  # characters of a reason
_TAIL = 1 << 16  # bytes of a log that are looked at


def first_failures(folder: RunFolder) -> list[str]:
    """A line on agent errors and one on infrastructure errors, where a run has any."""
    lines = []
    for status, log in _LOGS.items():
        rows = (row for row in read_results(folder.results) if row["status"] == status.value)
        if (first := next(rows, None)) is None:
            continue
        attempt = int(first.get("attempt", 1))
        path = folder.attempt(first["instance_id"], attempt) / log
        reason = _cut(first.get("error") or "no reason was given")
        if status is Status.AGENT_ERROR and (said := _last_line(path)):
            reason += f"; it last said: {_cut(said)}"
        if status is Status.AGENT_ERROR and first.get("agent_exit_code") == _NOT_FOUND:
            reason += (
                " (an agent runs inside the instance's image: what it needs must be there or among its files)"
            )
        words = status.value.replace("_", " ")
        lines.append(f"first {words}: {first['instance_id']} ({attempt}): {reason}")
        if path.is_file():
            lines.append(f"  log: {path.absolute()}")
    return lines


def _last_line(path: Path) -> str:
    """The last line of a log that says something; empty where there is none."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - _TAIL))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""  # removed by somebody, or the agent never came to say anything
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def _cut(text: str) -> str:
    line = "".join(char if char.isprintable() else " " for char in " ".join(text.split()))
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"

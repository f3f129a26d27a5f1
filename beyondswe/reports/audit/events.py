"""What an agent did, as a list of calls with what each gave: from ATIF, from the transcripts of other harnesses, and
from egress logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from beyondswe.agents.transcripts import detect, read_transcript
from beyondswe.agents.transcripts.base import listed, mapping

_READ = 64 << 20  # bytes of a transcript that are read


class Deed(StrEnum):
    """What a call can do."""

    SHELL = "shell"
    FETCH = "fetch"  # opens an address
    WRITE = "write"  # changes files
    OTHER = "other"  # search, thinking, reading files, the end


@dataclass(frozen=True)
class Event:
    """One call of a tool."""

    step: int  # from 1, as the trajectory counts
    tool: str
    deed: Deed
    text: str  # its arguments: command, address, new text
    observation: str


@dataclass(frozen=True)
class Request:
    """One line of an egress log."""

    line: int
    url: str
    method: str
    blocked: bool
    rule: str
    status: int | None


_SHELL = ("bash", "shell", "exec", "terminal", "command", "run_", "console", "ipython", "python", "jupyter")
_FETCH = (
    "fetch",
    "browse",
    "browser",
    "link_summary",
    "link_reader",
    "open_url",
    "visit",
    "goto",
    "read_url",
    "crawl",
)
_WRITE = ("edit", "write", "replace", "patch", "create", "insert")
_OTHER = ("search", "think", "grep", "glob", "finish", "submit", "todo", "task")


def deed_of(tool: str, arguments: Mapping[str, Any] | str) -> Deed:
    """What a tool does, by its name and, where the name says nothing, by its arguments."""
    name = tool.lower()
    if any(word in name for word in _FETCH):
        return Deed.FETCH
    if any(word in name for word in _OTHER):
        return Deed.OTHER
    if any(word in name for word in _WRITE):
        if isinstance(arguments, Mapping) and arguments.get("command") in ("view", "undo_edit"):
            return Deed.OTHER
        return Deed.WRITE
    if any(word in name for word in _SHELL):
        return Deed.SHELL
    if isinstance(arguments, Mapping):
        if {"cmd", "command", "code", "script"} & arguments.keys():
            return Deed.SHELL
        if {"url", "urls", "uri", "link"} & arguments.keys():
            return Deed.FETCH
    return Deed.OTHER


def read_events(files: Mapping[str, bytes]) -> list[Event] | None:
    """The calls in a trajectory, whatever wrote it; None if no reader knows it."""
    for data in files.values():
        document = _document(data)
        if isinstance(document, dict) and str(document.get("schema_version", "")).startswith("ATIF"):
            return _atif(document)
    form = detect(files)
    transcript = read_transcript(form, files) if form else None
    if transcript is None:
        return None
    events = []
    for number, step in enumerate(transcript.steps, 1):
        given = {result.call_id: result.text for result in step.results}
        loose = "\n".join(result.text for result in step.results)
        for call in step.calls:
            events.append(_event(number, call.name, call.arguments, given.get(call.id, loose)))
    return events


def read_requests(data: bytes) -> list[Request]:
    """The requests of an ``egress.jsonl``; a line that is none is passed over."""
    requests = []
    for number, line in enumerate(data.splitlines(), 1):
        row = _document(line)
        if not isinstance(row, dict) or not isinstance(row.get("url"), str):
            continue
        status = row.get("status")
        requests.append(
            Request(
                number,
                row["url"],
                str(row.get("method") or "GET"),
                str(row.get("decision", "")).startswith(("block", "refuse", "den"))
                or bool(row.get("blocked")),
                str(row.get("rule") or ""),
                status if isinstance(status, int) else None,
            )
        )
    return requests


def read_files(paths: Iterable[Path], root: Path) -> dict[str, bytes]:
    """The files at these paths by their name below ``root``; what is larger than 64 MiB is cut."""
    found = {}
    for path in paths:
        with path.open("rb") as stream:
            found[path.relative_to(root).as_posix()] = stream.read(_READ)
    return found


def _atif(document: dict[str, Any]) -> list[Event]:
    events = []
    for number, step in enumerate(listed(document.get("steps")), 1):
        if not isinstance(step, dict):
            continue
        results = [r for r in listed(mapping(step.get("observation")).get("results")) if isinstance(r, dict)]
        given = {str(r.get("source_call_id")): _text(r.get("content")) for r in results}
        loose = "\n".join(_text(r.get("content")) for r in results if not r.get("source_call_id"))
        for call in listed(step.get("tool_calls")):
            if isinstance(call, dict):
                observation = given.get(str(call.get("tool_call_id")), loose)
                at = int(step["step_id"]) if isinstance(step.get("step_id"), int) else number
                events.append(
                    _event(at, str(call.get("function_name")), call.get("arguments") or {}, observation)
                )
    return events


def _event(step: int, tool: str, arguments: Any, observation: str) -> Event:
    known = arguments if isinstance(arguments, Mapping | str) else {}
    return Event(step, tool, deed_of(tool, known), _words(known), observation)


def _words(arguments: Any) -> str:
    """All texts in arguments, a line each."""
    if isinstance(arguments, str):
        return arguments
    if isinstance(arguments, Mapping):
        return "\n".join(filter(None, map(_words, arguments.values())))
    if isinstance(arguments, list | tuple):
        if all(isinstance(part, str) for part in arguments):
            # a command as a list: a shell's own is its last word, others are joined
            return arguments[-1] if arguments[1:2] in (["-c"], ["-lc"]) else " ".join(arguments)
        return "\n".join(filter(None, map(_words, arguments)))
    return ""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_text(part.get("text") if isinstance(part, dict) else part) for part in content)
    return ""


def _document(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None

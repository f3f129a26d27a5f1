"""What the readers share: lines of JSON among prose, times, texts in several shapes, calls joined to results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from beyondswe.agents.transcripts.model import Result, Step
from beyondswe.gateway.conversation import Tokens, ToolCall

Files = Mapping[str, bytes]
"""An agent's own files by name."""


def json_lines(files: Files) -> Iterator[dict[str, Any]]:
    """The lines of all files that are JSON objects; prose between them, and a line cut short, is passed over."""
    for name in sorted(files):
        for line in files[name].splitlines():
            if line.lstrip()[:1] == b"{":
                try:
                    found = json.loads(line)
                except ValueError:
                    continue
                if isinstance(found, dict):
                    yield found


def document(data: bytes) -> dict[str, Any]:
    """One JSON object; {} where it is none."""
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def text_of(content: Any) -> str:
    """The text in a message's content: a string, or a list of parts that hold text."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part for part in map(text_of, content) if part)
    if isinstance(content, Mapping):
        return text_of(content.get("text") or content.get("content") or "")
    return ""


def arguments(value: Any) -> Mapping[str, Any] | str:
    """Arguments of a call, which some write as JSON in a string."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except ValueError:
            return value
        return parsed if isinstance(parsed, dict) else value
    return {}


def number(value: Any) -> int:
    """A count of tokens; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def tokens(usage: Any, *, input: str, output: str, cached: str = "", reasoning: str = "") -> Tokens | None:
    """Tokens by the names that an agent has for them."""
    if not isinstance(usage, Mapping):
        return None
    return Tokens(
        input=number(usage.get(input)),
        output=number(usage.get(output)),
        cached=number(usage.get(cached)),
        reasoning=number(usage.get(reasoning)),
    )


def seconds(value: Any) -> float | None:
    """A time as seconds since the epoch, from ISO 8601 or from milliseconds."""
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value).timestamp()
        if isinstance(value, int | float) and not isinstance(value, bool):
            found = value / 1000 if value > 1e11 else float(value)
            return datetime.fromtimestamp(found, UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        return None  # no time that there is
    return None


@dataclass
class Steps:
    """Collects steps while events are read; a result finds the step of its call, wherever it comes."""

    steps: list[Step] = field(default_factory=list)
    _of_call: dict[str, int] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        for call in step.calls:
            self._of_call[call.id] = len(self.steps)
        self.steps.append(step)

    def extend_last(self, *, text: str = "", calls: Iterable[ToolCall] = (), reasoning: str = "") -> None:
        """More of the turn that is being read."""
        last = self.steps[-1]
        added = tuple(calls)
        for call in added:
            self._of_call[call.id] = len(self.steps) - 1
        self.steps[-1] = replace(
            last,
            text="\n".join(part for part in (last.text, text) if part),
            reasoning="\n".join(part for part in (last.reasoning, reasoning) if part),
            calls=(*last.calls, *added),
        )

    def result(self, result: Result) -> None:
        """What a call gave; one that nobody asked for belongs to the last step."""
        at = self._of_call.get(result.call_id, len(self.steps) - 1)
        if at < 0:
            self.add(Step())
            at = 0
        self.steps[at] = replace(self.steps[at], results=(*self.steps[at].results, result))

    def done(self) -> tuple[Step, ...]:
        return tuple(self.steps)

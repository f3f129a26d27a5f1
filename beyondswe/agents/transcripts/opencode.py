"""opencode's ``--format json``: parts of messages between ``step_start`` and ``step_finish``, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from beyondswe.agents.transcripts.base import (
    Files,
    Steps,
    arguments,
    json_lines,
    mapping,
    number,
    seconds,
    text_of,
)
from beyondswe.agents.transcripts.model import End, EndKind, Result, Step, Transcript
from beyondswe.gateway.conversation import Tokens, ToolCall


def known(files: Files) -> bool:
    return any(row.get("type") == "step_start" and "sessionID" in row for row in json_lines(files))


def read(files: Files) -> Transcript:
    steps, end = Steps(), None
    for row in json_lines(files):
        part, time = mapping(row.get("part")), seconds(row.get("timestamp"))
        kind = row.get("type")
        if kind == "step_start" or (not steps.steps and kind in ("text", "tool_use", "step_finish")):
            steps.add(Step(time=time))
        if kind == "text":
            steps.extend_last(text=text_of(part.get("text")))
        elif kind == "reasoning" and steps.steps:
            steps.extend_last(reasoning=text_of(part.get("text")))
        elif kind == "tool_use":
            _tool(steps, part)
        elif kind == "step_finish":
            steps.steps[-1] = replace(steps.steps[-1], tokens=_tokens(part), cost_usd=_cost(part))
            end = End(EndKind.FINISHED) if part.get("reason") == "stop" else None
        elif kind == "error":
            fault = mapping(row.get("error"))
            data = mapping(fault.get("data"))
            end = End(
                EndKind.ERROR, text_of(data.get("message") or fault.get("message") or fault.get("name"))
            )
    return Transcript("opencode", steps.done(), end)


def _tool(steps: Steps, part: Mapping[str, Any]) -> None:
    state = mapping(part.get("state"))
    call = ToolCall(str(part.get("callID", "")), str(part.get("tool", "")), arguments(state.get("input")))
    steps.extend_last(calls=[call])
    code = mapping(state.get("metadata")).get("exit")
    failed = state.get("status") == "error" or code not in (0, None)
    steps.result(Result(call.id, text_of(state.get("output") or state.get("error")), failed))


def _tokens(part: Mapping[str, Any]) -> Tokens:
    """``input`` leaves out the cache, ``output`` the reasoning."""
    usage = mapping(part.get("tokens"))
    cache, reasoning = mapping(usage.get("cache")), number(usage.get("reasoning"))
    read, written = number(cache.get("read")), number(cache.get("write"))
    return Tokens(
        number(usage.get("input")) + read + written,
        number(usage.get("output")) + reasoning,
        read,
        written,
        reasoning,
    )


def _cost(part: Mapping[str, Any]) -> float | None:
    cost = part.get("cost")
    return float(cost) if isinstance(cost, int | float) else None

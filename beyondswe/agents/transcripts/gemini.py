"""Gemini CLI's chat file (records by id, the last one of an id holds) and the ``result`` of its stream-json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beyondswe.agents.transcripts.base import (
    Files,
    arguments,
    json_lines,
    listed,
    mapping,
    number,
    seconds,
    text_of,
)
from beyondswe.agents.transcripts.model import End, EndKind, Result, Step, Transcript
from beyondswe.gateway.conversation import Tokens, ToolCall


def known(files: Files) -> bool:
    return any("projectHash" in row or row.get("type") == "gemini" for row in json_lines(files))


def read(files: Files) -> Transcript:
    answers: dict[str, Mapping[str, Any]] = {}
    end = None
    for row in json_lines(files):
        if row.get("type") == "gemini":
            answers[str(row.get("id"))] = row
        elif row.get("type") == "result":
            end = _end(row)
    return Transcript("gemini", tuple(_step(row) for row in answers.values()), end)


def _step(row: Mapping[str, Any]) -> Step:
    calls, results = [], []
    for call in listed(row.get("toolCalls")):
        made = ToolCall(str(call.get("id", "")), str(call.get("name", "")), arguments(call.get("args")))
        calls.append(made)
        for part in listed(call.get("result")):
            response = mapping(mapping(mapping(part).get("functionResponse")).get("response"))
            text = text_of(response.get("output") or response.get("error"))
            results.append(Result(made.id, text, "error" in response or call.get("status") == "error"))
    usage = row.get("tokens")
    thoughts = "\n".join(
        text_of(mapping(thought).get("description")) for thought in listed(row.get("thoughts"))
    )
    return Step(
        text_of(row.get("content")),
        thoughts,
        tuple(calls),
        tuple(results),
        tokens=_tokens(usage) if isinstance(usage, Mapping) else None,
        time=seconds(row.get("timestamp")),
    )


def _tokens(usage: Mapping[str, Any]) -> Tokens:
    thoughts = number(usage.get("thoughts"))
    spoken = number(usage.get("output")) + thoughts
    return Tokens(number(usage.get("input")), spoken, number(usage.get("cached")), reasoning=thoughts)


def _end(row: Mapping[str, Any]) -> End:
    if row.get("status") == "success":
        return End(EndKind.FINISHED)
    fault = mapping(row.get("error"))
    kind = EndKind.LIMIT if fault.get("type") == "FatalTurnLimitedError" else EndKind.ERROR
    return End(kind, text_of(fault.get("message")))

"""Claude Code's stream-json: messages of the API, results as user messages, and a closing ``result``.

The tokens of single answers are those at their start, so only the sums of the ``result`` are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beyondswe.agents.transcripts.base import (
    Files,
    Steps,
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
    return any(
        row.get("type") == "system" and row.get("subtype") == "init" and "permissionMode" in row
        for row in json_lines(files)
    )


def read(files: Files) -> Transcript:
    return read_stream(files, "claude", each=False)


def read_stream(files: Files, form: str, *, each: bool) -> Transcript:
    """The stream of Claude Code and of those that took its shape; ``each``: answers tell their own tokens."""
    steps, end, total, cost = Steps(), None, None, None
    message_id = None
    for row in json_lines(files):
        message = mapping(row.get("message"))
        content = message.get("content")
        parts = [mapping(part) for part in listed(content)] or [{"type": "text", "text": text_of(content)}]
        match row.get("type"):
            case "assistant":
                if message.get("model") == "<synthetic>":
                    continue  # words of the program, not of the model
                if message.get("id") != message_id or message_id is None:
                    message_id = message.get("id")
                    usage = message.get("usage") if each else None
                    steps.add(Step(tokens=_tokens(usage), time=seconds(row.get("timestamp"))))
                steps.extend_last(
                    text="\n".join(text_of(part) for part in parts if part.get("type") == "text"),
                    reasoning="\n".join(
                        text_of(part.get("thinking")) for part in parts if part.get("type") == "thinking"
                    ),
                    calls=[
                        ToolCall(
                            str(part.get("id", "")), str(part.get("name", "")), arguments(part.get("input"))
                        )
                        for part in parts
                        if part.get("type") == "tool_use"
                    ],
                )
            case "user":
                for part in parts:
                    if part.get("type") == "tool_result":
                        text, failed = text_of(part.get("content")), bool(part.get("is_error"))
                        steps.result(Result(str(part.get("tool_use_id", "")), text, failed))
            case "result":
                end, total = _end(row), _tokens(row.get("usage"))
                cost = row.get("total_cost_usd")
    return Transcript(form, steps.done(), end, total, float(cost) if isinstance(cost, int | float) else None)


def _end(row: Mapping[str, Any]) -> End:
    """Its ``subtype`` says success after a refused key too; qwen's ``is_error`` is false even then."""
    subtype, said = str(row.get("subtype", "")), text_of(row.get("result"))
    errors = "; ".join(text_of(error) for error in listed(row.get("errors")))
    message = said or errors or text_of(mapping(row.get("error")).get("message")) or subtype
    if "max_turns" in subtype or "max_budget" in subtype or "session turns" in message:
        return End(EndKind.LIMIT, message)
    failed = row.get("is_error") or row.get("api_error_status") or said.startswith("[API Error")
    return End(EndKind.ERROR if failed or subtype != "success" else EndKind.FINISHED, message)


def _tokens(usage: Any) -> Tokens | None:
    """``input_tokens`` leaves out what was read from the cache or written to it."""
    if not isinstance(usage, Mapping):
        return None
    read = number(usage.get("cache_read_input_tokens"))
    written = number(usage.get("cache_creation_input_tokens"))
    fresh = number(usage.get("input_tokens"))
    return Tokens(fresh + read + written, number(usage.get("output_tokens")), read, written)

"""Codex's rollout file (items of the responses protocol, with usage a request), or what ``--json`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from beyondswe.agents.transcripts.base import (
    Files,
    Steps,
    arguments,
    json_lines,
    mapping,
    seconds,
    text_of,
    tokens,
)
from beyondswe.agents.transcripts.model import End, EndKind, Result, Step, Transcript
from beyondswe.gateway.conversation import Tokens, ToolCall

_CALLS = ("function_call", "custom_tool_call", "local_shell_call")


def known(files: Files) -> bool:
    return any(
        row.get("type") in ("session_meta", "thread.started") or {"ordinal", "payload"} <= row.keys()
        for row in json_lines(files)
    )


def read(files: Files) -> Transcript:
    rows = list(json_lines(files))
    if any("payload" in row for row in rows):
        return _rollout(row for row in rows if "payload" in row)
    return _printed(rows)


def _rollout(rows: Iterable[Mapping[str, Any]]) -> Transcript:
    steps, end = Steps(), None
    closed = True  # whether the next item begins a new answer of the model
    for row in rows:
        payload, kind, time = mapping(row["payload"]), row.get("type"), seconds(row.get("timestamp"))
        inner = payload.get("type")
        if kind == "response_item" and inner in (*_CALLS, "message", "reasoning"):
            if inner == "message" and payload.get("role") != "assistant":
                continue
            if closed:
                steps.add(Step(time=time))
                closed = False
            if inner == "message":
                steps.extend_last(text=text_of(payload.get("content")))
            elif inner == "reasoning":
                steps.extend_last(reasoning=text_of(payload.get("summary")))
            else:
                steps.extend_last(calls=[_call(payload)])
        elif kind == "response_item" and str(inner).endswith("_output"):
            closed = True
            steps.result(Result(str(payload.get("call_id", "")), text_of(payload.get("output"))))
        elif kind == "token_usage_record" and steps.steps:
            closed = True
            steps.steps[-1] = replace(steps.steps[-1], tokens=_tokens(payload.get("usage")))
        elif kind == "event_msg" and inner in ("task_complete", "turn_aborted", "error"):
            fault = payload.get("error") or (payload.get("message") if inner == "error" else None)
            message = text_of(mapping(fault).get("message") or fault or payload.get("reason"))
            good = inner == "task_complete" and not fault
            end = End(EndKind.FINISHED if good else EndKind.ERROR, message)
    return Transcript("codex", steps.done(), end)


def _printed(rows: Iterable[Mapping[str, Any]]) -> Transcript:
    steps, end, total = Steps(), None, None
    for row in rows:
        item = mapping(row.get("item"))
        match row.get("type"), item.get("type"):
            case "item.completed", "command_execution":
                call = ToolCall(str(item.get("id", "")), "shell", {"command": item.get("command")})
                failed = item.get("exit_code") not in (0, None)
                result = Result(call.id, text_of(item.get("aggregated_output")), failed)
                steps.add(Step(calls=(call,), results=(result,)))
            case "item.completed", "agent_message":
                steps.add(Step(text_of(item.get("text"))))
            case "turn.completed", _:
                end, total = End(EndKind.FINISHED), _tokens(row.get("usage"))
            case "turn.failed", _:
                end = End(EndKind.ERROR, text_of(mapping(row.get("error")).get("message")))
    return Transcript("codex", steps.done(), end, total)


def _call(payload: Mapping[str, Any]) -> ToolCall:
    given = payload.get("arguments", payload.get("input", payload.get("action")))
    name = str(payload.get("name") or payload["type"])
    return ToolCall(str(payload.get("call_id", "")), name, arguments(given))


def _tokens(usage: Any) -> Tokens | None:
    return tokens(
        usage,
        input="input_tokens",
        output="output_tokens",
        cached="cached_input_tokens",
        reasoning="reasoning_output_tokens",
    )

"""mini-swe-agent's trajectory: the conversation with each answer's usage and cost, and an exit message."""

from __future__ import annotations

from typing import Any

from beyondswe.agents.transcripts.base import (
    Files,
    Steps,
    arguments,
    document,
    listed,
    mapping,
    seconds,
    text_of,
    tokens,
)
from beyondswe.agents.transcripts.model import End, EndKind, Result, Step, Transcript
from beyondswe.gateway.conversation import ToolCall

_LIMITS = frozenset({"LimitsExceeded", "TimeExceeded"})
_GOOD = frozenset({"Submitted", "RepeatedFormatError", "UserInterruption"})
"""Ends that the model brought about itself: it handed in, or would not call its tool however often asked."""


def known(files: Files) -> bool:
    return str(_document(files).get("trajectory_format", "")).startswith("mini-swe-agent")


def read(files: Files) -> Transcript:
    content = _document(files)
    steps = Steps()
    for message in listed(content.get("messages")):
        extra = mapping(message.get("extra"))
        match message.get("role"):
            case "assistant":
                steps.add(_step(message, extra))
            case "tool":
                text = text_of(extra.get("raw_output")) or text_of(message.get("content"))
                failed = extra.get("returncode") not in (0, None)
                steps.result(Result(str(message.get("tool_call_id", "")), text, failed))
    info = mapping(content.get("info"))
    cost = mapping(info.get("model_stats")).get("instance_cost")
    return Transcript(
        "mini",
        steps.done(),
        _end(content, str(info.get("exit_status") or "")),
        total_cost_usd=float(cost) if isinstance(cost, int | float) else None,
    )


def _document(files: Files) -> dict[str, Any]:
    return next((found for name in sorted(files) if (found := document(files[name]))), {})


def _step(message: Any, extra: Any) -> Step:
    response = mapping(extra.get("response"))
    usage = mapping(response.get("usage"))
    calls = [
        ToolCall(str(call["id"]), str(call["function"]["name"]), arguments(call["function"]["arguments"]))
        for call in listed(message.get("tool_calls"))
    ]
    flat = {**usage, "cached": mapping(usage.get("prompt_tokens_details")).get("cached_tokens")}
    cost = extra.get("cost")
    return Step(
        text_of(message.get("content")),
        text_of(message.get("reasoning_content")),
        tuple(calls),
        tokens=tokens(flat, input="prompt_tokens", output="completion_tokens", cached="cached")
        if usage
        else None,
        cost_usd=float(cost) if isinstance(cost, int | float) else None,
        time=seconds(extra.get("timestamp")),
    )


def _end(content: Any, status: str) -> End | None:
    if not status:
        return None
    if status in _LIMITS:
        return End(EndKind.LIMIT, status)
    if status in _GOOD:
        return End(EndKind.FINISHED, status)
    last = [message for message in listed(content.get("messages")) if message.get("role") == "exit"]
    return End(EndKind.ERROR, f"{status}: {text_of(last[-1].get('content'))}" if last else status)

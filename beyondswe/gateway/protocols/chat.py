"""OpenAI chat completions: ``POST …/chat/completions``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from beyondswe.gateway.conversation import Message, Reply, Request, Role, Tokens, Tool, ToolCall
from beyondswe.gateway.protocols.base import (
    Event,
    arguments_text,
    mappings,
    new_id,
    number,
    parse_arguments,
    pieces,
    text_of,
)

_ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "assistant": Role.ASSISTANT, "tool": Role.TOOL}


class Chat:
    name = "openai-chat"

    def parse_request(self, body: Mapping[str, Any]) -> Request:
        tools = []
        for tool in mappings(body.get("tools")):
            function = tool.get("function")
            if isinstance(function, Mapping):
                tools.append(
                    Tool(
                        str(function.get("name")),
                        function.get("parameters") or {},
                        str(function.get("description") or ""),
                    )
                )
        return Request(
            model=str(body.get("model") or ""),
            stream=bool(body.get("stream")),
            messages=tuple(_message(message) for message in mappings(body.get("messages"))),
            tools=tuple(tools),
        )

    def render(self, request: Request, reply: Reply) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.calls:
            message["tool_calls"] = [_call_body(call) for call in reply.calls]
        return {
            **_head(request, "chat.completion"),
            "choices": [{"index": 0, "message": message, "finish_reason": _reason(reply), "logprobs": None}],
            "usage": _usage_body(reply.tokens or Tokens()),
        }

    def render_events(self, request: Request, reply: Reply, body: Mapping[str, Any]) -> Iterator[Event]:
        head = _head(request, "chat.completion.chunk")

        def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
            return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

        yield Event(chunk({"role": "assistant", "content": ""}))
        for piece in pieces(reply.reasoning):
            yield Event(chunk({"reasoning_content": piece}))
        for piece in pieces(reply.text):
            yield Event(chunk({"content": piece}))
        for index, call in enumerate(reply.calls):
            opening = _call_body(call)
            text, opening["function"]["arguments"] = opening["function"]["arguments"], ""
            yield Event(chunk({"tool_calls": [{"index": index, **opening}]}))
            for piece in pieces(text):
                yield Event(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
        last = chunk({}, _reason(reply))
        usage = _usage_body(reply.tokens or Tokens())
        options = body.get("stream_options")
        if isinstance(options, Mapping) and options.get("include_usage"):
            yield Event(last)
            yield Event({**head, "choices": [], "usage": usage})
        else:
            yield Event(last)
        yield Event("[DONE]")

    def parse_reply(self, body: Mapping[str, Any]) -> Reply:
        choice = next(iter(mappings(body.get("choices"))), {})
        given = choice.get("message")
        message = _message({**(given if isinstance(given, Mapping) else {}), "role": "assistant"})
        return Reply(
            message.text, message.reasoning, message.calls, _tokens(body), str(body.get("model") or "")
        )

    def assembler(self) -> _Chunks:
        return _Chunks()

    def error(self, status: int, message: str) -> dict[str, Any]:
        return openai_error(status, message)


def openai_error(status: int, message: str) -> dict[str, Any]:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


class _Chunks:
    def __init__(self) -> None:
        self._text, self._reasoning, self._model = "", "", ""
        self._calls: dict[int, dict[str, str]] = {}
        self._tokens: Tokens | None = None
        self._ended = False

    def add(self, data: Mapping[str, Any]) -> None:
        self._model = str(data.get("model") or self._model)
        self._tokens = _tokens(data) or self._tokens
        for choice in mappings(data.get("choices")):
            if choice.get("index") not in (0, None):
                continue
            self._ended = self._ended or choice.get("finish_reason") is not None
            if isinstance(delta := choice.get("delta"), Mapping):
                self._add_delta(delta)

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        self._text += text_of(delta.get("content"))
        self._reasoning += text_of(delta.get("reasoning_content") or delta.get("reasoning"))
        for call in mappings(delta.get("tool_calls")):
            known = self._calls.setdefault(
                int(call.get("index") or 0), {"id": "", "name": "", "arguments": ""}
            )
            known["id"] = known["id"] or str(call.get("id") or "")
            if isinstance(function := call.get("function"), Mapping):
                known["name"] = known["name"] or str(function.get("name") or "")
                known["arguments"] += str(function.get("arguments") or "")

    def reply(self) -> Reply:
        calls = tuple(
            ToolCall(call["id"], call["name"], parse_arguments(call["arguments"]))
            for _, call in sorted(self._calls.items())
        )
        return Reply(self._text, self._reasoning, calls, self._tokens, self._model, self._ended)


def _tokens(body: Mapping[str, Any]) -> Tokens | None:
    usage = body.get("usage")
    if not isinstance(usage, Mapping) or "prompt_tokens" not in usage:
        return None
    before, after = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
    return Tokens(
        input=number(usage.get("prompt_tokens")),
        output=number(usage.get("completion_tokens")),
        cached=number(before.get("cached_tokens") or usage.get("prompt_cache_hit_tokens")),
        reasoning=number(after.get("reasoning_tokens")),
    )


def _message(message: Mapping[str, Any]) -> Message:
    role = _ROLES.get(str(message.get("role")), Role.USER)
    calls = []
    for call in mappings(message.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, Mapping):
            calls.append(
                ToolCall(
                    str(call.get("id") or ""),
                    str(function.get("name")),
                    parse_arguments(function.get("arguments")),
                )
            )
    return Message(
        role,
        text_of(message.get("content")),
        reasoning=text_of(message.get("reasoning_content") or message.get("reasoning")),
        calls=tuple(calls),
        call_id=str(message.get("tool_call_id") or ""),
    )


def _call_body(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments_text(call.arguments)},
    }


def _head(request: Request, kind: str) -> dict[str, Any]:
    return {
        "id": new_id("chatcmpl-"),
        "object": kind,
        "created": int(time.time()),
        "model": request.model,
    }


def _reason(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _usage_body(tokens: Tokens) -> dict[str, Any]:
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }

"""Google generate: ``POST …/models/M:generateContent`` and ``:streamGenerateContent``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from beyondswe.gateway.conversation import Message, Reply, Request, Role, Tokens, Tool, ToolCall
from beyondswe.gateway.protocols.base import (
    Event,
    mappings,
    new_id,
    number,
    parse_arguments,
    pieces,
    text_of,
)


class Gemini:
    """Clients write names in camelCase or in snake_case; model and streaming stand in the address and are put
    into the body by `protocols.find`.
    """

    name = "google-generate"

    def parse_request(self, body: Mapping[str, Any]) -> Request:
        tools = []
        for group in mappings(body.get("tools")):
            for function in mappings(either(group, "functionDeclarations")):
                schema = either(function, "parametersJsonSchema") or function.get("parameters") or {}
                tools.append(Tool(str(function.get("name")), schema, str(function.get("description") or "")))
        text = text_of(either(body, "systemInstruction"))
        messages = [Message(Role.SYSTEM, text)] if text else []
        for content in mappings(body.get("contents")):
            messages += _messages(content)
        return Request(str(body.get("model") or ""), bool(body.get("stream")), tuple(messages), tuple(tools))

    def render(self, request: Request, reply: Reply) -> dict[str, Any]:
        return _answer(request, [*_text_parts(reply), *_call_parts(reply)], reply.tokens or Tokens())

    def render_events(self, request: Request, reply: Reply, body: Mapping[str, Any]) -> Iterator[Event]:
        for piece in pieces(reply.reasoning, 200):
            yield Event(_answer(request, [{"text": piece, "thought": True}], None))
        for piece in pieces(reply.text, 200):
            whole = _answer(request, [{"text": piece}], None)
            yield Event(whole)
        yield Event(_answer(request, _call_parts(reply) or [{"text": ""}], reply.tokens or Tokens()))

    def parse_reply(self, body: Mapping[str, Any]) -> Reply:
        answer = self.assembler()
        answer.add(body)
        return replace(answer.reply(), complete=True)

    def assembler(self) -> _Answers:
        return _Answers()

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = "INTERNAL" if status >= 500 else "INVALID_ARGUMENT"
        return {"error": {"code": status, "message": message, "status": kind}}


class _Answers:
    def __init__(self) -> None:
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []
        self._tokens: Tokens | None = None
        self._model = ""
        self._ended = False

    def add(self, data: Mapping[str, Any]) -> None:
        self._model = str(either(data, "modelVersion") or self._model)
        if isinstance(usage := either(data, "usageMetadata"), Mapping):
            self._tokens = _tokens(usage)
        for candidate in mappings(data.get("candidates"))[:1]:
            self._ended = self._ended or bool(either(candidate, "finishReason"))
            content = candidate.get("content")
            for part in mappings(content.get("parts") if isinstance(content, Mapping) else None):
                if isinstance(call := either(part, "functionCall"), Mapping):
                    self._calls.append(part_call(call))
                elif part.get("thought"):
                    self._reasoning.append(text_of(part))
                else:
                    self._texts.append(text_of(part))

    def reply(self) -> Reply:
        return Reply(
            "".join(self._texts),
            "".join(self._reasoning),
            tuple(self._calls),
            self._tokens,
            self._model,
            self._ended,
        )


def _tokens(usage: Mapping[str, Any]) -> Tokens:
    thoughts = number(either(usage, "thoughtsTokenCount"))
    return Tokens(
        input=number(either(usage, "promptTokenCount")) + number(either(usage, "toolUsePromptTokenCount")),
        output=number(either(usage, "candidatesTokenCount")) + thoughts,
        cached=number(either(usage, "cachedContentTokenCount")),
        reasoning=thoughts,
    )


def either(values: Mapping[str, Any], name: str) -> Any:
    """A value by its name in camelCase or in snake_case."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return values.get(name, values.get(snake))


def _messages(content: Mapping[str, Any]) -> list[Message]:
    role = Role.ASSISTANT if content.get("role") == "model" else Role.USER
    found, texts, reasoning, calls = [], [], [], []
    for part in mappings(content.get("parts")):
        if isinstance(call := either(part, "functionCall"), Mapping):
            calls.append(part_call(call))
        elif isinstance(result := either(part, "functionResponse"), Mapping):
            call_id = str(result.get("id") or result.get("name") or "")
            found.append(Message(Role.TOOL, _result_text(result.get("response")), call_id=call_id))
        elif part.get("thought"):
            reasoning.append(text_of(part))
        else:
            texts.append(text_of(part))
    text = "\n".join(part for part in texts if part)
    if text or reasoning or calls:
        found.append(Message(role, text, "\n".join(reasoning), tuple(calls)))
    return found


def part_call(call: Mapping[str, Any]) -> ToolCall:
    name = str(call.get("name"))
    return ToolCall(str(call.get("id") or name), name, parse_arguments(call.get("args") or {}))


def _result_text(response: Any) -> str:
    if isinstance(response, Mapping):
        for name in ("output", "result", "error", "content"):
            if name in response:
                value = response[name]
                return value if isinstance(value, str) else text_of(value) or str(value)
        return str(dict(response)) if response else ""
    return text_of(response)


def _text_parts(reply: Reply) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if reply.reasoning:
        parts.append({"text": reply.reasoning, "thought": True})
    if reply.text or not reply.calls:
        parts.append({"text": reply.text})
    return parts


def _call_parts(reply: Reply) -> list[dict[str, Any]]:
    return [
        {
            "functionCall": {
                "id": call.id,
                "name": call.name,
                "args": dict(call.arguments)
                if isinstance(call.arguments, Mapping)
                else {"input": call.arguments},
            }
        }
        for call in reply.calls
    ]


def _answer(request: Request, parts: list[dict[str, Any]], tokens: Tokens | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    answer: dict[str, Any] = {
        "candidates": [candidate],
        "modelVersion": request.model,
        "responseId": new_id(""),
    }
    if tokens is not None:
        candidate["finishReason"] = "STOP"
        answer["usageMetadata"] = {
            "promptTokenCount": tokens.input,
            "candidatesTokenCount": tokens.output - tokens.reasoning,
            "thoughtsTokenCount": tokens.reasoning,
            "cachedContentTokenCount": tokens.cached,
            "totalTokenCount": tokens.input + tokens.output,
        }
    return answer

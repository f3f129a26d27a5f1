"""Anthropic messages: ``POST …/messages``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
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


class Messages:
    name = "anthropic-messages"

    def parse_request(self, body: Mapping[str, Any]) -> Request:
        messages = [Message(Role.SYSTEM, text)] if (text := text_of(body.get("system"))) else []
        for message in mappings(body.get("messages")):
            messages += _messages(message)
        tools = tuple(
            Tool(str(tool.get("name")), tool.get("input_schema") or {}, str(tool.get("description") or ""))
            for tool in mappings(body.get("tools"))
        )
        return Request(str(body.get("model") or ""), bool(body.get("stream")), tuple(messages), tools)

    def render(self, request: Request, reply: Reply) -> dict[str, Any]:
        return {
            "id": new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": _blocks(reply),
            "stop_reason": "tool_use" if reply.calls else "end_turn",
            "stop_sequence": None,
            "usage": _usage_body(reply.tokens or Tokens()),
        }

    def render_events(self, request: Request, reply: Reply, body: Mapping[str, Any]) -> Iterator[Event]:
        whole = self.render(request, reply)
        started = {
            **whole,
            "content": [],
            "stop_reason": None,
            "usage": {**whole["usage"], "output_tokens": 1},
        }
        told: list[tuple[str, dict[str, Any]]] = [("message_start", {"message": started})]
        for index, block in enumerate(whole["content"]):
            told += [(name, {"index": index, **data}) for name, data in _block_events(block)]
        stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        told += [("message_delta", {"delta": stop, "usage": whole["usage"]}), ("message_stop", {})]
        for name, data in told:
            yield Event({"type": name, **data}, name)

    def parse_reply(self, body: Mapping[str, Any]) -> Reply:
        content = body.get("content")
        parts = _messages({"role": "assistant", "content": content})
        return Reply(
            "\n".join(part.text for part in parts if part.text),
            "\n".join(part.reasoning for part in parts if part.reasoning),
            tuple(call for part in parts for call in part.calls),
            _tokens(body.get("usage")),
            str(body.get("model") or ""),
        )

    def assembler(self) -> _Blocks:
        return _Blocks()

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = "api_error" if status >= 500 else "invalid_request_error"
        return {"type": "error", "error": {"type": kind, "message": message}}


class _Blocks:
    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._usage: dict[str, Any] = {}
        self._model = ""
        self._ended = False

    def add(self, data: Mapping[str, Any]) -> None:
        match data.get("type"):
            case "message_start" if isinstance(message := data.get("message"), Mapping):
                self._model = str(message.get("model") or "")
                self._usage |= message.get("usage") or {}
            case "content_block_start" if isinstance(block := data.get("content_block"), Mapping):
                self._blocks[int(data.get("index") or 0)] = {**block, "json": ""}
            case "content_block_delta" if isinstance(delta := data.get("delta"), Mapping):
                block = self._blocks.setdefault(int(data.get("index") or 0), {"type": "text", "json": ""})
                for key, part in (("text", "text"), ("thinking", "thinking"), ("partial_json", "json")):
                    if key in delta:
                        block[part] = str(block.get(part) or "") + str(delta[key])
            case "message_delta":
                given = data.get("usage") or {}
                self._usage |= {name: value for name, value in given.items() if value is not None}
            case "message_stop" | "error":
                self._ended = True

    def reply(self) -> Reply:
        content = [
            {**block, "input": parse_arguments(block["json"])} if block["json"] else block
            for _, block in sorted(self._blocks.items())
        ]
        whole = MESSAGES.parse_reply({"content": content, "usage": self._usage or None, "model": self._model})
        return replace(whole, complete=self._ended)


def _tokens(usage: Any) -> Tokens | None:
    """All of the prompt: Anthropic counts what is read from or written to the cache apart."""
    if not isinstance(usage, Mapping):
        return None
    cached, written = (
        number(usage.get("cache_read_input_tokens")),
        number(usage.get("cache_creation_input_tokens")),
    )
    return Tokens(
        input=number(usage.get("input_tokens")) + cached + written,
        output=number(usage.get("output_tokens")),
        cached=cached,
        cache_written=written,
    )


MESSAGES = Messages()


def _messages(message: Mapping[str, Any]) -> list[Message]:
    """A message in parts: results of tools stand inside the user's message."""
    role = {"assistant": Role.ASSISTANT, "system": Role.SYSTEM}.get(str(message.get("role")), Role.USER)
    content = message.get("content")
    if isinstance(content, str):
        return [Message(role, content)]
    found, texts, reasoning, calls = [], [], [], []
    for block in mappings(content):
        match block.get("type"):
            case "tool_result":
                result = text_of(block.get("content"))
                found.append(Message(Role.TOOL, result, call_id=str(block.get("tool_use_id") or "")))
            case "tool_use":
                calls.append(block_call(block))
            case "thinking":
                reasoning.append(text_of(block.get("thinking")))
            case _:
                texts.append(text_of(block))
    text = "\n".join(part for part in texts if part)
    if text or reasoning or calls:
        found.append(Message(role, text, "\n".join(reasoning), tuple(calls)))
    return found


def block_call(block: Mapping[str, Any]) -> ToolCall:
    return ToolCall(str(block.get("id") or ""), str(block.get("name")), parse_arguments(block.get("input")))


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.reasoning:
        blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": ""})
    if reply.text or not reply.calls:
        blocks.append({"type": "text", "text": reply.text})
    for call in reply.calls:
        arguments = call.arguments if isinstance(call.arguments, Mapping) else {"input": call.arguments}
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": dict(arguments)})
    return blocks


def _block_events(block: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    empty: dict[str, Any]
    match block["type"]:
        case "tool_use":
            empty, key, kind, text = (
                {"input": {}},
                "partial_json",
                "input_json",
                arguments_text(block["input"]),
            )
        case "thinking":
            empty, key, kind, text = {"thinking": ""}, "thinking", "thinking", block["thinking"]
        case _:
            empty, key, kind, text = {"text": ""}, "text", "text", block["text"]
    yield "content_block_start", {"content_block": {**block, **empty}}
    for piece in pieces(text):
        yield "content_block_delta", {"delta": {"type": f"{kind}_delta", key: piece}}
    yield "content_block_stop", {}


def _usage_body(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.input - tokens.cached - tokens.cache_written,
        "output_tokens": tokens.output,
        "cache_creation_input_tokens": tokens.cache_written,
        "cache_read_input_tokens": tokens.cached,
    }

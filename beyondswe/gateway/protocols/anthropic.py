"""Anthropic messages: ``POST …/messages``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from beyondswe.gateway.conversation import Message, Reply, Request, Role, Tokens, Tool, ToolCall
from beyondswe.gateway.protocols.base import (
    Event,
    arguments_text,
    mappings,
    new_id,
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

"""OpenAI responses: ``POST …/responses``."""

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
from beyondswe.gateway.protocols.chat import openai_error

_ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "assistant": Role.ASSISTANT}
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


class Responses:
    name = "openai-responses"

    def parse_request(self, body: Mapping[str, Any]) -> Request:
        items = body.get("input")
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        messages = [Message(Role.SYSTEM, text)] if (text := text_of(body.get("instructions"))) else []
        for item in mappings(items):
            if (message := _message(item)) is not None:
                messages.append(message)
        return Request(
            model=str(body.get("model") or ""),
            stream=bool(body.get("stream")),
            messages=tuple(messages),
            tools=tuple(_tools(body.get("tools"))),
        )

    def render(self, request: Request, reply: Reply) -> dict[str, Any]:
        return _response(request, _items(reply), reply.tokens or Tokens())

    def render_events(self, request: Request, reply: Reply, body: Mapping[str, Any]) -> Iterator[Event]:
        response = self.render(request, reply)
        started = {**response, "status": "in_progress", "output": [], "usage": None}
        told = [("response.created", {"response": started})]
        for index, item in enumerate(response["output"]):
            told += _item_events(index, item)
        told.append(("response.completed", {"response": response}))
        for count, (name, data) in enumerate(told):
            yield Event({"type": name, "sequence_number": count, **data}, name)

    def parse_reply(self, body: Mapping[str, Any]) -> Reply:
        return _reply(mappings(body.get("output")), body, complete=True)

    def assembler(self) -> _Events:
        return _Events()

    def error(self, status: int, message: str) -> dict[str, Any]:
        return openai_error(status, message)


class _Events:
    def __init__(self) -> None:
        self._items: list[Mapping[str, Any]] = []
        self._response: Mapping[str, Any] = {}
        self._text = ""  # of a message that is not done yet
        self._ended = False

    def add(self, data: Mapping[str, Any]) -> None:
        kind = str(data.get("type"))
        if kind == "response.output_text.delta":
            self._text += str(data.get("delta") or "")
        elif kind == "response.output_item.done" and isinstance(item := data.get("item"), Mapping):
            self._items.append(item)
            self._text = ""
        if isinstance(response := data.get("response"), Mapping):
            self._response = response
        self._ended = self._ended or kind in (
            "response.completed",
            "response.incomplete",
            "response.failed",
            "error",
        )

    def reply(self) -> Reply:
        items = mappings(self._response.get("output")) or self._items
        if self._text and not self._ended:
            items = [*items, {"type": "message", "role": "assistant", "content": self._text}]
        return _reply(items, self._response, complete=self._ended)


def _reply(items: list[Mapping[str, Any]], response: Mapping[str, Any], *, complete: bool) -> Reply:
    messages = [message for item in items if (message := _message(item)) is not None]
    return Reply(
        text="\n".join(message.text for message in messages if message.text),
        reasoning="\n".join(message.reasoning for message in messages if message.reasoning),
        calls=tuple(call for message in messages for call in message.calls),
        tokens=_tokens(response.get("usage")),
        model=str(response.get("model") or ""),
        complete=complete,
    )


def _tokens(usage: Any) -> Tokens | None:
    if not isinstance(usage, Mapping):
        return None
    before, after = usage.get("input_tokens_details") or {}, usage.get("output_tokens_details") or {}
    return Tokens(
        input=number(usage.get("input_tokens")),
        output=number(usage.get("output_tokens")),
        cached=number(before.get("cached_tokens")),
        reasoning=number(after.get("reasoning_tokens")),
    )


def _tools(value: Any, namespace: str | None = None) -> Iterator[Tool]:
    for tool in mappings(value):
        if tool.get("type") == "namespace":
            yield from _tools(tool.get("tools"), str(tool.get("name")))
            continue
        kind = str(tool.get("type"))
        yield Tool(
            str(tool.get("name") or kind),
            tool.get("parameters") or {},
            str(tool.get("description") or ""),
            kind if kind in ("custom", "local_shell") else "function",
            namespace,
        )


def _message(item: Mapping[str, Any]) -> Message | None:
    kind = item.get("type", "message")
    if kind == "message":
        role = _ROLES.get(str(item.get("role")), Role.USER)
        return Message(role, text_of(item.get("content")))
    if kind == "reasoning":
        return Message(Role.ASSISTANT, reasoning=text_of(item.get("summary")) or text_of(item.get("content")))
    if kind in _OUTPUTS:
        return Message(Role.TOOL, text_of(item.get("output")), call_id=str(item.get("call_id") or ""))
    if (call := item_call(item)) is not None:
        return Message(Role.ASSISTANT, calls=(call,))
    return None


def item_call(item: Mapping[str, Any]) -> ToolCall | None:
    """The call that an item of a request or an answer stands for."""
    call_id = str(item.get("call_id") or item.get("id") or "")
    match item.get("type"):
        case "function_call":
            namespace = item.get("namespace")
            arguments = parse_arguments(item.get("arguments"))
            return ToolCall(call_id, str(item.get("name")), arguments, namespace=namespace)
        case "custom_tool_call":
            return ToolCall(call_id, str(item.get("name")), str(item.get("input") or ""), "custom")
        case "local_shell_call":
            action = item.get("action")
            return ToolCall(
                call_id, "local_shell", action if isinstance(action, Mapping) else {}, "local_shell"
            )
    return None


def _items(reply: Reply) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        items.append({"type": "reasoning", "id": new_id("rs_"), "summary": summary})
    if reply.text or not reply.calls:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        items.append(
            {
                "type": "message",
                "id": new_id("msg_"),
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    return items + [_call_item(call) for call in reply.calls]


def _call_item(call: ToolCall) -> dict[str, Any]:
    common = {"call_id": call.id, "status": "completed"}
    if call.kind == "custom":
        text = arguments_text(call.arguments)
        return {"type": "custom_tool_call", "id": new_id("ctc_"), "name": call.name, "input": text, **common}
    if call.kind == "local_shell":
        command = call.arguments.get("command", []) if isinstance(call.arguments, Mapping) else []
        action: dict[str, Any] = {"type": "exec", "command": command, "env": {}}
        return {"type": "local_shell_call", "id": new_id("lsh_"), "action": action, **common}
    item = {
        "type": "function_call",
        "id": new_id("fc_"),
        "name": call.name,
        "arguments": arguments_text(call.arguments),
        **common,
    }
    return {**item, "namespace": call.namespace} if call.namespace else item


def _item_events(index: int, item: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    where = {"item_id": item["id"], "output_index": index}
    started = {**item, "status": "in_progress"}
    told: list[tuple[str, dict[str, Any]]] = []
    if item["type"] == "message":
        started["content"] = []
        text = text_of(item["content"])
        for piece in pieces(text):
            told.append(("response.output_text.delta", {**where, "content_index": 0, "delta": piece}))
    elif item["type"] == "function_call":
        started["arguments"] = ""
        for piece in pieces(item["arguments"]):
            told.append(("response.function_call_arguments.delta", {**where, "delta": piece}))
    added = ("response.output_item.added", {"output_index": index, "item": started})
    return [added, *told, ("response.output_item.done", {"output_index": index, "item": item})]


def _response(request: Request, items: list[dict[str, Any]], tokens: Tokens) -> dict[str, Any]:
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "model": request.model,
        "output": items,
        "usage": {
            "input_tokens": tokens.input,
            "input_tokens_details": {"cached_tokens": tokens.cached},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
            "total_tokens": tokens.input + tokens.output,
        },
        "error": None,
        "incomplete_details": None,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "metadata": {},
    }

"""What every wire protocol module offers, and the small helpers that they share."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from beyondswe.gateway.conversation import Reply, Request


@dataclass(frozen=True)
class Event:
    """One server-sent event; ``data`` is JSON, or text as it stands."""

    data: Mapping[str, Any] | str
    name: str | None = None

    def encode(self) -> bytes:
        data = self.data if isinstance(self.data, str) else json.dumps(self.data, ensure_ascii=False)
        return (f"event: {self.name}\n" if self.name else "").encode() + f"data: {data}\n\n".encode()


class Assembler(Protocol):
    """Puts a streamed answer together, event by event."""

    def add(self, data: Mapping[str, Any]) -> None:
        """The data of one event."""

    def reply(self) -> Reply:
        """What came so far; ``complete`` says whether the end was among it."""


class WireProtocol(Protocol):
    """One way of talking to models over HTTP."""

    name: str

    def parse_request(self, body: Mapping[str, Any]) -> Request:
        """The request of a body; what is not understood is left out."""

    def render(self, request: Request, reply: Reply) -> dict[str, Any]:
        """A whole answer as JSON."""

    def render_events(self, request: Request, reply: Reply, body: Mapping[str, Any]) -> Iterator[Event]:
        """A whole answer as events; ``body`` is the request's."""

    def parse_reply(self, body: Mapping[str, Any]) -> Reply:
        """A whole answer from its JSON."""

    def assembler(self) -> Assembler:
        """For one streamed answer."""

    def error(self, status: int, message: str) -> dict[str, Any]:
        """An error in the protocol's own shape."""


def new_id(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:24]


def text_of(content: Any) -> str:
    """The text in a message's content, whatever its shape."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text for part in content if (text := text_of(part)))
    if isinstance(content, Mapping):
        return text_of(content.get("text") or content.get("content") or content.get("parts") or "")
    return ""


def parse_arguments(text: Any) -> Mapping[str, Any] | str:
    """Arguments from their JSON text; the text itself if it is none."""
    if isinstance(text, Mapping):
        return text
    try:
        found = json.loads(text or "{}")
    except (ValueError, TypeError):
        return str(text)
    return found if isinstance(found, dict) else str(text)


def arguments_text(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def pieces(text: str, size: int = 60) -> Iterator[str]:
    """A text in the pieces that a stream gives it in."""
    for start in range(0, len(text), size):
        yield text[start : start + size]


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a JSON list; anything else is no object."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0

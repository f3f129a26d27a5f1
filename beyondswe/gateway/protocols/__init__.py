"""The wire protocols that the gateway speaks, and which one a request is in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from beyondswe.gateway.protocols.anthropic import Messages
from beyondswe.gateway.protocols.base import Event, WireProtocol
from beyondswe.gateway.protocols.chat import Chat
from beyondswe.gateway.protocols.gemini import Gemini
from beyondswe.gateway.protocols.responses import Responses

__all__ = ["ANTHROPIC", "CHAT", "GEMINI", "RESPONSES", "Event", "Place", "WireProtocol", "place"]

CHAT, RESPONSES, ANTHROPIC, GEMINI = Chat(), Responses(), Messages(), Gemini()

_GEMINI_PATH = re.compile(r"/([^/:]+):(\w+)$")  # below models, tunedModels, endpoints


@dataclass(frozen=True)
class Place:
    """What a request's path asks for: a generation in a protocol, or counting its tokens."""

    protocol: WireProtocol
    counting: bool = False
    extra: Mapping[str, Any] | None = None  # what the path says that other protocols have in the body

    def body(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**body, **self.extra} if self.extra else body


def place(path: str) -> Place | None:
    """The protocol of a ``POST`` to this path; None for what is none of them."""
    path = re.sub(r"/+", "/", path).rstrip("/")  # servers take several slashes for one
    if match := _GEMINI_PATH.search(path):
        model, verb = match.groups()
        if verb == "countTokens":
            return Place(GEMINI, counting=True)
        if verb in ("generateContent", "streamGenerateContent"):
            return Place(GEMINI, extra={"model": model, "stream": verb == "streamGenerateContent"})
        return None
    if path.endswith("/messages/count_tokens"):
        return Place(ANTHROPIC, counting=True)
    if path.endswith("/chat/completions"):
        return Place(CHAT)
    if path.endswith("/messages"):
        return Place(ANTHROPIC)
    if path.endswith("/responses"):
        return Place(RESPONSES)
    return None

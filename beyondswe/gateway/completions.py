"""Generations in no protocol of the gateway: old text completions, and what else a provider may offer.

They are passed on as they are; what was asked and said is read from them as far as it can be, for turns, tokens and
the trajectory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from beyondswe.gateway.conversation import Message, Reply, Request, Role, Tokens
from beyondswe.gateway.protocols import CHAT, GEMINI, RESPONSES
from beyondswe.gateway.protocols.base import mappings, text_of
from beyondswe.gateway.sse import events

NAME = "other"
_TEXT = re.compile(r"/(?:completions?|complete)/*$")
_PROTOCOLS = (CHAT, RESPONSES, GEMINI)


def is_completion(path: str) -> bool:
    """Whether a ``POST`` to this path is a generation, whatever its answer says of tokens."""
    return bool(_TEXT.search(path))


def request_of(body: Any) -> Request:
    """What was asked, as a message of the user's."""
    asked = body if isinstance(body, Mapping) else {}
    prompt = asked.get("prompt") or asked.get("input") or ""
    text = "\n".join(filter(None, (text_of(prompt), text_of(asked.get("suffix")))))
    messages = CHAT.parse_request(asked).messages
    return Request(
        model=str(asked.get("model") or ""),
        stream=bool(asked.get("stream")),
        messages=(*messages, Message(Role.USER, text)) if text else messages,
    )


def reply_of(data: bytes) -> Reply:
    """What was answered, streamed or not."""
    found = list(events(data))
    text = "".join(map(_text, found))
    model = next((str(event["model"]) for event in found if event.get("model")), "")
    return Reply(text, tokens=_tokens(found), model=model, complete=bool(found))


def _text(event: Mapping[str, Any]) -> str:
    choice = next(iter(mappings(event.get("choices"))), {})
    for told in (choice.get("text"), event.get("completion"), choice.get("message"), choice.get("delta")):
        if text := text_of(told):
            return text
    return ""


def _tokens(found: Iterable[Mapping[str, Any]]) -> Tokens | None:
    """The last that an answer tells of."""
    last = None
    for event in found:
        whole = event.get("response")
        for told in (event, whole if isinstance(whole, Mapping) else {}):
            for protocol in _PROTOCOLS:
                tokens = protocol.parse_reply(told).tokens
                last = tokens if tokens and tokens.input + tokens.output else last
    return last

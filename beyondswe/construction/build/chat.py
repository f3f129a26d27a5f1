"""A conversation with a model that calls tools, over OpenAI's chat completions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from beyondswe.construction.build.stopped import BuildStopped
from beyondswe.gateway.conversation import Tokens

_TRIES = 4


@dataclass(frozen=True)
class Call:
    """A tool that the model wants called."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """One answer of the model."""

    text: str
    calls: tuple[Call, ...]
    tokens: Tokens


@dataclass
class Chat:
    """Messages so far. ``url`` is the API's base, such as ``https://host/v1``; the key is ``OPENAI_API_KEY``'s."""

    model: str
    url: str
    tools: Sequence[dict[str, Any]]
    messages: list[dict[str, Any]] = field(default_factory=list)

    def ask(self, timeout: float) -> Turn:
        """The model's next answer, which becomes part of the conversation. `BuildStopped` if it gives none."""
        import httpx

        key = os.environ.get("OPENAI_API_KEY", "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        body = {"model": self.model, "messages": self.messages, "tools": list(self.tools)}
        problem = ""
        for number in range(_TRIES):
            if number:
                time.sleep(min(2**number, 8) / 2)
            try:
                answer = httpx.post(
                    f"{self.url.rstrip('/')}/chat/completions", json=body, headers=headers, timeout=timeout
                )
            except httpx.HTTPError as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if answer.status_code == 200:
                try:
                    return self._read(answer.json())
                except (ValueError, KeyError, IndexError, TypeError) as error:
                    problem = f"its answer is no chat completion ({error}): {answer.text[:200]}"
                    continue
            problem = f"{answer.status_code}: {answer.text[:300]}"
            if answer.status_code not in (408, 409, 429) and answer.status_code < 500:
                break
        raise BuildStopped("model", f"{self.model} at {self.url} does not answer: {problem}")

    def _read(self, document: dict[str, Any]) -> Turn:
        message = document["choices"][0]["message"]
        usage = document.get("usage") or {}
        calls = []
        for call in message.get("tool_calls") or ():
            function = call["function"]
            try:
                arguments = json.loads(function.get("arguments") or "{}")
            except ValueError:
                arguments = {}
            calls.append(
                Call(str(call["id"]), str(function["name"]), arguments if isinstance(arguments, dict) else {})
            )
        kept = {"role": "assistant", "content": message.get("content") or ""}
        if message.get("tool_calls"):
            kept["tool_calls"] = message["tool_calls"]
        self.messages.append(kept)
        tokens = Tokens(
            input=int(usage.get("prompt_tokens") or 0), output=int(usage.get("completion_tokens") or 0)
        )
        return Turn(str(message.get("content") or ""), tuple(calls), tokens)

    def say(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def answer(self, call: Call, text: str) -> None:
        self.messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

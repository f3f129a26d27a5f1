"""The model over the gateway's socket: chat completions, one at a time, and what its answers mean.

Retries of a model that is overloaded are the gateway's business. What is told apart here: a budget that is
used up, a prompt that the model finds too long, a model that cannot be had.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from beyondswe.agents.searchswe.context import Message
from beyondswe.gateway.types import ModelAccess
from beyondswe.gateway.upstream import ROLE_HEADER

_CALL_TIMEOUT = 3_600.0  # seconds that one answer may take, within the attempt's own limit
_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|limit)|maximum.{0,20}(context|prompt|tokens)|prompt is too long|"
    r"too many (input )?tokens|reduce the length|input length",
    re.I,
)


_USED_UP = "The budget of this attempt is used up"
"""How the gateway's closing answer begins, which every agent takes for the model's."""


class BudgetExhausted(Exception):
    """The gateway gives no more answers: turns, tokens or money are used up."""


class PromptTooLong(Exception):
    """The model finds the prompt too long for it."""


class ModelFailed(Exception):
    """No usable answer, and asking again has been tried."""


class OutOfTime(Exception):
    """The attempt's time is over."""


@dataclass(frozen=True)
class Answer:
    """One answer of the model."""

    message: Mapping[str, Any]  # the assistant's message as it came
    finish: str
    prompt_tokens: int

    @property
    def text(self) -> str:
        content = self.message.get("content")
        if isinstance(content, list):
            parts = [part.get("text") or "" for part in content if isinstance(part, Mapping)]
            return "".join(map(str, parts))
        return str(content or "")

    @property
    def reasoning(self) -> str:
        return str(self.message.get("reasoning_content") or self.message.get("reasoning") or "")


class Model:
    """One model, in one role, for one attempt. May be used from several threads."""

    def __init__(
        self, access: ModelAccess, *, name: str, role: str, deadline: float, request: Mapping[str, Any]
    ) -> None:
        """``deadline`` is the monotonic time at which the attempt is over; ``request`` goes into every body."""
        self._name, self._deadline, self._request = name, deadline, request
        self._client = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(access.socket)),
            base_url=f"{access.url.rstrip('/')}/v1",
            headers={"Authorization": f"Bearer {access.token}", ROLE_HEADER: role},
        )

    def close(self) -> None:
        self._client.close()

    def ask(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        completion_tokens: int | None = None,
    ) -> Answer:
        """One answer. Raises one of the exceptions above."""
        body: dict[str, Any] = {"model": self._name, "messages": list(messages), **self._request}
        if tools:
            body["tools"] = list(tools)
        if completion_tokens is not None:
            body.setdefault("max_completion_tokens", completion_tokens)
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime
        try:
            answer = self._client.post(
                "/chat/completions", json=body, timeout=httpx.Timeout(min(left, _CALL_TIMEOUT), connect=30)
            )
        except httpx.TimeoutException:
            if time.monotonic() >= self._deadline:
                raise OutOfTime from None
            raise ModelFailed(f"no answer within {_CALL_TIMEOUT:g} s") from None
        except httpx.HTTPError as error:
            raise ModelFailed(f"the gateway does not answer: {error or type(error).__name__}") from None
        return _read(answer)


def _read(answer: httpx.Response) -> Answer:
    try:
        document = answer.json()
    except ValueError:
        document = None
    if answer.status_code != 200:
        error = document.get("error") if isinstance(document, Mapping) else None
        why = error.get("message") if isinstance(error, Mapping) else error
        why = " ".join(str(why or answer.text or answer.reason_phrase).split())[:500]
        code = str(error.get("code") or error.get("type") or "") if isinstance(error, Mapping) else ""
        if answer.status_code in (400, 413, 422) and (_TOO_LONG.search(why) or "context_length" in code):
            raise PromptTooLong(why)
        raise ModelFailed(f"the model answers {answer.status_code}: {why}")
    choices = document.get("choices") if isinstance(document, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping) or not isinstance(choice.get("message"), Mapping):
        raise ModelFailed("the model's answer is no chat completion")
    usage = document.get("usage") or {}
    tokens = usage.get("prompt_tokens") if isinstance(usage, Mapping) else 0
    found = Answer(
        choice["message"],
        str(choice.get("finish_reason") or ""),
        tokens if isinstance(tokens, int) else 0,
    )
    if found.text.startswith(_USED_UP):
        raise BudgetExhausted(found.text.partition(". ")[0])
    return found

"""What fits into the model's window: long observations are cut, old ones condensed when it is near full.

Tokens are estimated, not counted (every model has its own tokenizer): three bytes of UTF-8 a token, times a
factor learnt from what the last call's ``usage`` said. That errs on the safe side for English and code until
the first answer comes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]
_BYTES_A_TOKEN = 3.0
_KEEP_RECENT = 8  # messages at the end that stay whole as long as others can be condensed
_FULL, _ROOM = 0.85, 0.6  # condense above the first share of the window, down to the second
_SHORT = 400  # characters below which condensing gains nothing
_CONDENSED = "[Condensed:"


def cut(text: str, limit: int) -> str:
    """The text within a number of characters, its head and tail kept and a note in its middle."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    left_out = len(text) - head - tail
    return (
        f"{text[:head]}\n\n[… {left_out} characters were cut here; ask for a part, or write to a file and "
        f"search in it …]\n\n{text[len(text) - tail :]}"
    )


class Window:
    """The conversation kept within one model's window."""

    def __init__(self, tokens: int, *, reserve: int) -> None:
        """``reserve`` tokens are kept free for the completion (at most half of the window)."""
        self._room = tokens - min(reserve, tokens // 2)
        self._factor = 1.0
        self.condensed = 0  # how many messages were

    def estimate(self, messages: Sequence[Message]) -> int:
        """Tokens that these messages will take."""
        return math.ceil(sum(map(_size, messages)) / _BYTES_A_TOKEN * self._factor)

    def learn(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Take in how many tokens these messages really took."""
        raw = sum(map(_size, messages)) / _BYTES_A_TOKEN
        if prompt_tokens > 0 and raw > 0:
            self._factor = min(max(prompt_tokens / raw, 0.25), 4.0)

    def fit(self, messages: list[Message], *, fixed: int = 0, tighter: float = 1.0) -> list[Message]:
        """The messages, with old observations condensed if the window is near full, oldest first; then old
        calls' long arguments; at last whole old turns are left out. The task itself always stays.

        ``fixed`` is what goes along with every call (tools), in bytes. ``tighter`` < 1 says that the model
        refused these messages: the window is smaller than it was thought to be, from now on.
        """
        overhead = math.ceil(fixed / _BYTES_A_TOKEN * self._factor)
        if tighter < 1.0:
            self._room = min(self._room, math.floor((self.estimate(messages) + overhead) * tighter))
        room = self._room - overhead
        if self.estimate(messages) <= room * _FULL:
            return messages
        wanted = room * _ROOM
        shown = list(messages)
        for shorten in (_observation, _arguments):
            for index in range(2, len(shown) - _KEEP_RECENT):
                if self.estimate(shown) <= wanted:
                    return shown
                shown[index], changed = shorten(shown[index])
                self.condensed += changed
        return self._without_old_turns(shown, room * _FULL)

    def _without_old_turns(self, messages: list[Message], room: float) -> list[Message]:
        """Leave out whole turns after the task until it fits; a turn is an assistant's message and what
        answers it.
        """
        shown = list(messages)
        left_out = 0
        while self.estimate(shown) > room:
            turns = [i for i in range(2, len(shown)) if shown[i]["role"] == "assistant"]
            if len(turns) < 2:
                break
            left_out += turns[1] - turns[0]
            del shown[turns[0] : turns[1]]
        if left_out:
            self.condensed += left_out
            note = f"{_CONDENSED} {left_out} earlier messages of your work are left out here.]"
            shown.insert(2, {"role": "user", "content": note})
        for index in range(len(shown) - 1, 1, -1):  # a last resort: even the recent ones are too much
            if self.estimate(shown) <= room:
                break
            shown[index], changed = _observation(shown[index])
            self.condensed += changed
        return shown


def _size(message: Message) -> int:
    """Bytes of a message as it goes over the wire, about."""
    size = 12
    for key, value in message.items():
        if isinstance(value, str):
            size += len(value.encode("utf-8", "surrogatepass"))
        elif value is not None and key != "role":
            size += len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return size


def _observation(message: Message) -> tuple[Message, int]:
    """A tool's answer (or a user's message that holds one) reduced to how it began."""
    text = message.get("content")
    if message["role"] not in ("tool", "user") or not isinstance(text, str):
        return message, 0
    if len(text) <= _SHORT or text.startswith(_CONDENSED):
        return message, 0
    begin = " ".join(text[:200].split())
    note = f"{_CONDENSED} an observation of {len(text)} characters that began: {begin} … Ask again if you need it.]"
    return {**message, "content": note}, 1


def _arguments(message: Message) -> tuple[Message, int]:
    """An assistant's message whose calls' long texts are left out, and whose own long text is cut."""
    if message["role"] != "assistant":
        return message, 0
    changed = 0
    shown = dict(message)
    if isinstance(text := message.get("content"), str) and len(text) > 4 * _SHORT:
        shown["content"] = cut(text, 2 * _SHORT)
        changed = 1
    calls = []
    for call in message.get("tool_calls") or []:
        arguments = json.loads(call["function"]["arguments"])
        long = {key for key, value in arguments.items() if isinstance(value, str) and len(value) > _SHORT}
        if long:
            changed = 1
            arguments = {
                key: f"{_CONDENSED} {len(value)} characters]" if key in long else value
                for key, value in arguments.items()
            }
            function = {**call["function"], "arguments": json.dumps(arguments, ensure_ascii=False)}
            call = {**call, "function": function}
        calls.append(call)
    if calls:
        shown["tool_calls"] = calls
    return shown, changed

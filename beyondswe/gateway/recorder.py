"""Writes down what passes for one attempt, call by call, on disk: every message once, though agents send the
whole conversation each time.

All of it is done by one thread beside the streams, in the order of the calls: a disk that is busy must not hold
anybody's stream.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from beyondswe.gateway.conversation import Message, Reply, Request, Role

_WRITER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recorder")


class Recorder:
    """One JSON line a call: its new messages, the reply, tokens, cost and times."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # half of a character, as models' streams and agents send them, is written as JSON's escape
        self._file: IO[str] = path.open("a", encoding="utf-8", errors="backslashreplace")
        self._seen: Counter[bytes] = Counter()
        self._tools: bytes = b""
        self._replied = False

    def write(self, entry: Mapping[str, Any]) -> None:
        """A call without an answer."""
        _WRITER.submit(self._write, entry)

    def answered(self, entry: Mapping[str, Any], parse: Callable[[], Request], reply: Reply) -> None:
        """A call with its answer; ``parse`` gives the request, and is called by the writing thread."""
        _WRITER.submit(self._answered, entry, parse, reply)

    def close(self) -> None:
        """Comes back when everything is written."""
        _WRITER.submit(self._file.close).result()

    def _answered(self, entry: Mapping[str, Any], parse: Callable[[], Request], reply: Reply) -> None:
        try:
            request = parse()
            new, tools = self._new_messages(request), self._new_tools(request)
        except Exception as error:  # what a provider took and we cannot read hides no answer
            new, tools, entry = [], None, {**entry, "unread": f"{type(error).__name__}: {error}"[:300]}
        self._replied = True
        said = {
            "text": reply.text,
            "reasoning": reply.reasoning,
            "calls": [_call(call) for call in reply.calls],
        }
        self._write({**entry, "new": new, **({"tools": tools} if tools else {}), "reply": said})

    def _write(self, entry: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(entry, ensure_ascii=False, default=str) + "\n")
        self._file.flush()

    def _new_messages(self, request: Request) -> list[dict[str, Any]]:
        """What a request says that no earlier one did. The same words a second time are new.

        What the model said is known from its replies, in whatever form an agent sends it back; only before the
        first reply can an assistant's words be news (an opening that the agent made up).
        """
        new = []
        count: Counter[bytes] = Counter()
        for message in request.messages:
            if message.role is Role.ASSISTANT and self._replied:
                continue
            mark = _mark(message)
            count[mark] += 1
            if count[mark] > self._seen[mark]:
                new.append(_document(message))
        self._seen |= count
        return new

    def _new_tools(self, request: Request) -> list[dict[str, Any]] | None:
        """The tools offered, when they are others than before."""
        tools = [
            {"name": tool.name, "description": tool.description, "parameters": tool.schema}
            for tool in request.tools
        ]
        mark = hashlib.sha256(json.dumps(tools, sort_keys=True, default=str).encode()).digest()
        if not tools or mark == self._tools:
            return None
        self._tools = mark
        return tools


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _document(message: Message) -> dict[str, Any]:
    return {
        "role": message.role.value,
        "text": message.text,
        "reasoning": message.reasoning,
        "calls": [_call(call) for call in message.calls],
        "call_id": message.call_id,
    }


def _call(call: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(call).items() if value is not None}


def _mark(message: Message) -> bytes:
    """What makes a message the same."""
    calls = [[call.id, call.name, str(call.arguments)] for call in message.calls]
    parts = [message.role.value, message.text.strip(), message.call_id, calls]
    return hashlib.sha256(json.dumps(parts).encode()).digest()[:12]

"""What passes between an agent and a model, said once for all wire protocols: requests, replies, tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True)
class ToolCall:
    """A call that a model asks for; ``arguments`` is text where the tool takes free text or the JSON is
    broken.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | str
    kind: str = "function"  # or custom, local_shell (OpenAI responses)
    namespace: str | None = None


@dataclass(frozen=True)
class Message:
    """One entry of a conversation. A result of a tool has the call's id in ``call_id``."""

    role: Role
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


@dataclass(frozen=True)
class Tool:
    """A tool that a request offers to the model."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""
    kind: str = "function"
    namespace: str | None = None

    @property
    def properties(self) -> Mapping[str, Any]:
        found = self.schema.get("properties")
        return found if isinstance(found, Mapping) else {}


@dataclass(frozen=True)
class Tokens:
    """Tokens of one call. ``input`` is all of the prompt; ``cached`` and ``cache_written`` are parts of it;
    ``output`` includes ``reasoning``.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    cache_written: int = 0
    reasoning: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.cache_written + other.cache_written,
            self.reasoning + other.reasoning,
        )


@dataclass(frozen=True)
class Request:
    """What an agent asks of a model."""

    model: str
    stream: bool
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True)
class Reply:
    """What a model answers. ``tokens`` is None where the answer does not say."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    tokens: Tokens | None = None
    model: str = ""
    complete: bool = True  # False: the stream ended before its end

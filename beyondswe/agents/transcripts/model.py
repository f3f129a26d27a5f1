"""The one form that the transcripts of all agents are read into."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from beyondswe.gateway.conversation import Tokens, ToolCall


class EndKind(StrEnum):
    FINISHED = "finished"
    ERROR = "error"
    LIMIT = "limit"  # of turns, cost or time that the agent was given


@dataclass(frozen=True)
class End:
    """How an agent says it ended."""

    kind: EndKind
    message: str = ""


@dataclass(frozen=True)
class Result:
    """What a call gave, as the agent saw it."""

    call_id: str
    text: str
    is_error: bool = False


@dataclass(frozen=True)
class Step:
    """One turn of the model: what it said, what it called, what came back."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[Result, ...] = ()
    tokens: Tokens | None = None  # None: the agent does not say
    cost_usd: float | None = None  # by the agent's own prices
    time: float | None = None  # seconds since the epoch


@dataclass(frozen=True)
class Transcript:
    """An agent's own account. ``total`` and ``total_cost_usd`` are its sums, where it gives no more than those."""

    format: str
    steps: tuple[Step, ...] = ()
    end: End | None = None  # None: it does not say
    total: Tokens | None = None
    total_cost_usd: float | None = None

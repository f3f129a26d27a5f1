"""Counts an attempt's model calls and says when its budget is used up."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from beyondswe.gateway.conversation import Reply, Tokens

AGENT = "agent"
"""The role whose calls are turns. Other roles (a summariser) cost, but are none."""

OTHER = "other"
"""The role of what is no generation and costs all the same, such as embeddings."""


@dataclass(frozen=True)
class Budget:
    """Limits of one attempt; None is no limit. Tokens are those of prompts and of answers together."""

    max_turns: int | None = None
    max_cost: float | None = None  # US dollars
    max_tokens: int | None = None


@dataclass
class Share:
    """What one model, or one role, took."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = 0.0

    def add(self, tokens: Tokens, cost: float | None) -> None:
        self.calls += 1
        self.input_tokens += tokens.input
        self.output_tokens += tokens.output
        self.cached_tokens += tokens.cached
        self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost


@dataclass
class Meter:
    """The counters of one attempt. A call takes its turn when it begins and gives it back if it fails."""

    budget: Budget
    turns: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    cost: float = 0.0  # of the calls whose price is known
    unpriced: set[str] = field(default_factory=set)  # models
    estimated: int = 0  # calls whose tokens nobody said
    tool_calls: Counter[str] = field(default_factory=Counter)
    models: dict[str, Share] = field(default_factory=dict)
    roles: dict[str, Share] = field(default_factory=dict)

    def exhausted(self, role: str = AGENT) -> str | None:
        """Why no further call may begin, if so."""
        budget = self.budget
        if budget.max_turns is not None and role == AGENT and self.turns >= budget.max_turns:
            return f"{self.turns} turns of {budget.max_turns} (--max-turns)"
        if budget.max_tokens is not None and self.total_tokens >= budget.max_tokens:
            return f"{self.total_tokens} tokens of {budget.max_tokens} (--max-tokens)"
        if budget.max_cost is not None and self.cost >= budget.max_cost:
            return f"{self.cost:.4f} US dollars of {budget.max_cost:g} (--max-cost)"
        return None

    @property
    def total_tokens(self) -> int:
        return self.tokens.input + self.tokens.output

    def begin(self, role: str) -> None:
        self.turns += role == AGENT

    def failed(self, role: str) -> None:
        self.turns -= role == AGENT

    def finish(self, model: str, role: str, reply: Reply, tokens: Tokens, cost: float | None) -> None:
        """A call was answered."""
        self.tokens += tokens
        self.cost += cost or 0.0
        self.estimated += reply.tokens is None
        if cost is None:
            self.unpriced.add(model)
        self.models.setdefault(model, Share()).add(tokens, cost)
        self.roles.setdefault(role, Share()).add(tokens, cost)
        if role == AGENT:
            self.tool_calls.update(call.name for call in reply.calls)

    def usage(self) -> dict[str, Any]:
        """As it stands in an outcome. The cost is None if the price of a single call is unknown."""
        usage: dict[str, Any] = {
            "input_tokens": self.tokens.input,
            "output_tokens": self.tokens.output,
            "cost_usd": None if self.unpriced else round(self.cost, 8),
            "turns": self.turns,
            "tool_calls": dict(sorted(self.tool_calls.items())),
            "cached_tokens": self.tokens.cached,
            "reasoning_tokens": self.tokens.reasoning,
            "models": {name: asdict(share) for name, share in sorted(self.models.items())},
        }
        if set(self.roles) - {AGENT}:
            usage["roles"] = {name: asdict(share) for name, share in sorted(self.roles.items())}
        if self.unpriced:
            usage["unpriced_models"] = sorted(self.unpriced)
        if self.estimated:
            usage["estimated_calls"] = self.estimated
        return usage


def estimate(request_bytes: int, reply: Reply) -> Tokens:
    """Tokens of a call that nobody counted, by length: about four bytes each."""
    said = len(reply.text) + len(reply.reasoning) + sum(len(str(call.arguments)) for call in reply.calls)
    return Tokens(input=request_bytes // 4, output=(said + 3) // 4)

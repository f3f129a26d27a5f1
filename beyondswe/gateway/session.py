"""One attempt's talk with the model: who may ask, what it took, when it is over, and how its calls went."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beyondswe.gateway.conversation import Reply, Request, Tokens
from beyondswe.gateway.metering import AGENT, OTHER, Budget, Meter, estimate
from beyondswe.gateway.pacing import GIVEN_UP
from beyondswe.gateway.prices import Prices
from beyondswe.gateway.recorder import Recorder, now

CUT_OFF_ANSWERS = 10
"""Closing answers after the budget is used up; an agent that still asks is ended by the harness."""
FAILURES = 3
"""Calls in a row that failed at the upstream, each after all its tries, until the harness ends the attempt."""


@dataclass(frozen=True)
class SessionOptions:
    """What an attempt is opened with."""

    token: str
    record_to: Path
    budget: Budget = field(default_factory=Budget)
    roles: frozenset[str] = frozenset()
    """Roles beside the agent's that its calls may name; only for agents that work outside the sandbox."""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> SessionOptions:
        return cls(
            token=str(document["token"]),
            record_to=Path(document["record_to"]),
            budget=Budget(**document["budget"]),
            roles=frozenset(document["roles"]),
        )


class Session:
    """The state of one open attempt. Used from the gateway's event loop alone."""

    def __init__(self, options: SessionOptions, prices: Prices) -> None:
        self.options, self._prices = options, prices
        self.meter = Meter(options.budget)
        self.over = asyncio.Event()
        self.cut_off: str | None = None
        self.refused: list[str] = []
        self._recorder = Recorder(options.record_to)
        self._cut_off_answers = 0
        self._calls = 0
        self._succeeded = 0
        self._failed = 0
        self._failed_in_row = 0
        self._answered: set[str] = set()  # models
        self._fault: dict[str, Any] | None = None

    def admits(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.options.token.encode())

    def role(self, named: str | None) -> str:
        return named if named and named in self.options.roles else AGENT

    def refusal(self, model: str) -> str | None:
        """Why a model may not be called, if so: a limit on cost needs its price."""
        if self.options.budget.max_cost is not None and not self._prices.knows(model):
            return (
                f"the price of model {model!r} is not known, so --max-cost cannot hold; give it by --prices"
            )
        return None

    def closing_answer(self, role: str) -> str | None:
        """The words that end an agent whose budget is used up; None while there is some left."""
        reason = self.meter.exhausted(role)
        if reason is None:
            return None
        self.cut_off = self.cut_off or reason
        self._cut_off_answers += 1
        if self._cut_off_answers > CUT_OFF_ANSWERS:
            self.over.set()
        return (
            f"The budget of this attempt is used up: {reason}. No further model call will be answered. "
            "The work as it stands now is what counts. Stop here."
        )

    def refuse(self, names: list[str]) -> None:
        self.refused += [name for name in names if name not in self.refused]

    def begin(self, role: str) -> None:
        self.meter.begin(role)

    def failed(
        self, role: str, facts: Mapping[str, Any], *, status: int | None, error: str, final: bool
    ) -> None:
        """A call got no answer. ``final``: by a fault of the upstream or the key; else of the request."""
        self.meter.failed(role)
        # a side request for a model that the upstream does not have is no sign that it is away
        elsewhere = bool(self._answered) and facts.get("model") not in self._answered and status in GIVEN_UP
        if final and not elsewhere:
            self._failed += 1
            self._failed_in_row += 1
            self._fault = {"status": status, "error": error}
            if self._failed_in_row >= FAILURES:
                self.over.set()
        self._recorder.write(self._entry(facts, role, status=status, error=error))

    def answered(
        self,
        model: str,
        parse: Callable[[], Request],
        reply: Reply,
        role: str,
        facts: Mapping[str, Any],
        *,
        request_bytes: int,
    ) -> None:
        """A call was answered, wholly or in part. ``parse`` gives its request, later and in another thread."""
        tokens: Tokens = reply.tokens or estimate(request_bytes, reply)
        model = model or reply.model
        cost = self._prices.cost(model, tokens)
        if cost is None and reply.model and reply.model != model:
            cost = self._prices.cost(reply.model, tokens)
        self._succeeded += 1
        self._failed_in_row = 0
        self._answered.add(str(facts.get("model")))
        self.meter.finish(model, role, reply, tokens, cost)
        entry = self._entry(
            facts,
            role,
            tokens={
                "input": tokens.input,
                "output": tokens.output,
                "cached": tokens.cached,
                "reasoning": tokens.reasoning,
                "estimated": reply.tokens is None,
            },
            cost_usd=cost,
            complete=reply.complete,
            reply_model=reply.model,
        )
        self._recorder.answered(entry, parse, reply)

    def passed(
        self,
        facts: Mapping[str, Any],
        status: int,
        *,
        model: str = "",
        tokens: Tokens | None = None,
        begun: str | bool = False,
    ) -> None:
        """A request that is no generation went through. What it took counts, but it is no turn; the one that was
        begun for it, in the role ``begun``, is given back.
        """
        if isinstance(begun, str):
            self.meter.failed(begun)
        cost = None
        if tokens is not None:
            cost = self._prices.cost(model, tokens)
            self.meter.finish(model, OTHER, Reply(tokens=tokens), tokens, cost)
        shown = {"input": tokens.input, "output": tokens.output} if tokens else None
        self._recorder.write(self._entry(facts, OTHER, status=status, tokens=shown, cost_usd=cost))

    def _entry(self, facts: Mapping[str, Any], role: str, **more: Any) -> dict[str, Any]:
        self._calls += 1
        kept = {name: value for name, value in more.items() if value is not None}
        return {"n": self._calls, "ended": now(), "role": role, **facts, **kept}

    def state(self) -> dict[str, Any]:
        """Usage and end, as the harness reads them."""
        return {
            "over": self.over.is_set(),
            "cut_off": self.cut_off,
            "usage": self.meter.usage(),
            "upstream": {
                "succeeded": self._succeeded,
                "failed": self._failed,
                "failing": self._failed_in_row > 0,
                "fault": self._fault,
            },
            "refused": self.refused,
        }

    def close(self) -> dict[str, Any]:
        """Its last state, once everything is written down; not to be called from the event loop's thread."""
        self._recorder.close()
        return self.state()

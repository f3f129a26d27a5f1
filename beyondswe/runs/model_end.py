"""How an agent ended, by what the gateway saw: it goes before the agent's own word and its exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from beyondswe.agents.protocol import AgentEnd, AgentStatus
from beyondswe.errors import EngineError
from beyondswe.gateway.pacing import GIVEN_UP

MODEL_FLAGS = ("provider_tools_refused", "no_model_call", "price_unknown", "tokens_estimated")
"""Flags of an outcome that say something of its model calls."""


class UpstreamFailed(EngineError):
    """The model did not answer: no fault of the agent's, and no failed attempt. A refused key stays refused."""


def end_by_gateway(end: AgentEnd, state: Mapping[str, Any], *, max_turns: int | None) -> AgentEnd:
    """The agent's end in view of its session's last state; `UpstreamFailed` where the model was away at the end.

    Some agents end well by their own word after a refused key, others ask until their time is over: an upstream
    that failed to the last is why either ended. An agent that knows its limit of turns and stops there with an
    error has used up its budget, though the gateway did not have to cut it off.
    """
    if state["cut_off"]:
        return replace(end, status=AgentStatus.BUDGET_EXHAUSTED, error=f"budget used up: {state['cut_off']}")
    upstream = state["upstream"]
    if upstream["failing"]:
        fault = upstream["fault"]
        status = fault["status"]
        shown = f"status {status}: {fault['error']}" if status else str(fault["error"])
        when = "throughout" if not upstream["succeeded"] else "at the end"
        raise UpstreamFailed(
            f"the model's upstream failed {when} ({upstream['failed']} calls, the last with {shown[:500]}). "
            f"{_advice(status)}",
            permanent=status in GIVEN_UP and not upstream["succeeded"],
        )
    turns = state["usage"]["turns"]
    if end.status is AgentStatus.ERROR and max_turns and turns >= max_turns:
        return replace(end, status=AgentStatus.BUDGET_EXHAUSTED)
    return end


def flags_of(state: Mapping[str, Any]) -> list[str]:
    """What a reader of the outcome should know of its model calls."""
    facts = (
        state["refused"],
        not state["upstream"]["succeeded"] and not state["cut_off"],
        state["usage"].get("unpriced_models"),
        state["usage"].get("estimated_calls"),
    )
    return [flag for flag, holds in zip(MODEL_FLAGS, facts, strict=True) if holds]


def _advice(status: int | None) -> str:
    if status in (401, 403):
        return "See to the key in the environment (OPENAI_API_KEY and so on, or BEYONDSWE_MODEL_KEY)."
    if status == 404:
        return "See to --model and --model-url."
    return "See to the model's service and --model-url, then run the same command again."

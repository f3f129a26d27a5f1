"""An attempt's ``trajectory.json``: what passed through the gateway, with what only the agent itself knows.

Tokens and costs are the gateway's. An agent's own transcript adds what was never sent to the model: above all
what its last calls gave. Where nothing passed (an agent without a model), its transcript is the trajectory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from beyondswe.agents.transcripts.model import Step, Transcript
from beyondswe.gateway.atif import (
    AgentInfo,
    Builder,
    Metrics,
    Trajectory,
    add_calls,
    final_metrics,
)


def trajectory(
    *,
    session: str,
    agent: Mapping[str, str],
    model: str | None,
    prompt: str,
    calls: Iterable[Mapping[str, Any]],
    usage: Mapping[str, Any] | None,
    transcript: Transcript | None,
) -> Trajectory:
    """``agent`` has name and version; ``usage`` is the gateway's (None: no gateway in the way)."""
    builder = Builder()
    add_calls(builder, calls)
    notes = None
    if not builder.steps:
        builder.say("user", prompt)
        if transcript is not None:
            _add_steps(builder, transcript.steps, model)
        elif model:
            notes = "No model call was answered."
    elif transcript is not None:
        for step in transcript.steps:
            for result in step.results:
                builder.result(result.call_id, result.text, {"from": "the agent's transcript"})
    extra: dict[str, Any] = {}
    if transcript is not None:
        extra["agent_transcript"] = {
            "format": transcript.format,
            "steps": len(transcript.steps),
            **({"end": asdict(transcript.end)} if transcript.end else {}),
            **({"tokens": asdict(transcript.total)} if transcript.total else {}),
            **({"cost_usd": transcript.total_cost_usd} if transcript.total_cost_usd is not None else {}),
        }
    return Trajectory(
        session_id=session,
        agent=AgentInfo(
            name=agent["name"],
            version=agent["version"],
            model_name=model,
            tool_definitions=list(builder.tools.values()) or None,
        ),
        steps=builder.steps,
        notes=notes,
        final_metrics=final_metrics(usage, len(builder.steps)) if usage is not None else None,
        extra=extra or None,
    )


def _add_steps(builder: Builder, steps: Iterable[Step], model: str | None) -> None:
    for step in steps:
        tokens = step.tokens
        metrics = Metrics(cost_usd=step.cost_usd)
        if tokens is not None:
            metrics = Metrics(
                prompt_tokens=tokens.input,
                completion_tokens=tokens.output,
                cached_tokens=tokens.cached,
                cost_usd=step.cost_usd,
            )
        builder.reply(
            step.text,
            reasoning=step.reasoning,
            calls=[{"id": call.id, "name": call.name, "arguments": call.arguments} for call in step.calls],
            time=datetime.fromtimestamp(step.time, UTC).isoformat() if step.time else None,
            model=model,
            metrics=metrics,
        )
        for result in step.results:
            builder.result(result.call_id, result.text)

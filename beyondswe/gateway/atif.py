"""A trajectory in the Agent Trajectory Interchange Format (ATIF v1.8), made from what passed through the gateway.

Agents send their whole conversation each time; the recorder kept each message once. So a step of the model, its
calls, and what those gave (which comes with a later request) can be put together alike for every agent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ToolCall(_Model):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: dict[str, Any] | None = None


class ObservationResult(_Model):
    source_call_id: str | None = None
    content: str | None = None
    extra: dict[str, Any] | None = None


class Observation(_Model):
    results: list[ObservationResult] = Field(default_factory=list)


class Metrics(_Model):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    extra: dict[str, Any] | None = None


class Step(_Model):
    step_id: int
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    message: str
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    llm_call_count: int | None = None
    extra: dict[str, Any] | None = None


class AgentInfo(_Model):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: dict[str, Any] | None = None


class FinalMetrics(_Model):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = None
    extra: dict[str, Any] | None = None


class Trajectory(_Model):
    schema_version: Literal["ATIF-v1.8"] = "ATIF-v1.8"
    session_id: str
    agent: AgentInfo
    steps: list[Step] = Field(min_length=1)
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    extra: dict[str, Any] | None = None

    def encode(self) -> bytes:
        return (json.dumps(self.model_dump(exclude_none=True), indent=1, ensure_ascii=False) + "\n").encode(
            "utf-8", "backslashreplace"
        )


class Builder:
    """Puts steps together, in the order in which things were said."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.tools: dict[str, dict[str, Any]] = {}
        self._open: dict[
            str, list[tuple[Step, str]]
        ] = {}  # calls by the id that the model gave, oldest first
        self._ids: set[str] = set()

    def say(self, source: Literal["system", "user"], text: str, time: str | None = None) -> None:
        self.steps.append(Step(step_id=len(self.steps) + 1, source=source, message=text, timestamp=time))

    def reply(
        self,
        text: str,
        *,
        reasoning: str = "",
        calls: Iterable[Mapping[str, Any]] = (),
        time: str | None = None,
        model: str | None = None,
        metrics: Metrics | None = None,
        extra: dict[str, Any] | None = None,
    ) -> Step:
        """A turn of the model; without ``metrics`` one that it did not take itself."""
        step = Step(
            step_id=len(self.steps) + 1,
            source="agent",
            message=text,
            timestamp=time,
            model_name=model,
            reasoning_content=(reasoning or None) if metrics else None,
            metrics=metrics,
            llm_call_count=1 if metrics else 0,
            extra=extra or None,
        )
        made = []
        for call in calls:
            given = str(call["id"] or call["name"])
            own = given if given not in self._ids else f"{given}#{len(self._ids)}"
            self._ids.add(own)
            self._open.setdefault(given, []).append((step, own))
            arguments = call["arguments"]
            made.append(
                ToolCall(
                    tool_call_id=own,
                    function_name=str(call["name"]),
                    arguments=dict(arguments)
                    if isinstance(arguments, Mapping)
                    else {"input": str(arguments)},
                )
            )
        step.tool_calls = made or None
        self.steps.append(step)
        return step

    def result(self, call_id: str, text: str, extra: dict[str, Any] | None = None) -> bool:
        """What a call gave; False where no such call waits for it."""
        waiting = self._open.get(call_id)
        if not waiting:
            return False
        step, own = waiting.pop(0)
        if step.observation is None:
            step.observation = Observation()
        step.observation.results.append(ObservationResult(source_call_id=own, content=text, extra=extra))
        return True


def read_calls(path: Path) -> Iterator[dict[str, Any]]:
    """The recorded calls; a last line that was cut short is left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                return


def add_calls(builder: Builder, calls: Iterable[Mapping[str, Any]]) -> None:
    """Everything that passed."""
    for call in calls:
        reply = call.get("reply")
        if reply is None:
            continue
        for tool in call.get("tools") or ():
            builder.tools[str(tool["name"])] = {"type": "function", "function": dict(tool)}
        for message in call.get("new") or ():
            _add_message(builder, message, str(call["started"]))
        tokens = call["tokens"]
        more = {"reasoning_tokens": tokens["reasoning"]} if tokens["reasoning"] else {}
        if tokens["estimated"]:
            more["estimated"] = True
        builder.reply(
            reply["text"],
            reasoning=reply["reasoning"],
            calls=reply["calls"],
            time=str(call["ended"]),
            model=call["model"] or call.get("reply_model"),
            metrics=Metrics(
                prompt_tokens=tokens["input"],
                completion_tokens=tokens["output"],
                cached_tokens=tokens["cached"],
                cost_usd=call.get("cost_usd"),
                extra=more or None,
            ),
            extra=_facts(call),
        )


def _facts(call: Mapping[str, Any]) -> dict[str, Any]:
    facts = {name: call[name] for name in ("protocol", "seconds", "ttfb", "tries") if name in call}
    if call.get("role") != "agent":
        facts["role"] = call.get("role")
    if not call.get("complete", True):
        facts["complete"] = False
    return facts


def _add_message(builder: Builder, message: Mapping[str, Any], time: str) -> None:
    match message["role"]:
        case "tool":
            if not builder.result(message["call_id"], message["text"]):
                builder.say("user", message["text"], time)
        case "assistant":
            builder.reply(message["text"], calls=message["calls"], time=time)
        case role:
            builder.say("system" if role == "system" else "user", message["text"], time)


def final_metrics(usage: Mapping[str, Any], steps: int) -> FinalMetrics:
    extra = {
        name: usage[name]
        for name in ("turns", "tool_calls", "models", "roles", "unpriced_models", "estimated_calls")
        if usage.get(name)
    }
    return FinalMetrics(
        total_prompt_tokens=usage.get("input_tokens"),
        total_completion_tokens=usage.get("output_tokens"),
        total_cached_tokens=usage.get("cached_tokens"),
        total_cost_usd=usage.get("cost_usd"),
        total_steps=steps,
        extra=extra or None,
    )


def call_log(calls: Iterable[Mapping[str, Any]]) -> bytes:
    """One line a call without what was said: times, model, status, tokens, cost, tries, error."""
    left_out = ("new", "reply", "tools")
    kept = ({name: value for name, value in call.items() if name not in left_out} for call in calls)
    return "".join(json.dumps(call, ensure_ascii=False) + "\n" for call in kept).encode(
        "utf-8", "backslashreplace"
    )

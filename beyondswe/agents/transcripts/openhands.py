"""OpenHands' events, a file each (or a line each, as its command line prints them), with ``base_state.json``."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from beyondswe.agents.transcripts.base import (
    Files,
    Steps,
    arguments,
    document,
    json_lines,
    listed,
    mapping,
    seconds,
    text_of,
    tokens,
)
from beyondswe.agents.transcripts.model import End, EndKind, Result, Step, Transcript
from beyondswe.gateway.conversation import Tokens, ToolCall

_OBSERVED = ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation")


def known(files: Files) -> bool:
    return any(str(event.get("kind", "")).endswith("Event") and "source" in event for event in _events(files))


def read(files: Files) -> Transcript:
    state = next(
        (document(data) for name, data in files.items() if posixpath.basename(name) == "base_state.json"), {}
    )
    of_response, cost = _usage(state)
    steps, end = Steps(), None
    answer = None
    for event in _events(files):
        kind, time = event.get("kind"), seconds(event.get("timestamp"))
        if kind == "ActionEvent":
            response = event.get("llm_response_id")
            if answer is None or response != answer:
                answer = response
                thought = text_of(event.get("thought"))
                reasoning = text_of(event.get("reasoning_content"))
                steps.add(Step(thought, reasoning, tokens=of_response.get(str(response)), time=time))
            call = mapping(event.get("tool_call"))
            made = ToolCall(
                str(event.get("tool_call_id", "")),
                str(event.get("tool_name", "")),
                arguments(call.get("arguments")),
            )
            steps.extend_last(calls=[made])
            if made.name == "finish":
                end = End(EndKind.FINISHED, text_of(mapping(made.arguments).get("message")))
        elif kind == "MessageEvent" and event.get("source") == "agent":
            text = text_of(mapping(event.get("llm_message")).get("content"))
            response = event.get("llm_response_id")
            steps.add(Step(text, tokens=of_response.get(str(response)), time=time))
        elif kind in _OBSERVED:
            steps.result(_result(event))
        elif kind == "ConversationErrorEvent":
            code, detail = str(event.get("code") or ""), text_of(event.get("detail"))
            limit = "MaxIterations" in code or "maximum iterations" in detail.lower()
            end = End(EndKind.LIMIT if limit else EndKind.ERROR, f"{code}: {detail}".strip(": "))
    return Transcript("openhands", steps.done(), end, total_cost_usd=cost)


def _events(files: Files) -> Iterator[Mapping[str, Any]]:
    found = False
    for name in sorted(files):
        if posixpath.basename(name).startswith("event-"):
            found = True
            yield document(files[name])
    if not found:
        yield from json_lines(files)


def _result(event: Mapping[str, Any]) -> Result:
    observation = mapping(event.get("observation"))
    text = text_of(observation.get("content")) or text_of(event.get("error"))
    failed = bool(observation.get("is_error")) or observation.get("exit_code") not in (0, None)
    return Result(str(event.get("tool_call_id", "")), text, failed or event.get("kind") != "ObservationEvent")


def _usage(state: Mapping[str, Any]) -> tuple[dict[str, Tokens | None], float | None]:
    """Tokens by the answer's id, and the cost of all by OpenHands' prices."""
    found: dict[str, Tokens | None] = {}
    cost = 0.0
    metrics = mapping(mapping(state.get("stats")).get("usage_to_metrics"))
    for metric in map(mapping, metrics.values()):
        cost += float(metric.get("accumulated_cost") or 0)
        for usage in listed(metric.get("token_usages")):
            counted = tokens(
                usage,
                input="prompt_tokens",
                output="completion_tokens",
                cached="cache_read_tokens",
                reasoning="reasoning_tokens",
            )
            if counted:
                counted = replace(counted, cache_written=int(usage.get("cache_write_tokens") or 0))
            found[str(usage.get("response_id"))] = counted
    return found, cost if metrics else None

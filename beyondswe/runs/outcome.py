"""One outcome: the verdict on one attempt and its evidence, one line of ``results.jsonl``."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from beyondswe.agents.protocol import AgentStatus
from beyondswe.instances.model import Family
from beyondswe.scoring.types import Status, TestResult


class Usage(BaseModel):
    """What the attempt cost; None where nobody counted (no gateway in the way)."""

    model_config = ConfigDict(extra="allow")

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    turns: int | None = None
    tool_calls: dict[str, int] = Field(default_factory=dict)


class Outcome(BaseModel):
    """One line of ``results.jsonl``; unknown keys are kept."""

    model_config = ConfigDict(extra="allow")

    instance_id: str
    family: Family
    attempt: int = Field(1, ge=1)
    status: Status
    agent_status: AgentStatus | None = None  # None for predictions: no agent ran here
    resolved: bool
    score: float = Field(ge=0, le=1)
    pass_rate: float = Field(ge=0, le=1)
    f2p: dict[str, TestResult] = Field(default_factory=dict)
    p2p: dict[str, TestResult] = Field(default_factory=dict)
    tests: dict[str, TestResult] = Field(default_factory=dict)
    flags: list[str] = Field(default_factory=list)
    patch_sha256: str = ""
    image_digest: str = ""
    usage: Usage = Field(default_factory=Usage)
    timings: dict[str, float] = Field(default_factory=dict)  # setup, agent, extract, score; seconds
    error: str | None = None

    def to_row(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return dict(_writable(self.model_dump(mode="json")))

    def to_line(self) -> str:
        """The outcome as a line of ``results.jsonl``."""
        return json.dumps(self.to_row(), ensure_ascii=False, separators=(",", ":"))


def _writable(value: Any) -> Any:
    """A JSON value whose texts are UTF-8: paths may hold other bytes, a model's words half a character."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in value.items()}
    return [_writable(item) for item in value] if isinstance(value, list) else value


_ENDS = {
    AgentStatus.TIMEOUT: Status.AGENT_TIMEOUT,
    AgentStatus.ERROR: Status.AGENT_ERROR,
    AgentStatus.BUDGET_EXHAUSTED: Status.BUDGET_EXHAUSTED,
}


def attempt_status(scored: Status, agent: AgentStatus | None) -> Status:
    """The status of an attempt: the verdict on its patch, or the agent's bad end where the patch did not
    resolve.

    A patch that could not be judged as one (rejected, timed out, tampered, infrastructure) keeps that word:
    it says more about the patch than the agent's end does, and ``agent_status`` stands beside it.
    """
    if agent in _ENDS and scored in (Status.UNRESOLVED, Status.EMPTY_PATCH):
        return _ENDS[agent]
    return scored

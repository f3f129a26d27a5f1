"""One outcome: the verdict on one attempt and its evidence, one line of ``results.jsonl``."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from beyondswe.instances.model import Family
from beyondswe.scoring.types import Status, TestResult


class AgentStatus(StrEnum):
    """How the agent ended, whatever its patch was worth."""

    FINISHED = "finished"
    TIMEOUT = "timeout"
    ERROR = "error"
    BUDGET_EXHAUSTED = "budget_exhausted"


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
        return self.model_dump(mode="json")

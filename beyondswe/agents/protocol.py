"""What an agent is to the rest: started from a prepared attempt in a sandbox, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from beyondswe.agents.transcripts.model import Transcript
from beyondswe.gateway.types import ModelAccess as ModelAccess
from beyondswe.instances.model import Instance
from beyondswe.sandbox.types import Environment, Network, Sandbox


class AgentStatus(StrEnum):
    """How the agent ended, whatever its patch was worth."""

    FINISHED = "finished"
    TIMEOUT = "timeout"
    ERROR = "error"
    BUDGET_EXHAUSTED = "budget_exhausted"


@dataclass(frozen=True)
class PreparedAttempt:
    """One attempt made ready for an agent.

    An agent is started from this and never straight from the instance, so that what stands between the two
    (search, augmenters) can change prompt and environment variables. Only ``prompt`` and ``env`` may reach
    the sandbox: ``instance`` also holds the hidden tests and the reference, and even its id can name the
    answer.
    """

    instance: Instance
    environment: Environment
    prompt: str
    timeout: float  # seconds
    env: Mapping[str, str] = field(default_factory=dict)
    model: ModelAccess | None = None


@dataclass(frozen=True)
class AgentEnd:
    """How an agent ended. Its patch is taken and scored whatever stands here."""

    status: AgentStatus
    exit_code: int | None = None
    error: str | None = None
    log: bytes = b""  # what it printed, head and tail within a cap
    files: Mapping[str, bytes] = field(default_factory=dict)  # its own transcript, as it wrote it
    transcript: Transcript | None = None  # the same, read
    tool_calls: Mapping[str, int] | None = None  # by tool, where the agent counts better than the gateway can
    egress: tuple[
        Mapping[str, Any], ...
    ] = ()  # requests that its tools made from the host, as rows of the log


class Agent(Protocol):
    """Something that works in a sandbox until it is done."""

    name: str
    version: str
    digest: str  # of everything that makes it: a run is resumed only with the very same agent
    network: Network  # the least that it needs

    def start(self, prepared: PreparedAttempt, sandbox: Sandbox) -> AgentEnd:
        """Work to the end or to the time limit. Raises `AgentError` where it cannot even begin."""

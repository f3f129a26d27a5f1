"""Decides how an agent ended from what is known of it; exit codes come last, since many agents end with 0 after
a refused key.
"""

from __future__ import annotations

from dataclasses import dataclass

from beyondswe.agents.protocol import AgentStatus
from beyondswe.agents.transcripts.model import End, EndKind


@dataclass(frozen=True)
class Seen:
    """What was seen of an agent's end, inside its sandbox. What the gateway saw goes before all of it."""

    exit_code: int | None
    timed_out: bool
    timeout: float  # seconds that it had
    reported: End | None  # its own word, in its transcript


def ending(seen: Seen) -> tuple[AgentStatus, str | None]:
    """How the agent ended, and why where that was no good end.

    The time limit is our own doing and certain. Then the agent's own word, if it tells of an error or of a limit
    that it was given. A good end in its own word counts only with an exit code that does not contradict it.
    """
    if seen.timed_out:
        return AgentStatus.TIMEOUT, f"ended by the time limit of {seen.timeout:g} s"
    if seen.reported is not None and seen.reported.kind is EndKind.LIMIT:
        return AgentStatus.BUDGET_EXHAUSTED, f"the agent reached a limit of its own: {seen.reported.message}"
    if seen.reported is not None and seen.reported.kind is EndKind.ERROR:
        return AgentStatus.ERROR, f"the agent reported an error: {seen.reported.message}"
    if seen.exit_code != 0:
        return AgentStatus.ERROR, f"the agent ended with exit code {seen.exit_code}"
    return AgentStatus.FINISHED, None

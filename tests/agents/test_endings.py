"""How an agent ended is decided from what is known of it, not from its exit code."""

from __future__ import annotations

import pytest

from beyondswe.agents.endings import Seen, ending
from beyondswe.agents.protocol import AgentStatus
from beyondswe.agents.transcripts import End, EndKind

GOOD, BAD, LIMIT = (
    End(EndKind.FINISHED),
    End(EndKind.ERROR, "the key was refused"),
    End(EndKind.LIMIT, "20 turns"),
)


@pytest.mark.parametrize(
    ("exit_code", "timed_out", "reported", "status", "words"),
    [
        (0, False, None, AgentStatus.FINISHED, None),
        (0, False, GOOD, AgentStatus.FINISHED, None),
        (0, False, BAD, AgentStatus.ERROR, "the key was refused"),  # several agents exit 0 then
        (1, False, BAD, AgentStatus.ERROR, "the key was refused"),
        (1, False, LIMIT, AgentStatus.BUDGET_EXHAUSTED, "20 turns"),
        (0, False, LIMIT, AgentStatus.BUDGET_EXHAUSTED, "20 turns"),
        (137, False, GOOD, AgentStatus.ERROR, "exit code 137"),
        (3, False, None, AgentStatus.ERROR, "exit code 3"),
        (None, True, GOOD, AgentStatus.TIMEOUT, "time limit of 5 s"),
        (None, True, BAD, AgentStatus.TIMEOUT, "time limit of 5 s"),
    ],
)
def test_the_agents_own_word_goes_before_its_exit_code(
    exit_code: int | None, timed_out: bool, reported: End | None, status: AgentStatus, words: str | None
) -> None:
    found, why = ending(Seen(exit_code, timed_out, 5.0, reported))
    assert found is status
    assert why is None if words is None else words in str(why)

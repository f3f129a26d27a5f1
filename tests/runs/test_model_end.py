"""How an agent ended, by what the gateway saw of its model."""

from __future__ import annotations

from typing import Any

import pytest

from beyondswe.agents.protocol import AgentEnd, AgentStatus
from beyondswe.runs.model_end import UpstreamFailed, end_by_gateway, flags_of

FINISHED, ERROR, TIMEOUT = AgentStatus.FINISHED, AgentStatus.ERROR, AgentStatus.TIMEOUT


def state(
    *,
    turns: int = 5,
    cut_off: str | None = None,
    succeeded: int = 5,
    failing: bool = False,
    status: int = 500,
) -> dict[str, Any]:
    fault = {"status": status, "error": "no such key"} if failing else None
    return {
        "over": False,
        "cut_off": cut_off,
        "usage": {"turns": turns},
        "upstream": {"succeeded": succeeded, "failed": 2 * failing, "failing": failing, "fault": fault},
        "refused": [],
    }


@pytest.mark.parametrize("status", [FINISHED, ERROR, TIMEOUT])
def test_a_budget_that_was_cut_off_is_the_end_whatever_the_agent_says(status: AgentStatus) -> None:
    end = end_by_gateway(AgentEnd(status, 0), state(cut_off="9 turns of 9"), max_turns=9)
    assert end.status is AgentStatus.BUDGET_EXHAUSTED and "9 turns of 9" in str(end.error)


@pytest.mark.parametrize("status", [FINISHED, ERROR, TIMEOUT])
@pytest.mark.parametrize(
    ("succeeded", "code", "permanent"), [(0, 401, True), (0, 500, False), (7, 403, False)]
)
def test_an_upstream_that_failed_to_the_last_is_no_failed_attempt(
    status: AgentStatus, succeeded: int, code: int, permanent: bool
) -> None:
    seen = state(succeeded=succeeded, failing=True, status=code)
    with pytest.raises(UpstreamFailed, match=str(code)) as raised:
        end_by_gateway(AgentEnd(status, 0), seen, max_turns=9)
    assert raised.value.permanent is permanent


def test_an_agent_that_stops_at_its_limit_of_turns_has_used_up_its_budget() -> None:
    assert (
        end_by_gateway(AgentEnd(ERROR, 53), state(turns=9), max_turns=9).status
        is AgentStatus.BUDGET_EXHAUSTED
    )
    assert end_by_gateway(AgentEnd(ERROR, 1), state(turns=8), max_turns=9).status is ERROR
    assert end_by_gateway(AgentEnd(FINISHED, 0), state(turns=9), max_turns=9).status is FINISHED
    assert end_by_gateway(AgentEnd(TIMEOUT), state(turns=9), max_turns=9).status is TIMEOUT


def test_what_a_reader_should_know_is_a_flag() -> None:
    assert flags_of(state()) == []
    assert flags_of(state(succeeded=0)) == ["no_model_call"]
    more = {**state(), "refused": ["web_search"], "usage": {"turns": 1, "unpriced_models": ["m"]}}
    assert flags_of(more) == ["provider_tools_refused", "price_unknown"]

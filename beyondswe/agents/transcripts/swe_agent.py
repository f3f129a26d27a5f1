"""SWE-agent's ``.traj``: steps of thought, action (a line of shell) and observation; counts of its own."""

from __future__ import annotations

from typing import Any

from beyondswe.agents.transcripts.base import Files, document, listed, mapping, number, text_of
from beyondswe.agents.transcripts.model import End, EndKind, Result, Step, Transcript
from beyondswe.gateway.conversation import Tokens, ToolCall


def known(files: Files) -> bool:
    content = _document(files)
    return isinstance(content.get("trajectory"), list) and isinstance(content.get("info"), dict)


def read(files: Files) -> Transcript:
    content = _document(files)
    info = mapping(content.get("info"))
    stats = mapping(info.get("model_stats"))
    cost = stats.get("instance_cost")
    return Transcript(
        "swe-agent",
        tuple(_step(number, mapping(row)) for number, row in enumerate(listed(content.get("trajectory")))),
        _end(str(info.get("exit_status") or "")),
        Tokens(number(stats.get("tokens_sent")), number(stats.get("tokens_received"))) if stats else None,
        float(cost) if isinstance(cost, int | float) else None,
    )


def _document(files: Files) -> dict[str, Any]:
    found = (document(files[name]) for name in sorted(files))
    return next((content for content in found if "trajectory" in content), {})


def _step(index: int, row: Any) -> Step:
    action = text_of(row.get("action")).strip()
    if not action:
        return Step(text_of(row.get("response") or row.get("thought")))
    call = ToolCall(f"step-{index}", "shell", {"command": action})
    return Step(text_of(row.get("thought")), "", (call,), (Result(call.id, text_of(row.get("observation"))),))


def _end(status: str) -> End | None:
    """``submitted``, or what broke it off in parentheses, where what there was is handed in all the same."""
    if not status:
        return None
    reason = status.removeprefix("submitted").strip(" ()")
    if not reason:
        return End(EndKind.FINISHED, status)
    limits = ("exit_cost", "exit_total_execution_time", "exit_context", "exit_command_timeout")
    return End(EndKind.LIMIT if reason in limits else EndKind.ERROR, status)

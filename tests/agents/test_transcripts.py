"""Transcripts that real agents wrote (texts shortened) are read into one form, with how the agent says it ended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from beyondswe.agents.transcripts import FORMATS, EndKind, Transcript, detect, read_transcript

RECORDED = Path(__file__).parent / "recorded"


def files(form: str, case: str) -> dict[str, bytes]:
    folder = RECORDED / form / case
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def read(form: str, case: str) -> Transcript:
    found = read_transcript(form, files(form, case))
    assert found is not None
    return found


def shell_commands(transcript: Transcript) -> list[str]:
    commands = []
    for step in transcript.steps:
        for call in step.calls:
            assert isinstance(call.arguments, Mapping)
            commands.append(str(call.arguments.get("command", call.arguments.get("cmd", ""))))
    return commands


WITH_CALLS = ("claude", "codex", "gemini", "mini", "opencode", "openhands", "qwen", "swe-agent")


@pytest.mark.parametrize("form", WITH_CALLS)
def test_a_solved_task_is_read_with_calls_results_and_a_good_end(form: str) -> None:
    transcript = read(form, "fix")
    assert transcript.format == form
    assert transcript.end is not None and transcript.end.kind is EndKind.FINISHED
    assert len(transcript.steps) >= 5
    assert any("unittest" in command for command in shell_commands(transcript))
    for step in transcript.steps:
        asked = {call.id for call in step.calls}
        assert {result.call_id for result in step.results} <= asked, "a result stands with its call"
    printed = "\n".join(result.text for step in transcript.steps for result in step.results)
    assert "return a - b" in printed and "OK" in printed


@pytest.mark.parametrize("form", ["codex", "gemini", "mini", "opencode", "openhands", "qwen"])
def test_tokens_of_every_answer_are_read_where_the_agent_tells_them(form: str) -> None:
    counted = [step.tokens for step in read(form, "fix").steps]
    assert all(tokens is not None and tokens.input > 500 for tokens in counted)
    assert sum(tokens.output for tokens in counted if tokens) > 20


@pytest.mark.parametrize("form", ["claude", "qwen", "swe-agent"])
def test_sums_are_read_where_the_agent_tells_them(form: str) -> None:
    total = read(form, "fix").total
    assert total is not None and total.input > 1000


@pytest.mark.parametrize("form", [*WITH_CALLS, "aider"])
def test_a_refused_key_is_an_error_by_the_agents_own_word(form: str) -> None:
    """Whatever it exits with: claude's `subtype` says success, qwen's `is_error` is false, aider tells it in prose."""
    end = read(form, "e401").end
    assert end is not None and end.kind is EndKind.ERROR
    assert any(word in end.message.lower() for word in ("401", "auth", "key", "scripted fault", "exit_error"))


@pytest.mark.parametrize("form", ["claude", "gemini", "mini", "openhands", "swe-agent"])
def test_a_limit_of_turns_is_told_from_an_error(form: str) -> None:
    end = read(form, "turns").end
    assert end is not None and end.kind is EndKind.LIMIT


def test_edits_by_text_are_steps_without_calls() -> None:
    transcript = read("aider", "fix")
    assert transcript.end is not None and transcript.end.kind is EndKind.FINISHED
    assert any(">>>>>>> REPLACE" in step.text for step in transcript.steps)


def test_what_codex_prints_can_be_read_too() -> None:
    transcript = read("codex", "printed")
    assert transcript.end is not None and transcript.end.kind is EndKind.FINISHED
    assert any("unittest" in command for command in shell_commands(transcript))
    assert transcript.total is not None and transcript.total.input > 1000


def test_a_line_that_was_cut_short_costs_itself_alone() -> None:
    whole = files("qwen", "fix")["stdout"]
    cut = read_transcript("qwen", {"stdout": whole[: int(len(whole) * 0.8)]})
    assert cut is not None and cut.end is None
    assert 3 <= len(cut.steps) < len(read("qwen", "fix").steps) + 1


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "plain"])
def test_the_form_of_a_transcript_is_known_by_its_content(form: str) -> None:
    assert detect(files(form, "fix")) == form


def test_ones_own_form() -> None:
    lines = (
        b'{"role": "assistant", "text": "I look.", "calls": [{"id": "1", "name": "bash", "arguments": "{\\"command\\": '
        b'\\"ls\\"}"}], "tokens": {"input": 10, "output": 2}}\n'
        b"prose in between\n"
        b'{"role": "tool", "call_id": "1", "text": "a.py"}\n'
        b'{"role": "end", "kind": "limit", "message": "20 turns"}\n'
    )
    transcript = read_transcript("plain", {"steps.jsonl": lines})
    assert transcript is not None and transcript.end is not None
    assert transcript.end.kind is EndKind.LIMIT and transcript.end.message == "20 turns"
    (step,) = transcript.steps
    assert step.calls[0].arguments == {"command": "ls"} and step.results[0].text == "a.py"
    assert step.tokens is not None and step.tokens.input == 10
    assert detect({"steps.jsonl": lines}) == "plain"


HOSTILE = {
    "empty": b"",
    "binary": bytes(range(256)) * 20,
    "deep": b"[" * 100_000,
    "wrong": b'{"trajectory": 7, "info": [], "messages": {"a": 1}, "type": "assistant", "message": 3, "part": []}',
    "kinds": b'{"role": "end", "kind": "no such kind"}\n{"kind": "ActionEvent", "tool_call": 7}\n'
    b'{"type": "step_finish", "part": {"tokens": 3}}\n{"type": "gemini", "toolCalls": [7]}\n'
    b'{"type": "response_item", "payload": {"type": "function_call"}}\n{"type": "result", "usage": "x"}\n',
    "numbers": b'{"type": "result", "total_cost_usd": 1'
    + b"0" * 400
    + b', "usage": {}}\n{"type": "step_finish", "part": '
    b'{"cost": 1' + b"0" * 400 + b'}}\n{"type": "assistant", "timestamp": Infinity, "message": {"id": "1"}}\n'
    b'{"type": "assistant", "timestamp": 1e300, "message": {"id": "2"}}\n',
    "messages": b'{"messages": [{"role": "assistant", "tool_calls": [{}]}, 7, null], "trajectory": [null, 7]}',
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_what_no_agent_wrote_does_no_harm(form: str, case: str) -> None:
    transcript = read_transcript(form, {"stdout": HOSTILE[case], "event-1.json": HOSTILE[case]})
    assert transcript is None or transcript.format == form
    times = [step.time for step in transcript.steps if step.time is not None] if transcript else []
    assert all(datetime.fromtimestamp(time, UTC) for time in times)
    detect({"stdout": HOSTILE[case]})

"""Keeping a conversation within a window."""

from __future__ import annotations

import json

from beyondswe.agents.searchswe.context import Message, Window, cut


def _conversation(turns: int, size: int = 3000) -> list[Message]:
    messages: list[Message] = [{"role": "system", "content": "s"}, {"role": "user", "content": "the task"}]
    for n in range(turns):
        arguments = json.dumps({"command": f"cat file{n}"})
        call = {"id": f"c{n}", "type": "function", "function": {"name": "bash", "arguments": arguments}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"file{n}: " + "x" * size})
    return messages


def test_a_long_text_keeps_head_and_tail_and_says_what_is_gone() -> None:
    text = "head " + "x" * 10_000 + " tail"
    shown = cut(text, 900)
    assert shown.startswith("head ") and shown.endswith(" tail") and len(shown) < 1100
    assert f"{len(text) - 900} characters were cut" in shown
    assert cut("short", 900) == "short"


def test_nothing_is_touched_while_there_is_room() -> None:
    messages = _conversation(10)
    window = Window(100_000, reserve=4_000)
    assert window.fit(messages) is messages and window.condensed == 0


def test_old_observations_go_first_and_the_recent_stay_whole() -> None:
    messages = _conversation(20)
    window = Window(20_000, reserve=2_000)
    assert window.estimate(messages) > 18_000
    shown = window.fit(messages)
    assert window.estimate(shown) <= 18_000 * 0.6
    assert shown[:2] == messages[:2] and shown[-8:] == messages[-8:]
    assert shown[3]["content"].startswith("[Condensed: an observation of 3007 characters that began: file0")
    assert [message["role"] for message in shown] == [message["role"] for message in messages]
    assert window.fit(shown) is shown  # it holds for a while


def test_every_call_keeps_its_answer() -> None:
    messages = _conversation(60, size=300)  # too short to be condensed: whole turns go
    window = Window(4_000, reserve=500)
    shown = window.fit(messages)
    assert window.estimate(shown) <= 3_500
    assert "earlier messages of your work are left out" in shown[2]["content"]
    asked = {call["id"] for message in shown for call in message.get("tool_calls") or []}
    assert asked == {message["tool_call_id"] for message in shown if message["role"] == "tool"}
    assert shown[-1] == messages[-1]


def test_long_arguments_are_left_out_of_old_calls() -> None:
    messages = _conversation(12, size=10)
    long = json.dumps({"command": "create", "path": "/a", "file_text": "y" * 9_000})
    for message in messages[2::2]:
        message["tool_calls"][0]["function"]["arguments"] = long
    shown = Window(30_000, reserve=2_000).fit(messages)
    first = json.loads(shown[2]["tool_calls"][0]["function"]["arguments"])
    assert first == {"command": "create", "path": "/a", "file_text": "[Condensed: 9000 characters]"}


def test_the_estimate_learns_from_what_the_model_counted() -> None:
    messages = _conversation(5)
    window = Window(100_000, reserve=4_000)
    before = window.estimate(messages)
    window.learn(messages, before // 2)
    assert abs(window.estimate(messages) - before // 2) <= 2


def test_a_refused_prompt_is_condensed_although_it_was_thought_to_fit() -> None:
    messages = _conversation(10)
    window = Window(20_000, reserve=2_000)
    shown = window.fit(messages, tighter=0.45)
    assert window.estimate(shown) < window.estimate(messages) * 0.7


def test_even_recent_observations_give_way_at_last() -> None:
    messages = _conversation(2, size=60_000)
    window = Window(10_000, reserve=1_000)
    assert window.estimate(window.fit(messages)) <= 9_000

"""What the gateway decides without anybody at the other end: addresses, keys, prices, pieces of streams, records."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from beyondswe.errors import DataError, UsageError
from beyondswe.gateway.atif import Builder, Trajectory, add_calls, read_calls
from beyondswe.gateway.conversation import Reply, Request, Tokens, ToolCall
from beyondswe.gateway.metering import Budget, Meter
from beyondswe.gateway.pacing import Patience, retry_after
from beyondswe.gateway.prices import Price, Prices, read_prices
from beyondswe.gateway.protocols import place
from beyondswe.gateway.scenarios import Step, read_scenarios
from beyondswe.gateway.session import Session, SessionOptions
from beyondswe.gateway.sse import WithoutUsage
from beyondswe.gateway.upstream import Masker, Upstream, kind_of
from tests.gateway.conftest import request

KEY = "sk-0123456789-abcdefgh"


@pytest.mark.parametrize(
    ("url", "path", "query", "target"),
    [
        ("https://h", "/v1/messages", "beta=true", "https://h/v1/messages?beta=true"),
        ("https://h/v1", "/v1/chat/completions", "", "https://h/v1/chat/completions"),
        ("https://h/v1/", "/v1/responses", "", "https://h/v1/responses"),
        ("https://h/api/paas/v4", "/v1/chat/completions", "", "https://h/api/paas/v4/chat/completions"),
        ("https://h/v1beta/openai", "/v1/models", "", "https://h/v1beta/openai/models"),
        (
            "http://h:1/s/x",
            "/v1beta/models/m:generateContent",
            "key=T",
            "http://h:1/s/x/v1beta/models/m:generateContent",
        ),
        ("https://h/v1beta", "/v1beta/models/m:x", "alt=sse&key=T", "https://h/v1beta/models/m:x?alt=sse"),
        (None, "/v1/responses", "", "https://api.openai.com/v1/responses"),
    ],
)
def test_the_path_of_a_request_below_the_upstreams(
    url: str | None, path: str, query: str, target: str
) -> None:
    assert Upstream(url).target("openai", path, query) == target


def test_each_protocol_has_its_provider_and_key() -> None:
    keys = {"OPENAI_API_KEY": "open", "ANTHROPIC_API_KEY": "anth", "GOOGLE_API_KEY": "goog"}
    upstream = Upstream.from_environment(None, keys)
    for protocol, path, header in (
        ("chat", "api.openai.com", ("authorization", "Bearer open")),
        ("messages", "api.anthropic.com", ("x-api-key", "anth")),
        ("generate", "generativelanguage.googleapis.com", ("x-goog-api-key", "goog")),
    ):
        where, _ = request(protocol)
        found = place(where.partition("?")[0])
        assert found is not None
        kind = kind_of(found.protocol.name, where, {})
        assert path in upstream.target(kind, where, "")
        given = [("Authorization", "Bearer token"), ("X-Api-Key", "token"), ("anthropic-version", "1")]
        sent = upstream.request_headers(kind, given)
        assert header in sent and ("anthropic-version", "1") in sent and "token" not in str(sent)


def test_keys_of_an_address_of_ones_own() -> None:
    assert Upstream.from_environment("http://h/v1", {}).keys == {}
    one = Upstream.from_environment("http://h/v1", {"OPENAI_API_KEY": "k"})
    assert set(one.keys.values()) == {"k"} and len(one.keys) == 3
    named = Upstream.from_environment("http://h", {"OPENAI_API_KEY": "k", "BEYONDSWE_MODEL_KEY": "mine"})
    assert set(named.keys.values()) == {"mine"}
    assert "mine" not in repr(named)
    with pytest.raises(UsageError, match="BEYONDSWE_MODEL_KEY"):
        Upstream.from_environment(None, {})


def test_a_key_is_masked_however_it_is_cut() -> None:
    data = f"a {KEY} b {KEY}{KEY[:5]} sk-01 end s".encode()
    expected = f"a [masked] b [masked]{KEY[:5]} sk-01 end s".encode()
    for size in (1, 2, 3, 7, 21, 500):
        masker = Masker([KEY])
        pieces = [masker.feed(data[start : start + size]) for start in range(0, len(data), size)]
        assert b"".join(pieces) + masker.rest() == expected, size


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_the_chunk_of_usage_is_left_out_however_it_is_cut(ending: str) -> None:
    kept = ['{"choices": [{"delta": {"content": "\\"usage\\" of it"}}], "usage": null}', "[DONE]"]
    lines = [kept[0], '{"choices": [], "usage": {"prompt_tokens": 1}}', kept[1]]
    data = "".join(f"data: {line}{ending * 2}" for line in lines).encode()
    expected = "".join(f"data: {line}{ending * 2}" for line in kept).encode()
    for size in (1, 2, 5, 30, 1000):
        hidden = WithoutUsage()
        pieces = [hidden.feed(data[start : start + size]) for start in range(0, len(data), size)]
        assert b"".join(pieces) + hidden.rest() == expected, size


def test_how_long_an_upstream_asks_to_wait() -> None:
    assert retry_after({"retry-after": "3"}) == 3.0 and retry_after({"retry-after-ms": "1500"}) == 1.5
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 25 < (retry_after({"retry-after": later}) or 0) <= 30
    assert retry_after({"retry-after": "soon"}) is None and retry_after({}) is None
    patience = Patience(tries=3, first=1.0)
    assert 1.0 <= (patience.delay(1, None) or 0) <= 1.5 and 2.0 <= (patience.delay(2, None) or 0) <= 3.0
    assert patience.delay(3, None) is None and patience.delay(1, 1000.0) is None
    assert (patience.delay(1, 7.0) or 0) >= 7.0


def test_prices_come_from_the_file_then_from_what_is_known(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("gpt-5: {input: 1, cached: 0, output: 2}\n'mine-*': {input: 3, output: 4}\n")
    prices = Prices(read_prices(file))
    million = 1_000_000
    assert prices.cost("gpt-5", Tokens(2 * million, million, million)) == 3.0
    assert prices.cost("mine-large", Tokens(million, million, million)) == 7.0
    known = Prices().cost("claude-sonnet-4-5", Tokens(million, 0, million))
    assert known is not None and 0 < known < 3.0
    assert Prices().cost("anthropic/claude-sonnet-4-5", Tokens(million, 0, million)) == known
    assert Prices().cost("nobody-knows-it", Tokens(1, 1)) is None
    asked = [prices.knows_frugally(name) for name in ("mine-large", "claude-sonnet-4-5", "nobody-knows-it")]
    assert asked == [True, True, False]
    for text in ("m: {input: -1, output: 1}", "m: {inputs: 1, output: 1}", "- a", ": :"):
        file.write_text(text)
        with pytest.raises(DataError, match="--prices"):
            read_prices(file)


def test_the_cost_is_unknown_if_the_price_of_one_call_is() -> None:
    meter = Meter(Budget(max_turns=3))
    for cost in (0.25, None):
        meter.begin("agent")
        meter.finish("m", "agent", Reply(tokens=Tokens(1, 1)), Tokens(1, 1), cost)
    assert meter.usage()["cost_usd"] is None and meter.cost == 0.25
    assert meter.exhausted() is None
    meter.begin("agent")
    assert meter.exhausted() == "3 turns of 3 (--max-turns)"
    meter.failed("agent")
    assert meter.exhausted() is None


CALLS = {
    "chat": (
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "bash", "arguments": '{"command": "ls"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "calc.py"},
    ),
    "responses": (
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "calc.py"},
    ),
    "messages": (
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "calc.py"}]}
            ],
        },
    ),
    "generate": (
        {"role": "model", "parts": [{"functionCall": {"name": "bash", "args": {"command": "ls"}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "bash", "response": {"output": "calc.py"}}}],
        },
    ),
}
LISTS = {"chat": "messages", "responses": "input", "messages": "messages", "generate": "contents"}


def parsed(protocol: str, more: list[Any]) -> Request:
    path, body = request(protocol, text="Repair it.")
    found = place(path.partition("?")[0])
    assert found is not None
    body[LISTS[protocol]] = [*body[LISTS[protocol]], *more]
    return found.protocol.parse_request(found.body(body))


@pytest.mark.parametrize("protocol", list(CALLS))
def test_a_trajectory_is_the_same_whatever_the_protocol(protocol: str, tmp_path: Path) -> None:
    session = Session(SessionOptions("t", tmp_path / "calls.jsonl"), Prices({"m": Price(input=1, output=1)}))
    call = ToolCall("bash" if protocol == "generate" else "c1", "bash", {"command": "ls"})
    facts = {"started": "2026-01-01T00:00:00Z", "model": "m", "protocol": protocol}
    own, result = CALLS[protocol]
    tokens = Tokens(input=10, output=5, cached=4, reasoning=2)
    for more, reply in (
        ([], Reply("I look.", "hm", (call,), tokens)),
        ([own, result], Reply("", "", (call,), tokens)),
        ([own, result, own, result], Reply("Done.", "", (), tokens)),
    ):
        session.begin("agent")
        asked = parsed(protocol, more)
        session.answered("m", lambda asked=asked: asked, reply, "agent", facts, request_bytes=100)  # type: ignore[misc]
    session.close()
    builder = Builder()
    add_calls(builder, read_calls(tmp_path / "calls.jsonl"))
    shown = [
        (
            step.source,
            step.message,
            [call.arguments for call in step.tool_calls or ()],
            [one.content for one in step.observation.results] if step.observation else [],
        )
        for step in builder.steps
    ]
    assert shown[0] == ("user", "Repair it.", [], [])
    assert shown[1] == ("agent", "I look.", [{"command": "ls"}], ["calc.py"])
    assert shown[2] == ("agent", "", [{"command": "ls"}], ["calc.py"])
    assert shown[3:] == [("agent", "Done.", [], [])]
    metrics = builder.steps[1].metrics
    assert metrics and (metrics.prompt_tokens, metrics.completion_tokens, metrics.cached_tokens) == (10, 5, 4)
    assert builder.steps[1].reasoning_content == "hm" and list(builder.tools) == ["bash"]
    ids = [call.tool_call_id for step in builder.steps for call in step.tool_calls or ()]
    assert len(ids) == len(set(ids)) == 2
    document = Trajectory(
        session_id="s",
        agent={"name": "a", "version": "1"},
        steps=builder.steps,  # type: ignore[arg-type]
    )
    assert json.loads(document.encode())["schema_version"] == "ATIF-v1.8"


def test_a_call_that_cannot_be_read_or_holds_half_a_character_is_written_down(tmp_path: Path) -> None:
    session = Session(SessionOptions("t", tmp_path / "calls.jsonl"), Prices({}))
    facts = {"started": "2026-01-01T00:00:00Z", "model": "m", "protocol": "chat"}

    def unreadable() -> Request:
        raise TypeError("no such shape")

    for parse in (unreadable, lambda: parsed("chat", [])):
        session.begin("agent")
        session.answered("m", parse, Reply("half \ud83d", tokens=Tokens()), "agent", facts, request_bytes=1)
    session.close()
    first, second = read_calls(tmp_path / "calls.jsonl")
    assert first["reply"] == second["reply"] and first["reply"]["text"] == "half \ud83d"
    assert first["unread"] == "TypeError: no such shape" and second["new"][0]["text"] == "Repair it."


def test_the_docs_have_every_kind_of_step_and_their_scenarios_are_read(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text()
    examples = [block for block in re.findall(r"```json\n(.*?)```", text, re.S) if '"steps"' in block]
    assert len(examples) == 2
    for example in examples:
        (tmp_path / "scenarios.json").write_text(example)
        (scenario,) = read_scenarios(tmp_path / "scenarios.json").values()
        assert scenario.steps[-1].do == "finish"
    kinds = re.findall(r"^\| `(\w+)` \|", text.partition("| `do` |")[2].partition("\n\n")[0], re.M)
    assert sorted(kinds) == sorted(Step.model_json_schema()["properties"]["do"]["enum"])

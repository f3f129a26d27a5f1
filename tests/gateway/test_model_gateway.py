"""The model gateway as an agent meets it: every protocol, limits, faults of the upstream, and no key anywhere."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from beyondswe.errors import EngineError
from beyondswe.gateway.metering import Budget
from beyondswe.gateway.pacing import Patience
from beyondswe.gateway.prices import Price
from beyondswe.gateway.process import GatewaySettings
from beyondswe.gateway.scripted import ScriptedModel
from tests.gateway.conftest import KEY, PATHS, Open, request

Model = Callable[..., ScriptedModel]

PROTOCOLS = list(PATHS)
USAGE = {"input": 1000, "cached": 400, "output": 50}
WORK = {
    "steps": [
        {"do": "bash", "cmd": "ls", "text": "Let me look.", "reasoning": "First look."},
        {"do": "finish", "text": "Done."},
    ],
    "usage": USAGE,
}
VOLATILE = ("id", "created", "created_at", "call_id", "item_id", "responseId", "tool_call_id")


def without_ids(value: Any) -> Any:
    """An answer less what is different each time."""
    if isinstance(value, dict):
        return {name: without_ids(inner) for name, inner in value.items() if name not in VOLATILE}
    return [without_ids(inner) for inner in value] if isinstance(value, list) else value


def events(text: str) -> list[Any]:
    return [
        without_ids(json.loads(line[6:])) if line[6:] != "[DONE]" else line[6:]
        for line in text.splitlines()
        if line.startswith("data: ")
    ]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_comes_through_as_it_is_and_is_counted(
    open_attempt: Open, model: Model, protocol: str, stream: bool
) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url)
    path, body = request(protocol, stream=stream)
    if stream and protocol == "chat":
        body["stream_options"] = {"include_usage": True}
    direct = httpx.post(upstream.url + path, json=body, headers={"authorization": f"Bearer {KEY}"})
    got = attempt.client.post(path, json=body)
    assert got.status_code == 200
    if stream:
        assert got.headers["content-type"] == direct.headers["content-type"]
        assert events(got.text) == events(direct.text)
    else:
        assert without_ids(got.json()) == without_ids(direct.json())
    usage = attempt.close().usage
    assert (usage["input_tokens"], usage["cached_tokens"], usage["output_tokens"]) == (1000, 400, 50)
    assert usage["turns"] == 1 and usage["tool_calls"] == {"bash": 1}
    assert usage["cost_usd"] is None and usage["unpriced_models"] == ["m"]


def test_usage_of_a_chat_stream_is_asked_for_and_kept_from_an_agent_that_did_not_ask(
    open_attempt: Open, model: Model
) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url)
    got = attempt.ask("chat", stream=True)
    assert events(got.text)[-1] == "[DONE]"
    assert not any("usage" in event for event in events(got.text)[:-1])
    assert upstream.requests[0]["body"]["stream_options"] == {"include_usage": True}
    assert attempt.close().usage["input_tokens"] == 1000


def test_the_host_key_goes_upstream_and_the_token_does_not(open_attempt: Open, model: Model) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url)
    token = attempt.session.access.token
    tokens = {
        "chat": {"authorization": f"Bearer {token}"},
        "messages": {"x-api-key": token, "authorization": ""},
        "generate": {"x-goog-api-key": token, "authorization": ""},
    }
    sent_as = {"chat": "authorization", "messages": "x-api-key", "generate": "x-goog-api-key"}
    for protocol, headers in tokens.items():
        path, body = request(protocol)
        assert attempt.client.post(path, json=body, headers=headers).status_code == 200
        sent = upstream.requests[-1]
        assert KEY in sent["headers"][sent_as[protocol]]
        assert token not in str(sent)
    path, body = request("generate")
    got = attempt.client.post(f"{path}?key={token}", json=body, headers={"authorization": ""})
    assert got.status_code == 200 and token not in str(upstream.requests[-1])


@pytest.mark.parametrize("token", ["nothing", "bsw-of-another-attempt"])
def test_a_token_that_is_not_the_attempts_opens_nothing(open_attempt: Open, model: Model, token: str) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url)
    path, body = request("chat")
    got = attempt.client.post(path, json=body, headers={"authorization": f"Bearer {token}"})
    assert got.status_code == 401 and upstream.requests == []
    assert attempt.close().usage["turns"] == 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_at_the_limit_of_turns_the_agent_is_told_to_stop_in_its_own_protocol(
    open_attempt: Open, model: Model, protocol: str, stream: bool
) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url, budget=Budget(max_turns=1))
    assert attempt.ask(protocol, stream=stream).status_code == 200
    asked = len(upstream.requests)
    got = attempt.ask(protocol, stream=stream)
    assert got.status_code == 200 and "used up" in got.text and "bash" not in got.text
    assert len(upstream.requests) == asked
    state = attempt.close().state
    assert state["cut_off"] == "1 turns of 1 (--max-turns)"
    assert state["usage"]["turns"] == 1 and state["usage"]["output_tokens"] == 50


def test_limits_of_tokens_and_of_cost_cut_off_too(open_attempt: Open, model: Model) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url, budget=Budget(max_tokens=2000))
    texts = [attempt.ask("chat", text=str(n)).text for n in range(3)]
    assert ["used up" in text for text in texts] == [False, False, True]
    assert attempt.close().state["cut_off"] == "2100 tokens of 2000 (--max-tokens)"

    prices = {"m*": Price(input=10.0, cached=1.0, output=100.0)}  # 0.0114 a call
    attempt = open_attempt(upstream.url, budget=Budget(max_cost=0.02), prices=prices)
    texts = [attempt.ask("chat", text=str(n)).text for n in range(3)]
    assert ["used up" in text for text in texts] == [False, False, True]
    state = attempt.close().state
    assert state["usage"]["cost_usd"] == pytest.approx(0.0228) and "--max-cost" in state["cut_off"]


def test_with_a_limit_on_cost_a_model_without_a_price_is_refused(open_attempt: Open, model: Model) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(
        upstream.url, budget=Budget(max_cost=1.0), prices={"m": Price(input=1.0, output=1.0)}
    )
    got = attempt.ask("chat", model="another")
    assert got.status_code == 400 and "--prices" in got.text and upstream.requests == []


def test_an_agent_that_asks_on_and_on_after_its_budget_is_over(open_attempt: Open, model: Model) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url, budget=Budget(max_turns=1))
    for _ in range(11):
        attempt.ask("chat")
    assert not attempt.state["over"]
    attempt.ask("chat")
    assert attempt.session.state(wait=30)["over"]


def test_errors_that_pass_are_tried_again_and_the_agent_sees_none(open_attempt: Open, model: Model) -> None:
    faults = {"do": "http", "status": [503, 429], "headers": {"Retry-After": "0.05"}}
    upstream = model({"default": {**WORK, "steps": [faults, *WORK["steps"]]}})
    attempt = open_attempt(upstream.url)
    assert attempt.ask("messages", stream=True).status_code == 200
    assert len(upstream.requests) == 3
    account = attempt.close()
    assert account.usage["turns"] == 1 and account.state["upstream"] == {
        "succeeded": 1,
        "failed": 0,
        "failing": False,
        "fault": None,
    }
    assert json.loads(account.calls.read_text())["tries"] == 3


def test_a_pause_that_the_upstream_asks_for_is_kept_by_all_attempts(open_attempt: Open, model: Model) -> None:
    faults = {"do": "http", "status": [429], "headers": {"Retry-After": "1"}}
    upstream = model({"default": {**WORK, "steps": [faults, *WORK["steps"]]}})
    first, second = (open_attempt(upstream.url) for _ in range(2))
    thread = threading.Thread(target=first.ask, args=("chat",))
    thread.start()
    while not upstream.requests:
        time.sleep(0.005)
    held = upstream.requests[0]["t"]
    time.sleep(0.2)  # the answer has come back by now
    assert second.ask("chat", text="another").status_code == 200
    thread.join()
    assert all(one["t"] - held >= 0.99 for one in upstream.requests[1:])


def test_a_longer_pause_than_anybody_waits_for_is_passed_on(open_attempt: Open, model: Model) -> None:
    upstream = model(
        {"default": {"steps": [{"do": "http", "status": 429, "headers": {"Retry-After": "9999"}}]}}
    )
    attempt = open_attempt(upstream.url)
    got = attempt.ask("chat")
    assert got.status_code == 429 and got.headers["retry-after"] == "9999" and len(upstream.requests) == 1


def test_a_page_in_place_of_an_answer_is_tried_again(open_attempt: Open, model: Model) -> None:
    upstream = model({"default": {**WORK, "steps": [{"do": "garbage"}, *WORK["steps"]]}})
    assert open_attempt(upstream.url).ask("chat").json()["choices"]
    assert len(upstream.requests) == 2


@pytest.mark.parametrize(("status", "tries"), [(401, 1), (500, 3), (404, 1), (400, 1)])
def test_an_upstream_that_fails_to_the_last_is_known(
    open_attempt: Open, model: Model, status: int, tries: int
) -> None:
    upstream = model({"default": {"steps": [{"do": "http", "status": status, "always": True}]}})
    attempt = open_attempt(upstream.url)
    got = attempt.ask("messages")
    assert got.status_code == status and "scripted fault" in got.text
    assert len(upstream.requests) == tries
    attempt.ask("messages", text="again")
    assert not attempt.state["over"]
    attempt.ask("messages", text="and again")
    theirs = status != 400  # a bad request is the agent's own fault
    assert attempt.state["over"] is theirs
    state = attempt.close().state
    assert state["upstream"]["failing"] is theirs and state["upstream"]["failed"] == 3 * theirs
    assert state["usage"]["turns"] == 0


def test_a_side_request_for_a_model_that_is_not_there_is_no_outage(open_attempt: Open, model: Model) -> None:
    missing = {"steps": [{"do": "http", "status": 404, "always": True}]}
    upstream = model({"small": missing, "default": WORK})
    attempt = open_attempt(upstream.url)
    assert [attempt.ask("chat", model=name).status_code for name in ("small", "m", "small")] == [
        404,
        200,
        404,
    ]
    assert not attempt.close().state["upstream"]["failing"]


def test_an_upstream_that_is_not_there_is_a_bad_gateway(open_attempt: Open) -> None:
    attempt = open_attempt("http://127.0.0.1:9/v1")
    got = attempt.ask("responses")
    assert got.status_code == 502 and "could not be reached" in got.json()["error"]["message"]
    assert attempt.close().state["upstream"]["failing"]


def test_a_stream_that_breaks_breaks_for_its_agent_alone(open_attempt: Open, model: Model) -> None:
    cut = {"steps": [{"do": "cut", "always": True}, {"do": "say", "text": "word " * 200}]}
    slow = {"steps": [{"do": "say", "text": "word " * 60, "delay": 0.3}], "toolless": "steps"}
    upstream = model({"cut": cut, "slow": slow, "default": WORK})
    one, two, three = (open_attempt(upstream.url) for _ in range(3))
    slow_done: list[float] = []

    def ask_slowly() -> None:
        assert two.ask("chat", model="slow", stream=True).status_code == 200
        slow_done.append(time.monotonic())

    thread = threading.Thread(target=ask_slowly)
    thread.start()
    with pytest.raises(httpx.RemoteProtocolError):
        one.ask("chat", model="cut", stream=True)
    assert three.ask("chat", stream=True).status_code == 200
    others_done = time.monotonic()
    thread.join()
    assert slow_done[0] > others_done
    usage = one.close().usage
    assert usage["estimated_calls"] == 1 and usage["output_tokens"] > 0


def test_the_cost_of_a_stream_counts_though_the_agent_left_before_its_end(
    open_attempt: Open, model: Model
) -> None:
    upstream = model(
        {"default": {"steps": [{"do": "say", "text": "word " * 60, "delay": 0.05}], "usage": USAGE}}
    )
    attempt = open_attempt(upstream.url)
    path, body = request("chat", stream=True)
    with attempt.client.stream("POST", path, json=body) as answer:
        next(answer.iter_raw())
    attempt.client.close()
    deadline = time.monotonic() + 20
    while not attempt.state["usage"]["output_tokens"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert attempt.close().usage["input_tokens"] == 1000


REFUSED = [
    ("responses", {"tools": [{"type": "web_search"}]}, "web_search"),
    ("responses", {"tools": [{"type": "namespace", "tools": [{"type": "mcp"}]}]}, "mcp"),
    ("responses", {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}, "shell"),
    ("responses", {"tools": [{"type": "something_new"}]}, "something_new"),
    ("chat", {"web_search_options": {}, "model": "m"}, None),
    ("chat", {"web_search_options": {"search_context_size": "low"}}, "web_search_options"),
    ("chat", {"model": "gpt-4o-search-preview"}, "gpt-4o-search-preview"),
    (
        "chat",
        {"tools": [{"type": "builtin_function", "function": {"name": "$web_search"}}]},
        "builtin_function",
    ),
    ("messages", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
    ("messages", {"tools": [{"type": "code_execution_20250522", "name": "x"}]}, "code_execution_20250522"),
    ("messages", {"mcp_servers": [{"type": "url", "url": "https://x.example", "name": "x"}]}, "mcp_servers"),
    ("messages", {"tools": [{"type": "bash_20250124", "name": "bash"}]}, None),
    ("generate", {"tools": [{"googleSearch": {}}]}, "googleSearch"),
    ("generate", {"tools": [{"url_context": {}}]}, "url_context"),
    ("generate", {"tools": [{"codeExecution": {}}]}, "codeExecution"),
]


def test_tools_that_the_provider_runs_are_refused_unless_the_run_allows_them(
    open_attempt: Open, model: Model
) -> None:
    upstream = model({"default": WORK})
    closed, opened = open_attempt(upstream.url), open_attempt(upstream.url, provider_tools=True)
    for protocol, more, name in REFUSED:
        path, body = request(protocol)
        got = closed.client.post(path, json={**body, **more})
        if name is None:
            assert got.status_code == 200, (protocol, more)
        else:
            assert got.status_code == 400 and name in got.text and "--provider-tools" in got.text, more
        assert opened.client.post(path, json={**body, **more}).status_code == 200
    tools = [{"name": "Read", "input_schema": {}}]
    counted = closed.client.post("/v1/messages/count_tokens", json={"messages": [], "tools": tools})
    assert counted.status_code == 200
    assert closed.client.post("/v1/completions", json={"prompt": "x"}).status_code == 404  # the upstream's
    assert closed.client.post("/v1/responses/compact", json={"tools": [{"type": "mcp"}]}).status_code == 400
    for path in ("/v1/batches", "/v1/messages/batches", "/v1/files", "/v1beta/cachedContents"):
        assert closed.client.post(path, json={}).status_code == 400
    state = closed.close().state
    assert "googleSearch" in state["refused"] and state["usage"]["turns"] == 2
    assert opened.close().state["refused"] == []


def test_what_is_no_generation_is_passed_through(open_attempt: Open, model: Model) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url)
    assert attempt.client.get("/v1/models").json()["data"][0]["id"] == "scripted"
    assert attempt.client.post("/v1/messages/count_tokens", json={"messages": []}).json()["input_tokens"] > 0
    path = "/v1beta/models/m:countTokens"
    assert attempt.client.post(path, json={"contents": []}).json()["totalTokens"] > 0
    got = attempt.client.post("/v1/embeddings", json={"input": "x"})
    assert got.status_code == 404 and "not scripted" in got.text
    assert attempt.close().usage["turns"] == 0


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions/.",
        "/v1/x/../chat/completions",
        "/v1/chat/%2e/completions",
        "/v1/chat/%252e/completions",
        "/v1/chat/completions/x\\..",
    ],
)
def test_a_generation_by_a_crooked_path_is_refused(open_attempt: Open, model: Model, path: str) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url)
    client = http.client.HTTPConnection("localhost")  # httpx would straighten the path
    client.sock = socket.socket(socket.AF_UNIX)
    client.sock.connect(str(attempt.session.access.socket))
    body = json.dumps(request("chat")[1])
    client.request("POST", path, body, {"authorization": f"Bearer {attempt.session.access.token}"})
    assert client.getresponse().status == 400
    client.close()
    assert upstream.requests == []


def test_a_generation_by_several_slashes_or_below_another_folder_is_one(
    open_attempt: Open, model: Model
) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url, budget=Budget(max_turns=1))
    for path, protocol in (
        ("/v1//chat//completions", "chat"),
        ("/v1beta/tunedModels/m:generateContent", "generate"),
    ):
        attempt.client.post(path, json=request(protocol)[1])
        got = attempt.ask("chat")
        assert got.status_code == 200
    assert len(upstream.requests) <= 2 and "used up" in got.text


def test_a_body_that_grows_when_unpacked_is_refused(open_attempt: Open, model: Model) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url)
    path, body = request("chat")
    packed = {"content-encoding": "gzip"}
    big = gzip.compress(b" " * (129 << 20), 1)
    assert attempt.client.post(path, content=big, headers=packed).status_code == 413
    whole = gzip.compress(json.dumps(body).encode())
    assert attempt.client.post(path, content=whole[:-9], headers=packed).status_code == 400
    assert upstream.requests == []
    assert attempt.client.post(path, content=whole, headers=packed).status_code == 200


def test_what_is_no_generation_and_costs_is_counted_but_no_turn(open_attempt: Open) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            usage = {"prompt_tokens": 7, "total_tokens": 7}
            data = gzip.compress(
                json.dumps({"data": [], "usage": usage}).encode()
            )  # though nobody asked for it
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        attempt = open_attempt(f"http://127.0.0.1:{server.server_address[1]}")
        got = attempt.client.post("/v1/embeddings", json={"model": "e", "input": "x"})
        assert got.json()["data"] == []
        server.shutdown()
    usage = attempt.close().usage
    assert usage["turns"] == 0 and usage["input_tokens"] == 7 and usage["roles"]["other"]["calls"] == 1


@pytest.mark.parametrize(
    ("path", "events"),
    [
        (
            "/v1/completions",
            [{"choices": [{"text": "Do"}]}, {"choices": [{"text": "ne."}]}, {"usage": "USAGE"}],
        ),
        ("/v1/completions", [{"choices": [{"text": "Done."}], "usage": "USAGE"}]),
        ("/v1/completions", [{"choices": [{"text": "Done."}]}]),  # tokens are estimated
        ("/v1/complete", [{"completion": "Done."}]),
        ("/v1/something/new", [{"choices": [{"text": "Done."}], "usage": "USAGE"}]),
    ],
)
def test_a_generation_in_no_protocol_is_a_turn_too(
    open_attempt: Open, path: str, events: list[dict[str, Any]]
) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    told = [{**event, **({"usage": usage} if "usage" in event else {})} for event in events]
    status = [500, 200]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            data = "".join(f"data: {json.dumps(event)}\n\n" for event in told)
            data = data if len(told) > 1 else json.dumps(told[0])
            self.send_response(status.pop(0))
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data.encode())

        def log_message(self, *words: object) -> None:
            pass

    body = {"model": "old", "prompt": "Say done."}
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        attempt = open_attempt(f"http://127.0.0.1:{server.server_address[1]}", budget=Budget(max_turns=1))
        assert attempt.client.post(path, json=body).status_code == 500  # gives its turn back
        assert attempt.client.post(path, json=body).status_code == 200
        refused = attempt.client.post(path, json=body)
        assert refused.status_code == 403 and "used up: 1 turns of 1" in refused.text
        server.shutdown()
    account = attempt.close()
    assert account.usage["turns"] == 1 and account.usage["output_tokens"] >= 1
    assert account.state["cut_off"] == "1 turns of 1 (--max-turns)"
    call = next(c for c in map(json.loads, account.calls.read_text().splitlines()) if "reply" in c)
    assert [one["text"] for one in call["new"]] == ["Say done."] and call["reply"]["text"] == "Done."
    assert call["role"] == "agent" and call["model"] == "old"


def test_a_gateway_that_died_is_started_again(open_attempt: Open, model: Model, gateways: Any) -> None:
    upstream = model({"default": WORK})
    patience = Patience(tries=2, first=0.01)  # a gateway of its own
    attempt = open_attempt(upstream.url, patience=patience)
    gateway = gateways(GatewaySettings("m", upstream.url, Budget(), patience=patience))
    assert gateway.pid is not None
    os.kill(gateway.pid, signal.SIGKILL)
    with pytest.raises(EngineError):
        attempt.close()
    os.waitid(os.P_PID, gateway.pid, os.WEXITED | os.WNOWAIT)  # with all its threads
    assert open_attempt(upstream.url, patience=patience).ask("chat").status_code == 200


def test_bad_bodies_are_answered_and_not_forwarded(open_attempt: Open, model: Model) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url)
    for content in (b"", b"{", b"[]", b"\xff\xfe"):
        assert attempt.client.post("/v1/chat/completions", content=content).status_code == 400
    path, _ = request("chat")
    headers = {"content-encoding": "zstd"}
    assert attempt.client.post(path, content=b"x", headers=headers).status_code == 415
    assert upstream.requests == []


def test_roles_are_counted_apart_and_only_the_agents_calls_are_turns(
    open_attempt: Open, model: Model
) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url, roles=("summary",), budget=Budget(max_turns=1))
    for role in ("summary", "agent", "summary"):
        path, body = request("chat", text=role)
        assert attempt.client.post(path, json=body, headers={"x-beyondswe-role": role}).status_code == 200
        assert "x-beyondswe-role" not in upstream.requests[-1]["headers"]
    usage = attempt.close().usage
    assert usage["turns"] == 1 and usage["input_tokens"] == 3000 and usage["tool_calls"] == {"bash": 1}
    assert usage["roles"]["summary"]["calls"] == 2 and usage["roles"]["agent"]["calls"] == 1

    attempt = open_attempt(upstream.url)  # nobody may name a role that was not opened
    path, body = request("chat")
    attempt.client.post(path, json=body, headers={"x-beyondswe-role": "summary"})
    assert attempt.close().usage["turns"] == 1


def test_values_that_the_run_gives_go_into_every_call_of_the_agent(open_attempt: Open, model: Model) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(
        upstream.url,
        roles=("summary",),
        request={"temperature": 0.3, "reasoning": {"effort": "high"}},
    )
    path, body = request("responses")
    attempt.client.post(path, json={**body, "temperature": 1, "reasoning": {"summary": "auto"}})
    attempt.client.post(path, json=body, headers={"x-beyondswe-role": "summary"})
    first, second = [entry["body"] for entry in upstream.requests if entry["method"] == "POST"]
    assert first["temperature"] == 0.3 and first["reasoning"] == {"summary": "auto", "effort": "high"}
    assert first["input"] == body["input"] and "temperature" not in second


def test_the_rate_of_a_model_holds_over_all_attempts(open_attempt: Open, model: Model) -> None:
    upstream = model({"default": WORK})
    attempts = [open_attempt(upstream.url, rate=300) for _ in range(2)]  # one in 0.2 s
    threads = [threading.Thread(target=one.ask, args=("chat",)) for one in attempts for _ in range(2)]
    begun = time.time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(upstream.requests) == 4 and max(one["t"] for one in upstream.requests) - begun > 0.59


def test_the_key_is_masked_where_an_upstream_shows_it(open_attempt: Open, model: Model) -> None:
    words = f"your key is {KEY}, is it not? " * 20
    scenarios = {
        "default": {"steps": [{"do": "say", "text": words}]},
    }
    upstream = model(scenarios)
    for stream in (False, True):
        attempt = open_attempt(upstream.url)
        got = attempt.ask("generate", stream=stream)
        assert KEY not in got.text and "[masked]" in got.text
        attempt.close()


def test_nothing_of_the_gateway_holds_the_key(open_attempt: Open, model: Model) -> None:
    upstream = model({"default": WORK})
    attempt = open_attempt(upstream.url)
    attempt.ask("chat")
    folder = attempt.session.access.socket.parent
    assert folder.parent.stat().st_mode & 0o077 == 0
    files = [path for path in folder.parent.rglob("*") if path.is_file()]
    account = attempt.close()
    for path in (*files, account.calls):
        assert KEY.encode() not in (path.read_bytes() if path.exists() else b"")
    assert not folder.exists()


def test_the_gateway_ends_with_the_process_that_started_it(tmp_path: Path, model: Model) -> None:
    program = f"""
import time
from pathlib import Path
from beyondswe.gateway.process import Gateway, GatewaySettings
gateway = Gateway(GatewaySettings("m", "http://127.0.0.1:9/v1"))
gateway.open("a", Path({str(tmp_path / "calls")!r}))
print(gateway.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while _lives(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_hundred_attempts_side_by_side(open_attempt: Open, model: Model) -> None:
    upstream = model({"default": WORK})
    attempts = [open_attempt(upstream.url, patience=Patience()) for _ in range(100)]
    threads = [
        threading.Thread(target=one.ask, args=("messages",), kwargs={"stream": True}) for one in attempts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.state["usage"]["turns"] for one in attempts] == [1] * 100


@pytest.mark.parametrize("content", [b"not json at all", b"[" * 200_000])
def test_a_success_that_is_no_json_is_a_failure_of_the_upstream(content: bytes, open_attempt: Open) -> None:
    class Odd(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        attempt = open_attempt(f"http://127.0.0.1:{server.server_port}/v1")
        attempt.ask("chat")
        state = attempt.close().state
    finally:
        server.shutdown()
    assert state["usage"]["turns"] == 0 and state["upstream"]["failing"]

"""A gateway before a scripted model, and a client as an agent has it: over the attempt's socket."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from beyondswe.gateway.metering import Budget
from beyondswe.gateway.pacing import Patience
from beyondswe.gateway.process import Account, Gateway, GatewaySettings, OpenSession
from beyondswe.gateway.scripted import ScriptedModel

KEY = "sk-planted-on-the-host-0123456789"
BASH = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages?beta=true",
    "generate": "/v1beta/models/{model}:{verb}",
}


def request(protocol: str, *, model: str = "m", stream: bool = False, text: str = "hi") -> tuple[str, Any]:
    """Path and body of a first request with a shell tool, as clients of the protocol send it."""
    path = PATHS[protocol]
    match protocol:
        case "chat":
            tools: Any = [{"type": "function", "function": {"name": "bash", "parameters": BASH}}]
            body: Any = {"messages": [{"role": "user", "content": text}], "tools": tools}
        case "responses":
            tools = [{"type": "function", "name": "bash", "parameters": BASH}]
            body = {
                "input": [{"role": "user", "content": [{"type": "input_text", "text": text}]}],
                "tools": tools,
            }
        case "messages":
            tools = [{"name": "bash", "input_schema": BASH}]
            body = {"max_tokens": 99, "messages": [{"role": "user", "content": text}], "tools": tools}
        case _:
            verb = "streamGenerateContent" if stream else "generateContent"
            path = path.format(model=model, verb=verb) + ("?alt=sse" if stream else "")
            tools = [{"functionDeclarations": [{"name": "bash", "parametersJsonSchema": BASH}]}]
            return path, {"contents": [{"role": "user", "parts": [{"text": text}]}], "tools": tools}
    return path, {"model": model, "stream": stream, **body}


@dataclass
class Attempt:
    """One open session, and its agent's client."""

    session: OpenSession
    client: httpx.Client
    account: Account | None = field(default=None)

    def ask(self, protocol: str, **options: Any) -> httpx.Response:
        path, body = request(protocol, **options)
        return self.client.post(path, json=body)

    @property
    def state(self) -> dict[str, Any]:
        return self.session.state()

    def close(self) -> Account:
        self.client.close()
        self.account = self.session.close()
        return self.account


Open = Callable[..., Attempt]


@pytest.fixture(scope="module")
def gateways() -> Iterator[Callable[[GatewaySettings], Gateway]]:
    """Gateways by their settings, with the host's key in their environment and no other."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as held:
        for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "BEYONDSWE_MODEL_KEY"):
            patch.delenv(name, raising=False)
        patch.setenv("OPENAI_API_KEY", KEY)
        known: dict[str, Gateway] = {}

        def gateway(settings: GatewaySettings) -> Gateway:
            if repr(settings) not in known:
                known[repr(settings)] = held.enter_context(Gateway(settings))
            return known[repr(settings)]

        yield gateway


_NUMBERS = itertools.count()


@pytest.fixture
def open_attempt(tmp_path: Path, gateways: Callable[[GatewaySettings], Gateway]) -> Iterator[Open]:
    """Opens an attempt at a gateway with these settings."""
    with ExitStack() as held:

        def open_one(
            url: str, *, budget: Budget | None = None, roles: tuple[str, ...] = (), **more: Any
        ) -> Attempt:
            patience = more.pop("patience", Patience(tries=3, first=0.01))
            gateway = gateways(GatewaySettings("m", url, budget or Budget(), patience=patience, **more))
            number = next(_NUMBERS)
            session = gateway.open(f"attempt {number}/1", tmp_path / f"calls-{number}.jsonl", roles=roles)
            client = httpx.Client(
                transport=httpx.HTTPTransport(uds=str(session.access.socket)),
                base_url=session.access.url,
                headers={"authorization": f"Bearer {session.access.token}"},
                timeout=30,
            )
            return Attempt(session, held.enter_context(client))

        yield open_one


@pytest.fixture(scope="module")
def upstream_server() -> Iterator[ScriptedModel]:
    with ScriptedModel(key=KEY) as server:
        yield server


@pytest.fixture
def model(upstream_server: ScriptedModel) -> Callable[..., ScriptedModel]:
    """Sets the scenarios of a scripted model that wants the host's key."""

    def play(scenarios: Any) -> ScriptedModel:
        upstream_server.reset(scenarios)
        return upstream_server

    return play

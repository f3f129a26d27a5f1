"""The model gateway without an evaluation: one address, an account a token, written down as it goes."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyondswe.errors import UsageError
from beyondswe.gateway.atif import AgentInfo, Builder, Trajectory, add_calls, final_metrics, read_calls
from beyondswe.gateway.metering import Budget
from beyondswe.gateway.pacing import Patience
from beyondswe.gateway.prices import Price, Prices
from beyondswe.gateway.session import Session, SessionOptions
from beyondswe.gateway.upstream import Upstream, token_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from beyondswe.gateway.service import Service

_WRITE_EVERY = 5.0  # seconds between two looks whether accounts have changed


def parse_tokens(given: Iterable[str]) -> dict[str, str]:
    """Tokens by name, from words ``NAME`` and ``NAME=TOKEN``."""
    tokens: dict[str, str] = {}
    for word in given or ("default",):
        name, _, token = word.partition("=")
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name):
            raise UsageError(f"--token {word!r}: a name has letters, digits, dot, dash and underscore")
        if name in tokens or (token and token in tokens.values()):
            raise UsageError(f"--token {word!r}: the name or the token is given twice")
        tokens[name] = token or f"bsw-{secrets.token_urlsafe(24)}"
    return tokens


class Standalone:
    """Serves until it is told to stop (SIGINT, SIGTERM)."""

    def __init__(
        self,
        *,
        out: Path,
        tokens: dict[str, str],
        url: str | None,
        budget: Budget,
        prices: Mapping[str, Price],
        rate: float | None,
        provider_tools: bool,
    ) -> None:
        import os

        self.tokens = tokens
        self._out, self._rate, self._provider_tools = out, rate, provider_tools
        self._upstream = Upstream.from_environment(url, os.environ)
        self._prices = Prices(dict(prices))
        self._budget = budget
        self._sessions: dict[str, Session] = {}
        self._written: dict[str, str] = {}

    def run(self, host: str, port: int, on_ready: Callable[[str], None]) -> None:
        asyncio.run(self._serve(host, port, on_ready))

    def usage(self) -> dict[str, dict[str, Any]]:
        """What each name took."""
        return {name: session.meter.usage() for name, session in self._sessions.items()}

    async def _serve(self, host: str, port: int, on_ready: Callable[[str], None]) -> None:
        from starlette.applications import Starlette
        from starlette.routing import Route

        from beyondswe.gateway.server import METHODS, Listener, client_maker
        from beyondswe.gateway.service import Forwarding, Service, refused_token

        for name, token in self.tokens.items():
            folder = self._out / name
            if (folder / "calls.jsonl").exists():
                raise UsageError(f"--out: {folder} holds an account already; name another folder")
            folder.mkdir(parents=True, exist_ok=True)
            options = SessionOptions(token, folder / "calls.jsonl", self._budget)
            self._sessions[name] = Session(options, self._prices)
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        forwarding = Forwarding(
            self._upstream, client_maker(Patience()), Patience(), self._rate, self._provider_tools
        )
        services: dict[str, Service] = {
            self.tokens[name]: Service(session, forwarding) for name, session in self._sessions.items()
        }

        async def handle(request: Request) -> Response:
            service = services.get(token_of(request.headers, request.url.query))
            return await service.handle(request) if service else refused_token(request)

        app = Starlette(routes=[Route("/{path:path}", handle, methods=METHODS)])
        listener = Listener(app, host=host, port=port)
        try:
            await listener.open()
        except SystemExit:
            raise UsageError(f"--port {port}: cannot listen on {host}:{port}; is it taken?") from None
        on_ready(f"http://{host}:{listener.port}")
        while not stop.is_set():
            try:
                await asyncio.wait_for(stop.wait(), _WRITE_EVERY)
            except TimeoutError:
                self._write()
        await listener.close()
        for service in services.values():
            await service.close()
        for session in self._sessions.values():
            await asyncio.to_thread(session.close)
        self._write()

    def _write(self) -> None:
        """The accounts that have changed."""
        for name, session in self._sessions.items():
            usage = session.meter.usage()
            shown = json.dumps(usage, indent=2)
            if self._written.get(name) == shown:
                continue
            folder = self._out / name
            (folder / "usage.json").write_text(shown + "\n", encoding="utf-8")
            builder = Builder()
            add_calls(builder, read_calls(folder / "calls.jsonl"))
            if builder.steps:
                models = ", ".join(usage["models"])
                document = Trajectory(
                    session_id=name,
                    agent=AgentInfo(
                        name=name,
                        version="unknown",
                        model_name=models or None,
                        tool_definitions=list(builder.tools.values()) or None,
                    ),
                    steps=builder.steps,
                    final_metrics=final_metrics(usage, len(builder.steps)),
                )
                (folder / "trajectory.json").write_bytes(document.encode())
            self._written[name] = shown

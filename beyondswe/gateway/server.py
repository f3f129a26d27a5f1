"""The gateway's process: one a host, started by `process.Gateway`, a Unix socket an attempt.

It reads its configuration, a line of JSON, from standard input and ends when that is closed: it does not outlive
the run that started it, however that ends. Keys come from its environment. Sessions are opened and closed over a
control socket in a folder that no sandbox sees.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from beyondswe.gateway.pacing import Patience
from beyondswe.gateway.prices import Price, Prices
from beyondswe.gateway.service import Forwarding, Service
from beyondswe.gateway.session import Session, SessionOptions
from beyondswe.gateway.upstream import Upstream
from beyondswe.sandbox.host import host_bundle

if TYPE_CHECKING:
    import ssl

    import httpx
    from starlette.requests import Request
    from starlette.types import ASGIApp

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_CLOSING = 2  # seconds that open answers get when a session closes


@dataclass
class Config:
    """What the process is started with."""

    control: Path
    url: str | None = None
    prices: dict[str, Price] | None = None
    rate: float | None = None
    provider_tools: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)
    patience: Patience = field(default_factory=Patience)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Config:
        return cls(
            control=Path(document["control"]),
            url=document["url"],
            prices={name: Price(**price) for name, price in document["prices"].items()},
            rate=document["rate"],
            provider_tools=document["provider_tools"],
            request=document["request"],
            patience=Patience(**document["patience"]),
        )


def application(service: Service) -> Starlette:
    """The ASGI application of one session."""
    return Starlette(routes=[Route("/{path:path}", service.handle, methods=METHODS)])


def client_maker(patience: Patience) -> Callable[[], httpx.AsyncClient]:
    """Makes clients to the upstream, with the host's proxies and certificates; connections are kept."""
    import httpx

    certificates = _certificates()

    def make() -> httpx.AsyncClient:
        return httpx.AsyncClient(
            verify=certificates,
            timeout=httpx.Timeout(patience.silence, connect=patience.connect_timeout, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=60),
            follow_redirects=False,
            mounts=dict.fromkeys(("all://127.0.0.1", "all://localhost", "all://[::1]"), None),  # by no proxy
        )

    return make


def _certificates() -> ssl.SSLContext:
    import ssl

    bundle = host_bundle()
    return ssl.create_default_context(cafile=str(bundle) if bundle else None)


class Listener:
    """An application on one Unix socket (or one port) of this event loop."""

    def __init__(self, app: ASGIApp, **where: Any) -> None:
        config = uvicorn.Config(
            app,
            **where,
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=_CLOSING,
            timeout_keep_alive=75,
            backlog=1024,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)

    async def open(self) -> None:
        await self._server.startup()

    @property
    def port(self) -> int:
        return int(self._server.servers[0].sockets[0].getsockname()[1])

    async def close(self) -> None:
        await self._server.shutdown()


class Sessions:
    """The open sessions, and the control interface over them."""

    def __init__(self, forwarding: Forwarding, prices: Prices) -> None:
        self._forwarding, self._prices = forwarding, prices
        self._open: dict[str, tuple[Service, Listener]] = {}

    def control(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/sessions/{name:path}", self._put, methods=["PUT"]),
                Route("/sessions/{name:path}", self._get, methods=["GET"]),
                Route("/sessions/{name:path}", self._delete, methods=["DELETE"]),
            ]
        )

    async def _put(self, request: Request) -> Response:
        document = await request.json()
        session = Session(SessionOptions.from_document(document), self._prices)
        service = Service(session, self._forwarding)
        socket = Path(document["socket"])
        listener = Listener(application(service), uds=str(socket))
        await listener.open()
        socket.chmod(0o666)  # the folder above it is closed to others
        self._open[request.path_params["name"]] = service, listener
        return JSONResponse({})

    async def _get(self, request: Request) -> Response:
        """A session's state, at once or when it is over (``wait`` seconds at most)."""
        if request.path_params["name"] not in self._open:
            return JSONResponse({}, 404)
        session = self._open[request.path_params["name"]][0].session
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(session.over.wait(), float(request.query_params.get("wait", 0)))
        return JSONResponse(session.state())

    async def _delete(self, request: Request) -> Response:
        if request.path_params["name"] not in self._open:
            return JSONResponse({}, 404)
        service, listener = self._open.pop(request.path_params["name"])
        await listener.close()
        await service.close()
        service.session.over.set()
        return JSONResponse(await asyncio.to_thread(service.session.close))


async def _run(config: Config, environment: Mapping[str, str]) -> None:
    upstream = Upstream.from_environment(config.url, environment)
    prices = Prices(config.prices)
    prices.knows("")  # the known ones are read now, not within the first call
    new_client = client_maker(config.patience)
    forwarding = Forwarding(
        upstream, new_client, config.patience, config.rate, config.provider_tools, config.request
    )
    control = Listener(Sessions(forwarding, prices).control(), uds=str(config.control))
    await control.open()
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def main() -> None:
    import os

    config = Config.from_document(json.loads(sys.stdin.readline()))
    asyncio.run(_run(config, os.environ))
    os._exit(0)  # streams that still run belong to nobody


if __name__ == "__main__":
    main()

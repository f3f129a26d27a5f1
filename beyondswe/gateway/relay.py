"""Hands an upstream's answer on, piece by piece as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import anyio
from starlette.responses import Response

from beyondswe.gateway.sse import WithoutUsage
from beyondswe.gateway.upstream import Masker

if TYPE_CHECKING:
    import httpx
    from starlette.types import Receive, Scope, Send

_DRAIN = 20.0
"""Seconds that an answer is still read after the agent went away: its last piece says what it cost."""


class Relay(Response):
    """A streamed answer. ``done`` gets all that came, once it has ended, however it did.

    A stream that breaks off at the upstream breaks off for the agent as well: its client must see that something
    is missing.
    """

    def __init__(
        self,
        answer: httpx.Response,
        headers: list[tuple[str, str]],
        masker: Masker,
        hidden: WithoutUsage | None,
        done: Callable[[bytes], None],
    ) -> None:
        super().__init__(status_code=answer.status_code)
        self.raw_headers = raw_headers(headers)
        self._answer, self._masker, self._hidden, self._done = answer, masker, hidden, done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seen: list[bytes] = []
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            packed = "content-encoding" in self._answer.headers  # though we asked for none
            pieces = self._answer.aiter_bytes() if packed else self._answer.aiter_raw()
            async for piece in pieces:
                seen.append(piece)
                if shown := self._masker.feed(self._hidden.feed(piece) if self._hidden else piece):
                    try:
                        await send({"type": "http.response.body", "body": shown, "more_body": True})
                    except OSError:  # the agent went away
                        async with asyncio.timeout(_DRAIN):
                            async for piece in pieces:
                                seen.append(piece)
                        return
            rest = self._masker.feed(self._hidden.rest()) if self._hidden else b""
            await send({"type": "http.response.body", "body": rest + self._masker.rest(), "more_body": False})
        except (OSError, TimeoutError):
            return
        finally:
            self._done(b"".join(seen))
            with anyio.CancelScope(shield=True):
                await self._answer.aclose()


def raw_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]

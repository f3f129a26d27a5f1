"""One call to the engine's HTTP API, with its failures as `EngineError`s, and the streams that it answers
with.

Sandboxes speak to the API directly, over docker-py's connection (any transport it knows: Unix socket, TCP,
TLS, SSH): a scoring container is six calls, and each of them must be able to say how it failed, be cut off
at a moment of our choosing, or hand out a stream without holding it in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from beyondswe.errors import EngineError

if TYPE_CHECKING:
    import requests

    from beyondswe.sandbox.engine import Engine

STDOUT, STDERR = 1, 2
_HEADERS = {"Accept-Encoding": "identity"}
"""Else Docker compresses archives, at a tenth of the speed."""


class EngineRefused(EngineError):
    """The engine answered with an error; ``status`` is its HTTP status (404: no such thing, 409: not in
    that state).
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class EngineSilent(EngineError):
    """The engine did not answer in time, or the connection to it broke."""


def call(
    engine: Engine,
    method: str,
    path: str,
    *,
    what: str,
    params: Mapping[str, str | bytes | list[str]] | None = None,
    json: Any = None,
    data: bytes | Iterable[bytes] | None = None,
    timeout: float = 120.0,
    stream: bool = False,
) -> requests.Response:
    """Ask the engine one thing. ``what`` says in an error what was tried ("start container x").

    ``timeout`` is in seconds, for each silence of the engine. A streamed response must be closed by the
    caller.
    """
    import requests

    api = engine.api
    url = f"{api.base_url}/v{api.api_version}{path}"
    try:
        response: requests.Response = api.request(
            method, url, params=params, json=json, data=data, timeout=timeout, stream=stream, headers=_HEADERS
        )
    except requests.exceptions.RequestException as error:
        raise EngineSilent(
            f"could not {what}: no answer from the engine at {engine.host} ({error})"
        ) from error
    if response.status_code >= 400:
        try:
            reason = response.json().get("message") or response.text
        except (ValueError, AttributeError):
            reason = response.text
        raise EngineRefused(f"could not {what}: the engine says: {reason.strip()}", response.status_code)
    return response


def chunks(response: requests.Response, what: str) -> Iterator[bytes]:
    """The body of a streamed response, piece by piece; a broken connection is an `EngineSilent`."""
    import requests

    try:
        yield from response.iter_content(1 << 16)
    except requests.exceptions.RequestException as error:
        raise EngineSilent(f"could not {what}: the stream broke ({error})") from error


def demultiplex(stream: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Split the engine's framing (8 bytes of header: stream, 3 zeros, length) into pieces of standard
    output and error.
    """
    header = bytearray()
    left, kind = 0, STDOUT
    for chunk in stream:
        view = memoryview(chunk)
        while view:
            if left:
                piece, view = view[:left], view[left:]
                left -= len(piece)
                yield kind, bytes(piece)
                continue
            need = 8 - len(header)
            header += view[:need]
            view = view[need:]
            if len(header) == 8:
                kind, left = header[0], int.from_bytes(header[4:], "big")
                header.clear()


class HeadTail:
    """Keeps the head and the tail of a stream within ``limit`` bytes, in time linear in what is added."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, piece: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail += piece
            if len(self._tail) > 2 * self._half:  # halved at most once per `half` bytes added: linear
                self._cut()

    def _cut(self) -> None:
        surplus = len(self._tail) - self._half
        if surplus > 0:
            del self._tail[:surplus]
            self._dropped += surplus

    @property
    def truncated(self) -> bool:
        self._cut()
        return self._dropped > 0

    def value(self) -> bytes:
        """Head and tail; where something was left out between them, a line says how much."""
        if self.truncated:
            gap = b"\n[beyondswe: %d bytes left out]\n" % self._dropped
            return b"".join((self._head, gap, self._tail))
        return b"".join((self._head, self._tail))


class Output:
    """Standard output and error of a framed stream, each kept within ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self.stdout = HeadTail(limit)
        self.stderr = HeadTail(limit)

    def drain(self, stream: Iterable[bytes]) -> None:
        """Read to the end; what came before a stream broke is kept."""
        for kind, piece in demultiplex(stream):
            (self.stderr if kind == STDERR else self.stdout).add(piece)

    @property
    def truncated(self) -> bool:
        return self.stdout.truncated or self.stderr.truncated

"""The gateway's HTTP service for one attempt: takes a request, sees to its limits, forwards it, reads the answer
on its way back.

Nothing is converted: body and answer go through as they are, but for credentials, and for chat streams the wish
for usage figures where the agent did not have it. What is read is read from a copy, after it went on.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beyondswe.gateway import completions
from beyondswe.gateway.conversation import Reply
from beyondswe.gateway.metering import AGENT
from beyondswe.gateway.pacing import GIVEN_UP, RETRIED, Pace, Patience, retry_after
from beyondswe.gateway.protocols import CHAT, GEMINI, Place, place
from beyondswe.gateway.provider_tools import provider_service, provider_tools
from beyondswe.gateway.recorder import now
from beyondswe.gateway.relay import Relay, raw_headers
from beyondswe.gateway.session import Session
from beyondswe.gateway.sse import WithoutUsage, events
from beyondswe.gateway.upstream import (
    ROLE_HEADER,
    Masker,
    Upstream,
    answer_headers,
    kind_of,
    token_of,
)

if TYPE_CHECKING:
    import httpx
    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response

_MOST = 128 << 20  # bytes of a request's body
_ERROR_KEPT = 4000  # characters of an upstream's error that are recorded
_CROOKED = re.compile(r"(^|/)\.{1,2}(/|$)|[%\\]")
"""In a path: what some servers read as another path than the one that was looked at here."""


class _Refused(Exception):
    """The request is answered by an error of the gateway's own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Forwarding:
    """What all attempts share: the upstream, how clients to it are made, each model's pace."""

    upstream: Upstream
    new_client: Callable[[], httpx.AsyncClient]
    patience: Patience = field(default_factory=Patience)
    rate: float | None = None  # calls a minute of one model, over all attempts
    provider_tools: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)
    """Put into the body of every call of an agent's: sampling, reasoning effort."""

    def __post_init__(self) -> None:
        self.paces: defaultdict[str, Pace] = defaultdict(lambda: Pace(self.rate))


@dataclass(frozen=True)
class _Call:
    """One generation on its way."""

    session: Session
    place: Place
    told: Mapping[str, Any]  # what the agent asks, model and streaming included
    model: str
    stream: bool
    body: bytes
    role: str
    facts: dict[str, Any]
    started: float
    hide_usage: bool

    def failed(self, status: int | None, error: str, *, final: bool) -> None:
        self.session.failed(self.role, self._facts(), status=status, error=error[:_ERROR_KEPT], final=final)

    def answered(self, status: int, data: bytes) -> None:
        """``data`` is all that came of the answer."""
        assembler = self.place.protocol.assembler()
        if self.stream:
            for event in events(data):
                assembler.add(event)
            reply = assembler.reply()
        else:
            document = next(iter(events(data)), None)
            if document is None and data:
                self.failed(status, "the answer is no JSON object", final=True)
                return
            reply = self.place.protocol.parse_reply(document or {})
        if not reply.complete and not reply.text and not reply.calls:
            self.failed(status, "the answer broke off before it said anything", final=True)
            return
        facts = {**self._facts(), "status": status}
        self.session.answered(
            self.model,
            lambda: self.place.protocol.parse_request(self.told),
            reply,
            self.role,
            facts,
            request_bytes=len(self.body),
        )

    def _facts(self) -> dict[str, Any]:
        return {**self.facts, "seconds": round(time.monotonic() - self.started, 3)}


class Service:
    """Answers the requests of one session.

    It has a client of its own: the time that a pool of connections takes for each grows with the square of how
    many there are.
    """

    def __init__(self, session: Session, forwarding: Forwarding) -> None:
        self.session, self._to = session, forwarding
        self._client = forwarding.new_client()

    async def close(self) -> None:
        await self._client.aclose()

    async def handle(self, request: HttpRequest) -> Response:
        """Any request of the agent."""
        path = request.url.path
        where = place(path) if request.method == "POST" else None
        try:
            if _CROOKED.search(path):
                raise _Refused(
                    400, f"{path[:200]!r} is no plain path: write it without dots, %25 and backslashes"
                )
            if not self.session.admits(token_of(request.headers, request.url.query)):
                return refused_token(request)
            raw = await _body(request)
            if where is None or where.counting:
                return await self._pass(request, where, raw)
            return await self._generate(request, where, raw)
        except _Refused as refused:
            return _error(where, refused.status, str(refused))

    async def _generate(self, http: HttpRequest, where: Place, raw: bytes) -> Response:
        body = _object(raw)
        role = self.session.role(http.headers.get(ROLE_HEADER))
        if self._to.request and role == AGENT:
            body = _with(body, self._to.request)
            raw = json.dumps(body).encode()
        told = where.body(body)
        model, stream = str(told.get("model") or ""), bool(told.get("stream"))
        self._check_tools(provider_tools(where.protocol, told))
        if refusal := self.session.refusal(model):
            raise _Refused(400, refusal)
        if (words := self.session.closing_answer(role)) is not None:
            return _closing(where, told, words, http.url.query)
        hide_usage = _lacks_usage(where, told)
        if hide_usage:
            options = body.get("stream_options")
            given = options if isinstance(options, Mapping) else {}
            raw = json.dumps({**body, "stream_options": {**given, "include_usage": True}}).encode()
        facts = {
            "started": now(),
            "protocol": where.protocol.name,
            "path": http.url.path,
            "model": model,
            "stream": stream,
        }
        started = time.monotonic()
        call = _Call(self.session, where, told, model, stream, raw, role, facts, started, hide_usage)
        self.session.begin(role)
        return await self._forward(http, call)

    def _check_tools(self, names: list[str]) -> None:
        if names and not self._to.provider_tools:
            self.session.refuse(names)
            raise _Refused(
                400,
                f"refused: {', '.join(names)} would be run by the model's provider, outside the sandbox. Turn it off "
                "in the agent, or allow it with --provider-tools.",
            )

    async def _forward(self, http: HttpRequest, call: _Call) -> Response:
        """Ask the upstream until it answers or patience ends."""
        try:
            answer, error = await self._ask(http, call)
        except BaseException:
            call.failed(None, "the gateway ended before there was an answer", final=False)
            raise
        masker = Masker(self._to.upstream.secrets)
        if answer is None:
            message = masker.text(f"the model's upstream could not be reached: {error}")
            return _error(call.place, 502, message)
        headers = answer_headers(answer.headers.items())
        if not answer.is_success:
            return _response(answer.status_code, headers, masker.feed(answer.content) + masker.rest())
        if call.stream:
            hidden = WithoutUsage() if call.hide_usage else None
            return Relay(
                answer, headers, masker, hidden, lambda data: call.answered(answer.status_code, data)
            )
        return await self._whole(answer, call, masker, headers)

    async def _ask(self, http: HttpRequest, call: _Call) -> tuple[httpx.Response | None, str]:
        """The upstream's answer (its body read, unless it succeeded), or None and the error."""
        import httpx

        kind = kind_of(call.place.protocol.name, http.url.path, http.headers)
        target = self._to.upstream.target(kind, http.url.path, http.url.query)
        headers = self._to.upstream.request_headers(kind, http.headers.items())
        pace = self._to.paces[call.model]
        failed = 0
        while True:
            await pace.wait()
            sent = self._client.build_request("POST", target, headers=headers, content=call.body)
            asked: float | None = None
            answer: httpx.Response | None = None
            try:
                answer = await self._client.send(sent, stream=True)
                status: int | None = answer.status_code
                if answer.is_success and not _no_model(answer):
                    call.facts.update(ttfb=round(time.monotonic() - call.started, 4), tries=failed + 1)
                    return answer, ""
                await answer.aread()
                error = answer.text[:_ERROR_KEPT] if not answer.is_success else "an answer that is no model's"
                asked = retry_after(answer.headers)
            except httpx.HTTPError as fault:
                answer, status, error = None, None, f"{type(fault).__name__}: {fault}"
            failed += 1
            retried = status is None or status in RETRIED or (answer is not None and answer.is_success)
            if retried and "insufficient_quota" not in error:
                delay = self._to.patience.delay(failed, asked)
                if delay is not None:
                    if status == 429:
                        pace.hold(delay)
                    await asyncio.sleep(delay)
                    continue
            call.facts.update(tries=failed)
            masked = Masker(self._to.upstream.secrets).text(error)
            call.failed(status, masked, final=retried or status in GIVEN_UP)
            return (None if answer is not None and answer.is_success else answer), error

    async def _whole(
        self, answer: httpx.Response, call: _Call, masker: Masker, headers: list[tuple[str, str]]
    ) -> Response:
        """An answer that is not streamed."""
        import httpx

        try:
            content = await answer.aread()
        except httpx.HTTPError as fault:
            call.failed(answer.status_code, f"the answer broke off: {type(fault).__name__}", final=True)
            return _error(call.place, 502, "the model's upstream broke off its answer")
        except BaseException:
            call.answered(answer.status_code, b"")
            raise
        call.answered(answer.status_code, content)
        return _response(answer.status_code, headers, masker.feed(content) + masker.rest())

    async def _pass(self, http: HttpRequest, where: Place | None, raw: bytes) -> Response:
        """A request in none of the protocols, as it is: lists of models, counting of tokens, what is not known.
        What turns out to be a generation is a turn like others.
        """
        import httpx

        try:
            body = json.loads(raw) if raw else None
        except (ValueError, RecursionError):
            body = None
        if where is None and (service := provider_service(http.method, http.url.path, body)) is not None:
            self._check_tools([service])
        unknown = http.method not in ("GET", "HEAD") and where is None
        role = self.session.role(http.headers.get(ROLE_HEADER))
        if unknown and (words := self.session.closing_answer(role)) is not None:
            raise _Refused(403, words)
        model = str(body.get("model") or "") if isinstance(body, Mapping) else ""
        generates = unknown and completions.is_completion(http.url.path)
        if generates and (refusal := self.session.refusal(model)):
            raise _Refused(400, refusal)
        kind = kind_of(where.protocol.name if where else None, http.url.path, http.headers)
        sent = self._client.build_request(
            http.method,
            self._to.upstream.target(kind, http.url.path, http.url.query),
            headers=self._to.upstream.request_headers(kind, http.headers.items()),
            content=raw,
        )
        facts = {"started": now(), "path": http.url.path, "method": http.method}
        if generates:
            self.session.begin(role)  # before it is sent, so that many at once do not pass the limit
        masker = Masker(self._to.upstream.secrets)
        try:
            answer = await self._client.send(sent, stream=True)
        except httpx.HTTPError as fault:
            self.session.passed(facts, 502, begun=generates and role)
            message = masker.text(
                f"the model's upstream could not be reached: {type(fault).__name__}: {fault}"
            )
            raise _Refused(502, message) from fault
        except BaseException:
            self.session.passed(facts, 502, begun=generates and role)
            raise

        def done(data: bytes) -> None:
            status = answer.status_code
            reply = completions.reply_of(data) if unknown and answer.is_success else Reply(complete=False)
            said = reply.tokens is not None and reply.tokens.output > 0
            if not (said or (generates and reply.complete)):
                self.session.passed(facts, status, model=model, tokens=reply.tokens, begun=generates and role)
                return
            if not generates:
                self.session.begin(role)
            told = {**facts, "protocol": completions.NAME, "model": model, "status": status}
            asked = functools.partial(completions.request_of, body)
            self.session.answered(model, asked, reply, role, told, request_bytes=len(raw))

        return Relay(answer, answer_headers(answer.headers.items()), masker, None, done)


def refused_token(request: HttpRequest) -> Response:
    """The answer to a token that is nobody's."""
    where = place(request.url.path) if request.method == "POST" else None
    return _error(where, 401, "this token is not known here: use the key that the gateway gave out")


async def _body(http: HttpRequest) -> bytes:
    """The body of a request, unpacked."""
    pieces, size = [], 0
    async for piece in http.stream():
        size += len(piece)
        if size > _MOST:
            raise _Refused(413, f"the request is larger than {_MOST >> 20} MiB")
        pieces.append(piece)
    raw = b"".join(pieces)
    encoding = http.headers.get("content-encoding", "identity")
    if encoding in ("identity", ""):
        return raw
    if encoding not in ("gzip", "deflate"):
        raise _Refused(415, f"send the body without content-encoding {encoding}")
    unpacking = zlib.decompressobj(wbits=47)  # either of them, by its head
    try:
        body = unpacking.decompress(raw, _MOST + 1)
    except zlib.error as error:
        raise _Refused(400, f"the body is not {encoding}: {error}") from error
    if len(body) > _MOST:
        raise _Refused(413, f"the request is larger than {_MOST >> 20} MiB")
    if not unpacking.eof:
        raise _Refused(400, f"the body is not {encoding}: it is cut short")
    return body


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _Refused(400, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise _Refused(400, "the body is no JSON object")
    return body


def _with(body: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A body with further values; those that are objects on both sides are put together."""
    found = dict(body)
    for name, value in more.items():
        there = found.get(name)
        both = isinstance(there, Mapping) and isinstance(value, Mapping)
        found[name] = _with(there or {}, value) if both else value
    return found


def _lacks_usage(where: Place, body: Mapping[str, Any]) -> bool:
    """Whether a stream would end without usage figures unless we ask for them."""
    if where.protocol is not CHAT or not body.get("stream"):
        return False
    options = body.get("stream_options")
    return not (isinstance(options, Mapping) and options.get("include_usage"))


def _no_model(answer: httpx.Response) -> bool:
    """An answer that no model gives: a page of some proxy, a login."""
    return str(answer.headers.get("content-type", "")).startswith("text/html")


def _closing(where: Place, body: Mapping[str, Any], words: str, query: str) -> Response:
    """The answer that ends an agent: words without a call, in its protocol."""
    from starlette.responses import JSONResponse, Response

    request, reply = where.protocol.parse_request(body), Reply(words)
    if not request.stream:
        return JSONResponse(where.protocol.render(request, reply))
    told = where.protocol.render_events(request, reply, body)
    if where.protocol is GEMINI and "alt=sse" not in query:
        return JSONResponse([event.data for event in told])
    return Response(b"".join(event.encode() for event in told), media_type="text/event-stream")


def _error(where: Place | None, status: int, message: str) -> Response:
    from starlette.responses import JSONResponse

    protocol = where.protocol if where else CHAT
    return JSONResponse(protocol.error(status, f"beyondswe gateway: {message}"), status)


def _response(status: int, headers: list[tuple[str, str]], content: bytes) -> Response:
    from starlette.responses import Response

    response = Response(content, status)
    response.raw_headers += raw_headers(headers)
    return response

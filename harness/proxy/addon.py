"""The rules of `beyondswe.gateway` carried out on mitmproxy's hooks, and the log of every request."""

import asyncio
import logging
import re
import time
import zlib
from datetime import UTC, datetime

import lookup
from mitmproxy import http
from places import allowed

from beyondswe.gateway import index
from beyondswe.gateway.egress_rules import (
    HEAD_KEPT,
    Facts,
    Refused,
    check_place,
    check_request,
    masked_url,
    refusal_page,
    wants_head,
)

logger = logging.getLogger(__name__)

INDEX_LIMIT = 96 << 20  # bytes of an index's answer, unpacked, that is read to be rewritten
UNDECIDED = Refused("protocol", "this request cannot be read, so nobody can say whether it may pass")
BUFFERED = 1 << 20  # bytes of a request that are kept in memory; larger ones are passed on as they come


class Egress:
    """One for all attempts; what it knows of a request is in the flow's metadata under ``egress``."""

    def __init__(self, attempts, places, *, trust, index):
        self.attempts, self.places = attempts, places
        self.lookup = lookup.Lookup(places, trust=trust, index=index)
        self.tunnels = {}  # client id -> the host and port of its CONNECT
        self.seen = set()  # clients that have asked something

    # tunnels

    def http_connect(self, flow):
        try:
            self.decide_tunnel(flow)
        except Exception:  # mitmproxy would go on: what cannot be decided is refused
            logger.exception("a tunnel could not be decided")
            flow.response = page(UNDECIDED)

    def decide_tunnel(self, flow):
        attempt, _ = self.attempts.of(flow.client_conn)
        self.seen.add(flow.client_conn.id)
        host, port = flow.request.host, flow.request.port
        try:
            check_place(attempt.policy, host, port)
            attempt.spend()
            if flow.client_conn.id in self.tunnels:
                raise Refused("protocol", "a tunnel inside a tunnel is closed")
        except Refused as refused:
            flow.response = page(refused)
            note = Note(attempt, "CONNECT", f"{host}:{port}")
            note.write(refused=refused, status=flow.response.status_code)
            return
        self.tunnels[flow.client_conn.id] = host, port

    def http_connect_upstream(self, flow):
        if login := self.places.login(flow.server_conn.address):
            flow.request.headers["Proxy-Authorization"] = lookup.basic(login)

    def client_disconnected(self, client):
        self.tunnels.pop(client.id, None)
        attempt, handler = self.attempts.of(client)
        if handler.spoke and client.id not in self.seen:
            refused = Refused("protocol", "not one HTTP request came over this connection")
            Note(attempt, "", "").write(refused=refused)
        self.seen.discard(client.id)

    def tls_failed_client(self, data):
        attempt, _ = self.attempts.of(data.conn)
        self.seen.add(data.conn.id)
        host, port = self.tunnels.get(data.conn.id, ("", ""))
        reason = "TLS with the client failed: " + (
            data.conn.error or "it may not trust the proxy's certificate"
        )
        Note(attempt, "CONNECT", f"{host}:{port}").write(refused=Refused("protocol", reason))

    def server_connect(self, data):
        attempt, _ = self.attempts.of(data.client)
        allowed.set(attempt.policy.allows)
        data.server.alpn_offers = [b"http/1.1"]  # so that a body of unknown length can always be passed on

    # requests

    async def requestheaders(self, flow):
        try:
            await self.decide(flow)
        except Exception:
            logger.exception("a request could not be decided")
            attempt, _ = self.attempts.of(flow.client_conn)
            note = flow.metadata.setdefault("egress", Note(attempt, flow.request.method, ""))
            note.refused = UNDECIDED
            flow.request.stream = False
            flow.response = page(UNDECIDED)

    async def decide(self, flow):
        attempt, handler = self.attempts.of(flow.client_conn)
        self.seen.add(flow.client_conn.id)
        request = flow.request
        if flow.error:  # mitmproxy refuses it by itself
            flow.metadata["egress"] = Note(attempt, request.method, request.url)
            return
        headers = request.headers
        facts = Facts(
            method=request.method,
            scheme=request.scheme,
            host=request.host,
            port=request.port,
            path=request.path,
            host_headers=headers.get_all("host"),
            authority=request.authority,
            sni=flow.client_conn.sni,
            upgrade=headers.get("upgrade", ""),
            connect=self.tunnels.get(flow.client_conn.id),
        )
        note = flow.metadata["egress"] = Note(attempt, request.method, facts.url)
        asked = index.read_request(
            request.host,
            request.path,
            accept=headers.get("accept", ""),
            user_agent=headers.get("user-agent", ""),
            file_hosts=self.lookup.file_hosts(attempt),
        )
        try:
            if asked and request.method not in {"GET", "HEAD", "OPTIONS"}:
                raise Refused("protocol", "package indexes are open for reading alone")
            attempt.spend()
            check_request(attempt.policy, facts, asked)
            if attempt.received >= attempt.limits.total:
                raise Refused("size", f"all answers together have reached {attempt.limits.total:,} bytes")
            allowed.set(attempt.policy.allows)
            via = self.places.via(request.scheme, request.host, request.port)
            await self.places.vet(request.host, request.port, proxied=via is not None)
            if asked:
                await self.prepare_index(flow, asked, attempt, note)
            length = headers.get("content-length", "0")
            if length.isdigit() and int(length) > attempt.limits.request:
                raise Refused("size", f"a request may send {attempt.limits.request:,} bytes")
        except Refused as refused:
            self.refuse(flow, note, refused)
            return
        except OSError as error:
            note.error = f"{request.host}: {error}"
            flow.response = http.Response.make(502, note.error.encode(), {"content-type": "text/plain"})
            return
        if via is not None:
            self.send_via(flow, *via)
        for name in ("proxy-connection", "keep-alive", "upgrade"):
            headers.pop(name, None)
        if wants_head(facts.url) and "accept-encoding" in headers:
            headers["accept-encoding"] = "gzip"  # the head that is kept is to be readable
        sized = length.isdigit() and "transfer-encoding" not in headers
        if "content-length" not in headers and "transfer-encoding" not in headers:
            sized = not request.is_http2 or request.method in {
                "GET",
                "HEAD",
            }  # HTTP/2 need not say how much comes
        if not sized or int(length) > BUFFERED:
            flow.request.stream = Counter(attempt.limits.request, handler, note)
            if "content-length" not in headers:
                headers["transfer-encoding"] = "chunked"

    def send_via(self, flow, scheme, address):
        """Send a request through the host's own proxy: in a tunnel, or as proxies are asked for plain HTTP."""
        request = flow.request
        if request.scheme == "https":
            if flow.server_conn.timestamp_start is None:
                flow.server_conn.via = scheme, address
            return
        request.authority = request.host if request.port == 80 else f"{request.host}:{request.port}"
        request.data.host, request.data.port = address
        if login := self.places.login(address):
            request.headers["Proxy-Authorization"] = lookup.basic(login)

    def refuse(self, flow, note, refused):
        note.refused = refused
        flow.response = page(refused)
        if int(flow.request.headers.get("content-length", "0") or 0) > BUFFERED:
            flow.kill()

    async def prepare_index(self, flow, asked, attempt, note):
        """Refuse what was not there yet, and ask the index so that its answer can be dated."""
        until = index.end_of(attempt.policy.index_date)
        request, kind = flow.request, asked.kind
        try:
            if kind in {index.Kind.FILE, index.Kind.NPM_FILE}:
                moment = await self.lookup.uploaded(request, asked, attempt)
                if not moment:
                    raise Refused("index-no-times", f"when {asked.filename} was uploaded cannot be found out")
                if not index.in_time(moment, until):
                    raise Refused(
                        "index-date", f"{asked.filename} was uploaded on {moment[:10]}, after the index date"
                    )
                return
            if kind is index.Kind.NPM_VERSION:
                document = await self.lookup.npm(request.scheme, request.host, request.port, asked.project)
                version = index.npm_version_as_of(document, asked.version, until)
                request.path = index.npm_path(asked.project) + "/" + version
                return
        except index.IndexRefused as refused:
            raise Refused(refused.rule, refused.reason) from None
        note.index = asked
        accept = request.headers.get("accept", "")
        note.as_json = index.SIMPLE_JSON in accept or "application/vnd.pypi.simple.latest+json" in accept
        note.abbreviated = index.NPM_ABBREVIATED in accept
        request.headers["accept"] = index.SIMPLE_JSON if kind is index.Kind.SIMPLE else "application/json"
        request.headers["accept-encoding"] = "gzip"
        for name in ("if-none-match", "if-modified-since", "range", "if-range"):
            request.headers.pop(name, None)

    # answers

    def responseheaders(self, flow):
        try:
            self.begin_answer(flow)
        except Exception:
            logger.exception("an answer could not be passed on")
            flow.kill()

    def begin_answer(self, flow):
        note = flow.metadata.get("egress")
        if note is None or note.refused or note.error:
            return
        attempt, handler = self.attempts.of(flow.client_conn)
        for name in ("alt-svc", "strict-transport-security", "public-key-pins"):
            flow.response.headers.pop(name, None)
        length = flow.response.headers.get("content-length", "")
        expected = int(length) if length.isdigit() else 0
        most = min(attempt.limits.response, attempt.limits.total - attempt.received)
        rewritten = (
            note.index is not None and flow.response.status_code == 200 and flow.request.method == "GET"
        )
        if rewritten:
            most = min(most, INDEX_LIMIT)
        if expected > most and flow.request.method != "HEAD":
            note.refused = Refused("size", f"the answer has {expected:,} bytes, {most:,} are allowed")
            answer = page(note.refused)
            flow.response.status_code, flow.response.reason = answer.status_code, answer.reason
            flow.response.headers = http.Headers(answer.headers.fields)
            content = answer.raw_content
            sent = []

            def instead(chunk):
                if sent:
                    return b""
                sent.append(True)
                return content

            flow.response.stream = instead
            return
        if rewritten:
            flow.response.stream = False
        else:
            head = wants_head(note.url) and flow.response.headers.get("content-type", "").startswith("text/")
            flow.response.stream = Counter(most, handler, note, attempt=attempt, keep_head=head)

    async def response(self, flow):
        note = flow.metadata.get("egress")
        if note is None:
            return
        attempt, _ = self.attempts.of(flow.client_conn)
        response = flow.response
        if note.refused or note.error:
            pass
        elif note.index is not None and response.status_code == 200 and flow.request.method == "GET":
            note.size = len(response.raw_content or b"")
            attempt.received += note.size
            try:
                await asyncio.get_running_loop().run_in_executor(None, self.rewrite, flow, note, attempt)
            except index.IndexRefused as refused:
                note.refused = Refused(refused.rule, refused.reason)
            except Exception:
                logger.exception("an index's answer could not be rewritten")
                note.refused = Refused("index-not-read")
            if note.refused:
                flow.response = page(note.refused)
        elif isinstance(response.stream, Counter):
            note.head = response.stream.head_text(response.headers.get("content-encoding", ""))
        note.write(status=flow.response.status_code)

    def rewrite(self, flow, note, attempt):
        """Put the dated answer in the place of the index's own."""
        asked, response = note.index, flow.response
        until = index.end_of(attempt.policy.index_date)
        body = unpacked(response.raw_content or b"", response.headers.get("content-encoding", ""))
        content_type = response.headers.get("content-type", "")
        if asked.kind is index.Kind.SIMPLE:
            base = note.url
            answer = index.simple_answer(
                body, content_type, base=base, until=until, barred=attempt.barred, as_json=note.as_json
            )
            self.lookup.learn(base, asked.project, body, content_type, attempt=attempt)
        elif asked.kind is index.Kind.JSON_API:
            answer = index.json_api_answer(body, version=asked.version, until=until, barred=attempt.barred)
        else:
            if "json" not in content_type or b'"dist-tags"' not in body:
                return  # a page that only looks like a registry's by its address
            answer = index.npm_answer(body, until=until, abbreviated=note.abbreviated)
        note.removed = answer.removed
        for name in ("etag", "last-modified", "content-encoding", "x-pypi-last-serial", "link"):
            response.headers.pop(name, None)
        response.headers["content-type"] = answer.content_type
        response.headers["cache-control"] = "no-store"
        response.content = answer.body

    def error(self, flow):
        note = flow.metadata.get("egress")
        if note is None:
            return
        reason = flow.error.msg if flow.error else "the connection ended"
        if not note.refused and re.search(r"no address of the open internet", reason):
            note.refused = Refused("internal-address", reason)
        note.error = note.error or reason
        note.write(status=None)


def unpacked(data, encoding):
    """An index's answer as it was before it was packed for the way, within the limit."""
    if encoding in {"", "identity"}:
        return data
    if encoding != "gzip":
        raise index.IndexRefused(
            "index-not-read", f"the index's answer came as {encoding}, gzip was asked for"
        )
    unpacker = zlib.decompressobj(31)
    try:
        body = unpacker.decompress(data, INDEX_LIMIT)
    except zlib.error:
        raise index.IndexRefused("index-not-read", "the index's answer is not packed as it says") from None
    if not unpacker.eof:
        raise index.IndexRefused(
            "size", f"the index's answer has more than {INDEX_LIMIT:,} bytes, or is cut short"
        )
    return body


class Note:
    """What is written down of one request."""

    def __init__(self, attempt, method, url):
        self.attempt, self.method, self.url = attempt, method, url
        self.started, self.time = time.monotonic(), datetime.now(UTC)
        self.refused = self.error = self.index = None
        self.size = self.removed = self.sent = 0
        self.as_json = self.abbreviated = self.written = False
        self.head = ""
        attempt.pending.add(self)

    def write(self, *, refused=None, status=None):
        if self.written:
            return
        self.written = True
        self.attempt.pending.discard(self)
        refused = refused or self.refused
        record = {
            "time": self.time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "method": self.method,
            "url": masked_url(self.url),
            "decision": "blocked" if refused else "allowed",
            "rule": refused.rule if refused else "",
            "detail": refused.detail if refused else "",
            "status": status,
            "size": self.size,
            "seconds": round(time.monotonic() - self.started, 4),
        }
        if self.index is not None and not refused:
            record["index"] = {"kind": self.index.kind, "removed": self.removed}
        if self.error:
            record["error"] = self.error
        if self.head:
            record["head"] = self.head
        self.attempt.write(record)


class Counter:
    """Passes a body on, counts it, and cuts the connection where it grows over its limit."""

    def __init__(self, limit, handler, note, *, attempt=None, keep_head=False):
        self.limit, self.handler, self.note, self.attempt = limit, handler, note, attempt
        self.count = 0
        self.head = b"" if keep_head else None

    def __call__(self, chunk):
        self.count += len(chunk)
        if self.attempt is not None:
            self.note.size += len(chunk)
            self.attempt.received += len(chunk)
        if self.head is not None and len(self.head) < HEAD_KEPT:
            self.head += chunk[: HEAD_KEPT - len(self.head)]
        over = self.attempt is not None and self.attempt.received > self.attempt.limits.total
        if self.count > self.limit or over:
            self.note.refused = self.note.refused or Refused("size", f"cut after {self.count:,} bytes")
            asyncio.get_running_loop().call_soon(self.handler.cut)
            return b""
        return chunk

    def head_text(self, encoding):
        if not self.head:
            return ""
        data = self.head
        if encoding == "gzip":
            try:
                data = zlib.decompressobj(31).decompress(data, HEAD_KEPT)
            except zlib.error:
                return ""
        elif encoding:
            return ""
        return data.decode("utf-8", "replace")


def page(refused):
    """The answer to a request that is refused."""
    headers = {
        "content-type": "text/html; charset=utf-8",
        "x-refused-by": "beyondswe",
        "x-refused-rule": refused.rule,
        "cache-control": "no-store",
    }
    status = 403
    if refused.rule == "rate":
        status, headers["retry-after"] = 429, "1"
    return http.Response.make(status, refusal_page(refused.rule, refused.detail), headers)

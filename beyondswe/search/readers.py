"""Read a page: through Jina Reader, or by a plain request and extraction. Every hop is checked before it is made.

A plain request connects to the very address that was looked up and found to be a public one (so that a name
cannot point into the host's networks on the second look), unless the environment names a proxy
(``HTTPS_PROXY``), which then is the one that connects. A redirect inside Jina's own fetch cannot be seen from
here: so redirects are followed from here first, and where Jina says that it ended is checked as well.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urljoin, urlsplit

import httpx

from beyondswe.search.extract import extracted
from beyondswe.search.types import Hop, Page, WebFault

if TYPE_CHECKING:
    from collections.abc import Iterator

Check = Callable[[str], str | None]
"""The rule that blocks an address, or None."""
Tell = Callable[[Hop], None]
"""Is told of every request that was made."""
JINA = "https://r.jina.ai"
_REDIRECTS = 8
_PAGE_LIMIT = 20 << 20  # bytes of a page
_TIMEOUT = httpx.Timeout(60.0, connect=20.0)
_READER_TIMEOUT = httpx.Timeout(300.0, connect=20.0)  # a reader renders pages
_WHOLE = 300.0  # seconds that a page may take, however it trickles in
_AGENT = "Mozilla/5.0 (compatible; beyondswe link reader)"


class Blocked(WebFault):
    """An address that may not be read, and the rule that says so."""

    def __init__(self, url: str, rule: str) -> None:
        super().__init__(f"{url} is blocked ({rule})")
        self.url, self.rule = url, rule


class Reader(Protocol):
    """Reads pages. May be called from many threads."""

    name: str

    def read(self, url: str, check: Check, tell: Tell) -> Page:
        """The page; `Blocked` at the first hop that is, else `WebFault` where it cannot be had."""


class PlainReader:
    """Fetches a page itself and takes the text out of it."""

    name = "plain"

    def read(self, url: str, check: Check, tell: Tell) -> Page:
        hops: list[Hop] = []

        def tell_both(hop: Hop) -> None:
            hops.append(hop)
            tell(hop)

        final, answer, body = follow(url, check, tell_both, body=True)
        if answer.status_code >= 400:
            raise WebFault(f"{final} answers {answer.status_code} {answer.reason_phrase}")
        title, text, media_type = extracted(body, answer.headers.get("content-type", ""), name=final)
        return Page(title, text, tuple(hops), media_type)


class JinaReader:
    """Has Jina Reader fetch, render and extract the page."""

    name = "jina"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.address = (environ.get("JINA_URL") or JINA).rstrip("/")
        self._key = environ.get("JINA_API_KEY", "")

    def read(self, url: str, check: Check, tell: Tell) -> Page:
        hops: list[Hop] = []

        def tell_both(hop: Hop) -> None:
            hops.append(hop)
            tell(hop)

        try:
            final, _, _ = follow(url, check, tell_both, body=False)
        except Blocked:
            raise
        except Unreachable:
            final = hops[-1].url if hops else url  # from here; Jina may get there all the same
        data = self._ask(final)
        told = str(data.get("url") or final)
        if rule := check(told):
            raise Blocked(told, rule)
        text = str(data.get("content") or "")
        if not text.strip():
            raise WebFault(f"{final}: the reader finds no text there")
        tell_both(Hop(told, None, len(text.encode())))
        return Page(str(data.get("title") or ""), text, tuple(hops), "text/markdown")

    def _ask(self, url: str) -> dict[str, Any]:
        headers = {"Accept": "application/json", "X-Return-Format": "markdown"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            answer = httpx.post(
                f"{self.address}/", json={"url": url}, headers=headers, timeout=_READER_TIMEOUT
            )
            found = answer.json()
        except httpx.HTTPError as error:
            raise WebFault(f"{url}: the reader does not answer: {error or type(error).__name__}") from None
        except ValueError:
            raise WebFault(f"{url}: the reader answers {answer.status_code} without JSON") from None
        if answer.status_code != 200:
            why = found.get("readableMessage") or found.get("message") if isinstance(found, dict) else ""
            raise WebFault(f"{url}: the reader answers {answer.status_code}: {why or 'no reason given'}")
        data = found.get("data", found) if isinstance(found, dict) else None
        if not isinstance(data, dict):
            raise WebFault(f"{url}: the reader's answer is no JSON object")
        return data


class Unreachable(WebFault):
    """Nothing answers at an address, or its name is not known."""


def follow(url: str, check: Check, tell: Tell, *, body: bool) -> tuple[str, httpx.Response, bytes]:
    """Follow redirects from ``url``, each checked before it is asked for: final address, answer and (if
    wanted) body.
    """
    until = time.monotonic() + _WHOLE
    for _ in range(_REDIRECTS + 1):
        if rule := check(url):
            raise Blocked(url, rule)
        with _ask(url, until) as answer:
            target = answer.headers.get("location") if answer.is_redirect else None
            data = _read(answer, url, until) if body and target is None else b""
            tell(Hop(url, answer.status_code, len(data)))
            if target is None:
                return url, answer, data
            url = urljoin(url, target)
    raise WebFault(f"{url}: more than {_REDIRECTS} redirects")


def _read(answer: httpx.Response, url: str, until: float) -> bytes:
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in answer.iter_bytes():
            size += len(piece)
            if time.monotonic() > until:
                raise _late(url)
            if size > _PAGE_LIMIT:
                raise WebFault(f"{url} is larger than {_PAGE_LIMIT >> 20} MiB")
            pieces.append(piece)
    except httpx.HTTPError as error:
        if time.monotonic() > until:
            raise _late(url) from None
        raise Unreachable(f"{url} breaks off: {error or type(error).__name__}") from None
    return b"".join(pieces)


@contextmanager
def _ask(url: str, until: float) -> Iterator[httpx.Response]:
    """One GET without following redirects; its connection is cut at the moment ``until``, whatever it is at."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WebFault(f"{url} is no address of a web page (http or https)")
    headers = {"User-Agent": _AGENT, "Accept": "text/html,application/pdf,text/*;q=0.9,*/*;q=0.5"}
    extensions: dict[str, Any] = {}
    proxied = _by_proxy(parts.scheme, parts.hostname)
    if not proxied:
        address = _public_address(url, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
        headers["Host"] = parts.netloc.rpartition("@")[2]
        extensions["sni_hostname"] = parts.hostname
        url = parts._replace(netloc=f"{address}{f':{parts.port}' if parts.port else ''}").geturl()
    if time.monotonic() > until:
        raise _late(parts.geturl())
    try:
        with (
            _cut_at(until) as extensions["trace"],
            httpx.Client(timeout=_TIMEOUT, trust_env=proxied) as client,
            client.stream("GET", url, headers=headers, extensions=extensions) as answer,
        ):
            yield answer
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        if time.monotonic() > until:
            raise _late(parts.geturl()) from None
        raise Unreachable(f"{parts.geturl()} cannot be reached: {error or type(error).__name__}") from None


@contextmanager
def _cut_at(until: float) -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """What a client tells of its connections, which are cut at a moment: timeouts of single reads do not end a server
    that sends a byte now and then.
    """
    sockets: list[socket.socket] = []

    def trace(event: str, facts: dict[str, Any]) -> None:
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            sockets.append(facts["return_value"].get_extra_info("socket"))

    def cut() -> None:
        for one in sockets:
            with suppress(OSError):  # closed, or wrapped by TLS since
                socket.socket.shutdown(one, socket.SHUT_RDWR)

    timer = threading.Timer(max(until - time.monotonic(), 0), cut)
    timer.daemon = True
    timer.start()
    try:
        yield trace
    finally:
        timer.cancel()


def _late(url: str) -> WebFault:
    return WebFault(f"{url} takes longer than {_WHOLE:g} s")


def _by_proxy(scheme: str, host: str) -> bool:
    proxies = urllib.request.getproxies()
    return bool(proxies.get(scheme) or proxies.get("all")) and not urllib.request.proxy_bypass(host)


def _public_address(url: str, host: str, port: int) -> str:
    """The address to connect to; refused unless every address that the name has is a public one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"{host} is not known: {error}") from None
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    for address in addresses:
        if not ipaddress.ip_address(address).is_global:
            raise Blocked(url, "private-address")
    first = addresses[0]
    return f"[{first}]" if ":" in first else first

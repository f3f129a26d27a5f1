"""What the egress proxy lets through: pure decisions over one request, and the record that is kept of it.

Runs inside the proxy, so it needs the standard library and `beyondswe.blocklist` alone. Every refusal has the name of
a rule, which stands on the page that the client gets and in ``egress.jsonl``.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from beyondswe.blocklist import Policy, Target, decide_url, networks
from beyondswe.blocklist.address import NotAnAddress, parse
from beyondswe.blocklist.names import names_of
from beyondswe.gateway.index import IndexRequest, Kind, end_of

LONGEST_URL = 16_384
"""Characters of a URL; longer ones are refused."""

RULES: Mapping[str, str] = {
    "not-allowed": "the run opens only the hosts that its --allow-host names",
    "port": "only the ports of HTTP and HTTPS are open",
    "raw-address": "hosts that are given as addresses are closed",
    "internal-address": "this leads into the networks of the host",
    "host-mismatch": "the connection, the certificate's name and the Host header name different hosts",
    "websocket": "websockets are closed",
    "protocol": "this is no HTTP request that the proxy passes on",
    "long-url": f"addresses of more than {LONGEST_URL:,} characters are refused",
    "rate": "too many requests at once; try again a little later",
    "size": "the answer, or all of them together, is larger than the run allows",
    "target-package": "the distributions of the repository under test are closed",
    "index-date": "this was not there on the index date of the instance",
    "index-undated": "the instance has no index date, so no index can answer as of it",
    "index-no-times": "this package index does not say when its files were uploaded",
    "index-not-read": "the package index's answer cannot be read, so it cannot be given as of the index date",
    "index-listing": "lists of every project are closed",
}
"""The proxy's own rules; those of the blocklist have names of their own."""


class Refused(Exception):
    """A request that is not passed on."""

    def __init__(self, rule: str, detail: str = "") -> None:
        super().__init__(detail or RULES.get(rule, rule))
        self.rule, self.detail = rule, detail or RULES.get(rule, "")


@dataclass(frozen=True)
class EgressLimits:
    """What one attempt may take from the web."""

    response: int = 1 << 30  # bytes of one answer
    total: int = 20 << 30  # bytes of all answers
    request: int = 256 << 20  # bytes that one request may send
    rate: float = 50.0  # requests a second, over longer times
    burst: int = 500  # requests at once


@dataclass(frozen=True)
class EgressPolicy:
    """What holds for one attempt; made by the harness, sent to the proxy as JSON."""

    repo: str = ""
    distributions: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    docs_hosts: tuple[str, ...] = ()
    index_date: str = ""
    allow_hosts: tuple[str, ...] = ()  # HOST or HOST:PORT
    only_allowed: bool = False  # network `model`: nothing but these
    limits: EgressLimits = field(default_factory=EgressLimits)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> EgressPolicy:
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in document.items()
        }
        fields["limits"] = EgressLimits(**document.get("limits", {}))
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def target(self) -> Target:
        return Target(self.repo, self.distributions, self.aliases, self.docs_hosts)

    @property
    def barred(self) -> frozenset[str]:
        """The target's distributions, as indexes compare names."""
        return frozenset(names_of(self.target).distributions)

    def allows(self, host: str, port: int) -> bool:
        """Whether the user named this host: ``H`` for the ports of HTTP and HTTPS, ``H:PORT`` for one port."""
        default = port in {80, 443}
        return any(
            (f"{host}:{port}" == named) or (default and host == named)
            for named in map(str.lower, self.allow_hosts)
        )


@dataclass(frozen=True)
class Facts:
    """What is known of a request from the connection and its head."""

    method: str
    scheme: str
    host: str  # where it would be sent
    port: int
    path: str  # with the query
    host_headers: Sequence[str] = ()
    authority: str = ""
    sni: str | None = None
    upgrade: str = ""
    connect: tuple[str, int] | None = None  # what the tunnel was opened to

    @property
    def url(self) -> str:
        default = {"http": 80, "https": 443}.get(self.scheme)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}{'' if self.port == default else f':{self.port}'}{self.path}"


def same_host(name: str) -> str:
    """A host as it is compared: as a browser reads it, without a trailing dot; '' for what is no host."""
    name = name.strip()
    try:
        return parse(f"https://{f'[{name}]' if name.count(':') > 1 and '[' not in name else name}/").host
    except NotAnAddress:
        return ""


def check_place(policy: EgressPolicy, host: str, port: int) -> None:
    """Raise `Refused` where nothing behind this host and port may be asked, whatever the path."""
    host = same_host(host)
    if policy.allows(host, port):
        return
    if policy.only_allowed:
        raise Refused("not-allowed")
    if kind := networks.kind(host):
        raise Refused(f"{kind}-address")
    if port not in {80, 443}:
        raise Refused("port", f"port {port} is closed; 80 and 443 are open")


def check_request(policy: EgressPolicy, facts: Facts, index: IndexRequest | None) -> None:
    """Raise `Refused` if this request is not passed on."""
    check_place(policy, facts.host, facts.port)
    if len(facts.url) > LONGEST_URL:
        raise Refused("long-url")
    if facts.upgrade or facts.method.upper() in {"CONNECT", "TRACE"}:
        raise Refused("websocket" if "websocket" in facts.upgrade.lower() else "protocol")
    check_names(facts)
    if index is not None and index.project in policy.barred:
        raise Refused("target-package", f"{index.project} is a distribution of the repository under test")
    if blocked := decide(policy, facts.url, facts.method):
        raise Refused(*blocked)
    if index is not None:
        if index.kind is Kind.LISTING:
            raise Refused("index-listing")
        if end_of(policy.index_date) is None:
            raise Refused("index-undated")
        if index.kind is Kind.UNDATED:
            raise Refused("index-no-times")


def check_names(facts: Facts) -> None:
    """Raise `Refused` where tunnel, TLS, request and Host header do not name the same host and port."""
    host = same_host(facts.host)
    if len(facts.host_headers) > 1:
        raise Refused("host-mismatch", "more than one Host header")
    if facts.connect and (same_host(facts.connect[0]), facts.connect[1]) != (host, facts.port):
        raise Refused(
            "host-mismatch", f"the tunnel is to {facts.connect[0]}:{facts.connect[1]}, the request to {host}"
        )
    if facts.sni and same_host(facts.sni) != host:
        raise Refused("host-mismatch", f"TLS names {facts.sni}, the request {host}")
    default = 443 if facts.scheme == "https" else 80
    for named in filter(None, (*facts.host_headers, facts.authority)):
        name, _, port = named.rpartition(":") if re.search(r":\d+$", named) else (named, "", "")
        if same_host(name) != host or int(port or default) != facts.port:
            raise Refused(
                "host-mismatch", f"the Host header names {named}, the request goes to {host}:{facts.port}"
            )


def is_public(address: str) -> bool:
    """Whether an address that a name resolved to is of the open internet, and not of the host's networks."""
    address = address.partition("%")[0]
    return networks.kind(f"[{address}]" if ":" in address else address) != "internal"


def decide(policy: EgressPolicy, url: str, method: str) -> tuple[str, str] | None:
    """The blocklist's rule and reason against a URL, or None."""
    decision = decide_url(url, policy.target, Policy(allow_hosts=policy.allow_hosts), method=method)
    return (decision.rule, decision.detail) if decision.blocked else None


def refusal_page(rule: str, detail: str) -> bytes:
    """The page that stands in place of what was asked for."""
    return (
        "<!DOCTYPE html>\n<html><head><title>Refused by the network rules of this task</title></head>\n<body>"
        f"<h1>Refused by the network rules of this task</h1>\n<p>Rule: <code>{html.escape(rule)}</code>. "
        f"{html.escape(detail)}</p>\n"
        "<p>Nothing is wrong with the network; asking in another way is refused as well.</p></body></html>\n"
    ).encode()


_SECRET = re.compile(
    r"key|token|secret|passw|pwd|auth|signature|^sig$|credential|session|jwt|^code$|X-Amz-Security",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"(?:gh[pousr]_|github_pat_|glpat-|sk-|xox[abprs]-|AKIA|ASIA|AIza|hf_|npm_|pypi-)[A-Za-z0-9_-]{8,}"
)


def masked_url(url: str) -> str:
    """A URL for the log: no login, no values of parameters that name a secret, and cut where it is very long."""
    try:
        parts = urlsplit(url)
        netloc = parts.netloc.rpartition("@")[2]
        query = parts.query
        if query and any(_SECRET.search(name) for name, _ in parse_qsl(query, keep_blank_values=True)):
            query = "&".join(_masked_pair(pair) for pair in query.split("&"))
        url = parts._replace(netloc=netloc, query=query, fragment="").geturl()
    except ValueError:
        url = re.sub(r"//[^/@]*@", "//", url)
    url = _SECRET_VALUE.sub("***", url)
    return url if len(url) <= 4096 else f"{url[:4096]}…({len(url)} characters)"


def _masked_pair(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}{equals}***" if _SECRET.search(name) else pair


HEAD_KEPT = 4096
"""Bytes kept of the answers that `wants_head` names."""

_DISCUSSION = re.compile(
    r"/(?:pulls?|pull-requests?|merge_requests|issues?|commits?|compare|patch|diff|changes)(?:/|$)|\.(?:patch|diff)$",
    re.IGNORECASE,
)


def wants_head(url: str) -> bool:
    """Whether the head of what this address answered is kept for the audit: pages of changes and discussions."""
    return bool(_DISCUSSION.search(quote(urlsplit(url).path, safe="/%.-_~")))

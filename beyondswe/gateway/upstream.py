"""Where a request goes and with which key: the one place that knows the keys of this host.

Keys come from the environment of the process that runs the gateway. ``BEYONDSWE_MODEL_KEY`` is for whatever the
model's address is; else the protocol's own: ``OPENAI_API_KEY``, ``ANTHROPIC_API_KEY``, ``GEMINI_API_KEY`` or
``GOOGLE_API_KEY``. Where an address is given and only one of them is set, it serves all protocols.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from beyondswe.errors import UsageError

ANY_KEY = "BEYONDSWE_MODEL_KEY"
_KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
_HOSTS = {
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
}
_VERSION = re.compile(r"v\d+\w*")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")  # never by a proxy
_KNOCK = 10.0  # seconds that a connection may take; one that is only slow is no reason to refuse a run
_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
_CREDENTIALS = {"authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie"}
_NOT_SENT = _HOP | _CREDENTIALS | {"host", "content-length", "content-encoding", "accept-encoding", "expect"}
_NOT_GIVEN = _HOP | {"content-length", "content-encoding", "set-cookie", "server", "date", "alt-svc"}
ROLE_HEADER = "x-beyondswe-role"


@dataclass(frozen=True)
class Upstream:
    """The model's address (None: the provider's own, by protocol) and the keys by kind of provider."""

    url: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_environment(cls, url: str | None, environment: Mapping[str, str]) -> Upstream:
        """`UsageError` for an address that is none, and where no key is there and no address given."""
        if url is not None:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or not _has_port(parts):
                raise UsageError(
                    f"--model-url {url!r} is no address; write it as https://host/v1 or http://127.0.0.1:8000/v1"
                )
            if parts.username or parts.password or parts.query:
                raise UsageError(
                    f"--model-url must hold no key, for it is written down; set {ANY_KEY} in the environment"
                )
        if any_key := environment.get(ANY_KEY):
            return cls(url, dict.fromkeys(_KEYS, any_key))
        keys = {
            kind: value for kind, names in _KEYS.items() for name in names if (value := environment.get(name))
        }
        if url is None and not keys:
            names = ", ".join(name for names in _KEYS.values() for name in names)
            raise UsageError(
                f"no key for a model is in the environment ({names}, or {ANY_KEY}) and no --model-url is given: "
                "set one of them"
            )
        if url is not None and len(set(keys.values())) == 1:
            # an address of the user's own, and one key: it is that address's, whatever protocol an agent speaks
            keys = dict.fromkeys(_KEYS, next(iter(keys.values())))
        return cls(url, keys)

    def knock(self) -> None:
        """Raise `UsageError` where an address that was given refuses a connection or has no such host.

        One attempt, and none where the host's proxy is in the way: that answers for every address.
        """
        if self.url is None:
            return
        from urllib.request import getproxies, proxy_bypass

        parts = urlsplit(self.url)
        host = parts.hostname or ""
        proxies = getproxies()
        proxied = parts.scheme in proxies or "all" in proxies
        if proxied and host not in _LOOPBACK and not proxy_bypass(host):
            return
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            socket.create_connection((host, port), timeout=_KNOCK).close()
        except TimeoutError:
            return
        except (OSError, UnicodeError) as error:  # names that cannot be encoded are no hosts
            why = getattr(error, "strerror", None) or error
            raise UsageError(
                f"--model-url {self.url}: no connection to {host}:{port} ({why}); is the address right, and does "
                "the model's server run?"
            ) from error

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key for key in self.keys.values() if len(key) >= 4))

    def target(self, kind: str, path: str, query: str) -> str:
        """The address for a request of the agent: its path below the upstream's, credentials left out.

        Where the upstream's path names a version (``/v1``), it stands for the agent's own.
        """
        base = (self.url or _HOSTS[kind]).rstrip("/")
        if any(_VERSION.fullmatch(part) for part in urlsplit(base).path.split("/")):
            first, _, rest = path.lstrip("/").partition("/")
            path = f"/{rest}" if _VERSION.fullmatch(first) else path
        kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "key"]
        return f"{base}{path}" + (f"?{urlencode(kept)}" if kept else "")

    def request_headers(self, kind: str, given: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """The agent's headers without its credentials, and the key in the way of the kind of provider."""
        sent = [
            (name, value)
            for name, value in given
            if name.lower() not in _NOT_SENT and not name.lower().startswith(("x-beyondswe-", "x-forwarded-"))
        ]
        sent.append(("accept-encoding", "identity"))  # the answer is read on its way
        if key := self.keys.get(kind):
            sent.append(
                {
                    "anthropic": ("x-api-key", key),
                    "google": ("x-goog-api-key", key),
                }.get(kind, ("authorization", f"Bearer {key}"))
            )
        return sent


def _has_port(parts: SplitResult) -> bool:
    """Whether the port, where one is named, can be one."""
    try:
        return parts.port != 0
    except ValueError:
        return False


def answer_headers(given: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Of the upstream's headers, those that go on to the agent."""
    return [(name, value) for name, value in given if name.lower() not in _NOT_GIVEN]


def kind_of(protocol: str | None, path: str, headers: Mapping[str, str]) -> str:
    """The kind of provider (openai, anthropic, google) that a request is meant for."""
    if protocol is not None:
        return {"anthropic-messages": "anthropic", "google-generate": "google"}.get(protocol, "openai")
    if path.startswith("/v1beta") or "x-goog-api-key" in headers:
        return "google"
    return "anthropic" if "anthropic-version" in headers else "openai"


def token_of(headers: Mapping[str, str], query: str) -> str:
    """The token that an agent showed, wherever its client puts a key."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
    given = [headers.get(name, "") for name in ("x-api-key", "x-goog-api-key", "api-key")]
    in_query = [value for name, value in parse_qsl(query) if name == "key"]
    return next((token for token in (bearer, *given, *in_query) if token), "")


class Masker:
    """Takes the keys out of what goes back to an agent, also where one is cut between two pieces."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = [secret.encode() for secret in secrets]
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        if not self._secrets:
            return data
        data = self._held + data
        for secret in self._secrets:
            data = data.replace(secret, b"[masked]")
        keep = max(
            (
                length
                for secret in self._secrets
                for length in range(1, min(len(secret), len(data) + 1))
                if data.endswith(secret[:length])
            ),
            default=0,
        )
        self._held = data[len(data) - keep :] if keep else b""
        return data[: len(data) - keep] if keep else data

    def rest(self) -> bytes:
        held, self._held = self._held, b""
        return held

    def text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret.decode(), "[masked]")
        return text

"""An address as the parties on the way read it: parsed by the WHATWG rules, decoded until nothing changes."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple
from urllib.parse import unquote

import ada_url

WEB = ("http", "https")
_SCP = re.compile(r"^(?:[\w.+-]+@)?([\w-]+(?:\.[\w-]+)+):(?!//|\d+(?:[/?#]|$))([^\s].*)$")
_AUTHORITY = re.compile(r"^(\[[0-9a-fA-F:.]+\]|[\w-]+(?:\.[\w-]+)*\.?)(:\d+)?(?=[/?#\\]|$)")
_IGNORED = dict.fromkeys(map(ord, "\u00ad\u034f\u200b\u200c\u200d\u200e\u200f\u2060\u2061\ufeff"))
_SLASHES = dict.fromkeys(map(ord, "\u2044\u2215\u29f8\uff0f\u2571\u29f5\uff3c\u2216"), "/")
MAX_LENGTH = 65536
_DEPTH = 8
"""How often an address may be encoded before nobody can say what it means."""


class Address(NamedTuple):
    """A parsed address. ``text`` is path, query and fragment decoded, folded and in lower case."""

    scheme: str
    host: str
    port: str
    path: str
    text: str
    raw: str
    """Path, query and fragment as they came: for what is written in letters that depend on case."""


_WEB = re.compile(r"(https?)://(?:[^/?#]*@)?(\[[^\]]*\]|[^:/?#@]+)(?::(\d+))?((/[^?#]*).*)", re.DOTALL)
"""A web address as the parser writes it."""


class NotAnAddress(ValueError):
    """What cannot be read as an address; nobody can say where it leads."""


def parse(url: str) -> Address:
    """Parse an address; forms without a scheme and of scp are read as browsers and git read them."""
    if len(url) > MAX_LENGTH:
        raise NotAnAddress(f"longer than {MAX_LENGTH} characters")
    parsed: ada_url.URL | None = None
    try:
        href = ada_url.normalize_url(url)
        web = _WEB.match(href)
        if web is None:
            parsed = ada_url.URL(href)
    except (ValueError, UnicodeError):
        web = None
    if web is not None:
        scheme, host, port, raw, path = web.groups("")
        return Address(scheme, host.rstrip("."), port, *fold(path, raw), raw)
    if parsed is None or (not parsed.hostname and parsed.protocol not in _HOSTLESS):
        scheme, completed = _complete(url)
        try:
            parsed = ada_url.URL(completed)
        except (ValueError, UnicodeError):
            raise NotAnAddress("not an address") from None
    else:
        scheme = parsed.protocol[:-1]
    host = parsed.hostname
    if host and host[-1] == ".":
        host = host.rstrip(".")
    if scheme not in WEB:
        host = _special_host(host)
    path = parsed.pathname
    raw = f"{path}{parsed.search}{parsed.hash}"
    return Address(scheme, host, parsed.port, *fold(path, raw), raw)


_HOSTLESS = frozenset(("file:", "data:", "javascript:", "about:", "blob:", "mailto:", "view-source:", "urn:"))


def _complete(url: str) -> tuple[str, str]:
    """The scheme that an address without a web scheme has, and the address with one that can be parsed."""
    text = url.strip()
    if text.startswith("//"):
        return "https", f"https:{text}"
    scp = _SCP.match(text)
    if scp and "://" not in text[: scp.start(2)]:
        return "ssh", f"https://{scp[1]}/{scp[2].lstrip('/')}"
    if _AUTHORITY.match(text) and "." in text.split("/", 1)[0]:
        return "https", f"https://{text}"
    if re.match(r"^(?:localhost|\[[0-9a-fA-F:.]+\])(?::\d+)?(?:[/?#]|$)", text):
        return "https", f"https://{text}"
    scheme, colon, rest = text.partition(":")
    if (
        colon
        and scheme.lower() not in WEB
        and scheme.replace("+", "").replace("-", "").replace(".", "").isalnum()
    ):
        return scheme.lower(), f"https://{rest.lstrip('/') or 'none.invalid'}"
    raise NotAnAddress("neither a scheme nor a host")


def _special_host(host: str) -> str:
    """The host of an address of another scheme, read as if it were of the web."""
    try:
        return str(ada_url.URL(f"https://{host}/").hostname).rstrip(".")
    except (ValueError, UnicodeError):
        return host.lower()


def fold(path: str, raw: str) -> tuple[str, str]:
    """Path and whole text, decoded and folded."""
    if "%" not in raw and raw.isascii() and "/." not in raw and "\\" not in raw and "//" not in path:
        return path.lower(), raw.lower()
    return flatten(_decoded(path)), flatten(_decoded(raw))


def _decoded(text: str) -> str:
    for _ in range(_DEPTH):
        if "%" not in text:
            break
        before, text = text, unquote(text, errors="replace")
        if text == before:
            break
    else:
        if unquote(text, errors="replace") != text:
            raise NotAnAddress("encoded more often than anybody decodes")
    return text


def flatten(text: str) -> str:
    """Text in one spelling: compatibility forms, slashes, case, dot segments."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_IGNORED).translate(_SLASHES))
    text = text.replace("\\", "/").lower()
    if "/." in text or "//" in text:
        head, colon, tail = text.partition("://")
        text = _collapse(head) if not colon else _collapse(head) + colon + flatten_nested(tail)
    return text


def flatten_nested(text: str) -> str:
    return "://".join(_collapse(part) for part in text.split("://"))


def _collapse(text: str) -> str:
    """A text without doubled slashes and dot segments."""
    kept: list[str] = []
    for at, part in enumerate(text.split("/")):
        if part == "..":
            if len(kept) > 1:
                kept.pop()
        elif at == 0 or (part and part != "."):
            kept.append(part)
    return "/".join(kept) + ("/" if text.endswith("/") else "")

"""Decides an address: what it leads to by itself, what other address it wraps, and whether that is the target."""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import unquote

from beyondswe.blocklist import forges, networks, packages
from beyondswe.blocklist.address import WEB, Address, NotAnAddress, flatten, parse
from beyondswe.blocklist.hosts import (
    CODE_SEARCH,
    CONTAINER_REGISTRIES,
    DOCS_PLATFORMS,
    NAMED_SITES,
    OPAQUE_ARCHIVES,
    PAGES_PLATFORMS,
    READERS,
    SEARCH_ENGINES,
    SHORTENERS,
    under,
)
from beyondswe.blocklist.names import Names, canonical, names_of
from beyondswe.blocklist.types import ALLOWED, DEFAULT, Decision, Policy, Target

BENCHMARK = re.compile(r"beyond[-_. ]?swe(?![a-z])|awe-?ai-?team|awe-?agent", re.ASCII)
_NESTED = re.compile(
    r"(?:https?|git|ssh|ftp)(?:\+\w+)?:/+([^\s\"'<>|]+)|(?:git@)([\w.-]+:[\w.-]+/[^\s\"'<>|]+)"
)
_BARE = re.compile(r"(?<![\w.@%-])((?:[a-z0-9-]+\.)+[a-z]{2,18}(?::\d+)?(?![\w.-])(?:/[^\s\"'<>|]*)?)")
_ENCODED = re.compile(r"(?:aHR0c|Z2l0aHVi|d3d3Lm|Ly9naX)[A-Za-z0-9+/_-]{6,}={0,2}")
_HEX = re.compile(r"(?:68747470|6769746875622e)[0-9a-f]{8,}", re.IGNORECASE)
_GOOGLE = re.compile(r"^(?:www\.|ipv4\.|ipv6\.|m\.)?google\.(?:com?\.)?[a-z]{2,3}$")
_YANDEX = re.compile(r"^(?:www\.)?(?:yandex|ya)\.[a-z]{2,3}(?:\.[a-z]{2})?$")
_GOOGLE_RESULTS = ("/search", "/s", "/custom", "/cse", "/webhp", "/m", "/ie", "/complete/search", "/async")
_SEARX = re.compile(r"(?:^|[.-])(?:searx|searxng|searx-ng|whoogle|librex|librey|4get)(?:[.-]|$)")
_SOURCE_LISTING = ("/_modules/", "/_sources/", "/_downloads/")
_DEEPEST = 4


def decide_url(url: str, target: Target, policy: Policy = DEFAULT, *, method: str = "GET") -> Decision:
    """Decide whether an address may be opened.

    ``method`` is the request's: of a CONNECT, ``url`` may be ``host:port``. The answer depends on nothing but the
    arguments; a redirect is a new question.
    """
    if method.upper() == "CONNECT" and "://" not in url:
        url = f"https://{url}/"
    try:
        address = parse(url)
    except NotAnAddress as error:
        return Decision(True, "not-an-address", str(error))
    if address.scheme not in WEB:
        return Decision(True, "scheme", f"{address.scheme} is neither http nor https")
    return decide_address(address, names_of(target), policy)


def decide_address(address: Address, names: Names, policy: Policy, depth: int = 0) -> Decision:
    """Decide a parsed address, whatever its scheme."""
    host = address.host
    if host.startswith("www."):
        host = host[4:]
    text = address.text
    if policy.prompt_addresses and _named_in_prompt(address, policy):
        return ALLOWED
    reached = bool(policy.allow_hosts) and _allowed_host(address, policy)
    whole = host + text
    if ("beyond" in whole or "awe" in whole) and (found := BENCHMARK.search(whole)):
        return Decision(True, "benchmark", found[0])
    if not reached:
        decision = _own(host, text, policy)
        if decision is not None:
            return decision
    if host.endswith(".translate.goog"):
        inner = re.sub(r"(?<!-)-(?!-)", ".", host[: -len(".translate.goog")]).replace("--", "-")
        if not policy.wrappers:
            return _again(f"https://{inner}{address.raw}", names, policy, depth)
    if policy.wrappers and (under(host, READERS) or host.endswith(".translate.goog")):
        return Decision(True, "wrapper", host)
    if policy.opaque_ids:
        opaque = forges.opaque(host, text)
        if opaque:
            return Decision(True, "opaque-id", opaque)
    hinted = None
    for needle in names.needles:
        if needle in whole:
            hinted = names.hint.search(whole)
            break
    if hinted or (policy.owner_repositories and any(owner in text for owner in names.owners)):
        decision = _target(address, host, names, policy)
        if decision is not None:
            return decision
    if "search" in text and policy.site_search and names.scoped.search(text) and under(host, CODE_SEARCH):
        return Decision(True, "target-search", "search limited to the owner of the target")
    return _wrapped(address, text, names, policy, depth, hinted is not None)


def _own(host: str, text: str, policy: Policy) -> Decision | None:
    """What a host alone says: inside, bare address, shortener, search engine."""
    if not host:
        return Decision(True, "not-an-address", "no host")
    last = host[-1]
    if (
        last == "]"
        or last.isdigit()
        or "." not in host
        or host.endswith(networks.INSIDE)
        or host in networks.ROOTS
    ):
        kind = networks.kind(host)
        if kind == "internal":
            return Decision(True, "internal-address", host)
        if kind == "raw" and policy.raw_addresses:
            return Decision(True, "raw-address", host)
    if policy.shorteners:
        site = host[host.rfind(".", 0, host.rfind(".")) + 1 :]
        if site in SHORTENERS or host in SHORTENERS:
            return Decision(True, "shortener", host)
        if (site in OPAQUE_ARCHIVES or host in OPAQUE_ARCHIVES) and re.match(
            r"^/(?:[\w-]{4,16}|cache\.aspx.*)(?:/(?:image|again|share))?/?(?:[?#]|$)", text
        ):
            return Decision(True, "shortener", f"{host} does not show what it keeps")
    if policy.search_pages and is_search_page(host, text):
        return Decision(True, "search-page", host)
    return None


def is_search_page(host: str, text: str) -> bool:
    """Whether an address is a result page of a search engine."""
    paths = SEARCH_ENGINES.get(host)
    if paths is None:
        if "google." in host and _GOOGLE.match(host):
            paths = _GOOGLE_RESULTS
        elif host.startswith(("yandex.", "ya.")) and _YANDEX.match(host):
            paths = ("/search", "/yandsearch", "/images/search")
        else:
            return len(text) > 1 and _SEARX.search(host) is not None
    path = re.split(r"[?#;]", text, maxsplit=1)[0].rstrip("/") or "/"
    asks = len(text) > len(path) + (0 if path == "/" else 1)
    for start in paths:
        if start == "/":
            if path != "/" or "?" in text:
                return True
        elif path == start or path.startswith((start + "/", start + ".")):
            return asks or path != start
    return False


def _target(address: Address, host: str, names: Names, policy: Policy) -> Decision | None:
    """Whether an address is of the target, by the rules on repositories, packages and documentation."""
    text = address.text
    path, query = _split(text)
    decision = forges.decide(host, path, query, text, names, policy)
    if decision is not None:
        return decision
    if policy.package_files:
        file = names.file.search(text)
        if file:
            return Decision(True, "target-release-file", file[0])
    if policy.package_pages:
        part = packages.page(host, path, query, names)
        if part:
            return Decision(True, "target-package", part)
    decision = _documentation(host, path, names, policy)
    if decision is not None:
        return decision
    if policy.site_search and under(host, CODE_SEARCH) and forges.is_site_search(host, path):
        word = names.word.search(query) or names.scoped.search(query)
        if word:
            return Decision(True, "target-search", word[0])
    return None


def _split(text: str) -> tuple[str, str]:
    """Path, and query with fragment, of a folded text."""
    path = text.partition("?")[0].partition("#")[0]
    return path, text[len(path) :]


def _documentation(host: str, path: str, names: Names, policy: Policy) -> Decision | None:
    """The target's documentation: hosts the instance names, hosts made of its name, pages sites."""
    found = _documentation_site(host, path, names)
    if not found:
        return None
    if policy.documentation:
        return Decision(True, "target-documentation", found)
    if any(part in path for part in _SOURCE_LISTING):
        return Decision(True, "target-source-listing", found)
    return None


def _documentation_site(host: str, path: str, names: Names) -> str:
    for site, start in names.docs:
        below = path == f"/{start}" or path.startswith(f"/{start}/") or not start
        if below and (host == site or host.endswith(f".{site}")):
            return f"{site}/{start}".rstrip("/")
    if host.endswith(NAMED_SITES):
        end = next(end for end in NAMED_SITES if host.endswith(end))
        labels = host[: -len(end)].split(".")
        for label in labels:
            for part in {label, *label.split("--")}:
                if canonical(part) in names.sites:
                    return host
        if end in PAGES_PLATFORMS or end in (".gitmcp.io",):
            first = canonical(path.strip("/").partition("/")[0])
            if first in names.sites and labels[-1] in names.owners:
                return f"{host}/{first}"
    if under(host, DOCS_PLATFORMS) or host.endswith("hosted.org"):
        for part in path.split("/"):
            if part and canonical(part.partition("~")[0]) in names.sites:
                return f"{host}/{part}"
    if names.docs_by_name:
        first, _, rest = host.partition(".")
        if first in ("docs", "doc", "documentation", "api") and canonical(rest.partition(".")[0]) in map(
            canonical, names.repositories
        ):
            return host
    return ""


def _wrapped(address: Address, text: str, names: Names, policy: Policy, depth: int, hinted: bool) -> Decision:
    """What other addresses stand inside this one: readers, archives, redirects, encoded parameters."""
    if depth >= _DEEPEST:
        return Decision(True, "nested-too-deep", "addresses inside addresses")
    for found in _NESTED.finditer(text) if ":/" in text or "git@" in text else ():
        inner = f"https://{found[1]}" if found[1] else (found[2] or "").replace(":", "/", 1)
        decision = _again(inner, names, policy, depth)
        if decision.blocked:
            return decision
    if hinted or "api.github.com" in text or _is_reader(address.host):
        for found in _BARE.finditer(text):
            decision = _again(f"https://{found[1]}", names, policy, depth)
            if decision.blocked and decision.rule != "not-an-address":
                return decision
    raw = unquote(address.raw) if "%" in address.raw else address.raw
    if "aHR0c" in raw or "Z2l0aHVi" in raw or "d3d3Lm" in raw or "Ly9naX" in raw:
        for token in _ENCODED.findall(raw):
            decision = _again(_base64(token), names, policy, depth)
            if decision.blocked and decision.rule != "not-an-address":
                return decision
    if "68747470" in raw or "6769746875622e" in raw or "6769746875622E" in raw:
        for token in _HEX.findall(raw):
            clear = bytes.fromhex(token[: len(token) // 2 * 2]).decode("utf-8", "replace")
            decision = _again(clear, names, policy, depth)
            if decision.blocked and decision.rule != "not-an-address":
                return decision
    return ALLOWED


def _is_reader(host: str) -> bool:
    """Whether a host shows other addresses (the last two labels, or the whole of it, are in the table)."""
    return host in READERS or host[host.rfind(".", 0, host.rfind(".")) + 1 :] in READERS


def _again(url: str, names: Names, policy: Policy, depth: int) -> Decision:
    """Decide an address that stands inside another."""
    try:
        return decide_address(parse(url), names, policy, depth + 1)
    except NotAnAddress as error:
        return Decision(False, "not-an-address", str(error))


def _base64(token: str) -> str:
    token = token.replace("-", "+").replace("_", "/").rstrip("=")
    while token:
        try:
            clear = base64.b64decode(token + "=" * (-len(token) % 4)).decode("utf-8", "ignore")
        except binascii.Error:
            token = token[:-1]
            continue
        return clear if clear.startswith(("http", "www")) else f"https://{clear.lstrip('/')}"
    return ""


def _named_in_prompt(address: Address, policy: Policy) -> bool:
    """Whether this very page is one that the prompt names."""
    for url in policy.prompt_addresses:
        try:
            named = parse(url)
        except NotAnAddress:
            continue
        here = address.text.partition("#")[0].rstrip("/")
        if named.host == address.host and named.text.partition("#")[0].rstrip("/") == here:
            return True
    return False


def _allowed_host(address: Address, policy: Policy) -> bool:
    """Whether the host, or this port of it, is one that the run allows."""
    port = address.port or ("443" if address.scheme == "https" else "80")
    return address.host in policy.allow_hosts or f"{address.host}:{port}" in policy.allow_hosts


__all__ = ["CONTAINER_REGISTRIES", "decide_address", "decide_url", "flatten", "is_search_page"]

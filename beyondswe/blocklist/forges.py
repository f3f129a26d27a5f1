"""Repositories in addresses: where forges, their APIs, mirrors and code browsers put owner and name."""

from __future__ import annotations

import re

from beyondswe.blocklist.hosts import (
    CONTAINER_REGISTRIES,
    FORGES_OWNER_NAME,
    GITHUB_TEXT,
    PAGES_PLATFORMS,
    RESERVED_OWNERS,
    under,
    words,
)
from beyondswe.blocklist.names import Names, canonical
from beyondswe.blocklist.types import Decision, Policy

_NAME = re.compile(r"[a-z0-9_~][\w.~-]*", re.ASCII)
_ENDS = re.compile(r"(?:\.(?:git|wiki|atom|zip|tar\.gz|json|html?|md|svg|rss|bundle|diff|patch))+$")
_MARKERS = words(
    """
    gh github github.com raw.githubusercontent.com gl gitlab gitlab.com bb bitbucket bitbucket.org
    codeberg.org g b git gitee gitee.com repos repositories projects networks api.github.com
    codeload.github.com combine
    """
)
"""Parts of a path after which mirrors, CDNs and services put owner and name."""
_API = {"api.github.com": ("repos", "networks"), "uploads.github.com": ("repos",)}
_SHIFTED = {
    "patch-diff.githubusercontent.com": 1,
    "opengraph.githubassets.com": 1,
    "media.githubusercontent.com": 1,
    "patch-diff.github.com": 1,
}
"""Hosts with one part before owner and name."""
_FORGE_LABEL = re.compile(
    r"(?:^|\.)(?:git|gitlab|gitea|forgejo|gogs|cgit|gitweb|scm|svn|hg|salsa|invent|framagit|0xacab|pagure|opendev|"
    r"launchpad|sourcehut|phabricator|repo\.or|vcs)[\w-]*\."
)
_LOOKALIKE = re.compile(
    r"github|gitlab|fastgit|gitclone|ghproxy|ghfast|githack|gitcode|bitbucket|gitee|codeberg"
)
_TABS = words(
    """
    - tree blob raw src commit commits issues pulls pull merge_requests archive releases tags branches wiki
    wikis pulse graphs network activity compare actions blame edit find refs info
    """
)
_SOFTWARE_HERITAGE = re.compile(
    r"/(?:swh:1:|browse/(?:swh:|content|revision|release|snapshot|directory)/|api/1/(?:content|revision|directory|"
    r"release|snapshot|raw|vault)/)"
)


_NESTED_FORGE = re.compile(
    r"(?<![\w.@-])(?:https?:/+)?(?:www\.)?(?:github\.com|raw\.githubusercontent\.com|codeload\.github\.com)/+[^/\s]+/[^/\s?#]+/[^\s?#]*"
)
"""An address of a forge inside another: it is decided by itself, with owner and name at their places."""


def opaque(host: str, text: str) -> str:
    """The part of an address that names a repository by nothing but a number or a hash, "" for none."""
    if host == "api.github.com":
        found = re.match(r"/+(?:repositories/+\d+|graphql|networks/+\d+|installation/+repositories)", text)
        return found[0] if found else ""
    if host == "archive.softwareheritage.org":
        found = _SOFTWARE_HERITAGE.match(text)
        if found and "origin_url=" not in text:
            return found[0]
        return ""
    if "/api/v4/projects/" in text:
        found = re.search(r"/api/v4/projects/+\d+", text)
        return found[0] if found else ""
    if host in ("gitlab.com", "gitee.com") and text.startswith("/projects/"):
        found = re.match(r"/projects/+\d+", text)
        return found[0] if found else ""
    return ""


def is_site_search(host: str, path: str) -> bool:
    """Whether a path of a forge or code search is its search over all repositories."""
    return (
        bool(
            re.match(
                r"/+(?:search|explore|browse/search|codesearch|api/search|repositories|pulls|issues|-/search)\b",
                path,
            )
        )
        or ("/search" in path and host.startswith(("api.", "sourcegraph", "codesearch", "gitlab")))
        or (path in ("", "/") and host not in FORGES_OWNER_NAME)
    )


def _clean(part: str) -> str:
    """The name at the beginning of a part of a path, as forges read it."""
    found = _NAME.match(part)
    return _ENDS.sub("", found[0].rstrip(".")) if found else ""


def decide(host: str, path: str, query: str, text: str, names: Names, policy: Policy) -> Decision | None:
    """Whether an address is of the target's repository, of a fork, or of its owner's others (where that is asked)."""
    parts = [part for part in path.split("/") if part]
    exact = _exact(host, parts)
    if exact is not None:
        decision = _slug(exact, names, policy)
        if decision is not None:
            return decision
        rest = query
    else:
        rest = _NESTED_FORGE.sub(" ", text) if "github" in text else text
    found = names.slug.search(rest)
    if found:
        if under(host, CONTAINER_REGISTRIES):
            return Decision(True, "target-container-image", found[0]) if policy.container_images else None
        return Decision(True, "target-repository", found[0])
    if exact is None:
        decision = _inexact(host, parts, names, policy)
        if decision is not None:
            return decision
        joined = names.joined.search(text)
        if joined:
            return Decision(True, "target-repository", joined[0])
    return _parameters(query, names)


def _exact(host: str, parts: list[str]) -> tuple[str, str] | None:
    """Owner and name where a host has one place for them; None where they may stand anywhere.

    ("", "") where a host of this kind shows no repository.
    """
    if host in GITHUB_TEXT:
        return ("", "")
    first = parts[0] if parts else ""
    if host in FORGES_OWNER_NAME:
        if first in RESERVED_OWNERS or first in _MARKERS or len(parts) < 2:
            return None
        if "." in first and first not in ("", ".") and re.match(r"^(?:https?:|[\w-]+(?:\.[\w-]+)+)$", first):
            return None
        return _clean(parts[0]), _clean(parts[1])
    if host in _API:
        if first in _API[host] and len(parts) > 2:
            return _clean(parts[1]), _clean(parts[2])
        return None
    if host in _SHIFTED:
        at = _SHIFTED[host]
        return (_clean(parts[at]), _clean(parts[at + 1])) if len(parts) > at + 1 else ("", "")
    return None


def _slug(slug: tuple[str, str], names: Names, policy: Policy) -> Decision | None:
    owner, name = slug
    if not name:
        return None
    if f"{owner}/{name}" in names.slugs:
        return Decision(True, "target-repository", f"{owner}/{name}")
    if policy.forks and names.fork.match(name):
        return Decision(True, "target-fork", f"{owner}/{name}")
    if policy.owner_repositories and owner in names.owners:
        return Decision(True, "owner-repository", f"{owner}/{name}")
    return None


def _inexact(host: str, parts: list[str], names: Names, policy: Policy) -> Decision | None:
    """Mirrors and self-hosted forges: the target or a fork at the places where those put owner and name."""
    held = [at for at, part in enumerate(parts) if names.named(part)]
    if not held:
        return None
    first = _clean(parts[0])
    label, dot, _ = host.partition(".")
    if dot and label in names.owners and first in names.repositories:
        return Decision(True, "target-pages", f"{host}/{first}")
    for at in held:
        name = _clean(parts[at])
        fork = policy.forks and names.fork.match(name) is not None
        served = parts[at + 1 : at + 2] in (["git-upload-pack"], ["git-receive-pack"])
        if fork and (parts[at].endswith(".git") or served or parts[at + 1 : at + 3] == ["info", "refs"]):
            return Decision(True, "target-fork", parts[at])
        marker = parts[at - 2].partition("@")[0].partition(":")[0] if at > 1 else ""
        if marker in _MARKERS and parts[at - 1] not in RESERVED_OWNERS:
            decision = _slug((_clean(parts[at - 1]), name), names, policy)
            if decision is not None:
                return decision
    if host.endswith(PAGES_PLATFORMS) and policy.forks and names.fork.match(first):
        return Decision(True, "target-fork", f"{host}/{first}")
    if not (_LOOKALIKE.search(host) or _FORGE_LABEL.search(host)):
        return None
    if parts[0] not in RESERVED_OWNERS:
        tab = next((at for at, part in enumerate(parts[:6]) if at and part in _TABS), len(parts))
        for at in held:
            if 0 < at < min(tab, 5):
                decision = _slug((_clean(parts[at - 1]), _clean(parts[at])), names, policy)
                if decision is not None:
                    return decision
    if parts[0] in ("orgs", "users") and any(
        canonical(_clean(parts[at])) in names.sites for at in held if at > 1
    ):
        return Decision(True, "target-repository", "/".join(parts))
    return None


def _parameters(query: str, names: Names) -> Decision | None:
    """Owner and name given as two parameters."""
    if "=" not in query:
        return None
    values = [one.partition("=")[2] for one in re.split(r"[?&#;]", query)]
    for slug in names.slugs:
        owner, _, name = slug.partition("/")
        if owner in values and (name in values or f"{name}.git" in values):
            return Decision(True, "target-repository", slug)
    return None

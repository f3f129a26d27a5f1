"""Links in titles, bodies and comments, and which of them lead outside the repository."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

_URL = re.compile(r"https?://[^\s<>\"'`\]}|\\^]+", re.IGNORECASE)
_SHORT = re.compile(r"(?<![\w/.-])([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:#(\d+)|@([0-9a-f]{7,40}))\b")
_OWN_NUMBER = re.compile(r"(?<![\w/&])(?:#|\bGH-)(\d{1,7})\b", re.IGNORECASE)
_CLOSES = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\s*:?\s+(?:(?P<repo>[\w.-]+/[\w.-]+)?#(?P<number>\d+)"
    r"|(?P<url>https?://\S+?/(?:issues|pull)/\d+))",
    re.IGNORECASE,
)
_FORGES = (
    "github.com",
    "gitlab.com",
    "bitbucket.org",
    "codeberg.org",
    "raw.githubusercontent.com",
    "api.github.com",
)


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NOISE = _set(
    "travis-ci.org travis-ci.com app.travis-ci.com codecov.io coveralls.io ci.appveyor.com circleci.com "
    "app.circleci.com img.shields.io badge.fury.io snyk.io app.snyk.io dependabot.com renovatebot.com "
    "pre-commit.ci results.pre-commit.ci sonarcloud.io lgtm.com pyup.io user-images.githubusercontent.com "
    "camo.githubusercontent.com cla-assistant.io gitpod.io localhost 127.0.0.1 www.w3.org "
    "githubstatus.com help.github.com docs.github.com guides.github.com avatars.githubusercontent.com "
    "dev.azure.com dependabot-badges.githubapp.com opencollective.com "
)


def urls(text: str) -> tuple[str, ...]:
    """The URLs of a text, each once, without the punctuation that follows them."""
    found = []
    for match in _URL.finditer(text):
        url = match[0].rstrip(".,;:!?*_")
        while url.endswith(")") and url.count(")") > url.count("("):
            url = url[:-1].rstrip(".,;:!?")
        found.append(url)
    return tuple(dict.fromkeys(found))


def outside(
    text: str, repo: str, aliases: Iterable[str] = (), docs_hosts: Iterable[str] = ()
) -> tuple[str, ...]:
    """Links of a text that lead outside ``owner/name``: URLs and ``other/repo#12`` (as URLs).

    Not outside: the repository under any of its names, its documentation, services that report on it (CI, coverage,
    badges), uploaded pictures, people, example hosts.
    """
    own = {name.lower() for name in (repo, *aliases)}
    docs = tuple(host.lower() for host in docs_hosts)
    found = [url for url in urls(text) if _is_outside(url, own, docs)]
    for name, number, commit in _SHORT.findall(_URL.sub(" ", text)):
        if name.lower() not in own:
            found.append(f"https://github.com/{name}/{f'issues/{number}' if number else f'commit/{commit}'}")
    return tuple(dict.fromkeys(found))


def issue_numbers(text: str, repo: str) -> tuple[int, ...]:
    """Issues of the repository that a text says it closes; in the order they are named."""
    found = []
    for match in _CLOSES.finditer(text):
        if match["url"]:
            parts = urlsplit(match["url"]).path.strip("/").split("/")
            if "/".join(parts[:2]).lower() == repo.lower():
                found.append(int(parts[-1]))
        elif match["repo"] is None or match["repo"].lower() == repo.lower():
            found.append(int(match["number"]))
    return tuple(dict.fromkeys(found))


def own_numbers(text: str) -> tuple[int, ...]:
    """Bare ``#12`` of a text."""
    return tuple(dict.fromkeys(int(number) for number in _OWN_NUMBER.findall(_URL.sub(" ", text))))


def _is_outside(url: str, own: set[str], docs: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower().removeprefix("www.")
    except ValueError:
        return False
    path = [part.lower() for part in parts.path.split("/") if part]
    if "." not in host or host in _NOISE or host.endswith((".example", ".invalid", ".test", ".local")):
        return False
    if host in ("example.com", "example.org", "example.net"):
        return False
    where = "/".join([host, *path])
    if any(where == doc or where.startswith((f"{doc}/", f"{doc}:")) for doc in docs):
        return False
    if host in _FORGES:
        path = path[1:] if path[:1] in (["repos"], ["repositories"]) else path
        if len(path) < 2 or path[0] in ("apps", "settings", "marketplace", "users", "orgs", "sponsors"):
            return False  # a person or a service, no artifact
        return "/".join((path[0], path[1].removesuffix(".git"))) not in own
    owner = {name.partition("/")[0] for name in own}
    if host.endswith(".github.io") and host.removesuffix(".github.io") in owner:
        return not path or path[0] not in {name.partition("/")[2] for name in own}
    return True

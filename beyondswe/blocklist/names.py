"""The names of a target, compiled once: its slugs, distributions and documentation hosts as patterns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from beyondswe.blocklist.types import Target

ARCHIVE = (
    r"(?:tar(?:\.(?:gz|bz2|xz|zst|lz|lzma|Z))?|tgz|tbz2?|txz|zip|whl|egg|conda|deb|rpm|apk|pkg\.tar(?:\.\w+)?|exe|msi|"
    r"dsc|orig\.tar(?:\.\w+)?|nupkg|crate|7z|tar\.gz)"
)
_FORK_WORDS = (
    "fork|forked|forks|mirror|mirrored|clone|cloned|copy|backup|bak|upstream|orig|original|patched|feedstock"
)
_PREFIXES = ("python3-", "python2-", "python-", "py3-", "py2-", "py-", "pypy3-", "pypy-", "py27-", "lib")
_SUFFIXES = ("-doc", "-docs", "-dbg", "-python", "-py", "-python3")
_SEPARATORS = re.compile(r"[-_.]+")


def canonical(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return _SEPARATORS.sub("-", name.strip().lower()).strip("-")


def bare(name: str) -> str:
    """A canonical name without what operating systems put around the names of Python packages."""
    name = canonical(name)
    name = re.sub(r"^(?:pypy|py(?:thon)?)\d*-", "", name)
    return re.sub(r"-(?:docs?|dbg|common|src|source)$", "", name)


@dataclass(frozen=True, slots=True)
class Names:
    """What a target is called, ready to be compared."""

    slugs: frozenset[str]
    owners: frozenset[str]
    repositories: frozenset[str]
    """Names of the repository, lower case."""
    distributions: frozenset[str]
    """Canonical names on package indexes."""
    sites: frozenset[str]
    """Canonical names under which documentation is served: distributions and repository names."""
    docs: tuple[tuple[str, str], ...]
    """Hosts of documentation with the beginning of their path ("" for the whole host)."""
    docs_by_name: bool
    """Whether documentation hosts are guessed by name, because the instance names none."""
    hint: re.Pattern[str]
    """Matches every text in which any of the names could stand: the quick way out."""
    needles: tuple[str, ...]
    """Plain pieces, one of which stands in every text that `hint` matches."""
    slug: re.Pattern[str]
    """owner/name in a text, bounded on both sides."""
    fork: re.Pattern[str]
    """A repository name that is a fork's."""
    file: re.Pattern[str]
    """A file name of a release of the target."""
    joined: re.Pattern[str]
    """Owner and name as one part of a path or one parameter, the way analysis services call projects."""
    word: re.Pattern[str]
    """The name of the target as a word of a search."""
    scoped: re.Pattern[str]
    """A search limited to the owner of the target."""

    def named(self, text: str) -> bool:
        """Whether any of the names could stand in a text: quick, and never wrongly no."""
        return any(needle in text for needle in self.needles)


def _loose(name: str) -> str:
    """A pattern for a distribution's name in any of its spellings."""
    return r"[-_.]+".join(re.escape(part) for part in canonical(name).split("-"))


def guessed(repository: str) -> tuple[str, ...]:
    """The distributions of a repository that names none: its name, and its name without "python" around it."""
    name = canonical(repository.removesuffix(".git"))
    rest = re.sub(r"^(?:python|py)-|-(?:python|py)$", "", name)
    return (name, rest) if len(rest) > 2 and rest != name else (name,)


@lru_cache(maxsize=1024)
def names_of(target: Target) -> Names:
    """The compiled names of a target."""
    slugs: list[tuple[str, str]] = []
    loose_names: list[str] = []
    for called in (target.repo, *target.aliases):
        text = re.sub(r"^(?:https?://)?(?:www\.)?(?:github|gitlab)\.com/", "", called.strip().lower())
        owner, slash, name = text.strip("/").removesuffix(".git").rpartition("/")
        if slash and owner and name:
            slugs.append((owner, name))
        elif name:
            loose_names.append(name)
    repositories = frozenset([name for _, name in slugs] + loose_names)
    distributions = frozenset(
        filter(None, map(canonical, target.distributions))
        if target.distributions
        else (guess for name in repositories for guess in guessed(name))
    )
    sites = distributions | frozenset(map(canonical, repositories))
    docs = tuple(_docs_host(one) for one in target.docs_hosts if one.strip())
    pairs = "|".join(
        rf"{re.escape(owner)}(?:/+(?:-/+)?|\s*/\s*){re.escape(name)}" for owner, name in dict.fromkeys(slugs)
    )
    joined = "|".join(rf"{re.escape(o)}[-_:.]{re.escape(n)}" for o, n in dict.fromkeys(slugs))
    any_name = "|".join(sorted({_loose(one) for one in sites | repositories if one}, key=len, reverse=True))
    extra = "|".join(re.escape(host) for host, _ in docs)
    owners = frozenset(owner for owner, _ in slugs)
    plain = "|".join(re.escape(name) for name in repositories)
    never = "(?!)"
    ends = r"(?:\.(?:git|wiki|atom|zip|tar|tar\.gz|tgz|json|svg|png|html?|md|rss|xml|diff|patch|ipynb|pdf|txt|bundle))*"
    edge = rf"{ends}(?![\w-]|\.\w)"
    return Names(
        slugs=frozenset(f"{owner}/{name}" for owner, name in slugs),
        owners=owners,
        repositories=repositories,
        distributions=distributions,
        sites=sites,
        docs=docs,
        docs_by_name=not docs,
        hint=re.compile("|".join(filter(None, [any_name, extra])) or never, re.ASCII),
        needles=_needles([*sites, *repositories, *(host for host, _ in docs)]),
        slug=re.compile(
            rf"(?<![\w.-])(?:{pairs}){edge}|github\.com[-_:.](?:{joined})(?![a-z])" if slugs else never,
            re.ASCII,
        ),
        fork=re.compile(
            rf"^(?:(?:{plain})(?:[-_.](?:{_FORK_WORDS}))?(?:-\d{{1,2}})?|(?:{joined or never})(?:-\d{{1,2}})?|"
            rf"(?:{_FORK_WORDS})[-_.](?:of[-_.])?(?:{plain}))$"
            if plain
            else never,
            re.ASCII,
        ),
        file=re.compile(
            rf"(?<![\w.-])(?:py(?:py|thon)?\d*-)?(?:{any_name})(?:-docs?|-dbg)?"
            rf"(?:[-_]v?\d[\w.+!~-]*?\.{ARCHIVE}|[-_](?:main|master|dev|develop|trunk|latest|head)\.{ARCHIVE}|"
            rf"\.(?:tar\.\w+|tgz|whl|egg))(?![\w])"
            rf"|(?<![\w.-])(?:{joined or never})-[0-9a-f]{{7,40}}\b"
            if any_name
            else never,
            re.ASCII | re.IGNORECASE,
        ),
        joined=re.compile(rf"[/=](?:{joined or never})(?=[/?&#]|$)", re.ASCII),
        word=re.compile(rf"(?<![\w.-])(?:{any_name})(?![\w-]|\.\w)" if any_name else never, re.ASCII),
        scoped=re.compile(
            rf"(?:org|user|owner|group)(?::|=|%3a)[\"']?(?:{'|'.join(map(re.escape, owners))})(?![\w-])"
            if owners
            else never,
            re.ASCII,
        ),
    )


def _needles(called: list[str]) -> tuple[str, ...]:
    """The longest piece of each name, where separators may be written in several ways."""
    pieces = {max(re.split(r"[-_.]+", one), key=len) for one in called if one}
    return tuple(sorted(one for one in pieces if one))


def _docs_host(text: str) -> tuple[str, str]:
    """Host and beginning of the path of an entry of ``docs_hosts``."""
    text = re.sub(r"^[a-z]+://", "", text.strip().lower())
    host, _, path = text.partition("/")
    return host.partition(":")[0].removeprefix("www.").rstrip("."), path.strip("/")

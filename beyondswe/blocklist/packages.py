"""What an address of a package index, or of an operating system's archive, asks for."""

from __future__ import annotations

import re

from beyondswe.blocklist.address import NotAnAddress, parse
from beyondswe.blocklist.hosts import DISTRIBUTION_SITES, PACKAGE_SITES, under, words
from beyondswe.blocklist.names import ARCHIVE, Names, bare, canonical

_ANY_HOST = frozenset(("simple", "+simple", "pypi", "pip", "dev-python", "rpms", "feedstocks"))
"""Parts of a path that are followed by a distribution's name, whatever the host."""
_SITE_WORDS = frozenset(
    ("project", "projects", "package", "packages", "pkg", "pkgs", "python", "py", "p", "integrity")
)
_OTHER_LANGUAGES = words(
    """
    npm npm-package npmjs cargo crates crate gems gem rubygems maven nuget go golang hex packagist composer
    cocoapods cran hackage opam pub swift deno jsr conan cpan luarocks elm bower julia dart wordpress drupal
    """
)
_OTHER_HOSTS = re.compile(
    r"npmjs|npm\.|yarnpkg|crates\.io|rubygems|nuget|packagist|hex\.pm|maven|hackage|jsr\.io|pub\.dev|cpan|unpkg|luarocks"
)
_INDEX_HOST = re.compile(r"(?:^|[.-])(?:test)?(?:pypi|pip|pipy|cheeseshop|devpi|wheels)(?:[.-]|$)|pypi")
_DISTRIBUTION_PATH = re.compile(
    r"/(?:pool/(?:[\w.-]+/)?(?:lib)?[a-z0-9]|dists/|src|\+source|source|dev-python|rpms?|packages|pkgs?|ports|aports|"
    r"srpms|os/packages)(?=/)"
)
_SDIST = re.compile(
    rf"^(.+?)[-_]v?(\d[\w.+!~]*?(?:-\d+)?(?:-py\d[\w.-]*)?)\.{ARCHIVE}(?:\.(?:metadata|asc|sig|provenance))?$",
    re.ASCII | re.I,
)
_WHEEL = re.compile(
    r"^([A-Za-z0-9_.]+?)-([^-]+)(?:-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl(?:\.metadata|\.asc)?$", re.I
)
_SIMPLE = re.compile(r"/(?:\+simple|simple)/+([^/?#]+)/*$")
_API = re.compile(r"/pypi/+([^/?#]+)/+(?:[^/]+/+)?json/*$")
_PAGE = re.compile(r"^/+(?:project|integrity|rss/project)/+([^/?#]+)")


def is_index_path(path: str) -> bool:
    """Whether a path is one that clients of a Python package index ask: its list, a project's list, its JSON."""
    path = path.lower()
    return bool(re.search(r"/(?:\+simple|simple)/*$", path) or _SIMPLE.search(path) or _API.search(path))


def file_distribution(name: str) -> str | None:
    """The canonical distribution of a release file's name (sdist, wheel, egg, their metadata), None for others."""
    wheel = _WHEEL.match(name)
    if wheel:
        return canonical(wheel[1])
    system = re.match(
        r"^([\w.+-]+?)_[^_]+(?:_[^_]+)?\.(?:deb|dsc|orig\.tar\.\w+|debian\.tar\.\w+)$", name, re.I
    )
    if system:
        return canonical(system[1])
    if re.search(r"\.(?:conda|rpm)$", name, re.I):
        return canonical(name.rsplit("-", 2)[0])
    source = _SDIST.match(name)
    return canonical(source[1]) if source else None


def package_of(url: str) -> str | None:
    """The canonical distribution that an address asks an index, its API or its file host for; None for others.

    Goes by the shape of the path, whatever the host, so that mirrors are read too.
    """
    try:
        address = parse(url)
    except NotAnAddress:
        return None
    path = address.text.partition("?")[0].partition("#")[0]
    for shape in (_SIMPLE, _API, _PAGE):
        found = shape.search(path)
        if found:
            return file_distribution(found[1]) or canonical(found[1])
    return file_distribution(path.rstrip("/").rpartition("/")[2])


def is_package_host(host: str) -> bool:
    """Whether a host keeps pages on Python packages, by its table or by its name."""
    return under(host, PACKAGE_SITES) or bool(_INDEX_HOST.search(host))


def page(host: str, path: str, query: str, names: Names) -> str:
    """The part of an address that asks a package site or a distribution for the target, "" for none."""
    if _OTHER_HOSTS.search(host):
        return ""
    parts = [part for part in path.split("/") if part]
    site = is_package_host(host)
    system = under(host, DISTRIBUTION_SITES) and not host.startswith(
        ("wiki.", "lists.", "planet.", "forum.", "forums.")
    )
    system = system or bool(_DISTRIBUTION_PATH.search(path) and "/pool/" in path)
    for at, part in enumerate(parts):
        before = parts[at - 1] if at else ""
        if before in _OTHER_LANGUAGES:
            return ""
        if not names.named(part):
            continue
        name = canonical(
            re.sub(r"\.(?:json|html?|xml|rss|svg|atom|git)$", "", part.partition("@")[0].partition(";")[0])
        )
        plain = name in names.distributions or (
            site and re.sub(r"^(?:python|pypi|py|pip)[:=]+", "", part) in names.distributions
        )
        if plain and (before in _ANY_HOST or site or (before == "project" and at == 1)):
            return part
        if system and (plain or bare(name) in names.distributions):
            return part
        if before == "dev-python" and bare(name) in names.distributions:
            return part
    if site or system:
        for value in re.findall(
            r"[?&;](?:name|package|pkg|project|q|query|keywords|search|src|searchon)=([^&#;]+)", query
        ):
            if canonical(value) in names.distributions or (system and bare(value) in names.distributions):
                return str(value)
    return ""

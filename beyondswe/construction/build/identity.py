"""What a repository is called elsewhere: its distributions, what they are imported as, where its documentation is."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name

from beyondswe.construction.build.facts import Facts, Tree
from beyondswe.construction.collect.names import find_names

_EVERYBODYS = re.compile(
    r"(^|\.)(github\.com|gitlab\.com|bitbucket\.org|pypi\.org|python\.org|launchpad\.net|sourceforge\.net|"
    r"google\.com|gitter\.im|slack\.com|discord\.gg|twitter\.com|x\.com|travis-ci\.(org|com)|codecov\.io|"
    r"coveralls\.io|anaconda\.org|stackoverflow\.com|patreon\.com|tidelift\.com|zenodo\.org|doi\.org|shields\.io)$"
)
_SHARED = (
    "readthedocs.io",
    "readthedocs.org",
    "rtfd.io",
    "rtfd.org",
    "github.io",
    "gitlab.io",
    "netlify.app",
)


@dataclass(frozen=True)
class Names:
    """What else an instance's target is called; the words as `collect.names.Names` has them."""

    distributions: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    docs_hosts: tuple[str, ...] = ()


def names_of(repo: str, folder: Path, facts: Facts) -> Names:
    """The names of ``owner/name``, whose files lie in ``folder``."""
    tree = Tree(folder)
    told = find_names(repo, tree.glob("*"), tree.read)
    distributions = (facts.name,) if facts.name else told.distributions
    modules = tuple(
        dict.fromkeys(name for name in facts.packages or packages_of(folder) if name.isidentifier())
    )
    called = {canonicalize_name(name) for name in (*distributions, repo.partition("/")[2], *modules) if name}
    return Names(distributions, modules, told.aliases, tuple(_hosts(tree, facts, called)))


_NO_PACKAGES = {
    "tests",
    "test",
    "testing",
    "docs",
    "doc",
    "examples",
    "example",
    "benchmarks",
    "scripts",
    "tools",
}
_NO_PACKAGES |= {"setup", "conftest", "noxfile", "build", "tasks", "fabfile", "ci", "misc", "bench", "demo"}


def packages_of(tree: Path) -> list[str]:
    """Top-level folders that are packages, for a repository that does not list them."""
    found: list[str] = []
    for root in ("src", ""):
        folder = tree / root
        if folder.is_dir():
            found += [path.parent.name for path in sorted(folder.glob("*/__init__.py"))]
        if found:
            break
    return [name for name in found if name not in _NO_PACKAGES]


def _hosts(tree: Tree, facts: Facts, names: Collection[str]) -> list[str]:
    """Hosts of its own, and those on hosts of everybody's documentation that bear its name."""
    hosts = []
    for url in facts.urls.values():
        host = (urlsplit(url).hostname or "").lower()
        if host and "." in host and not _EVERYBODYS.search(host) and host not in _SHARED:
            hosts.append(host)
    pattern = rf"https?://([\w-]+)\.({'|'.join(map(re.escape, _SHARED))})"
    for name in tree.glob("README*"):
        hosts += [
            f"{match[1].lower()}.{match[2]}"
            for match in re.finditer(pattern, tree.read(name) or "")
            if canonicalize_name(match[1]) in names
        ]
    return list(dict.fromkeys(hosts))

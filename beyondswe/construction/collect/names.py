"""What a target is called, read from its packaging metadata; nothing of the repository is run."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_FORGES = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org")
_NO_DOCS = (
    *_FORGES,
    "discord.gg",
    "discord.com",
    "twitter.com",
    "x.com",
    "gitter.im",
)


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NO_PACKAGE = _set(
    "test tests testing doc docs example examples benchmark benchmarks script scripts tool tools build "
    "dist ci "
)
_NO_MODULE = re.compile(r"setup|conftest|tasks|noxfile|tests?|test_.*|.*_tests?|docs?|examples?|benchmarks?")


@dataclass(frozen=True)
class Names:
    """``distributions`` on a package index, ``modules`` that are imported, other ``owner/name`` of the repository
    (``aliases``), and where its documentation is.
    """

    distributions: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    docs_hosts: tuple[str, ...] = ()


def find_names(repo: str, paths: Iterable[str], read: Callable[[str], str | None]) -> Names:
    """The names of ``owner/name``. ``paths`` are the files of its tree, ``read`` gives a file's text.

    Distributions come from pyproject.toml (project, poetry, flit), setup.cfg, setup.py (its syntax tree), PKG-INFO;
    modules are the packages and modules at the top and under ``src`` or ``lib``.
    """
    listed = list(paths)
    top = {path for path in listed if "/" not in path}
    facts = [
        parse(read(name) or "")
        for name, parse in (
            ("pyproject.toml", _pyproject),
            ("setup.cfg", _setup_cfg),
            ("setup.py", _setup_py),
            ("PKG-INFO", _pkg_info),
        )
        if name in top
    ]
    urls = [url for _, found in facts for url in found]
    return Names(
        distributions=_once([name for names, _ in facts for name in names], _normal),
        modules=tuple(_modules(listed)),
        aliases=_once(_aliases(repo, urls), str.lower),
        docs_hosts=_once(_docs(urls), str.lower),
    )


_Facts = tuple[list[str], list[str]]  # names, URLs


def _pyproject(text: str) -> _Facts:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return [], []
    project = _table(content, "project")
    poetry, flit = _table(content, "tool", "poetry"), _table(content, "tool", "flit", "metadata")
    names = [project.get("name"), poetry.get("name"), flit.get("dist-name") or flit.get("module")]
    urls = [
        *_table(project, "urls").values(),
        *_table(poetry, "urls").values(),
        *_table(flit, "urls").values(),
    ]
    urls += [poetry.get(key) for key in ("homepage", "repository", "documentation")] + [flit.get("home-page")]
    return _texts(names), _texts(urls)


def _setup_cfg(text: str) -> _Facts:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return [], []
    metadata = dict(parser["metadata"]) if parser.has_section("metadata") else {}
    name = metadata.get("name", "")
    names = [name] if name and not name.startswith(("attr:", "file:")) else []
    return _texts(names), re.findall(r"https?://[^\s,]+", " ".join(f"{value}" for value in metadata.values()))


def _setup_py(text: str) -> _Facts:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        match = re.search(r"""\bname\s*=\s*['"]([\w.-]+)['"]""", text)  # Python 2
        return ([match[1]] if match else []), re.findall(r"https?://[^\s'\",)]+", text)
    constants = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }
    names, urls = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node.func) == "setup":
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            names.append(_value(given.get("name"), constants))
            urls.append(_value(given.get("url"), constants))
            links = given.get("project_urls")
            urls += (
                [_value(value, constants) for value in links.values] if isinstance(links, ast.Dict) else []
            )
    if not any(names):  # setup(**metadata)
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                words = {str(key.value): value for key, value in pairs if isinstance(key, ast.Constant)}
            elif isinstance(node, ast.Call) and _called(node.func) in ("dict", "update"):
                words = {str(keyword.arg): keyword.value for keyword in node.keywords}
            else:
                continue
            if "name" in words and "version" in words:
                names.append(_value(words["name"], constants))
    return _texts(names), _texts(urls)


def _pkg_info(text: str) -> _Facts:
    head = text.partition("\n\n")[0]
    urls = re.findall(r"^(?:Home-page|Project-URL|Download-URL): .*?(https?://\S+)", head, re.MULTILINE)
    return re.findall(r"^Name: (\S+)", head, re.MULTILINE), urls


def _called(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _value(node: ast.expr | None, constants: dict[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return constants.get(node.id) if isinstance(node, ast.Name) else None


def _modules(paths: list[str]) -> Iterable[str]:
    """Packages and modules that an installation would have, by where they lie."""
    found: dict[str, None] = {}
    for root in ("src/", "lib/", ""):
        here = [path.removeprefix(root) for path in paths if path.startswith(root)]
        for path in here:
            package, _, rest = path.partition("/")
            if rest == "__init__.py" and package.isidentifier() and package not in _NO_PACKAGE:
                found[package] = None
        if found:
            break
    for root in ("src/", "") if not found else ():
        for path in (path.removeprefix(root) for path in paths if path.startswith(root)):
            name = path.removesuffix(".py")
            if path.endswith(".py") and name.isidentifier() and not _NO_MODULE.fullmatch(name):
                found[name] = None
        if found:
            break
    return found


def _aliases(repo: str, urls: Iterable[str]) -> Iterable[str]:
    """Other ``owner/name`` that the metadata calls the repository: one that moved, or whose fork this is."""
    for url in urls:
        parts = urlsplit(url)
        path = [part for part in parts.path.split("/") if part]
        if (parts.hostname or "").removeprefix("www.") in _FORGES and len(path) >= 2:
            other = f"{path[0]}/{path[1].removesuffix('.git')}"
            if other.lower() != repo.lower() and path[0] not in ("sponsors", "users", "orgs"):
                yield other


def _docs(urls: Iterable[str]) -> Iterable[str]:
    for url in urls:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        if not host or any(host == known or host.endswith(f".{known}") for known in _NO_DOCS):
            continue
        if "pypi" in host.split(".") or parts.path.startswith(("/project/", "/pypi/")):
            continue  # its page on a package index
        own = host.endswith((".readthedocs.io", ".readthedocs.org", ".rtfd.org", ".rtfd.io"))
        first = [part for part in parts.path.split("/") if part][:2]
        shared = host.endswith((".github.io", ".gitlab.io")) or (first[:1] == ["projects"])
        yield (
            host
            if own or not first or not shared
            else "/".join([host, *first[: 2 if first[0] == "projects" else 1]])
        )


def _table(content: Any, *names: str) -> dict[str, Any]:
    for name in names:
        content = content.get(name) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else {}


def _texts(values: Iterable[Any]) -> list[str]:
    return [value.strip() for value in values if isinstance(value, str) and value.strip()]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _once(values: Iterable[str], key: Callable[[str], str]) -> tuple[str, ...]:
    return tuple({key(value): value for value in reversed(list(values))}.values())[::-1]

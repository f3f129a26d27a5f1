"""What is missing, read from what failed: one remedy a cause, each with the words that it was read from."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from packaging.utils import canonicalize_name

from beyondswe.construction.build import known, known_debian


class Kind(StrEnum):
    """What a remedy does."""

    REQUIRE = "require"  # a Python package is added, or its version limited
    DROP = "drop"  # a requirement that cannot be had is left out
    LATER = "later"  # a package is taken from a later day: what is asked for came out after it
    SYSTEM = "system"  # a Debian package is added
    BUILD = "build"  # a build tool is limited while packages are built
    OLDER_PYTHON = "older Python"
    NEWER_PYTHON = "newer Python"


@dataclass(frozen=True)
class Remedy:
    """One thing to change before the next try."""

    kind: Kind
    what: str  # a requirement, Debian packages or a Python version
    why: str  # what the failure said


@dataclass(frozen=True)
class Known:
    """What is known of an environment when it fails."""

    python: str
    modules: Collection[str] = ()  # top-level names of the repository itself
    said: Mapping[str, str] = ()  # type: ignore[assignment]  # name → a requirement that the repository says
    pins: Mapping[str, str] = ()  # type: ignore[assignment]  # name → installed version


_NETWORK = re.compile(
    r"error sending request|client error \(Connect\)|operation timed out|dns error|Temporary failure (?:in|resolving)"
    r"|Connection (?:reset|refused|timed out|broken)|Read timed out|ConnectTimeout|Could not connect to"
    r"|Name or service not known|Failed to fetch .*(?:timed? ?out|50\d)|NewConnectionError|IncompleteRead"
    r"|50[234] (?:Bad Gateway|Service|Gateway)|status server error|Network is unreachable"
)


def is_of_the_network(log: str) -> bool:
    """Whether an installation failed because something did not answer: the same may go through the next time."""
    return bool(_NETWORK.search(log))


def tests_failed(log: str, environment: Known) -> list[Remedy]:
    """Remedies for a run of the tests that did not come to its end, or whose tests could not run."""
    found = [
        *_modules(log, environment),
        *_names(log, environment),
        *_plugins(log, environment),
        *_programs(log),
        *_pythons(log, environment),
    ]
    return _once(found)


def install_failed(log: str, environment: Known) -> list[Remedy]:
    """Remedies for packages that could not be resolved, built or installed."""
    found: list[Remedy] = [*_resolution(log, environment), *_builds(log, environment)]
    if not found:
        found = [*_programs(log), *_modules(log, environment)]
    return _once([*found, *_pythons(log, environment)])


def _once(found: list[Remedy]) -> list[Remedy]:
    first: dict[tuple[Kind, str], Remedy] = {}
    for remedy in found:
        first.setdefault((remedy.kind, remedy.what), remedy)
    return list(first.values())


# Python packages


def package_of(module: str, environment: Known) -> str:
    """The requirement that gives a module: as the repository says it, else by name; "" where none is known."""
    top = module.partition(".")[0]
    if module.count(".") and f"{top}.{module.split('.')[1]}" in known.PACKAGE_OF_MODULE:
        top = f"{top}.{module.split('.')[1]}"
    name = known.PACKAGE_OF_MODULE.get(top, known.PACKAGE_OF_MODULE.get(top.partition(".")[0]))
    if name == "":
        return ""
    spellings = [name, top, top.replace("_", "-"), f"python-{top}", f"py{top}"]
    for spelling in filter(None, spellings):
        if requirement := environment.said.get(canonicalize_name(spelling)):
            return requirement
    return name or top.partition(".")[0].replace("_", "-")


def _modules(log: str, environment: Known) -> Iterator[Remedy]:
    pattern = r"(?:ModuleNotFoundError|ImportError): No module named '?\"?([A-Za-z_][\w.]*)'?\"?"
    for match in re.finditer(pattern, log):
        module = match[1]
        top = module.partition(".")[0]
        if top in environment.modules or _is_standard(module, environment.python):
            continue
        if limit := _too_new(module.rpartition(".")[0], module.rpartition(".")[2]) or _too_new(module, "*"):
            yield Remedy(Kind.REQUIRE, limit, match[0])
        elif package := package_of(module, environment):
            yield Remedy(Kind.REQUIRE, package, match[0])
    for match in re.finditer(
        r"(?:requires? that you install|install|requires?) (?:the )?[`'\"]?([A-Za-z][\w-]+)[`'\"]?"
        r"(?: package)? (?:to use|to run|package|library|is not installed)",
        log,
    ):
        name = canonicalize_name(match[1])
        if name in environment.said and name not in environment.pins:
            yield Remedy(Kind.REQUIRE, environment.said[name], match[0])


_STANDARD_LATER = {"dataclasses": (3, 7), "contextvars": (3, 7), "zoneinfo": (3, 9), "graphlib": (3, 9)}
_STANDARD_LATER |= {"importlib.resources": (3, 7), "importlib.metadata": (3, 8), "tomllib": (3, 11)}


def _is_standard(module: str, python: str) -> bool:
    """Whether a module is, was or will be of Python itself: no package of that name helps."""
    import sys

    top = module.partition(".")[0]
    later = _STANDARD_LATER.get(module) or _STANDARD_LATER.get(top)
    if later is not None:
        # dataclasses and contextvars have a package for the Python before them
        return top not in ("dataclasses", "contextvars") or tuple(map(int, python.split("."))) >= later
    gone = {"imp", "distutils", "asyncore", "asynchat", "smtpd", "binhex", "formatter", "parser", "symbol"}
    python2 = {"StringIO", "cStringIO", "urllib2", "urlparse", "ConfigParser", "Queue", "cPickle", "httplib"}
    python2 |= {"Tkinter", "__builtin__", "commands", "HTMLParser", "itertools", "SocketServer", "thread"}
    gone |= {"cgi", "cgitb", "crypt", "imghdr", "telnetlib", "pipes", "sndhdr", "uu", "xdrlib", "nntplib"}
    gone |= {"lib2to3", "audioop", "aifc", "chunk", "sunau", "mailcap", "test"}
    return top in sys.stdlib_module_names or top in gone or top in python2


def _names(log: str, environment: Known) -> Iterator[Remedy]:
    """Names that a package no longer has."""
    patterns = (
        r"ImportError: cannot import name '?(?P<name>\w+)'? from (?:partially initialized module )?"
        r"'(?P<module>[\w.]+)'",
        r"AttributeError: (?:partially initialized )?module '(?P<module>[\w.]+)' has no attribute "
        r"'(?P<name>\w+)'",
    )
    for pattern in patterns:
        for match in re.finditer(pattern, log):
            module, name = match["module"], match["name"]
            if module.partition(".")[0] in environment.modules or _is_standard(module, environment.python):
                continue
            limit = _too_new(module, name)
            if not limit:
                package = package_of(module, environment)
                limit = _below(canonicalize_name(re.split(r"[\[<>=!~;\s]", package)[0]), environment)
            if limit:
                yield Remedy(Kind.REQUIRE, limit, match[0])


def _too_new(module: str, name: str) -> str:
    found = known.TOO_NEW.get((module, name)) or known.TOO_NEW.get((module, "*"))
    return found or ""


def _below(name: str, environment: Known) -> str:
    """A limit below the installed version's first number that is not 0: before its last great change."""
    version = environment.pins.get(name, "")
    numbers = re.findall(r"\d+", version)
    if not numbers:
        return ""
    if numbers[0] != "0":
        return f"{name}<{numbers[0]}" if len(numbers) < 2 or numbers[1] == "0" else f"{name}<{version}"
    return f"{name}<{version}"


def _plugins(log: str, environment: Known) -> Iterator[Remedy]:
    for match in re.finditer(r"fixture '(\w+)' not found", log):
        if package := _said(known.PACKAGE_OF_FIXTURE.get(match[1], ""), environment):
            yield Remedy(Kind.REQUIRE, package, match[0])
    for match in re.finditer(r"error: unrecognized arguments: (.*)", log):
        for word in match[1].split():
            if package := _said(_of_option(word), environment):
                yield Remedy(Kind.REQUIRE, package, match[0])
    marks = r"(?:Unknown pytest\.mark\.(\w+)|'(\w+)' not found in `?markers`? configuration)"
    for match in re.finditer(marks, log):
        if package := _said(known.PACKAGE_OF_MARK.get(match[1] or match[2], ""), environment):
            yield Remedy(Kind.REQUIRE, package, match[0])
    for match in re.finditer(
        r"(?:async def functions are not natively supported|asyncio.*not supported)", log
    ):
        if not {"pytest-asyncio", "anyio", "pytest-trio"} & set(environment.pins):
            yield Remedy(Kind.REQUIRE, _said("pytest-asyncio", environment), match[0])
    for match in re.finditer(r"Unknown config (?:option|ini key): (\w[\w-]*)", log):
        if package := _said(known.PACKAGE_OF_INI.get(match[1], ""), environment):
            yield Remedy(Kind.REQUIRE, package, match[0])
    for match in re.finditer(r"Missing required plugins: (.*)", log):
        for name in re.split(r",\s*", match[1].strip()):
            yield Remedy(Kind.REQUIRE, name, match[0])
    for match in re.finditer(
        r"requires pytest-([0-9][\w.]*)|requires a? ?minimum pytest version ([\d.]+)", log
    ):
        yield Remedy(Kind.LATER, f"pytest>={match[1] or match[2]}", match[0])
    for match in re.finditer(r"Error importing plugin \"([\w.]+)\": No module named '([\w.]+)'", log):
        yield Remedy(Kind.REQUIRE, package_of(match[2], environment), match[0])
    if found := re.search(r"\[pytest\] section in setup\.cfg files is no longer supported", log):
        yield Remedy(Kind.REQUIRE, "pytest<4", found[0])
    if found := re.search(r"yield tests were removed in pytest 4\.0", log):
        yield Remedy(Kind.REQUIRE, "pytest<4", found[0])
    if found := re.search(r"Fixture \"?'?\w+\"?'? called directly|has no attribute 'get_marker'", log):
        yield Remedy(Kind.REQUIRE, "pytest<4", found[0])
    if found := re.search(r"module 'pytest' has no attribute 'config'|'cached_setup'", log):
        yield Remedy(Kind.REQUIRE, "pytest<4", found[0])
    if found := re.search(r"PytestRemovedIn(\d)Warning", log):
        yield Remedy(Kind.REQUIRE, f"pytest<{found[1]}", found[0])
    hooks = (
        r"PluginValidationError: unknown hook '?(\w+)'? in plugin|Argument\(s\) \{'[\w, ']+'\} are declared"
    )
    if found := re.search(hooks, log):
        yield Remedy(Kind.REQUIRE, _below("pytest", environment), found[0])


def _said(requirement: str, environment: Known) -> str:
    """A package as the repository says it, where it does."""
    if not requirement:
        return ""
    return environment.said.get(canonicalize_name(re.split(r"[<>=]", requirement)[0]), requirement)


def _of_option(word: str) -> str:
    name = word.partition("=")[0]
    if found := known.PACKAGE_OF_OPTION.get(name):
        return found
    for beginning, package in known.PACKAGE_OF_OPTION.items():
        if beginning.startswith("--") and name.startswith(f"{beginning}-"):
            return package
    return ""


# Debian packages


def _programs(log: str) -> Iterator[Remedy]:
    for match in re.finditer(r"fatal error: ([\w./+-]+\.h(?:pp)?): No such file or directory", log):
        for header, package in known_debian.DEBIAN_OF_HEADER.items():
            if match[1] == header or match[1].endswith(f"/{header}"):
                yield Remedy(Kind.SYSTEM, package, match[0])
    libraries = (
        r"lib([\w.+-]+?)\.so(?:\.\d+)*: cannot open shared object file",
        r"cannot find -l([\w.+-]+)",
        r"(?:could not find|unable to find|failed to find|no library called) (?:library )?[\"']?lib([\w+-]+)",
    )
    for library in libraries:
        for match in re.finditer(library, log, re.IGNORECASE):
            if package := known_debian.DEBIAN_OF_LIBRARY.get(match[1], ""):
                yield Remedy(Kind.SYSTEM, package, match[0])
    programs = (
        r"No such file or directory: b?['\"]([\w.+-]+)['\"]",
        r"(?:^|\s|/sh: (?:\d+: )?|line \d+: )([\w.+-]+): (?:command )?not found",
        r"Unable to locate executable ['\"]?([\w.+-]+)",
        r"(?:error: )?can't find (?:Rust )?compiler|([\w.+-]+) executable not found",
        r"(?:Please make sure|make sure) (?:the )?([\w.+-]+)(?: development| is installed)",
        r"[Tt]he program '([\w.+-]+)' (?:is|was) not",
        r"([\w-]+) (?:is not|isn't) (?:installed|found|available)(?: on| in)? (?:your |the )?(?:system|PATH)",
    )
    for pattern in programs:
        for match in re.finditer(pattern, log, re.MULTILINE):
            name = match[1] if match.re.groups and match[1] else "rustc" if "Rust" in match[0] else ""
            if package := known_debian.DEBIAN_OF_PROGRAM.get(name, ""):
                yield Remedy(Kind.SYSTEM, package, match[0].strip())
    if found := re.search(r"locale\.Error: unsupported locale setting", log):
        yield Remedy(Kind.SYSTEM, "locales-all", found[0])
    if found := re.search(r"ZoneInfoNotFoundError: .*", log):
        yield Remedy(Kind.SYSTEM, "tzdata", found[0])
    if found := re.search(r"(?:can't find|cannot find|requires) (?:a )?Rust (?:compiler|toolchain)", log):
        yield Remedy(Kind.SYSTEM, "rustc cargo", found[0])
    if found := re.search(r"/etc/mime\.types|No such file.*mime\.types", log):
        yield Remedy(Kind.SYSTEM, "media-types", found[0])


# resolving and building


def _resolution(log: str, environment: Known) -> Iterator[Remedy]:
    log = re.sub(r"\s*\n\s*│?\s*|\s+", " ", log)
    for match in re.finditer(r"Because ([\w.-]+) was not found in the package registry", log):
        yield Remedy(Kind.DROP, canonicalize_name(match[1]), match[0])
    for match in re.finditer(
        r"there (?:is|are) no versions? of ([\w.-]+)(?:\[[\w,-]+\])?((?:[=<>!~]+[\w.*+!-]+,?)+)?", log
    ):
        version = (match[2] or "").rstrip(",")
        yield Remedy(Kind.LATER, f"{canonicalize_name(match[1])}{version}", match[0])
    for match in re.finditer(
        r"[Oo]nly ([\w.-]+?)(?:\[[\w,-]+\])?([<=][\w.,<>=*]+) (?:is|are) available", log
    ):
        yield Remedy(Kind.LATER, canonicalize_name(match[1]), match[0])
    pattern = r"the requested Python version \(>?=?=?([\d.]+)\) does not satisfy Python([<>=!~.\d, *]+)"
    for match in re.finditer(pattern, log):
        wanted = re.search(r">=\s*(3\.\d+)", match[2])
        if wanted and _number(wanted[1]) > _number(environment.python):
            yield Remedy(Kind.NEWER_PYTHON, wanted[1], match[0])
        limit = re.search(r"<\s*(3\.\d+)", match[2])
        if limit and _number(limit[1]) <= _number(environment.python):
            yield Remedy(Kind.OLDER_PYTHON, limit[1], match[0])
    if re.search(r"No solution found|requirements are unsatisfiable", log):
        told = re.search(r"(?:[Bb]ecause|╰─▶).*", log)
        why = (told[0] if told else log)[:300]
        names = re.findall(r"([\w.-]+?)==\S+ was yanked", log)
        names += re.findall(r"you require ([\w.-]+)", log)
        names += re.findall(r"(?:[Bb]ecause|and) ([\w.-]+?)(?:\[[\w,-]+\])?[<>=!~]", log)
        for name in dict.fromkeys(canonicalize_name(name) for name in names):
            yield Remedy(Kind.DROP, name, why)


def _number(version: str) -> int:
    return int(version.split(".")[1])


def _builds(log: str, environment: Known) -> Iterator[Remedy]:
    yield from _programs(log)
    if match := re.search(r"use_2to3 is invalid|error in .* setup command: use_2to3", log):
        yield Remedy(Kind.BUILD, "setuptools<58", match[0])
    if match := re.search(r"cannot import name 'Feature' from 'setuptools'", log):
        yield Remedy(Kind.BUILD, "setuptools<46", match[0])
    if match := re.search(r"No module named 'setuptools\.command\.test'|'test_command'", log):
        yield Remedy(Kind.BUILD, "setuptools<72", match[0])
    if match := re.search(
        r"Invalid dash-separated|invalid command 'bdist_wheel'|Multiple top-level packages", log
    ):
        yield Remedy(Kind.BUILD, "setuptools<61", match[0])
    if match := re.search(r"No module named 'pkg_resources'", log):
        yield Remedy(Kind.BUILD, "setuptools<81", match[0])
    if match := re.search(r"(?:cython|Cython)\.Compiler\.Errors|Error compiling Cython file", log):
        yield Remedy(Kind.BUILD, "Cython<3", match[0])
    if match := re.search(r"AttributeError: (?:module 'numpy'|cython_sources)", log):
        what = "Cython<3" if "cython" in match[0] else "numpy<1.24"
        yield Remedy(Kind.BUILD, what, match[0])
    pattern = r"(?:[Ff]ailed to build|Building wheel for|Failed to download and build) [`']?([\w.-]+?)(?:==|@| |`|')"
    for match in re.finditer(pattern, log):
        if canonicalize_name(match[1]) != "editable":
            yield Remedy(Kind.DROP, canonicalize_name(match[1]), match[0])


def _pythons(log: str, environment: Known) -> Iterator[Remedy]:
    for version, pattern in known.PYTHON_TOO_NEW.items():
        if _number(environment.python) < _number(version):
            continue
        if match := re.search(pattern, log, re.MULTILINE):
            yield Remedy(Kind.OLDER_PYTHON, version, match[0])
    newer = (
        (r"f\"[^\"\n]*=\}|SyntaxError.*:=|positional-only", "3.8"),
        (r"'type' object is not subscriptable", "3.9"),
        (r"unsupported operand type\(s\) for \|: 'type' and|match \w+:\n.*SyntaxError", "3.10"),
        (r"No module named 'tomllib'|module 'enum' has no attribute 'StrEnum'|name 'ExceptionGroup'", "3.11"),
        (r"cannot import name 'override' from 'typing'|type \w+ = .*\n.*SyntaxError", "3.12"),
    )
    for pattern, version in newer:
        if _number(environment.python) < _number(version) and (match := re.search(pattern, log)):
            yield Remedy(Kind.NEWER_PYTHON, version, match[0])

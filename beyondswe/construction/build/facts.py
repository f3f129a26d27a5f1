"""What a repository says about itself at one commit: what it needs, on which Pythons, under which names.

Nothing of it is run. Every requirement keeps the place where it stands, so that a Dockerfile can say what each
package is for.
"""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from beyondswe.construction.build import testing
from beyondswe.construction.build.needs import Level, Need, Options, needs, pip_arguments, plain
from beyondswe.construction.build.setup_py import setup_arguments

_TESTS = re.compile(r"(^|[-_])(unit)?(tests?|testing|pytest|check)([-_]|$)")
_DEVELOPERS = re.compile(r"(^|[-_])(dev|develop|development|ci|all|dev[-_]?requirements)([-_]|$)")
_NO_TESTS = re.compile(r"doc|lint|style|format|release|typing|mypy|flake|build|publish|bench|deploy|security")


@dataclass(frozen=True)
class Facts:
    """A repository at one commit."""

    name: str = ""
    needs: tuple[Need, ...] = ()
    backend: str = ""  # of pyproject.toml's build system; "" where none is named
    has_setup: bool = False  # a setup.py or setup.cfg
    requires_python: str = ""
    pythons: tuple[str, ...] = ()  # minor versions that are named (classifiers, tox, CI), oldest first
    python2: bool = False  # some Python 2 is named
    system: Mapping[str, str] = field(default_factory=dict)  # Debian package → where it is said
    modules: frozenset[str] = frozenset()  # top-level names that the repository itself gives
    urls: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()  # import names of what it installs
    commands: tuple[str, ...] = ()  # how it says that tests are run

    @property
    def is_installable(self) -> bool:
        return bool(self.backend) or self.has_setup


class Tree:
    """The text files of a checked-out commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> str | None:
        """A file's text; None where there is none inside the tree."""
        path = self.folder / name
        try:
            if not path.resolve().is_relative_to(self.folder.resolve()) or not path.is_file():
                return None
            return path.read_text(encoding="utf-8-sig", errors="replace")
        except (OSError, ValueError):
            return None

    def glob(self, *patterns: str) -> list[str]:
        found = {path.relative_to(self.folder).as_posix() for p in patterns for path in self.folder.glob(p)}
        return sorted(name for name in found if (self.folder / name).is_file())


def read_facts(folder: Path, python: str = "3.11") -> Facts:
    """The facts of the tree in ``folder``; ``python`` decides between what tox and the like say for each."""
    return _Reading(Tree(folder), python).facts()


class _Reading:
    def __init__(self, tree: Tree, python: str) -> None:
        self.tree = tree
        self.python = python
        self.found: list[Need] = []
        self.extras: dict[str, list[str]] = {}
        self.groups: dict[str, list[str]] = {}
        self.classifiers: list[str] = []
        self.pythons: set[str] = set()
        self.urls: dict[str, str] = {}
        self.name = self.requires_python = self.backend = ""
        self.packages: list[str] = []
        self.read_files: set[str] = set()

    def facts(self) -> Facts:
        self._pyproject()
        self._setup_cfg()
        self._setup_py()
        self._pipfile()
        self._conda()
        script = testing.read_tests(self.tree.read, self.tree.glob, self.python)
        for options, source, level in script.installs:
            self._options(options, source, level)
        self._extras_and_groups()
        self._requirement_files()
        self.pythons |= set(script.pythons) | set(_minor_versions(self.classifiers))
        python2 = script.python2 or any("Python :: 2" in line for line in self.classifiers)
        only_python2 = any("Python :: 2 :: Only" in line for line in self.classifiers)
        return Facts(
            name=self.name,
            needs=tuple(dict.fromkeys(self.found)),
            backend=self.backend,
            has_setup=any(self.tree.read(name) is not None for name in ("setup.py", "setup.cfg")),
            requires_python=self.requires_python,
            pythons=() if only_python2 else tuple(sorted(self.pythons, key=_order)),
            python2=python2,
            system=script.system,
            modules=frozenset(self._modules()),
            urls=self.urls,
            packages=tuple(dict.fromkeys(self.packages)),
            commands=script.commands,
        )

    def _add(self, texts: Iterable[Any], source: str, level: Level) -> None:
        lines = [text for text in texts if isinstance(text, str)]
        for line in lines:
            if line.startswith("-r "):
                self._file(line[3:].strip(), level)
        self.found += needs((line for line in lines if not line.startswith("-")), source, level)

    # pyproject.toml

    def _pyproject(self) -> None:
        try:
            data = tomllib.loads(self.tree.read("pyproject.toml") or "")
        except tomllib.TOMLDecodeError:
            return
        where = "pyproject.toml"
        system = _table(data, "build-system")
        if system:
            self.backend = str(system.get("build-backend") or "setuptools.build_meta:__legacy__")
            self._add(system.get("requires") or (), f"{where}, build-system", Level.BUILD)
        project = _table(data, "project")
        if project:
            self.name = str(project.get("name") or "")
            self.requires_python = str(project.get("requires-python") or "")
            self.classifiers += _strings(project.get("classifiers"))
            self.urls |= {str(key): str(value) for key, value in _table(project, "urls").items()}
            self._add(_strings(project.get("dependencies")), f"{where}, dependencies", Level.RUN)
            for name, texts in _table(project, "optional-dependencies").items():
                self.extras.setdefault(name, []).extend(_strings(texts))
        for name in _table(data, "dependency-groups"):
            self.groups[name] = list(_group(_table(data, "dependency-groups"), name))
        tool = _table(data, "tool")
        self._poetry(_table(tool, "poetry"))
        flit = _table(_table(tool, "flit"), "metadata")
        if flit:
            self.name = self.name or str(flit.get("dist-name") or flit.get("module") or "")
            self.packages.append(str(flit.get("module") or ""))
            self.requires_python = self.requires_python or str(flit.get("requires-python") or "")
            self.classifiers += _strings(flit.get("classifiers"))
            self._add(_strings(flit.get("requires")), f"{where}, flit", Level.RUN)
            self._add(_strings(flit.get("dev-requires")), f"{where}, flit dev-requires", Level.DEV)
            for name, texts in _table(flit, "requires-extra").items():
                self.extras.setdefault(name, []).extend(_strings(texts))
        for name, texts in _table(_table(tool, "pdm"), "dev-dependencies").items():
            self.groups.setdefault(name, []).extend(_strings(texts))
        self.groups.setdefault("dev", []).extend(_strings(_table(tool, "uv").get("dev-dependencies")))
        for name, environment in _table(_table(tool, "hatch"), "envs").items():
            if not isinstance(environment, dict) or _NO_TESTS.search(name):
                continue
            level = Level.DEV if name == "default" else Level.TEST
            source = f"{where}, hatch environment {name}"
            self._add(_strings(environment.get("dependencies")), source, level)
            self._add(_strings(environment.get("extra-dependencies")), source, level)
            for extra in _strings(environment.get("features")):
                self._add(self.extras.get(extra, ()), f"{source}, extra {extra}", level)

    def _poetry(self, poetry: Mapping[str, Any]) -> None:
        if not poetry:
            return
        where = "pyproject.toml, poetry"
        self.name = self.name or str(poetry.get("name") or "")
        self.classifiers += _strings(poetry.get("classifiers"))
        for key in ("documentation", "homepage"):
            if poetry.get(key):
                self.urls.setdefault(key, str(poetry[key]))
        dependencies = _table(poetry, "dependencies")
        python = dependencies.get("python")
        if isinstance(python, str) and not self.requires_python:
            self.requires_python = _specifier(python)
        optional = {
            name for name, value in dependencies.items() if isinstance(value, dict) and value.get("optional")
        }
        by_name = {name: _poetry_requirement(name, value) for name, value in dependencies.items()}
        self._add(
            (text for name, text in by_name.items() if name not in {"python", *optional}), where, Level.RUN
        )
        for extra, names in _table(poetry, "extras").items():
            self.extras.setdefault(extra, []).extend(by_name.get(name, name) for name in _strings(names))
        groups = {"dev": _table(poetry, "dev-dependencies")}
        for name, group in _table(poetry, "group").items():
            groups[name] = {**groups.get(name, {}), **_table(_mapping(group), "dependencies")}
        for name, members in groups.items():
            texts = [_poetry_requirement(member, value) for member, value in members.items()]
            self.groups.setdefault(name, []).extend(texts)

    # setuptools

    def _setup_cfg(self) -> None:
        parser = _ini(self.tree.read("setup.cfg"))

        def get(section: str, key: str) -> str:
            return parser.get(section, key, fallback="") or ""

        self.name = self.name or get("metadata", "name").strip()
        self.requires_python = self.requires_python or get("options", "python_requires").strip()
        self.classifiers += get("metadata", "classifiers").splitlines()
        for line in (*get("metadata", "project_urls").splitlines(), f"homepage={get('metadata', 'url')}"):
            key, _, value = line.partition("=")
            if value.strip():
                self.urls.setdefault(key.strip(), value.strip())
        for key, level in (
            ("setup_requires", Level.BUILD),
            ("install_requires", Level.RUN),
            ("tests_require", Level.TEST),
        ):
            self._add(_lines(get("options", key)), f"setup.cfg, {key}", level)
        if get("metadata", "requires-dist"):  # of distutils2 and pbr
            self._add(_lines(get("metadata", "requires-dist")), "setup.cfg, requires-dist", Level.RUN)
        if parser.has_section("options.extras_require"):
            for name, text in parser.items("options.extras_require"):
                self.extras.setdefault(name, []).extend(_lines(text or ""))

    def _setup_py(self) -> None:
        given = setup_arguments(self.tree.read("setup.py") or "", self.tree.read)
        if isinstance(given.get("name"), str):
            self.name = self.name or given["name"]
        if isinstance(given.get("python_requires"), str):
            self.requires_python = self.requires_python or given["python_requires"]
        classifiers = given.get("classifiers")
        self.classifiers += (
            classifiers.splitlines() if isinstance(classifiers, str) else _strings(classifiers)
        )
        for key in ("packages", "py_modules"):
            self.packages += [name for name in _strings(given.get(key)) if "." not in name]
        if isinstance(given.get("url"), str):
            self.urls.setdefault("homepage", given["url"])
        self.urls |= {
            str(key): value
            for key, value in _mapping(given.get("project_urls")).items()
            if isinstance(value, str)
        }
        for key, level in (
            ("setup_requires", Level.BUILD),
            ("install_requires", Level.RUN),
            ("tests_require", Level.TEST),
        ):
            value = given.get(key)
            self._add(_lines(value) if isinstance(value, str) else _strings(value), f"setup.py, {key}", level)
        if given.get("pbr"):
            self._file("requirements.txt", Level.RUN)
        for name, texts in _mapping(given.get("extras_require")).items():
            listed = _lines(texts) if isinstance(texts, str) else _strings(texts)
            self.extras.setdefault(str(name), []).extend(listed)

    # groups, files, others

    def _extras_and_groups(self) -> None:
        for kind, named in (("extra", self.extras), ("group", self.groups)):
            for name, texts in named.items():
                extra, _, marker = name.partition(":")  # "test:python_version<'3'"
                listed = [f"{text}; {marker}" if marker and ";" not in text else text for text in texts]
                level = _level(extra) if extra else Level.RUN
                self._add(self._resolved(listed), f"{kind} {extra}" if extra else "extras_require", level)

    def _resolved(self, texts: Iterable[str]) -> Iterator[str]:
        """With extras of the project itself (``name[test]``) replaced by what they hold."""
        for text in texts:
            match = re.match(r"([A-Za-z0-9._-]+)\[([^\]]+)\]\s*$", text)
            if (
                match
                and re.sub(r"[-_.]+", "-", match[1]).lower() == re.sub(r"[-_.]+", "-", self.name).lower()
            ):
                for extra in match[2].split(","):
                    yield from self.extras.get(extra.strip(), ())
            else:
                yield text

    def _options(self, options: Options, source: str, level: Level) -> None:
        self._add(options.requirements, source, level)
        for name in options.files:
            self._file(name, level)
        for extra in options.extras:
            self._add(self._resolved(self.extras.get(extra, ())), f"{source}, extra {extra}", level)
            self._add(self._resolved(self.groups.get(extra, ())), f"{source}, group {extra}", level)

    def _requirement_files(self) -> None:
        patterns = ("*requirements*.txt", "*requirements*.in", "*requires*.txt", "requirements/*.txt")
        names = self.tree.glob(
            *patterns, "requirements/*.in", "requirements/*.pip", "test*/requirements*.txt"
        )
        for name in names:
            stem = PurePosixPath(name).with_suffix("").as_posix().lower().replace("/", "-")
            plain_name = re.sub(r"requirements?|requires", "", stem).strip("-_.")
            level = Level.EXTRA
            if _NO_TESTS.search(plain_name):
                continue
            if _TESTS.search(plain_name):
                level = Level.TEST
            elif plain_name in ("", "base", "install", "main", "core", "common"):
                # what is installed is said elsewhere, if it is said at all
                level = Level.DEV if any(need.level is Level.RUN for need in self.found) else Level.RUN
            elif _DEVELOPERS.search(plain_name):
                level = Level.DEV
            self._file(name, level)

    def _file(self, name: str, level: Level) -> None:
        """The requirements of a file and of those that it names."""
        path = _normal(name)
        key = f"{path}:{int(level)}"
        text = self.tree.read(path)
        if text is None or key in self.read_files:
            return
        self.read_files.add(key)
        for line in re.sub(r"\\\r?\n", " ", text).splitlines():
            line = line.strip()
            if line.startswith(("-r", "--requirement")):
                for inner in pip_arguments(line.split(" #")[0].split()).files:
                    self._file(str(PurePosixPath(path).parent / inner), level)
            elif line.startswith(("-e", "--editable", ".")):
                given = pip_arguments(line.split())
                self._options(Options(extras=given.extras), path, level)
                self.found += needs([line], path, level) if "egg=" in line else ()
            elif not line.startswith("-"):
                self.found += needs([line], path, level)

    def _pipfile(self) -> None:
        try:
            data = tomllib.loads(self.tree.read("Pipfile") or "")
        except tomllib.TOMLDecodeError:
            return
        for section, level in (("packages", Level.RUN), ("dev-packages", Level.DEV)):
            texts = [_poetry_requirement(name, value) for name, value in _table(data, section).items()]
            self._add((text for text in texts if text), f"Pipfile, {section}", level)
        if version := _table(data, "requires").get("python_version"):
            self.pythons.add(str(version))

    def _conda(self) -> None:
        import yaml

        names = ("environment*.yml", "environment*.yaml", "conda/*environment*.yml", "ci/*environment*.yml")
        for name in self.tree.glob(*names, "ci/requirements*.yml", "ci/requirements/*.yml"):
            try:
                data = yaml.safe_load(self.tree.read(name) or "")
            except yaml.YAMLError:
                continue
            for entry in _mapping(data).get("dependencies") or ():
                if isinstance(entry, str):
                    self.found += needs([_conda_requirement(entry)], name, Level.DEV)
                elif isinstance(entry, dict):
                    self._options(pip_arguments(_strings(entry.get("pip"))), name, Level.DEV)

    def _modules(self) -> Iterator[str]:
        for root in ("", "src", "lib", "python"):
            folder = self.tree.folder / root
            if not folder.is_dir() or (root and folder.is_symlink()):
                continue
            for path in folder.iterdir():
                if path.suffix == ".py":
                    yield path.stem
                elif path.is_dir() and path.name.isidentifier() and any(path.glob("*.py")):
                    yield path.name


def _level(name: str) -> Level:
    lowered = name.lower()
    if _TESTS.search(lowered):
        return Level.TEST
    if _DEVELOPERS.search(lowered) or lowered == "default":
        return Level.DEV
    return Level.EXTRA


def _group(groups: Mapping[str, Any], name: str, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """The requirements of a dependency group, with those that it includes."""
    for entry in groups.get(name) or ():
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict) and (inner := str(entry.get("include-group", ""))) not in {name, *seen}:
            yield from _group(groups, inner, seen | {name})


def _poetry_requirement(name: str, value: object) -> str:
    """What poetry or pipenv write down for one package, as PEP 508."""
    if isinstance(value, list):  # one entry a Python version
        value = value[-1] if value else "*"
    details = value if isinstance(value, dict) else {}
    version = details.get("version", "*") if isinstance(value, dict) else str(value)
    if {"git", "path", "url"} & details.keys():
        version = "*"
        if "path" in details:
            return ""
    extras = f"[{','.join(_strings(details.get('extras')))}]" if details.get("extras") else ""
    marker = str(details.get("markers") or "")
    if details.get("python"):
        limits = " and ".join(
            f"python_version {re.match('[<>=!~]+', part)[0]} '{re.sub('[<>=!~ ]+', '', part)}'"  # type: ignore[index]
            for part in _specifier(str(details["python"])).split(",")
            if re.match("[<>=!~]+", part) and "*" not in part
        )
        marker = " and ".join(filter(None, [marker, limits]))
    text = f"{name}{extras}{_specifier(str(version))}"
    return plain(f"{text}; {marker}" if marker else text) or plain(text) or plain(name)


def _specifier(text: str) -> str:
    """Poetry's ``^1.2``, ``~1.2``, ``1.2.*`` and ``1.2`` as PEP 440."""
    text = text.split("||")[-1].strip()
    parts = []
    for part in re.split(r",\s*|\s+(?=[<>=!~^])", text):
        part = part.strip().replace(" ", "")
        if part in ("", "*"):
            continue
        match = re.fullmatch(r"(\^|~)=?(\d+(?:\.\d+)*)(.*)", part)
        if match and not part.startswith("~="):
            numbers = [int(number) for number in match[2].split(".")]
            at = 0
            if match[1] == "^":
                at = next((i for i, number in enumerate(numbers) if number), len(numbers) - 1)
            elif len(numbers) > 1:
                at = 1
            upper = [*numbers[:at], numbers[at] + 1]
            parts += [f">={match[2]}{match[3]}", f"<{'.'.join(map(str, upper))}"]
        elif re.match(r"\d", part):
            parts.append(f"=={part}")
        else:
            parts.append(part)
    return ",".join(parts)


_CONDA_NAMES = {"pytorch": "torch", "matplotlib-base": "matplotlib", "python-graphviz": "graphviz"}


def _conda_requirement(entry: str) -> str:
    entry = entry.split("::")[-1].split("#")[0].strip()
    match = re.match(r"([A-Za-z0-9._-]+)\s*(.*)", entry)
    if not match or match[1] in ("python", "pip", "conda", "nodejs", "make", "gcc", "compilers"):
        return ""
    version = re.sub(r"^=(?==*\d)", "==", match[2].replace(" ", ""))
    version = re.sub(r"^==(\d[\d.]*)(=.*)?$", r"==\1.*", version)
    name = _CONDA_NAMES.get(match[1], match[1])
    return plain(f"{name}{version}") or plain(name)


def _minor_versions(classifiers: Iterable[str]) -> Iterator[str]:
    for line in classifiers:
        if match := re.search(r"Programming Language :: Python :: (3\.\d+)", line):
            yield match[1]


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _ini(text: str | None) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(text or "")
    except configparser.Error:
        return configparser.RawConfigParser()
    return parser


def _lines(text: str) -> list[str]:
    joined = re.sub(r"\\\n", " ", text)
    lines = [line.strip() for line in joined.replace(";\n", "\n").splitlines() if line.strip()]
    return [f"-r {line[5:].strip()}" if line.startswith("file:") else line for line in lines]


def _table(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    return _mapping(data.get(key))


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple | set) else []


def _normal(name: str) -> str:
    parts: list[str] = []
    for part in name.replace("{toxinidir}/", "").replace("{tox_root}/", "").split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in (".", "", ".."):
            parts.append(part)
    return "/".join(parts)

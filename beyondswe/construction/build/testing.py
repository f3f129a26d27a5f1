"""How a repository says that its tests are run: tox, nox and CI, with the Pythons and packages they name."""

from __future__ import annotations

import ast
import configparser
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from beyondswe.construction.build.needs import Level, Options, pip_arguments

Read = Callable[[str], str | None]
Glob = Callable[..., list[str]]

_OTHER_JOBS = re.compile(
    r"lint|flake8|style|docs?\b|sphinx|mypy|pyright|typing|black|isort|pep8|pylint|release|publish|build|"
    r"check-manifest|manifest|readme|twine|pypi|bandit|format|pre-commit|clean|report"
)
_VERSION = re.compile(r"(?<![\d.])3\.\d{1,2}(?![\d])")


@dataclass
class TestScript:
    """What tox, nox and CI say."""

    __test__ = False

    installs: list[tuple[Options, str, Level]] = field(default_factory=list)
    pythons: set[str] = field(default_factory=set)
    python2: bool = False
    system: dict[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()


def read_tests(read: Read, glob: Glob, python: str) -> TestScript:
    script = TestScript()
    commands: list[str] = []
    _tox(read, python, script, commands)
    _nox(read, script)
    _ci(read, glob, script, commands)
    script.commands = tuple(dict.fromkeys(command for command in commands if "test" in command))
    return script


# tox


def _tox(read: Read, python: str, script: TestScript, commands: list[str]) -> None:
    texts = [(read("tox.ini"), "tox.ini", "tox")]
    texts.append((read("setup.cfg"), "setup.cfg", "tox:tox"))
    try:
        tool = tomllib.loads(read("pyproject.toml") or "").get("tool", {}).get("tox", {})
    except tomllib.TOMLDecodeError:
        tool = {}
    texts.append((tool.get("legacy_tox_ini"), "pyproject.toml, tox", "tox"))
    for text, where, section in texts:
        if not text:
            continue
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        try:
            parser.read_string(text)
        except configparser.Error:
            continue
        if not parser.has_section(section) and not parser.has_section("testenv"):
            continue
        names = parser.get(section, "envlist", fallback="") or parser.get(section, "env_list", fallback="")
        for factor in re.findall(r"py(?:\{([^}]*)\}|(\d+))", names or ""):
            for number in re.split(r"[,\s]+", factor[0] or factor[1]):
                _tox_python(number, script)
        _tox_sections(parser, where, python, script, commands)
    _tox_toml(tool, script)


def _tox_python(number: str, script: TestScript) -> None:
    number = number.replace(".", "").removeprefix("py")
    if re.fullmatch(r"3\d{1,2}", number):
        script.pythons.add(f"3.{number[1:]}")
    elif re.fullmatch(r"2\d?", number):
        script.python2 = True


def _tox_sections(
    parser: configparser.RawConfigParser, where: str, python: str, script: TestScript, commands: list[str]
) -> None:
    environment = f"py{python.replace('.', '')}"
    for section in parser.sections():
        name = section.partition(":")[2] if section.startswith("testenv") else ""
        if not section.startswith("testenv") or _OTHER_JOBS.search(name):
            continue
        if name and not re.search(rf"test|cov|unit|{environment}|^py$|^py3$", name):
            continue

        def value(key: str, section: str = section) -> str:
            text = parser.get(section, key, fallback="") or ""
            for other, inner in re.findall(r"\{\[([^\]]+)\]([A-Za-z_]+)\}", text):
                text = text.replace(f"{{[{other}]{inner}}}", parser.get(other, inner, fallback="") or "")
            replaced = text.replace("{envname}", environment).replace("{env_name}", environment)
            return re.sub(r"\{posargs:?([^{}]*)\}", r"\1", replaced)

        source = f"{where}, {section}"
        for line in value("deps").splitlines():
            if (kept := _for_this_python(line, environment)) is None:
                continue
            words = kept.split(" #")[0].split() if kept.startswith("-") else [kept.split(" #")[0].strip()]
            script.installs.append((pip_arguments(words), source, Level.TEST))
        for line in (*value("extras").splitlines(), *value("dependency_groups").splitlines()):
            if kept := _for_this_python(line, environment):
                extras = tuple(part for part in re.split(r"[,\s]+", kept) if part)
                script.installs.append((Options(extras=extras), source, Level.TEST))
        for line in (*value("commands_pre").splitlines(), *value("commands").splitlines()):
            kept = _for_this_python(line, environment)
            if kept:
                commands.append(kept)
                _command(kept, source, Level.TEST, script)


def _for_this_python(line: str, environment: str) -> str | None:
    """A line of tox less its factors; None where these ask for more than this Python."""
    line = line.strip()
    match = re.match(r"([A-Za-z0-9!,{}._-]+):\s*(?!//|\S*\])(.*)", line)
    if not match or match[1] in ("http", "https", "git", "file") or line.startswith("-"):
        return line or None
    for alternative in re.sub(r"\{([^}]*)\}", lambda m: "|".join(m[1].split(",")), match[1]).split(","):
        factors = re.split(r"-(?![^|]*\|)", alternative)
        if all(
            (factor.startswith("!") and factor[1:] != environment)
            or environment in factor.split("|")
            or re.fullmatch(r"py|py3", factor)
            for factor in factors
        ):
            return match[2].strip() or None
    return None


def _tox_toml(tool: dict[str, Any], script: TestScript) -> None:
    """tox 4's own tables in pyproject.toml."""
    for factor in tool.get("env_list") or ():
        if isinstance(factor, str):
            _tox_python(factor, script)
    base = tool.get("env_run_base")
    if isinstance(base, dict):
        texts = [dep for dep in base.get("deps") or () if isinstance(dep, str)]
        script.installs.append((pip_arguments(texts), "pyproject.toml, tox", Level.TEST))
        extras = (*(base.get("extras") or ()), *(base.get("dependency_groups") or ()))
        script.installs.append((Options(extras=tuple(map(str, extras))), "pyproject.toml, tox", Level.TEST))


# nox


def _nox(read: Read, script: TestScript) -> None:
    try:
        tree = ast.parse(read("noxfile.py") or "")
    except (SyntaxError, ValueError):
        return
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        decorators = " ".join(ast.unparse(part) for part in function.decorator_list)
        if "session" not in decorators:
            continue
        is_test = re.search(r"test|cov", function.name) and not _OTHER_JOBS.search(function.name)
        if is_test:
            script.pythons |= set(_VERSION.findall(decorators))
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".install"):
                words = [
                    part.value
                    for part in node.args
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                ]
                level = Level.TEST if is_test else Level.EXTRA
                script.installs.append((pip_arguments(words), f"noxfile.py, {function.name}", level))


# CI


def _ci(read: Read, glob: Glob, script: TestScript, commands: list[str]) -> None:
    import yaml

    names = glob(".github/workflows/*.yml", ".github/workflows/*.yaml", ".travis.yml", ".circleci/config.yml")
    for name in (
        *names,
        *glob("azure-pipelines.yml", ".gitlab-ci.yml", "appveyor.yml", ".azure-pipelines/*"),
    ):
        text = read(name)
        if text is None:
            continue
        try:
            data = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError):
            continue
        for key, value in _entries(data):
            if key in ("python", "python-version", "python_version", "python-versions"):
                for version in value if isinstance(value, list) else [value]:
                    _ci_python(str(version), script)
            elif key == "TOXENV" or (key in ("env", "matrix", "toxenv") and isinstance(value, str)):
                for number in re.findall(r"py(\d{2,3})", str(value)):
                    _tox_python(number, script)
        for job, line in _shell_lines(data):
            level = Level.EXTRA if _OTHER_JOBS.search(job.lower()) else Level.DEV
            commands.append(line)
            _command(line, name, level, script)


def _ci_python(version: str, script: TestScript) -> None:
    if re.fullmatch(r"3\.\d{1,2}", version):
        script.pythons.add(version)
    elif version.startswith("2"):
        script.python2 = True


def _entries(data: object) -> Iterator[tuple[str, Any]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield str(key), value
            yield from _entries(value)
    elif isinstance(data, list):
        for value in data:
            yield from _entries(value)


def _shell_lines(data: object, job: str = "") -> Iterator[tuple[str, str]]:
    """Shell lines of a CI file with the name of the job they are in."""
    if not isinstance(data, dict):
        return
    for key, value in data.items():
        if key in ("run", "script", "install", "before_install", "before_script", "test_script", "bash"):
            for line in value if isinstance(value, list) else [value]:
                if isinstance(line, str):
                    joined = re.sub(r"\\\n", " ", line)
                    yield from ((job, part.strip()) for part in joined.splitlines() if part.strip())
        elif isinstance(value, dict):
            yield from _shell_lines(value, f"{job} {key}")
        elif isinstance(value, list):
            for entry in value:
                yield from _shell_lines(entry, f"{job} {key}")


def _command(line: str, source: str, level: Level, script: TestScript) -> None:
    """What one shell line installs."""
    for part in re.split(r"&&|;|\|\|", line):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            words = part.split()
        if "install" not in words or len(words) > 60:
            continue
        at = words.index("install")
        before = words[:at]
        if any(re.search(r"(^|/)(pip|pip3|uv)$", word) for word in before):
            script.installs.append((pip_arguments(words[at + 1 :]), source, level))
        elif any(word in ("apt", "apt-get") for word in before):
            for word in _debian(words[at + 1 :]):
                script.system.setdefault(word, f"{source} installs it")


def _debian(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", word) and not re.match(r"python3?(\.\d+)?(-|$)", word):
            yield word

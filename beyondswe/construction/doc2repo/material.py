"""Reference package and suite out of a repository's tree, both under the masked name.

The reference is the package alone, at the top of its tree whatever layout it had, with a small pyproject.toml of ours
that keeps the entry points. The suite is everything that is of the tests, where it was.
"""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from beyondswe.construction.collect.split import is_test
from beyondswe.construction.doc2repo.hiding import TARGET, Names, hidden_files, hidden_text
from beyondswe.construction.recipes import File, Files
from beyondswe.errors import DataError
from beyondswe.scoring.pytest_config import CONFIG_FILES

_ROOTS = ("src/", "lib/", "")
_GENERATED = re.compile(r"(^|/)(__pycache__|\.git|\.eggs|[^/]+\.egg-info)(/|$)|\.py[co]$")


@dataclass(frozen=True)
class Masked:
    """What an instance is made of. ``readme`` and ``summary`` are for the specification, masked as well."""

    reference: Files
    suite: Files
    readme: str
    summary: str
    requires_python: str
    entry_points: Mapping[str, Mapping[str, str]]
    left_out: tuple[str, ...] = ()  # binary files that name the target


def masked_material(files: Files, names: Names, *, version: str = "1.0.0", target: str = TARGET) -> Masked:
    """Part and mask a tree. `DataError` if it has no package of that name, no tests, or cannot be masked."""
    if len(names.modules) != 1:
        raise DataError(
            f"Doc2Repo masks one package; the repository has {', '.join(names.modules) or 'none'}"
        )
    module = names.modules[0]
    files = {path: file for path, file in files.items() if not _GENERATED.search(path)}
    root = next((root for root in _ROOTS if _has(files, root, module)), None)
    if root is None:
        raise DataError(f"the repository has no package {module} at its top, in src or in lib")
    own = {
        path: file
        for path, file in files.items()
        if path.startswith((f"{root}{module}/", f"{root}{module}.py"))
    }
    package = {path.removeprefix(root): file for path, file in own.items() if not is_test(path)}
    written = _version_files(files, root, package)
    suite = {path: file for path, file in files.items() if is_test(path)}
    # Tests inside the package move with it.
    suite = {path.removeprefix(root) if path in own else path: file for path, file in suite.items()}
    if not any(path.endswith(".py") for path in suite):
        raise DataError("the repository has no tests that a suite could be made of")
    facts = _facts(files)
    reference, left = hidden_files({**package, **written}, names, target)
    if f"{target}.py" in reference:  # one module: a package of it, as the environment has
        reference[f"{target}/__init__.py"] = reference.pop(f"{target}.py")
    points = {
        group: {
            hidden_text(name, names, target): hidden_text(value, names, target)
            for name, value in entries.items()
        }
        for group, entries in facts["entry_points"].items()
    }
    reference["pyproject.toml"] = File(pyproject(target, version, points).encode())
    config = {path: file for path, file in files.items() if path in CONFIG_FILES}
    hidden_suite, also_left = hidden_files({**suite, **config, **_settings(files)}, names, target)
    hidden_suite = _found_by_pytest(hidden_suite)
    return Masked(
        reference=dict(sorted(reference.items())),
        suite=hidden_suite,
        readme=hidden_text(_readme(files), names, target),
        summary=hidden_text(facts["summary"], names, target),
        requires_python=facts["requires_python"],
        entry_points=points,
        left_out=(*left, *also_left),
    )


def pyproject(name: str, version: str, entry_points: Mapping[str, Mapping[str, str]] | None = None) -> str:
    """Metadata of a package that says nothing but its name, its version and its entry points."""
    lines = [
        "[build-system]", 'requires = ["setuptools>=61"]', 'build-backend = "setuptools.build_meta"', "",
        "[project]", f"name = {_toml(name)}", f"version = {_toml(version)}", "",
        "[tool.setuptools.packages.find]", f"include = [{_toml(name)}, {_toml(name + '.*')}]", "",
        "[tool.setuptools.package-data]", '"*" = ["*"]',
    ]  # fmt: skip
    for group, entries in (entry_points or {}).items():
        table = {"console_scripts": "project.scripts", "gui_scripts": "project.gui-scripts"}.get(
            group, f"project.entry-points.{_toml(group)}"
        )
        lines += [
            "",
            f"[{table}]",
            *(f"{_toml(key)} = {_toml(value)}" for key, value in sorted(entries.items())),
        ]
    return "\n".join(lines) + "\n"


def _has(files: Files, root: str, module: str) -> bool:
    return f"{root}{module}/__init__.py" in files or f"{root}{module}.py" in files


def _version_files(files: Files, root: str, package: Files) -> dict[str, File]:
    """Modules that a version tool would write when the package is built, where the package lacks them."""
    settings = _tables(_text(files, "pyproject.toml"))
    tool = settings.get("tool", {})
    named = [tool.get("setuptools_scm", {}).get(key) for key in ("write_to", "version_file")]
    named.append(tool.get("hatch", {}).get("build", {}).get("hooks", {}).get("vcs", {}).get("version-file"))
    named += re.findall(
        r"(?:write_to|version_file)['\"]?\s*[=:]\s*['\"]([^'\"]+\.py)", _text(files, "setup.py")
    )
    text = '__version__ = version = "1.0.0"\n__version_tuple__ = version_tuple = (1, 0, 0)\n'
    inside = [str(name).removeprefix(root) for name in named if name]
    return {name: File(text.encode()) for name in inside if name.endswith(".py") and name not in package}


def _settings(files: Files) -> dict[str, File]:
    """pytest's own settings out of files that have other things in them too, as a pytest.ini."""
    if any(name in files for name in CONFIG_FILES):
        return {}
    ini = _tables(_text(files, "pyproject.toml")).get("tool", {}).get("pytest", {}).get("ini_options")
    if isinstance(ini, dict):
        return {"pytest.ini": _ini({key: _listed(value) for key, value in ini.items()})}
    for name, section in (("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(_text(files, name))
        except configparser.Error:
            continue
        if parser.has_section(section):
            return {"pytest.ini": _ini(dict(parser[section]))}
    return {}


def _found_by_pytest(suite: Files) -> dict[str, File]:
    """The suite with its modules named to pytest, where they are called otherwise than it expects by itself."""
    names = {path.rpartition("/")[2] for path in suite if path.endswith(".py")}
    odd = [name for name in names if re.fullmatch(r"tests?\.py|.*_tests\.py|tests_.*\.py", name)]
    settings = suite.get("pytest.ini", File(b"[pytest]\n")).data.decode()
    if (
        not odd
        or "python_files" in settings
        or any(path in suite for path in CONFIG_FILES if path != "pytest.ini")
    ):
        return dict(suite)
    line = f"python_files = test_*.py *_test.py {' '.join(sorted(odd))}\n"
    return {**suite, "pytest.ini": File(f"{settings.rstrip()}\n{line}".encode())}


def _ini(values: Mapping[str, str]) -> File:
    """Settings less those that speak of coverage or of where the source lies: the reference lies elsewhere."""
    kept = {key: value for key, value in values.items() if key not in ("pythonpath", "required_plugins")}
    if "addopts" in kept:
        kept["addopts"] = re.sub(
            r"--cov\S*(?:[ \t]+(?!-)\S+)?|--(?:doctest\S*|strict\S*)|-n[ =]?\S+", "", kept["addopts"]
        ).strip()
    lines = [
        f"{key} ={' ' + value if chr(10) not in value else value}".replace("\n", "\n    ")
        for key, value in kept.items()
    ]
    return File(("[pytest]\n" + "\n".join(lines) + "\n").encode())


def _listed(value: Any) -> str:
    if isinstance(value, list):
        return "\n" + "\n".join(str(each) for each in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _facts(files: Files) -> dict[str, Any]:
    content = _tables(_text(files, "pyproject.toml"))
    project, poetry = content.get("project", {}), content.get("tool", {}).get("poetry", {})
    points: dict[str, dict[str, str]] = {}
    for group, table in (
        ("console_scripts", project.get("scripts")),
        ("gui_scripts", project.get("gui-scripts")),
        ("console_scripts", poetry.get("scripts")),
    ):
        points.setdefault(group, {}).update(_strings(table))
    for tables in (project.get("entry-points"), poetry.get("plugins")):
        for group, table in (tables or {}).items():
            points.setdefault(group, {}).update(_strings(table))
    summary, python = (
        str(project.get("description") or poetry.get("description") or ""),
        project.get("requires-python"),
    )
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(_text(files, "setup.cfg"))
    except configparser.Error:
        parser = configparser.RawConfigParser()
    if parser.has_section("options.entry_points"):
        for group, text in parser["options.entry_points"].items():
            points.setdefault(group, {}).update(_pairs(text.splitlines()))
    summary = summary or parser.get("metadata", "description", fallback="")
    python = python or parser.get("options", "python_requires", fallback="")
    for key, value in _setup(_text(files, "setup.py")):
        if key == "entry_points":
            for group, entries in (value if isinstance(value, dict) else _sections(str(value))).items():
                listed = entries if isinstance(entries, list) else str(entries).splitlines()
                points.setdefault(group, {}).update(_pairs(listed))
        elif key == "description":
            summary = summary or str(value)
        elif key == "python_requires":
            python = python or str(value)
    return {
        "summary": summary,
        "requires_python": str(python or ""),
        "entry_points": {group: entries for group, entries in points.items() if entries},
    }


def _setup(text: str) -> Iterable[tuple[str, Any]]:
    """Arguments of ``setup()`` that are plain values."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "setup":
            for keyword in node.keywords:
                try:
                    yield str(keyword.arg), ast.literal_eval(keyword.value)
                except (ValueError, TypeError, SyntaxError):
                    continue


def _sections(text: str) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # names of commands keep their case
    try:
        parser.read_string(text)
    except configparser.Error:
        return {}
    return {
        name: "\n".join(f"{key}={value}" for key, value in parser[name].items()) for name in parser.sections()
    }


def _pairs(lines: Iterable[Any]) -> dict[str, str]:
    split = [str(line).partition("=") for line in lines]
    return {name.strip(): value.strip() for name, sign, value in split if sign and name.strip()}


def _strings(table: Any) -> dict[str, str]:
    return {key: value for key, value in (table or {}).items() if isinstance(value, str)}


def _readme(files: Files) -> str:
    for name in sorted(files):
        if re.fullmatch(r"readme(\.(md|rst|txt|markdown))?", name, re.IGNORECASE):
            return _text(files, name)
    return ""


def _text(files: Files, name: str) -> str:
    return files[name].data.decode("utf-8", "replace") if name in files else ""


def _tables(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

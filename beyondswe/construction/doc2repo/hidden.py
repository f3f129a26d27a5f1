"""What a suite asks for that the specification does not tell: listed for the reviewer, kept with the instance."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from beyondswe.construction.recipes import Files

_RAISES = frozenset(
    {"raises", "warns", "assertRaisesRegex", "assertWarnsRegex", "assertRaisesRegexp", "deprecated_call"}
)


@dataclass(frozen=True)
class Requirement:
    """``kind``: name (imported or reached by tests), message (of an error or warning), keyword (of a call)."""

    kind: str
    what: str
    where: str

    def to_row(self) -> dict[str, Any]:
        return asdict(self)


def only_in_tests(suite: Files, specification: str, target: str) -> list[Requirement]:
    """What tests know and the specification does not, each once, with the first place that needs it."""
    found: dict[tuple[str, str], Requirement] = {}
    own = {
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in suite
        if path.endswith(".py")
    }
    told = set(re.findall(r"\w+", specification))
    for path, file in sorted(suite.items()):
        if not path.endswith(".py"):
            continue
        try:
            tree = ast.parse(file.data)
        except (SyntaxError, ValueError):
            continue
        for kind, what, line in _asked(tree, target):
            is_told = what in specification if kind == "message" else what.rpartition(".")[2] in told
            if not is_told and what not in own and what.rpartition(".")[0] not in own:
                found.setdefault((kind, what), Requirement(kind, what, f"{path}:{line}"))
    return list(found.values())


def _asked(tree: ast.Module, target: str) -> Iterator[tuple[str, str, int]]:
    bound: dict[str, str] = {}  # name in the module → what of the target it stands for
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == target:
                    bound[alias.asname or target] = alias.name if alias.asname else target
                    if "." in alias.name:
                        yield "name", alias.name, node.lineno
        elif (
            isinstance(node, ast.ImportFrom)
            and (node.module or "").partition(".")[0] == target
            and not node.level
        ):
            for alias in node.names:
                if alias.name != "*":
                    bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                    yield "name", f"{node.module}.{alias.name}", node.lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, names = _dotted(node)
            if root in bound and not names[-1].startswith("__"):
                yield "name", ".".join((bound[root], *names)), node.lineno
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in _RAISES:
                patterns = [keyword.value for keyword in node.keywords if keyword.arg == "match"]
                patterns += node.args[1:2] if called.startswith("assert") else []
                for value in patterns:
                    if (
                        isinstance(value, ast.Constant)
                        and isinstance(value.value, str)
                        and value.value.strip()
                    ):
                        yield "message", value.value, node.lineno
            first = node.func
            while isinstance(first, ast.Attribute):
                first = first.value
            if isinstance(first, ast.Name) and first.id in bound:
                for keyword in node.keywords:
                    if keyword.arg:
                        yield "keyword", f"{bound[first.id]}.{keyword.arg}", node.lineno


def _dotted(node: ast.expr) -> tuple[str, tuple[str, ...]]:
    """``a.b.c`` as its root and the rest; the root is empty where it is no name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return node.id if isinstance(node, ast.Name) else "", tuple(names)

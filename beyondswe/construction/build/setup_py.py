"""What a ``setup.py`` says, read and not run: the arguments of ``setup()`` as far as they are written down.

Values are followed through names, sums, comprehensions over lines of a file and small helper functions. Where
an argument cannot be worked out, files of requirements that its expression mentions are read in its place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

Read = Callable[[str], str | None]
"""The text of a file of the repository; None where there is none."""


class _Unknown(Exception):
    """Cannot be worked out without running it."""


def setup_arguments(code: str, read: Read) -> dict[str, Any]:
    """Arguments of ``setup()`` by name; what cannot be worked out is not in it. {} for Python 2 code."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return {}
    reader = _Reader(tree, read)
    found: dict[str, Any] = {}
    for call in _setup_calls(tree):
        for keyword in call.keywords:
            if keyword.arg is None:
                try:
                    given = reader.value(keyword.value)
                except _Unknown:
                    continue
                found.update(given if isinstance(given, dict) else {})
                continue
            try:
                found[keyword.arg] = reader.value(keyword.value)
            except _Unknown:
                if lines := reader.mentioned_files(keyword.value):
                    found[keyword.arg] = lines
    return found


def _setup_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node).rpartition(".")[2] == "setup":
            yield node


def _called(node: ast.Call) -> str:
    try:
        return ast.unparse(node.func)
    except ValueError:
        return ""


class _Reader:
    def __init__(self, tree: ast.Module, read: Read) -> None:
        self.read = read
        self.names: dict[str, list[ast.expr]] = {}
        self.functions: dict[str, ast.FunctionDef] = {}
        self._busy: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.names.setdefault(target.id, []).append(node.value)
                    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                        self.names.setdefault(target.value.id, []).append(
                            ast.Dict([target.slice], [node.value])
                        )
            elif isinstance(node, ast.AnnAssign | ast.AugAssign) and isinstance(node.target, ast.Name):
                self.names.setdefault(node.target.id, []).extend(filter(None, [node.value]))
            elif isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.List() | ast.Tuple() | ast.Set():
                values: list[Any] = []
                for part in node.elts:
                    if isinstance(part, ast.Starred):
                        values += list(self.value(part.value))
                    else:
                        values.append(self.value(part))
                return values
            case ast.Dict():
                made: dict[Any, Any] = {}
                for key, inner in zip(node.keys, node.values, strict=True):
                    try:
                        if key is None:
                            made.update(self.value(inner))
                        else:
                            made[self.value(key)] = self.value(inner)
                    except (_Unknown, TypeError, ValueError):
                        if key is not None and (lines := self.mentioned_files(inner)):
                            made[self.value(key)] = lines
                return made
            case ast.Name():
                return self._name(node.id)
            case ast.BinOp(op=ast.Add()):
                left, right = self.value(node.left), self.value(node.right)
                try:
                    return left + right
                except TypeError as error:
                    raise _Unknown from error
            case ast.BinOp(op=ast.Mod()):
                left, right = self.value(node.left), self.value(node.right)
                try:
                    return left % (tuple(right) if isinstance(right, list) else right)
                except (TypeError, ValueError) as error:
                    raise _Unknown from error
            case ast.JoinedStr():
                return "".join(
                    str(self.value(part.value if isinstance(part, ast.FormattedValue) else part))
                    for part in node.values
                )
            case ast.Subscript():
                try:
                    return self.value(node.value)[self.value(node.slice)]
                except (TypeError, KeyError, IndexError) as error:
                    raise _Unknown from error
            case ast.IfExp():
                return self.value(node.body)
            case ast.Call():
                return self._call(node)
        raise _Unknown

    def mentioned_files(self, node: ast.expr) -> list[str]:
        """Requirements in files that an expression, or a function or name in it, mentions."""
        lines: list[str] = []
        seen: set[str] = set()
        queue: list[ast.AST] = [node]
        while queue:
            for inner in ast.walk(queue.pop()):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    for name in _spellings(inner.value):
                        if name not in seen and (text := self.read(name)) is not None:
                            seen.add(name)
                            lines += [f"-r {name}"] if text.strip() else []
                elif isinstance(inner, ast.Name) and inner.id not in seen:
                    seen.add(inner.id)
                    queue += self.names.get(inner.id, [])
                    if inner.id in self.functions:
                        queue.append(self.functions[inner.id])
        return lines

    def _name(self, name: str) -> Any:
        if name in self._busy or name not in self.names:
            raise _Unknown
        self._busy.add(name)
        try:
            given = self.names[name]
            made = self.value(given[0])
            for more in given[1:]:
                try:
                    added = self.value(more)
                except _Unknown:
                    continue
                if isinstance(made, list) and isinstance(added, list):
                    made = made + added
                elif isinstance(made, dict) and isinstance(added, dict):
                    made = {**made, **added}
                else:
                    made = added
            return made
        finally:
            self._busy.discard(name)

    def _call(self, node: ast.Call) -> Any:
        name = _called(node)
        last = name.rpartition(".")[2]
        if last in ("list", "tuple", "set", "sorted", "str", "dict") and "." not in name:
            if last == "dict" and not node.args:
                return {word.arg: self.value(word.value) for word in node.keywords if word.arg}
            if len(node.args) == 1:
                given = self.value(node.args[0])
                return given if last in ("str", "dict") else list(given)
        if isinstance(node.func, ast.Attribute):
            if last == "format":
                try:
                    return str(self.value(node.func.value)).format(
                        *(self.value(part) for part in node.args),
                        **{word.arg: self.value(word.value) for word in node.keywords if word.arg},
                    )
                except (IndexError, KeyError) as error:
                    raise _Unknown from error
            if last == "split" and not node.keywords:
                text = self.value(node.func.value)
                if isinstance(text, str):
                    return text.split(*(self.value(part) for part in node.args))
            if last == "strip":
                text = self.value(node.func.value)
                if isinstance(text, str):
                    return text.strip()
        raise _Unknown


def _spellings(text: str) -> Iterator[str]:
    """File names that a string in a setup.py may stand for."""
    if not text or len(text) > 80 or "\n" in text or text.startswith(("/", "http")):
        return
    path = PurePosixPath(text)
    if path.suffix in (".txt", ".in", ".pip"):
        yield text
        yield f"requirements/{path.name}"
    elif not path.suffix and text.replace("-", "").replace("_", "").isalnum():
        yield f"{text}.txt"
        yield f"requirements/{text}.txt"

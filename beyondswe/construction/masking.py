"""Hides a package's name for Doc2Repo: suite and reference get the masked name, and no mention may be left.

Python is rewritten by its syntax, so that a function that is called like its package keeps its name: imports,
what they bind, strings that name the module, comments and docstrings. What else mentions the package is not
guessed at but refused with its place, because one name left over gives the whole repository away. The price:
a package whose name is also a word of its interface cannot be masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import PurePosixPath

import libcst as cst
from libcst.metadata import MetadataWrapper, ScopeProvider

from beyondswe.construction.recipes import File, Files
from beyondswe.errors import DataError

_TAKES_A_MODULE = frozenset(
    {"__import__", "import_module", "importorskip", "find_spec", "resolve_name", "run_module", "getLogger"}
    | {"version", "distribution", "metadata", "files", "requires"}
)
"""Calls in which a string that is just the package's name means it, as in ``pytest.importorskip("x")``."""


def mask_python(code: str, package: str, name: str, *, where: str = "<code>") -> str:
    """Python source in which the module ``package`` is called ``name``; all else stays, formatting too."""
    try:
        wrapper = MetadataWrapper(cst.parse_module(code))
    except cst.ParserSyntaxError as error:
        raise DataError(f"{where}: cannot be masked, because it does not parse as Python: {error}") from error
    return wrapper.visit(_Rename(package, name, _bound_to_the_module(wrapper, package))).code


def mask_suite(files: Files, package: str, name: str, also_known_as: Iterable[str] = ()) -> Files:
    """A test suite under the masked name. `DataError` with path and line where the package is still named."""
    masked = _masked(files, package, name)
    left = list(mentions(masked, [package, *also_known_as]))
    if left:
        raise DataError(
            f"masking '{package}' as '{name}' leaves mentions in the suite: {'; '.join(left[:10])}. Leave"
            " these files out in the recipe, or choose a package whose name is no word of its interface"
        )
    return masked


def mask_repository(files: Files, package: str, name: str, version: str) -> Files:
    """The reference repository under the masked name, with a small pyproject.toml of our own (setuptools)."""
    return {
        **_masked(files, package, name),
        "pyproject.toml": File(_PYPROJECT.format(name=name, version=version).encode()),
    }


_PYPROJECT = """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "{version}"

[tool.setuptools.package-data]
"*" = ["*"]
"""


def check_specification(text: str, names: Iterable[str], where: str) -> None:
    """`DataError` if a specification mentions one of the names that the target is known by."""
    left = list(mentions({where: File(text.encode())}, names))
    if left:
        raise DataError(
            f"the specification tells the name of its target: {'; '.join(left[:10])}. Write the masked name"
        )


def mentions(files: Files, names: Iterable[str]) -> Iterator[str]:
    """Where one of the names stands in a path or a text, as ``path:line: text``.

    Upper and lower case are the same, and so are ``-``, ``_``, ``.`` and blank within a name; ``test_x`` and
    ``x.y`` mention ``x``, ``xs`` and ``ax`` do not.
    """
    pattern = re.compile("|".join(_pattern(name) for name in names), re.IGNORECASE)
    for path, file in files.items():
        if pattern.search(path):
            yield f"{path} (its name)"
        for number, line in enumerate(file.data.decode("utf-8", "replace").splitlines(), 1):
            if pattern.search(line):
                yield f"{path}:{number}: {line.strip()[:80]}"


def _pattern(name: str) -> str:
    parts = [re.escape(part) for part in re.split(r"[-_.\s]+", name) if part]
    return rf"(?<![A-Za-z0-9]){r'[-_. ]?'.join(parts)}(?![A-Za-z0-9])"


def _masked(files: Files, package: str, name: str) -> dict[str, File]:
    masked = {}
    for path, file in files.items():
        data = file.data
        if path.endswith((".py", ".pyi")):
            try:
                code = data.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(f"{path}: cannot be masked, because it is not UTF-8: {error}") from error
            data = mask_python(code, package, name, where=path).encode()
        masked[_mask_path(path, package, name)] = File(data, file.mode)
    return dict(sorted(masked.items()))


def _mask_path(path: str, package: str, name: str) -> str:
    return str(PurePosixPath(*(re.sub(_pattern(package), name, part) for part in PurePosixPath(path).parts)))


def _bound_to_the_module(wrapper: MetadataWrapper, package: str) -> set[cst.Name]:
    """Names in the code that ``import package`` or ``import package.sub`` (without ``as``) gave a meaning."""
    names: set[cst.Name] = set()
    for scope in {scope for scope in wrapper.resolve(ScopeProvider).values() if scope is not None}:
        for assignment in scope.assignments:
            if assignment.name.partition(".")[0] != package or not isinstance(
                getattr(assignment, "node", None), cst.Import
            ):
                continue
            for access in assignment.references:
                node: cst.CSTNode = access.node
                while isinstance(node, cst.Attribute):
                    node = node.value
                if isinstance(node, cst.Name):
                    names.add(node)
    return names


class _Rename(cst.CSTTransformer):
    def __init__(self, package: str, name: str, bound: set[cst.Name]):
        super().__init__()
        self.package, self.name, self.bound = package, name, bound
        word = re.escape(package)
        self.word = re.compile(rf"(?<![\w]){word}(?!\w)")
        # In a string: a dotted path (after an escape, too), the object of an import statement, `python -m`.
        start = r"(?:(?<![\w.])|(?<=\\[nrt]))"
        self.in_string = re.compile(
            rf"{start}{word}(?=\.[A-Za-z_])|(?<=import ){word}(?!\w)"
            rf"|(?<=from ){word}(?= import)|(?<=-m ){word}(?!\w)"
        )
        self.modules: set[cst.BaseExpression] = (
            set()
        )  # strings that are the module's name by where they stand
        self.docstrings: set[cst.BaseExpression] = set()

    # where strings name the module

    def visit_Call(self, node: cst.Call) -> None:
        called = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        if isinstance(called, cst.Name) and called.value in _TAKES_A_MODULE and node.args:
            self.modules.add(node.args[0].value)

    def visit_Subscript(self, node: cst.Subscript) -> None:
        if isinstance(node.value, cst.Attribute) and node.value.attr.value == "modules":
            self.modules |= {part.slice.value for part in node.slice if isinstance(part.slice, cst.Index)}

    def visit_List(self, node: cst.List) -> None:
        self._after_dash_m(node.elements)

    def visit_Tuple(self, node: cst.Tuple) -> None:
        self._after_dash_m(node.elements)

    def _after_dash_m(self, elements: Iterable[cst.BaseElement]) -> None:
        values = [element.value for element in elements]
        for flag, module in pairwise(values):
            if isinstance(flag, cst.SimpleString) and flag.evaluated_value == "-m":
                self.modules.add(module)

    def visit_Module(self, node: cst.Module) -> None:
        self._docstring(node.body)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._docstring(node.body.body)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._docstring(node.body.body)

    def _docstring(self, body: Iterable[cst.CSTNode]) -> None:
        first = next(iter(body), None)
        statement = first.body[0] if isinstance(first, cst.SimpleStatementLine) else first
        if isinstance(statement, cst.Expr):
            self.docstrings.add(statement.value)

    # renaming

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> cst.Import:
        return updated_node.with_changes(
            names=[alias.with_changes(name=self._module(alias.name)) for alias in updated_node.names]
        )

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        if updated_node.module is None or updated_node.relative:
            return updated_node
        return updated_node.with_changes(module=self._module(updated_node.module))

    def _module(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """A dotted name with its first part renamed, if that is the package."""
        if isinstance(node, cst.Attribute):
            return node.with_changes(value=self._module(node.value))
        if isinstance(node, cst.Name) and node.value == self.package:
            return node.with_changes(value=self.name)
        return node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return updated_node.with_changes(value=self.name) if original_node in self.bound else updated_node

    def leave_SimpleString(
        self, original_node: cst.SimpleString, updated_node: cst.SimpleString
    ) -> cst.BaseExpression:
        is_module = original_node in self.modules and original_node.evaluated_value == self.package
        pattern = self.word if is_module or original_node in self.docstrings else self.in_string
        return updated_node.with_changes(value=pattern.sub(self.name, updated_node.value))

    def leave_FormattedStringText(
        self, original_node: cst.FormattedStringText, updated_node: cst.FormattedStringText
    ) -> cst.FormattedStringText:
        return updated_node.with_changes(value=self.in_string.sub(self.name, updated_node.value))

    def leave_Comment(self, original_node: cst.Comment, updated_node: cst.Comment) -> cst.Comment:
        return updated_node.with_changes(value=self.word.sub(self.name, updated_node.value))

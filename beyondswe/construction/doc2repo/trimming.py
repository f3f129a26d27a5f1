"""Takes tests out of a suite that cannot pass on the reference: they need what lies outside the package."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from beyondswe.construction.recipes import File, Files


def without_tests(suite: Files, ids: Iterable[str]) -> dict[str, File]:
    """The suite without the functions that ids such as ``tests/test_a.py::Class::test_b[1]`` name (all their
    parameters go), and without the files that ids without ``::`` name.
    """
    by_file: dict[str, set[tuple[str, ...]]] = {}
    for test in ids:
        path, *inside = test.partition("[")[0].split("::")
        by_file.setdefault(path, set()).add(tuple(inside))
    found = dict(suite)
    for path, names in by_file.items():
        if path not in found:
            continue
        if () in names:
            del found[path]
            continue
        try:
            module = cst.parse_module(found[path].data)
        except cst.ParserSyntaxError:
            del found[path]
            continue
        code = module.visit(_Remove(names))
        if isinstance(code, cst.Module):
            found[path] = File(code.bytes, found[path].mode)
    return found


class _Remove(cst.CSTTransformer):
    """Removes functions by the names of the classes around them and their own."""

    def __init__(self, names: set[tuple[str, ...]]) -> None:
        super().__init__()
        self._names, self._around = names, [""]

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._around.append(node.name.value)

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        self._around.pop()
        if not updated_node.body.body:
            empty = cst.IndentedBlock([cst.SimpleStatementLine([cst.Pass()])])
            return updated_node.with_changes(body=empty)
        return updated_node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._around.append(node.name.value)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef | cst.RemovalSentinel:
        where = tuple(self._around[1:])
        self._around.pop()
        return cst.RemoveFromParent() if where in self._names else updated_node

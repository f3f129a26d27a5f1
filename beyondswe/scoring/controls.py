"""Negative controls: an expected test in wrong forms, made from its trusted source, each of which must fail.

Inside one process nothing stops tested code from forging its own record, so a pass is believed only if the
same test can still fail (scoring.md, section 4). A *site* is one place in a test's source that has a real and
a wrong form, e.g. ``== (5)`` and ``== (6)``. Both forms are generated, alike in shape, so a file that is
served never equals the one in the repository, and which form it holds can be told only by knowing the right
answer.

Deliberate: sites are found by position in the source and edited as bytes, so line numbers, comments and
everything else a test may look at stay; heuristics are allowed (a constant in a helper's call), because a
site counts only after it was seen to fail on the reference patch (`verify`). Price: files in a syntax newer
than the host's Python get none.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

_UNRELATED = (
    "BufferError"  # an exception that tests do not expect; one that does expect it has other sites, or none
)
_EXPECTING = ("raises", "assertRaises", "assertRaisesRegex")


@dataclass(frozen=True)
class Site:
    """One place in a test that has two forms. Offsets are bytes; ``start == end`` is an insertion."""

    test: str  # "test_x" or "TestA::test_x": the id behind the file, without parameters
    kind: str  # constant, raises, wrapped, truth, call, last
    index: int  # position among the sites of this test; stable for a given source
    start: int
    end: int
    real: bytes
    wrong: bytes

    @property
    def key(self) -> str:
        """Name of the site in an instance's verification record."""
        return f"{self.kind}:{self.index}"


def sites(source: bytes, tests: Collection[str]) -> dict[str, list[Site]]:
    """The sites of each named test in a file; one that is not defined in it, or has none, has no entry."""
    try:
        text = source.decode("utf-8")
        tree = ast.parse(source)
    except (UnicodeDecodeError, SyntaxError, ValueError):
        return {}
    if text.startswith("\ufeff") or "\r" in text.replace("\r\n", "\n") or "\f" in text:
        return {}  # lines are counted otherwise there
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    found: dict[str, list[Site]] = {}
    for name, function in _functions(tree.body, ""):
        if name in tests:
            raw = list(_sites_of(function, source, offsets))
            here = [
                Site(name, kind, index, start, end, real, wrong)
                for index, (kind, start, end, real, wrong) in enumerate(raw)
            ]
            if here:
                found[name] = here
    return found


def render(source: bytes, all_sites: Mapping[str, list[Site]], wrong: Mapping[str, Site]) -> bytes:
    """The file with every site in its real form, but those in ``wrong`` in their wrong form."""
    chosen = set(wrong.values())
    edits = sorted(
        (site for here in all_sites.values() for site in here), key=lambda site: (site.start, site.end)
    )
    parts, at = [], 0
    for site in edits:
        if site.start < at:
            # Sites of one test do not overlap (`_sites_of`); a function defined twice under one name does.
            continue
        parts += [source[at : site.start], site.wrong if site in chosen else site.real]
        at = site.end
    parts.append(source[at:])
    return b"".join(parts)


_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Raw = tuple[str, int, int, bytes, bytes]
_Form = Callable[[bytes], bytes]  # from the text that stands there to the form that is served
_Candidate = tuple[str, ast.expr, _Form, _Form]


def _functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, _Function]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}::")
        elif isinstance(node, _Function):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _functions(node.body, prefix)


def _sites_of(function: _Function, source: bytes, offsets: list[int]) -> Iterator[_Raw]:
    def span(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return offsets[node.lineno - 1] + node.col_offset, offsets[node.end_lineno - 1] + node.end_col_offset

    taken: list[tuple[int, int]] = []
    candidates = [*_assertions(function), *_calls(function)]
    for kind, node, real, wrong in candidates:
        start, end = span(node)
        if any(start < to and since < end for since, to in taken):
            continue
        taken.append((start, end))
        own = source[start:end]
        yield kind, start, end, real(own), wrong(own)
    yield from _last(function, source, offsets)


def _assertions(function: _Function) -> Iterator[_Candidate]:
    for node in _walk(function):
        if isinstance(node, ast.Assert):
            yield from _of_assertion(node.test)
        elif isinstance(node, ast.Call) and _name(node.func) in _EXPECTING and node.args:
            yield (
                "raises",
                node.args[0],
                lambda own: b"(" + own + b")",
                lambda own: b"(" + _UNRELATED.encode() + b")",
            )


def _of_assertion(test: ast.expr) -> Iterator[_Candidate]:
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = test.left, test.comparators[0]
        if isinstance(test.ops[0], ast.Eq):
            for side in (right, left):
                if constant := _constant(side):
                    yield ("constant", *constant)
                    return
            yield "wrapped", right, lambda own: b"(" + own + b")", lambda own: b"[" + own + b"]"
            return
        if (
            isinstance(test.ops[0], ast.In)
            and isinstance(left, ast.Constant)
            and (constant := _constant(left))
        ):
            yield ("constant", *constant)
            return
    if not isinstance(test, ast.Constant):
        yield "truth", test, lambda own: b"(not not (" + own + b"))", lambda own: b"(not (" + own + b"))"


def _calls(function: _Function) -> Iterator[_Candidate]:
    """Constants among the arguments of a helper that is called as a statement: ``check(mul(2, 3), 6)``."""
    for node in _walk(function):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            for argument in reversed(node.value.args):
                if not isinstance(argument, ast.Call) and (constant := _constant(argument)):
                    yield ("call", *constant)
                    break


def _constant(node: ast.expr) -> tuple[ast.expr, _Form, _Form] | None:
    """A literal within ``node`` that can be changed to one of another value, and both its forms."""
    if isinstance(node, ast.Constant):
        value = node.value
        other: object
        if isinstance(value, bool):
            other = not value
        elif isinstance(value, int | float):
            other = value + 1 if abs(value) < 2**52 else value * 2
        elif isinstance(value, str):
            other = value + "~"
        elif isinstance(value, bytes):
            other = value + b"~"
        else:
            return None
        if other == value or other != other:
            return None
        return node, _literal(value), _literal(other)
    inner: list[ast.expr]
    match node:
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            inner = [operand]
        case ast.List(elts=inner) | ast.Tuple(elts=inner):
            pass
        case ast.Dict(values=inner):
            pass
        case ast.Call(args=[first, *_]) if _name(node.func) == "approx":
            inner = [first]
        case _:
            return None
    return next((found for part in inner if (found := _constant(part))), None)


def _literal(value: object) -> _Form:
    """The value in brackets, over as many lines as what stood there: later lines keep their numbers."""
    return lambda own: f"({value!r}".encode() + b"\n" * own.count(b"\n") + b")"


def _last(function: _Function, source: bytes, offsets: list[int]) -> Iterator[_Raw]:
    """A true or a false assertion as the last thing that the test does (before a closing ``return``)."""
    final = function.body[-1]
    if final.lineno == function.lineno or any(
        isinstance(node, ast.Yield | ast.YieldFrom) for node in _walk(function)
    ):
        return
    at_line = (
        final.lineno if isinstance(final, ast.Return | ast.Raise) else (final.end_lineno or final.lineno) + 1
    )
    begin = offsets[final.lineno - 1]
    indent = source[begin : begin + final.col_offset]
    if indent.strip():
        return  # several statements on one line
    at = offsets[at_line - 1] if at_line <= len(offsets) - 1 else len(source)
    before = b"" if at == 0 or source[at - 1 : at] == b"\n" else b"\n"
    yield "last", at, at, before + indent + b"assert 1 == 1\n", before + indent + b"assert 1 == 0\n"


def _walk(function: _Function) -> Iterator[ast.AST]:
    """Nodes of the body in source order, without f-strings (their positions are not to be relied on)."""
    stack: list[ast.AST] = list(reversed(function.body))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.JoinedStr):
            continue
        yield node
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""

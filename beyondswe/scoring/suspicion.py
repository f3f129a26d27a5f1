"""A static look at what a patch adds to code that is no test: flags for what only code needs that reads the tests,
or whoever runs them.

A flag is no proof and never changes a verdict by itself (flags.py); people look, and ``--strict`` counts. What the
file before the change, the rest of the source, or the reference has as well is no sign of anything. Code that wants
to hide can: a name put together at run time is not seen.
"""

from __future__ import annotations

import ast
import doctest
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALWAYS_ODD = _words(
    """
    pytest_internals PYTEST_CURRENT_TEST asks_for_pytest reads_tests equal_to_everything ptrace hidden_code
    test_module_exchanged code_exchanged
    """
)
"""The marks that count where there is neither a source before nor a reference to compare with."""

_ATTRIBUTES = {
    "sys._getframe": "frames",
    "sys._current_frames": "frames",
    "inspect.stack": "frames",
    "inspect.currentframe": "frames",
    "inspect.getouterframes": "frames",
    "gc.get_objects": "gc",
    "gc.get_referrers": "gc",
    "os._exit": "os._exit",
    "sys.settrace": "settrace",
    "sys.setprofile": "settrace",
    "threading.settrace": "settrace",
    "threading.setprofile": "settrace",
    "linecache.getline": "reads_tests",
    "linecache.getlines": "reads_tests",
    "unittest.mock.ANY": "equal_to_everything",
}
_MEMBERS = {"f_back": "frames", "ptrace": "ptrace", "process_vm_writev": "ptrace"}
_TEXTS = {
    "PYTEST_CURRENT_TEST": "PYTEST_CURRENT_TEST",
    "_getframe": "frames",
    "currentframe": "frames",
    "get_objects": "gc",
    "ptrace": "ptrace",
    "runtestprotocol": "pytest_internals",
    "pytest_runtest_makereport": "pytest_internals",
}
_INTERNALS = re.compile(r"_pytest(\.|$)")
_PROCESS = re.compile(r"/proc/(1|self|thread-self|\d+)(/(fd|mem|maps|environ|task)|/?$)")
_TEST_FILES = re.compile(
    r"(^|[/*])(test_[\w*]*|[\w*]*_test|test[*])(\.py|\*)|(^|/)(tests?|suite)/.*\.py$|test_fail_to_pass"
)
_TEST_MODULE = re.compile(r"(^|[._])tests?([._]|$)|pytest")
_READERS = _words(
    "open glob iglob rglob read_text read_bytes listdir scandir walk iterdir getsource getsourcelines"
)
_HIDING = _words("b64decode b85decode a85decode decompress fromhex unhexlify loads decode read read_text")
_TELLS = {
    "pytest_internals": re.compile(rb"\b_pytest\b"),
    "asks_for_pytest": re.compile(rb"pytest['\"]\]? (not )?in sys\.modules|sys\.modules.*['\"]pytest['\"]"),
    "frames": re.compile(rb"_getframe|currentframe|inspect\.stack|\bf_back\b"),
    "gc": re.compile(rb"get_objects|get_referrers"),
    "os._exit": re.compile(rb"\b_exit\("),
    "settrace": re.compile(rb"settrace|setprofile"),
    "process_files": re.compile(rb"/proc/"),
    "builtins_exchanged": re.compile(rb"builtins\.\w+ ="),
    "code_exchanged": re.compile(rb"\.__code__ ="),
}
"""What is looked for in the rest of the source. Of the other marks none is any project's way."""

_HINTS = re.compile(
    rb"_pytest|[\"']pytest[\"']|PYTEST_CURRENT_TEST|_getframe|_current_frames|inspect\b|f_back|currentframe|get_objects"
    rb"|get_referrers|\b_exit\b|settrace|setprofile|linecache|ptrace|process_vm_writev|runtestprotocol|makereport"
    rb"|/proc|test[\w*]*\.py|test\*|tests?/|suite/|test_fail_to_pass|__code__|__eq__|\bANY\b|builtins|\bexec\b|\beval\b"
    rb"|\bcompile\b|\bmodules\b|\bsetattr\b|^[ \t]*(?!self\b|cls\b)[A-Za-z_]\w*(\.\w+)+[ \t]*=(?!=)",
    re.MULTILINE,
)
"""A file without any of these has no mark: parsing is what costs."""
_LEFT_ALONE = sys.stdlib_module_names - _words(
    """
    sys warnings logging signal threading socket ssl select locale multiprocessing readline builtins __main__ asyncio
    __future__ tkinter turtle site gc faulthandler
    """
)
"""Modules that tests and runner rely on, and that a program sets nothing in."""
_TRIVIAL = (0, 1, -1, "", b"", True, False, None, ...)
_ENOUGH = 2  # values of the tests that must be found, all in all
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SHOWN = 6  # flags of one patch
_LOOKED_AT = 4 << 20  # bytes of all files: parsing them is the host's work


def marks(source: bytes) -> frozenset[str]:
    """What is found in a Python file, by short names that go into flags."""
    tree = _parsed(source) if _HINTS.search(source) else None
    return frozenset(_marks(tree)) if tree is not None else frozenset()


def suspicious_marks(
    changed: Mapping[bytes, tuple[bytes | None, bytes]], known: Collection[str]
) -> list[tuple[bytes, str]]:
    """What each changed file (path: text before, text after) has that it had not, less what is ``known``."""
    found: list[tuple[bytes, str]] = []
    left = _LOOKED_AT
    for path, (before, after) in sorted(changed.items()):
        if path.endswith((b".so", b".pyd")):
            found += [(path, "compiled")] if before is None else []
            continue
        left -= len(after)
        if left < 0:
            return [*found[: _SHOWN - 1], (path, "not_looked_at")]
        if (new := marks(after) - frozenset(known)) and before is not None:
            new -= marks(before)
        found += [(path, mark) for mark in sorted(new)]
    return found[:_SHOWN]


def is_common(mark: str, sources: Iterable[bytes]) -> bool:
    """Whether other source files have what a mark stands for as well: then it is this project's way."""
    tell = _TELLS.get(mark)
    return tell is not None and any(tell.search(source) for source in sources)


def holds_expected_values(
    changed: Mapping[bytes, tuple[bytes | None, bytes]],
    tests: Mapping[str, Collection[object]],
    reference: Collection[object],
) -> bytes | None:
    """The file that newly holds, as literals, what every one of the tests compares with; None: there is none.

    ``tests``: the values of each test, see `asserted_values`; ``reference``: literals that the reference adds.
    """
    wanted = {_key(value) for values in tests.values() for value in values}
    if len(wanted) < _ENOUGH or wanted & {_key(value) for value in reference}:
        return None
    left = _LOOKED_AT
    for path, (before, after) in sorted(changed.items()):
        left -= len(after)
        if left < 0:
            break
        if not path.endswith(b".py") or not all(_written(value) in after for _, value in wanted):
            continue
        if not wanted <= set(map(_key, literals(after))):
            continue
        if not wanted.intersection(map(_key, literals(before or b""))):
            return path
    return None


def doctests_of(source: bytes) -> frozenset[tuple[str, str]]:
    """The examples in a file's docstrings: what is typed, and what must come of it."""
    found: set[tuple[str, str]] = set()
    for node in ast.walk(_parsed(source) or ast.Module([], [])):
        if isinstance(node, ast.Module | ast.ClassDef | _Function) and (text := ast.get_docstring(node)):
            try:
                examples = doctest.DocTestParser().get_examples(text)
            except ValueError:
                continue  # it never ran
            found |= {(example.source, example.want) for example in examples}
    return frozenset(found)


def literals(source: bytes) -> list[object]:
    """Numbers and texts that stand in a file, docstrings left out."""
    tree = _parsed(source)
    return list(_literals(tree)) if tree is not None else []


def asserted_values(source: bytes, tests: Collection[str]) -> dict[str, list[object]]:
    """The literals in the assertions (and helper calls, and parameters) of each test of a file, less trivial ones."""
    tree = _parsed(source)
    found: dict[str, list[object]] = {}
    for name, function in _functions(tree.body if tree else [], ""):
        if name not in tests:
            continue
        values: list[object] = []
        for node in ast.walk(function):
            if isinstance(node, ast.Assert) or (
                isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
            ):
                values += _literals(node)
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call):
                values += [value for argument in decorator.args[1:] for value in _literals(argument)]
        found[name] = [value for value in values if value not in _TRIVIAL]
    return found


def _written(value: object) -> bytes:
    """What stands in a file that holds a value, as long as nobody wrote it in an odd way."""
    if isinstance(value, int | float | complex):
        return repr(value).lstrip("-").encode()
    text = repr(value).lstrip("b")[1:-1]
    return re.split(r"\\\\|['\"]", text)[0].encode()


def _key(value: object) -> tuple[str, object]:
    return type(value).__name__, value


@lru_cache(maxsize=4)  # of one file, asked for its marks and its literals
def _parsed(source: bytes) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # nothing that the tests could import either, or of another Python


def _functions(body: Iterable[ast.stmt], prefix: str) -> Iterator[tuple[str, _Function]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}::")
        elif isinstance(node, _Function):
            yield f"{prefix}{node.name}", node


def _literals(tree: ast.AST) -> Iterator[object]:
    for node in _nodes(tree):
        if isinstance(node, ast.Constant):
            yield node.value
        elif (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.USub)
            and isinstance(node.operand, ast.Constant)
            and isinstance(node.operand.value, int | float)
        ):
            yield -node.operand.value


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but texts that stand by themselves (docstrings)."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant):
            yield node
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant) and not isinstance(node, ast.Expr):
                yield child


def _marks(tree: ast.Module) -> Iterator[str]:
    names = dict(_imported(tree))
    reads = any(_last_name(node) in _READERS for node in ast.walk(tree) if isinstance(node, ast.Call))
    for node in _nodes(tree):
        match node:
            case ast.Import(names=aliases):
                yield from ("pytest_internals" for alias in aliases if _INTERNALS.match(alias.name))
            case ast.ImportFrom(module=str(module)):
                if _INTERNALS.match(module):
                    yield "pytest_internals"
            case ast.Attribute(attr="__code__", ctx=ast.Store()):
                yield "code_exchanged"
            case ast.Attribute(attr=name):
                if mark := _ATTRIBUTES.get(_dotted(node, names)) or _MEMBERS.get(name):
                    yield mark
            case ast.Name(id=name) if mark := _ATTRIBUTES.get(names.get(name, "")):
                yield mark
            case ast.Constant(value=str(text)):
                yield from _of_text(text, reads)
            case ast.FunctionDef(name="__eq__", body=body) if _is_true(body):
                yield "equal_to_everything"
            case ast.Assign(targets=targets, value=ast.Lambda(body=ast.Constant(value=True))):
                if any(_last_part(target) == "__eq__" for target in targets):
                    yield "equal_to_everything"
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if _text(key) == "__eq__" and isinstance(value, ast.Lambda):
                        yield "equal_to_everything"
            case ast.Compare() | ast.Subscript() | ast.Call():
                yield from _of_modules(node, names)
                if isinstance(node, ast.Call) and _last_name(node) == "setattr" and len(node.args) > 1:
                    if _is_of_stdlib(node.args[0], names):
                        yield "stdlib_exchanged"
                elif isinstance(node, ast.Call) and _last_name(node) in ("exec", "eval", "compile"):
                    inner = (part for argument in node.args for part in ast.walk(argument))
                    if any(isinstance(part, ast.Call) and _last_name(part) in _HIDING for part in inner):
                        yield "hidden_code"
            case ast.Assign(targets=targets):
                for target in targets:
                    if _dotted(target, names).startswith(("builtins.", "__builtins__.")):
                        yield "builtins_exchanged"
                    elif isinstance(target, ast.Attribute) and _is_of_stdlib(target.value, names):
                        yield "stdlib_exchanged"


def _is_of_stdlib(node: ast.expr, names: Mapping[str, str]) -> bool:
    """Whether it is a module or class of the standard library, imported here, that no program has to change."""
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or root.id not in names:
        return False
    return _dotted(node, names).partition(".")[0] in _LEFT_ALONE


def _of_text(text: str, reads: bool) -> Iterator[str]:
    if _INTERNALS.match(text):
        yield "pytest_internals"
    if text in _TEXTS:
        yield _TEXTS[text]
    if _PROCESS.search(text):
        yield "process_files"
    if reads and len(text) < 200 and _TEST_FILES.search(text):
        yield "reads_tests"


def _of_modules(node: ast.AST, names: Mapping[str, str]) -> Iterator[str]:
    """``"pytest" in sys.modules`` and its like; another's module put in the place of the tests'."""
    parts = list(ast.iter_child_nodes(node))
    parts += [
        part for child in parts if isinstance(child, ast.Attribute) for part in ast.iter_child_nodes(child)
    ]
    if any(_dotted(part, names) == "sys.modules" for part in parts):
        words = [_text(part) or "" for part in parts]
        if "pytest" in words:
            yield "asks_for_pytest"
        stored = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        if stored and any(_TEST_MODULE.search(word) for word in words):
            yield "test_module_exchanged"


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names in a file and the dotted name of what was imported under each."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    alias.asname or alias.name.partition(".")[0],
                    alias.name if alias.asname else (alias.name.partition(".")[0]),
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _dotted(node: ast.AST, names: Mapping[str, str]) -> str:
    match node:
        case ast.Name(id=name):
            return names.get(name, name)
        case ast.Attribute(value=value, attr=attribute):
            return f"{_dotted(value, names)}.{attribute}"
        case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str(name))]):
            return name
    return ""


def _last_name(call: ast.Call) -> str:
    return _last_part(call.func)


def _last_part(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_true(body: list[ast.stmt]) -> bool:
    last = body[-1]
    rest = body[:-1]
    alone = all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in rest)
    return alone and isinstance(last, ast.Return) and _is_constant_true(last.value)


def _is_constant_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True

"""Programs given to an interpreter: their texts, the commands they run, whether they use the network."""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from beyondswe.blocklist.bash.words import UNKNOWN
from beyondswe.blocklist.hosts import words

_PYTHON_NETWORK = re.compile(
    r"\b(?:urllib\d?|urlopen|urlretrieve|requests|httpx|aiohttp|http\.client|HTTPS?Connection|socket|ssl|dulwich|pygit2|"
    r"git\.Repo|gitpython|from git import|import git\b|github3?|pycurl"
    r"|ftplib|paramiko|selenium|playwright|webbrowser|websockets?|"
    r"open_connection|tornado|treq|mechanize|wget|datasets|huggingface_hub|load_dataset|snapshot_download|"
    r"curl_cffi|niquests)\b"
)
_OTHER_NETWORK = re.compile(
    r"fetch|https?\b|request|axios|\bnet\b|\btls\b|Net::|LWP|Mojo|open-uri|URI|curl|file_get_contents|fopen|Socket|"
    r"XMLHttp|got\(|wget|download\.file|readLines|url\(|TCP|octokit|simple-git|nodegit|rugged",
    re.I,
)
_PYTHON_RUNS = words(
    """
    system popen run call check_call check_output Popen getoutput getstatusoutput spawn execv execvp execl
    execlp execve execlpe execvpe spawnl spawnlp spawnv spawnvp posix_spawn posix_spawnp
    create_subprocess_shell create_subprocess_exec
    """
)
_OTHER_RUNS = re.compile(
    r"\b(?:system|exec|execSync|execFile|execFileSync|spawn|spawnSync|popen|shell_exec|passthru|proc_open|os\.execute|"
    r"io\.popen|qx|IO\.popen|Open3\.\w+|system2|run|exec\.Command)\s*[({\[/|!<]?\s*"
)
_LITERAL = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|`((?:[^`\\]|\\.)*)`", re.S)
_GLUE = re.compile(r"\s*(?:\+|\.\.?|<>)\s*")


_GIT_LIBRARY = re.compile(r"\b(?:dulwich|pygit2|gitpython|import git|from git|sh\.git|plumbum)\b")
_GIT_FETCH = re.compile(r"\b(?:fetch|pull|ls_remote|remote_update)\b")


@dataclass
class Program:
    """What is known of a program from its text."""

    texts: list[str] = field(default_factory=list)
    commands: list[str | list[str]] = field(default_factory=list)
    """Commands it runs: a text for a shell, or words."""
    network: bool = False
    printed: str | None = None
    fetches: bool = False
    """Whether it calls fetch or pull of a git library."""
    modules: list[tuple[str, list[str]]] = field(default_factory=list)
    """Modules it runs as programs, with their arguments (pip)."""


def python(source: str, depth: int = 0) -> Program:
    """Read a Python program; one that does not parse is read as any other language."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        program = other(source)
        program.network = bool(_PYTHON_NETWORK.search(source))
        return program
    reader = _Reader()
    try:
        reader.visit(tree)
    except RecursionError:
        return other(source)
    program = reader.program
    used = " ".join(_identifiers(tree))
    program.network = bool(_PYTHON_NETWORK.search(used)) or any(
        _PYTHON_NETWORK.fullmatch(one) for one in program.texts
    )
    for inner in reader.sources if depth < 4 else ():
        found = python(inner, depth + 1)
        program.texts += found.texts
        program.commands += found.commands
        program.modules += found.modules
        program.network = program.network or found.network
    program.fetches = bool(_GIT_LIBRARY.search(used) and _GIT_FETCH.search(used))
    return program


def _identifiers(tree: ast.AST) -> Iterator[str]:
    """Names a program uses: modules, variables, attributes with what they are of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"import {one.name}" for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield f"from {node.module} import " + " ".join(one.name for one in node.names)
        elif isinstance(node, ast.Attribute):
            yield f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else node.attr
        elif isinstance(node, ast.Name):
            yield node.id


class _Reader(ast.NodeVisitor):
    """Folds texts of a syntax tree, with the names that were given a text before."""

    def __init__(self) -> None:
        self.program = Program(printed="")
        self.names: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}
        self.imported: dict[str, str] = {}
        """Names under which functions were imported, with their own names."""
        self.sources: list[str] = []
        """Programs that this one runs from a text."""

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            value = self.fold(node.value)
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    if value is not None:
                        self.names[target.id] = value
                    elif isinstance(node.value, ast.List | ast.Tuple):
                        self.lists[target.id] = self.items(node.value)
        if isinstance(node, ast.Import | ast.ImportFrom):
            self.imported.update({one.asname: one.name for one in node.names if one.asname})
            return
        if isinstance(node, ast.Call):
            self._call(node)
        if isinstance(node, ast.expr):
            text = self.fold(node)
            if text is not None:
                self.program.texts.append(text)
                for child in ast.iter_child_nodes(node):
                    if isinstance(node, ast.Call):
                        self.visit(child)
                return
        self.generic_visit(node)

    def _call(self, node: ast.Call) -> None:
        name = _called(node.func)
        name = self.imported.get(name, name)
        if name == "print":
            parts = [self.fold(one) for one in node.args]
            if self.program.printed is not None and None not in parts:
                self.program.printed += " ".join(filter(None, parts)) + "\n"
            else:
                self.program.printed = None
        if name in _PYTHON_RUNS and node.args:
            first = node.args[0]
            words = self.items(first) if isinstance(first, ast.List | ast.Tuple) else None
            if isinstance(first, ast.Name) and first.id in self.lists:
                words = self.lists[first.id]
            if words is None and isinstance(first, ast.Call) and _called(first.func) == "split":
                split = self.fold(first.func.value) if isinstance(first.func, ast.Attribute) else None
                words = split.split() if split else None
            text = self.fold(first)
            rest = node.args[1:]
            if name.startswith(("exec", "spawn", "posix_spawn")) or name == "create_subprocess_exec":
                given = [
                    word
                    for one in rest
                    for word in (
                        self.items(one)
                        if isinstance(one, ast.List | ast.Tuple)
                        else [self.fold(one) or UNKNOWN]
                    )
                ]
                if text:
                    self.program.commands.append(
                        [text, *(given[1:] if name != "create_subprocess_exec" and given else given)]
                    )
                    return
            if words:
                self.program.commands.append(words)
            elif text:
                self.program.commands.append(text)
        if name in ("exec", "eval", "compile") and node.args and isinstance(node.func, ast.Name):
            source = self.fold(node.args[0])
            if source:
                self.sources.append(source)
        if name in ("main", "_main", "_internal_main") and node.args and isinstance(node.args[0], ast.List):
            self.program.modules.append(("pip", self.items(node.args[0])))

    def items(self, node: ast.List | ast.Tuple) -> list[str]:
        found: list[str] = []
        for one in node.elts:
            if isinstance(one, ast.Starred) and isinstance(one.value, ast.Name):
                found += self.lists.get(one.value.id, [UNKNOWN])
            else:
                text = self.fold(one)
                found.append(UNKNOWN if text is None else text)
        return found

    def fold(self, node: ast.AST) -> str | None:
        """The text that an expression is, None where that is not known."""
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bytes):
                return node.value.decode("utf-8", "replace")
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            return "python3" if node.attr == "executable" else None
        if isinstance(node, ast.BinOp):
            return self._operation(node)
        if isinstance(node, ast.JoinedStr):
            parts = [
                self.fold(one.value if isinstance(one, ast.FormattedValue) else one) for one in node.values
            ]
            return "".join(UNKNOWN if one is None else one for one in parts)
        if isinstance(node, ast.Subscript):
            value = self.fold(node.value)
            sliced = node.slice
            if value is not None and isinstance(sliced, ast.Slice):
                step = sliced.step
                if isinstance(step, ast.UnaryOp) and sliced.lower is None and sliced.upper is None:
                    return value[::-1]
            return None
        return self._folded_call(node) if isinstance(node, ast.Call) else None

    def _operation(self, node: ast.BinOp) -> str | None:
        left = self.fold(node.left)
        if left is None and not isinstance(node.op, ast.Add):
            return None
        if isinstance(node.op, ast.Add):
            right = self.fold(node.right)
            if left is None and right is None:
                return None
            return (UNKNOWN if left is None else left) + (UNKNOWN if right is None else right)
        if isinstance(node.op, ast.Mod) and left is not None:
            values = (
                self.items(node.right)
                if isinstance(node.right, ast.Tuple)
                else [self.fold(node.right) or UNKNOWN]
            )
            return re.sub(r"%[sdr]", lambda _: values.pop(0) if values else UNKNOWN, left)
        return None

    def _folded_call(self, node: ast.Call) -> str | None:
        name = _called(node.func)
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        args = [self.fold(one) for one in node.args]
        first = args[0] if args else None
        if (
            name in ("b64decode", "urlsafe_b64decode", "standard_b64decode", "decodebytes", "b32decode")
            and first
        ):
            return _decoded(first, name)
        if name in ("unhexlify", "fromhex", "a2b_hex") and first:
            try:
                return bytes.fromhex(first).decode("utf-8", "replace")
            except ValueError:
                return None
        if (
            name == "chr"
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, int)
        ):
            return chr(node.args[0].value)
        if name in ("bytes", "bytearray") and node.args and isinstance(node.args[0], ast.List | ast.Tuple):
            return self._numbers(node.args[0])
        if name in ("bytes", "str", "unquote", "Request", "URL", "quote") and first is not None:
            if name == "unquote":
                from urllib.parse import unquote

                return unquote(first)
            return first
        if name == "decode" and len(args) > 1 and args[1] and "rot" in args[1] and first:
            return codecs.decode(first, "rot13")
        if inner is None:
            return None
        text = self.fold(inner)
        if name == "join" and text is not None and node.args:
            return self._joined(text, node.args[0])
        if text is None:
            return None
        if name in ("decode", "encode") and args and args[0] and "rot" in args[0]:
            return codecs.decode(text, "rot13")
        if name in ("decode", "encode", "strip", "rstrip", "lstrip", "lower", "format", "replace", "upper"):
            if name == "replace" and len(args) > 1 and args[0] is not None and args[1] is not None:
                return text.replace(args[0], args[1])
            if name == "format":
                values = [UNKNOWN if one is None else one for one in args]
                named = {one.arg: self.fold(one.value) or UNKNOWN for one in node.keywords if one.arg}
                text = re.sub(
                    r"\{(\w*)[^}]*\}", lambda m: named.get(m[1], values.pop(0) if values else UNKNOWN), text
                )
            return text.lower() if name == "lower" else text
        return None

    def _numbers(self, node: ast.List | ast.Tuple) -> str | None:
        numbers = [one.value for one in node.elts if isinstance(one, ast.Constant)]
        if len(numbers) == len(node.elts) and all(
            isinstance(one, int) and 0 <= one < 0x110000 for one in numbers
        ):
            return "".join(chr(one) for one in numbers if isinstance(one, int))
        return None

    def _joined(self, separator: str, node: ast.AST) -> str | None:
        if isinstance(node, ast.List | ast.Tuple):
            return separator.join(self.items(node))
        if isinstance(node, ast.Name) and node.id in self.lists:
            return separator.join(self.lists[node.id])
        if isinstance(node, ast.Call) and _called(node.func) == "map" and len(node.args) == 2:
            second = node.args[1]
            if _called(node.args[0]) == "chr" and isinstance(second, ast.List | ast.Tuple):
                return self._numbers(second)
        if isinstance(node, ast.Call) and _called(node.func) == "reversed" and node.args:
            text = self.fold(node.args[0])
            return text[::-1] if text else None
        if isinstance(node, ast.GeneratorExp | ast.ListComp) and _called(node.elt) == "chr":
            source = node.generators[0].iter
            return self._numbers(source) if isinstance(source, ast.List | ast.Tuple) else None
        return None


def _called(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return _called(node.func)
    return node.id if isinstance(node, ast.Name) else ""


def _decoded(text: str, name: str = "b64decode") -> str | None:
    try:
        if name == "b32decode":
            return base64.b32decode(text).decode("utf-8", "replace")
        packed = text.replace("-", "+").replace("_", "/")
        return base64.b64decode(packed + "=" * (-len(packed) % 4)).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


def other(source: str, arguments: Sequence[str] = ()) -> Program:
    """Read a program in any other language by its literals."""
    program = Program()
    options = " ".join(one for one in arguments if one != source)
    literals = list(_LITERAL.finditer(source))
    joined, end = "", -1
    for found in literals:
        text = next(one for one in found.groups() if one is not None)
        text = re.sub(r"\\(['\"`\\/])", r"\1", text)
        glued = end >= 0 and _GLUE.fullmatch(source[end : found.start()])
        joined = joined + text if glued else text
        if glued:
            program.texts[-1] = joined
        else:
            program.texts.append(joined)
        end = found.end()
    bare = _LITERAL.sub(" ", source)
    modules = " ".join(
        text for text in program.texts if re.fullmatch(r"[@\w./:-]{2,24}", text) and "." not in text
    )
    program.network = bool(_OTHER_NETWORK.search(f"{bare} {options} {modules}"))
    for text in list(program.texts):
        if re.fullmatch(r"[A-Za-z0-9+/_-]{12,}={0,2}", text) and re.search(
            r"base64|atob|b64|unpack", source, re.I
        ):
            clear = _decoded(text)
            if clear and clear.isprintable():
                program.texts.append(clear)
    for found in _OTHER_RUNS.finditer(source):
        follow = source[found.end() : found.end() + 2000]
        inside = re.split(r"\)\s*(?:[;.,]|$)|;|\n", follow, maxsplit=1)[0]
        words = [next(one for one in hit.groups() if one is not None) for hit in _LITERAL.finditer(inside)]
        if len(words) == 1:
            program.commands.append(words[0])
        elif words:
            program.commands.append(words)
        elif found[0].rstrip()[-1:] in "{([/|!<":
            program.commands.append(re.split(r"[})\]/|!>]", follow, maxsplit=1)[0])
    for found in re.finditer(r"`([^`]+)`", source):
        program.commands.append(found[1])
    return program

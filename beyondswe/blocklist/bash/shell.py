"""Walks a parsed command as a shell would, without running anything: who is called with which words and which input."""

from __future__ import annotations

import posixpath
import re
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from beyondswe.blocklist.bash.words import (
    UNKNOWN,
    Scope,
    TooLong,
    cut_at_operators,
    expand,
    expand_all,
    here,
    text_of,
    within,
)

if TYPE_CHECKING:
    from tree_sitter import Language, Node

_DEEPEST = 24
_MOST_CALLS = 10_000
_MOST_BYTES = 16 << 20
"""Bytes of all sources that are parsed for one command: itself, and the commands inside it."""
_MOST_PIPES = 4000
"""In one source: what the grammar takes for a pipeline without an end grows with their square."""
_MOST_SECONDS = 5.0
"""Of the processor, for one command."""
_MOST_TURNS = 32
_NESTED_COMMANDS = frozenset(("command_substitution", "process_substitution"))
_TIME = re.compile(r"(^|[;&|({\n][ \t]*)time[ \t]+(?:-p[ \t]+)?(?=[^-\s])")
"""The word of the shell that measures what follows, which the grammar takes for a program."""
_SEQUENCES = frozenset(
    [
        "program",
        "list",
        "compound_statement",
        "subshell",
        "do_group",
        "if_statement",
        "elif_clause",
        "else_clause",
        "negated_command",
        "case_statement",
        "case_item",
        "ERROR",
    ]
)


@dataclass(frozen=True)
class Call:
    """A program that is called: its words, what it reads (None: nobody can say), its environment, as written."""

    words: tuple[str, ...]
    stdin: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    source: str = ""

    @property
    def name(self) -> str:
        return posixpath.basename(self.words[0]) if self.words else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.words[1:]


class Judge(Protocol):
    """Who looks at each call; raises to refuse it. Answers what the call prints, None where nobody can say."""

    def call(self, call: Call, shell: Shell) -> str | None: ...

    def reads(self, path: str, shell: Shell) -> None: ...


@lru_cache(maxsize=1)
def _language() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


@dataclass
class Shell:
    """The state of a shell so far as it is known."""

    judge: Judge
    variables: dict[str, str] = field(default_factory=lambda: {"HOME": "~", "IFS": " \t\n"})
    functions: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Texts that this command itself wrote, by path."""
    marks: dict[str, str] = field(default_factory=dict)
    """What a judge keeps between calls."""
    directory: str = "."
    depth: int = 0
    calls: int = 0
    parsed: int = 0  # bytes
    started: float = field(default_factory=time.thread_time)

    def is_late(self) -> bool:
        return time.thread_time() - self.started > _MOST_SECONDS

    def _parse(self, data: bytes) -> Node:
        """The tree of a source; `TooLong` where reading it takes too much."""
        from tree_sitter import Parser

        self.parsed += len(data)
        if self.parsed > _MOST_BYTES or data.count(b"|") > _MOST_PIPES or self.is_late():
            raise TooLong
        parser = Parser(_language())  # one of its own: other threads may run while it asks back
        try:
            tree = parser.parse(
                lambda at, _: data[at : at + 65536], progress_callback=lambda *_: self.is_late()
            )
        except ValueError:  # it was told to stop
            raise TooLong from None
        return tree.root_node

    def run(self, source: str, stdin: str | None = None) -> str | None:
        """Walk a source text; what it prints, None where nobody can say."""
        if self.depth >= _DEEPEST or not source.strip():
            return "" if not source.strip() else None
        self.depth += 1
        try:
            source = _TIME.sub(r"\1", source)
            data = source.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
            root = self._parse(data)
            if root.has_error:
                self._loosely(source, stdin)
            return _Walk(self, data).visit(root, stdin)
        finally:
            self.depth -= 1

    def _loosely(self, source: str, stdin: str | None) -> None:
        """Where the grammar gives up: each piece between the operators on its own, so that nothing is passed over."""
        for piece in cut_at_operators(source):
            if piece.strip() == source.strip():
                continue
            self.run(piece, stdin)

    def scope(self) -> Scope:
        return Scope(self.variables, self.output, self._substituted)

    def output(self, source: str) -> str:
        """What a command substitution becomes."""
        found = re.fullmatch(r"\s*<\s*(\S+)\s*", source)
        printed = self.read_file(found[1]) if found else self.run(source)
        return UNKNOWN if printed is None else printed.rstrip("\n")

    def _substituted(self, source: str, direction: str) -> str:
        if direction == ">":
            self.run(source)
            return "/dev/fd/out"
        printed = self.run(source)
        path = f"/dev/fd/{len(self.files) + 10}"
        if printed is not None:
            self.files[path] = printed
        return path

    def path(self, name: str) -> str:
        """A path as one name: without ``.`` and ``..``, below the folder the shell is in."""
        return posixpath.normpath(posixpath.join(self.directory, name))

    def read_file(self, name: str) -> str | None:
        """A text that this command wrote before, None for any other file."""
        self.judge.reads(name, self)
        return self.files.get(self.path(name))

    def write_file(self, name: str, text: str | None, *, append: bool = False) -> None:
        path = self.path(name)
        if text is None:
            self.files.pop(path, None)
        else:
            self.files[path] = within((self.files.get(path, "") if append else "") + text)

    def execute(self, call: Call) -> str | None:
        """One call: aliases, functions and builtins of the shell first, then the judge."""
        self.calls += 1
        if self.calls > _MOST_CALLS or self.is_late():
            raise TooLong
        if not call.words or self.depth >= _DEEPEST:
            return None
        first = call.words[0]
        if first in self.functions:
            return self._function(first, call)
        if first in self.aliases:
            text, rest = self.aliases[first], list(call.arguments)
            self.depth += 1
            try:
                words = expand_all(text, self.scope())
                if re.search(r"[;&|<>$`\n]", text):
                    return self.run(" ".join([text, *map(_quoted, rest)]), call.stdin)
                if words and words[0] != first:
                    return self.execute(Call((*words, *rest), call.stdin, call.environment, call.source))
            finally:
                self.depth -= 1
        return self.judge.call(call, self)

    def _function(self, name: str, call: Call) -> str | None:
        kept = dict(self.variables)
        self.variables.update({str(at): word for at, word in enumerate(call.words)})
        self.variables["@"] = self.variables["*"] = " ".join(call.arguments)
        self.depth += 1
        try:
            return self.run(self.functions[name], call.stdin)
        finally:
            self.depth -= 1
            for at in [*map(str, range(len(call.words))), "@", "*"]:
                self.variables.pop(at, None)
                if at in kept:
                    self.variables[at] = kept[at]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class _Walk:
    """The walk over one source."""

    def __init__(self, shell: Shell, data: bytes) -> None:
        self.shell = shell
        self.data = data

    def text(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def visit(self, node: Node, stdin: str | None = None) -> str | None:
        """Walk a statement; what it prints."""
        kind = node.type
        visitor = getattr(self, f"_{kind}", None)
        if visitor is not None:
            printed: str | None = visitor(node, stdin)
            return printed
        if kind in _SEQUENCES:
            return self._sequence(node, stdin)
        if kind == "variable_assignment":
            self._assign(node)
            return ""
        if kind == "variable_assignments":
            for child in node.named_children:
                self._assign(child)
            return ""
        self._inside(node)
        return ""

    def _sequence(self, node: Node, stdin: str | None) -> str | None:
        printed: str | None = ""
        for child in node.named_children:
            if child.type in ("comment", "word", "heredoc_body", "heredoc_end"):
                continue
            one = self.visit(child, stdin)
            printed = None if printed is None or one is None else within(printed + one)
        return printed

    def _inside(self, node: Node) -> None:
        """Substitutions inside of what is not walked itself."""
        for child in node.children:
            if child.type in _NESTED_COMMANDS:
                expand(self.text(child), self.shell.scope())
            else:
                self._inside(child)

    def _pipeline(self, node: Node, stdin: str | None) -> str | None:
        flowing = stdin
        for child in node.named_children:
            if child.type != "comment":
                flowing = self.visit(child, flowing)
        return flowing

    def _command(self, node: Node, stdin: str | None) -> str | None:
        scope = self.shell.scope()
        words: list[str] = []
        environment: list[tuple[str, str]] = []
        redirects: list[Node] = []
        for child in node.children:
            kind = child.type
            if kind == "variable_assignment":
                environment.append(self._assignment(child))
            elif kind.endswith("_redirect"):
                redirects.append(child)
            elif kind == "command_name" or (
                kind not in ("comment", "<", ">", "<<", ">>", "ERROR") and child.is_named
            ):
                words += expand(self.text(child).lstrip("\n"), scope)
            elif kind == "ERROR":
                words += expand_all(self.text(child).strip("<>&|;"), scope)
            elif not child.is_named and kind in (
                "-",
                "=~",
                "==",
                "=",
                "!",
                "[",
                "]",
                "%",
                "+",
                "/",
                ",",
                ":",
            ):
                words.append(kind)
        stdin, targets = self._redirected(redirects, stdin)
        if not words:
            self.shell.variables.update(environment)
            return self._written("", targets)
        held = {name: self.shell.variables.get(name) for name, _ in environment}
        self.shell.variables.update(environment)
        try:
            call = Call(tuple(words), stdin, tuple(environment), self.text(node))
            printed = self.shell.execute(call)
        finally:
            for name, value in held.items():
                if value is None:
                    self.shell.variables.pop(name, None)
                else:
                    self.shell.variables[name] = value
        return self._written(printed, targets)

    def _redirected_statement(self, node: Node, stdin: str | None) -> str | None:
        redirects = [child for child in node.named_children if child.type.endswith("_redirect")]
        following: list[Node] = []
        stdin, targets = self._redirected(redirects, stdin, following)
        printed: str | None = ""
        for child in node.named_children:
            if not child.type.endswith("_redirect") and child.type not in ("comment", "ERROR"):
                printed = self.visit(child, stdin)
        printed = self._written(printed, targets)
        for child in following:
            printed = self.visit(child, printed if child.type == "pipeline" else None)
        return printed

    def _redirected(
        self, redirects: list[Node], stdin: str | None, following: list[Node] | None = None
    ) -> tuple[str | None, list[tuple[str, bool]]]:
        """Standard input after redirections, and the files that standard output goes to."""
        targets: list[tuple[str, bool]] = []
        scope = self.shell.scope()
        for node in redirects:
            if node.type == "heredoc_redirect":
                stdin = self._heredoc(node)
                for child in node.named_children:
                    if child.type.endswith("_redirect"):
                        _, more = self._redirected([child], None)
                        targets += more
                    elif child.type in (
                        "pipeline",
                        "command",
                        "list",
                        "redirected_statement",
                        "subshell",
                    ) and (following is not None):
                        following.append(child)
            elif node.type == "herestring_redirect":
                stdin = "".join(text_of(self.text(one), scope) for one in node.named_children) + "\n"
            elif node.type == "file_redirect":
                operator = "".join(one.type for one in node.children if not one.is_named)
                places = [one for one in node.named_children if one.type not in ("file_descriptor", "ERROR")]
                descriptor = next(
                    (self.text(one) for one in node.named_children if one.type == "file_descriptor"), ""
                )
                for place in places[:1]:
                    path = text_of(self.text(place), scope)
                    self.shell.judge.reads(path, self.shell)
                    if operator.startswith("<") and operator != "<&":
                        stdin = self.shell.read_file(path)
                    elif ">" in operator and descriptor in ("", "1") and not path.isdigit():
                        targets.append((path, ">>" in operator))
                for extra in places[1:]:
                    expand(self.text(extra), scope)
        return stdin, targets

    def _heredoc(self, node: Node) -> str | None:
        start = next((self.text(one) for one in node.named_children if one.type == "heredoc_start"), "")
        body = next((one for one in node.named_children if one.type == "heredoc_body"), None)
        text = self.text(body) if body is not None else ""
        if not text.strip():
            text = self._after(node, re.sub(r"['\"\\]", "", start))
        if self.text(node).lstrip("0123456789").startswith("<<-"):
            text = re.sub(r"(?m)^\t+", "", text)
        return text if re.search(r"['\"\\]", start) else here(text, self.shell.scope())

    def _after(self, node: Node, delimiter: str) -> str:
        """The body of a here-document that the grammar lost: the lines up to the delimiter."""
        rest = self.data[node.start_byte :].decode("utf-8", "replace").partition("\n")[2]
        lines: list[str] = []
        for line in rest.splitlines():
            if line.strip() == delimiter:
                break
            lines.append(line)
        return "".join(line + "\n" for line in lines)

    def _written(self, printed: str | None, targets: list[tuple[str, bool]]) -> str | None:
        for path, append in targets:
            self.shell.write_file(path, printed, append=append)
        return "" if targets else printed

    def _assignment(self, node: Node) -> tuple[str, str]:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        called = self.text(name) if name else ""
        if value is None:
            return called, ""
        if value.type == "array":
            parts = [
                one for child in value.named_children for one in expand(self.text(child), self.shell.scope())
            ]
            for at, part in enumerate(parts):
                self.shell.variables[f"{called}[{at}]"] = part
            joined = " ".join(parts)
            self.shell.variables[f"{called}[@]"] = self.shell.variables[f"{called}[*]"] = joined
            return called, parts[0] if parts else ""
        text = text_of(self.text(value), self.shell.scope())
        if "+=" in self.text(node)[: len(called) + 2]:
            text = within(self.shell.variables.get(called, "") + text)
        return called, text

    def _assign(self, node: Node) -> None:
        if node.type == "variable_assignment":
            name, value = self._assignment(node)
            self.shell.variables[name] = value

    def _declaration_command(self, node: Node, stdin: str | None) -> str:
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign(child)
            elif child.type in ("concatenation", "word", "string", "raw_string"):
                name, equals, value = text_of(self.text(child), self.shell.scope()).partition("=")
                if equals:
                    self.shell.variables[name] = value
        return ""

    def _function_definition(self, node: Node, stdin: str | None) -> str:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            text = self.text(body)
            self.shell.functions[self.text(name)] = text
        return ""

    def _for_statement(self, node: Node, stdin: str | None) -> str | None:
        name, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if name is None or body is None:
            return self._sequence(node, stdin)
        values: list[str] = []
        for child in node.named_children:
            if child not in (name, body) and child.type != "comment":
                values += expand(self.text(child), self.shell.scope())
        printed: str | None = ""
        for value in values[:_MOST_TURNS] or [UNKNOWN]:
            self.shell.variables[self.text(name)] = value
            one = self.visit(body, stdin)
            printed = None if printed is None or one is None else within(printed + one)
        return printed

    def _while_statement(self, node: Node, stdin: str | None) -> str | None:
        body = node.child_by_field_name("body")
        conditions = [child for child in node.named_children if child != body]
        lines = (stdin or "").splitlines()[:_MOST_TURNS]
        reading = any("read" in self.text(one).split() for one in conditions)
        printed: str | None = ""
        for line in lines if reading and lines else [stdin]:
            for one in conditions:
                self.visit(one, line)
            if body is not None:
                out = self.visit(body, stdin)
                printed = None if printed is None or out is None else printed + out
        return printed

    def _test_command(self, node: Node, stdin: str | None) -> str:
        self._inside(node)
        return ""

    def _comment(self, node: Node, stdin: str | None) -> str:
        return ""

"""What a problem statement gives away of its reference change: its lines, its new names, links to it."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

from beyondswe.construction.collect.links import urls

_CODE = (
    ".py",
    ".pyi",
    ".pyx",
    ".pxd",
    ".c",
    ".h",
    ".cpp",
    ".hpp",
    ".js",
    ".ts",
    ".rs",
    ".toml",
    ".cfg",
    ".sql",
    ".sh",
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_DEFINES = re.compile(
    r"^\s*(?:(?:async\s+)?def\s+(?P<function>\w+)|class\s+(?P<klass>\w+)"
    r"|(?P<target>(?:self\.|cls\.)?[A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=))"
)
_SHORTEST_LINE = 16  # characters without blanks; below that a line says nothing of where it came from
_FORGES = (
    "github.com",
    "api.github.com",
    "patch-diff.githubusercontent.com",
    "gitlab.com",
    "bitbucket.org",
    "codeberg.org",
)


@dataclass(frozen=True)
class Leak:
    """One thing that the statement tells: ``kind`` is line, name or link, ``found`` what stands there."""

    kind: str
    found: str
    why: str

    def to_row(self) -> dict[str, Any]:
        return asdict(self)


def find_leaks(
    statement: str,
    patch: str,
    *,
    repo: str = "",
    pulls: Collection[int] = (),
    commits: Collection[str] = (),
    test_patch: str = "",
    known_words: Collection[str] = (),
    aliases: Iterable[str] = (),
) -> list[Leak]:
    """What a problem statement gives away.

    ``line``: a line of code that the reference patch adds. ``name``: a name that only the patch introduces, where
    the tests do not use it (names that tests use must be told). ``link``: the task's own pull request or commits.
    ``known_words`` are words of the repository before the change; without them, those of the patch's context.
    """
    added, before = _sides(patch)
    tested = set(_WORD.findall("\n".join(line for lines in _sides(test_patch)[0].values() for line in lines)))
    known = set(known_words) | set(_WORD.findall("\n".join(before)))
    return [
        *_lines(statement, added, before),
        *_names(statement, added, known, tested),
        *_links(statement, {name.lower() for name in (repo, *aliases) if name}, set(pulls), tuple(commits)),
    ]


def _sides(patch: str) -> tuple[dict[str, list[str]], list[str]]:
    """Added lines of code files by path; all lines that were there before."""
    added: dict[str, list[str]] = {}
    before: list[str] = []
    path, in_hunk = "", False
    for line in patch.splitlines():
        if line.startswith("diff --git "):
            in_hunk = False
        elif line.startswith("+++ ") and not in_hunk:
            path = line[4:].strip().strip('"').removeprefix("b/")
        elif line.startswith("@@ "):
            in_hunk = True
            before.append(line.rpartition("@@")[2])
        elif in_hunk and line.startswith("+"):
            if path.endswith(_CODE):
                added.setdefault(path, []).append(line[1:])
        elif in_hunk:
            before.append(line[1:])
    return added, before


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _lines(statement: str, added: dict[str, list[str]], before: list[str]) -> Iterable[Leak]:
    told = [_squeezed(re.sub(r"^\s*(?:>>>|\.\.\.|[+>*-])\s?", "", line)) for line in statement.splitlines()]
    old = {_squeezed(line) for line in before}
    seen: set[str] = set()
    for path, lines in added.items():
        for line in lines:
            short = _squeezed(line)
            if len(short) < _SHORTEST_LINE or short in old or short in seen or _is_prose(line):
                continue
            if any(short in other for other in told):
                seen.add(short)
                yield Leak("line", line.strip(), f"the reference adds this line to {path}")


def _is_prose(line: str) -> bool:
    """A comment, or a line of a docstring: words with no sign of code."""
    text = line.strip()
    return text.startswith(("#", '"""', "'''")) or not re.search(r"[=()\[\]{}:.]\S|[=(\[{:]$", text)


def _names(statement: str, added: dict[str, list[str]], known: set[str], tested: set[str]) -> Iterable[Leak]:
    new: dict[str, str] = {}
    for path, lines in added.items():
        for name in _defined("\n".join(lines), lines):
            new.setdefault(name, path)
    marked = set(_WORD.findall(" ".join(re.findall(r"``?([^`]+)``?", statement))))
    called = set(re.findall(r"\b(\w+)\(", statement))
    words = set(_WORD.findall(statement))
    for name, path in new.items():
        if name not in words or name in known or name in tested or keyword.iskeyword(name) or len(name) < 3:
            continue
        looks_like_code = "_" in name.strip("_") or name.startswith("_") or re.search(r"[a-z][A-Z]|\d", name)
        if looks_like_code or name in marked or name in called:
            yield Leak("name", name, f"only the reference introduces this name, in {path}; no test uses it")


def _defined(text: str, lines: list[str]) -> Iterable[str]:
    """Names that added lines define: functions, their parameters, classes, targets of assignments."""
    for line in lines:
        if match := _DEFINES.match(line):
            name = match["function"] or match["klass"] or match["target"]
            yield name.rpartition(".")[2]
    for match in re.finditer(r"def\s+\w+\s*\(", text):
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        try:
            arguments = ast.parse(f"def f({text[match.end() : end - 1]}): ...").body[0]
        except (SyntaxError, ValueError):
            continue
        if isinstance(arguments, ast.FunctionDef):
            every = arguments.args
            for argument in (*every.posonlyargs, *every.args, *every.kwonlyargs):
                if argument.arg not in ("self", "cls"):
                    yield argument.arg


def _links(statement: str, own: set[str], pulls: set[int], commits: tuple[str, ...]) -> Iterable[Leak]:
    for url in urls(statement):
        parts = urlsplit(url)
        path = [part.lower() for part in parts.path.split("/") if part]
        path = path[1:] if path[:1] in (["repos"], ["raw"]) else path
        host = (parts.hostname or "").lower().removeprefix("www.")
        if host not in _FORGES or "/".join(path[:2]) not in own:
            continue
        rest = [part for part in path[2:] if part != "-"]
        number = re.match(r"\d+", rest[1]) if len(rest) > 1 else None
        if rest[:1] and rest[0] in ("pull", "pulls", "merge_requests", "pull-requests", "issues") and number:
            if int(number[0]) in pulls:
                yield Leak("link", url, "this is the task's own pull request")
        elif (
            rest[:1]
            and rest[0] in ("commit", "commits", "compare", "tree", "blob")
            and _names_commit(url, commits)
        ):
            yield Leak("link", url, "this is a commit of the task's own pull request")
    plain = re.sub(r"https?://\S+", " ", statement)
    for match in re.finditer(
        r"(?<![\w&])(?P<repo>[\w.-]+/[\w.-]+)?(?:#|!|\bgh-)(?P<number>\d+)\b", plain, re.IGNORECASE
    ):
        if int(match["number"]) in pulls and (match["repo"] is None or match["repo"].lower() in own):
            yield Leak("link", match[0], "this is the task's own pull request")
    for word in re.findall(r"\b[0-9a-f]{7,40}\b", plain):
        if _names_commit(word, commits):
            yield Leak("link", word, "this is a commit of the task's own pull request")


def _names_commit(text: str, commits: tuple[str, ...]) -> bool:
    found = re.findall(r"[0-9a-f]{7,40}", text.lower())
    return any(commit.startswith(word) for word in found for commit in commits)

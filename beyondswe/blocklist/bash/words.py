"""Words of a shell command expanded into strings: quotes, variables, substitutions, braces.

What cannot be known without running anything is `UNKNOWN`, a character that no command has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

UNKNOWN = "\ue000"
_MAX_FIELDS = 256
LONGEST = 4 << 20
"""Characters of one text: a word, a file, what is printed."""
_ESCAPE = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|0?([0-7]{1,3})|c(.))"
)
_PLAIN = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}
_CASE = re.compile(r"(?<![\w-])(?:case(?=\s+\S+\s+in\s)|esac)(?![\w-])")
"""Words between which a closing bracket ends a pattern, not a substitution."""
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")


class TooLong(Exception):
    """More than is read of one command."""


def within(text: str) -> str:
    """A text that is not too long to be kept."""
    if len(text) > LONGEST:
        raise TooLong
    return text


def unescape(text: str) -> str:
    """Backslash escapes of ``$'…'``, ``echo -e`` and ``printf``."""

    def clear(found: re.Match[str]) -> str:
        plain, hexa, four, eight, octal, control = found.groups()
        if plain:
            return _PLAIN[plain]
        if octal:
            return chr(int(octal, 8) & 0xFF)
        if control:
            return chr(ord(control) & 0x1F)
        number = int(hexa or four or eight, 16)
        return chr(number) if number < 0x110000 else UNKNOWN

    return _ESCAPE.sub(clear, text)


@dataclass(frozen=True)
class Scope:
    """Where a word is expanded: variables, and what a command prints."""

    variables: Mapping[str, str]
    output: Callable[[str], str]
    """What the command prints, without the last line feeds; UNKNOWN where nobody can say."""
    file: Callable[[str, str], str]
    """A name for the output of a process substitution: (command, direction) to a path."""


def closing(text: str, start: int, opening: str, close: str) -> int:
    """Where the bracket that was opened before ``start`` closes; the end of the text where it does not."""
    depth, cases, at = 1, 0, start
    while at < len(text):
        letter = text[at]
        if letter in "ce" and opening == "(" and (word := _CASE.match(text, at)):
            cases = max(0, cases + (1 if word[0] == "case" else -1))
            at = word.end()
            continue
        if letter == close and cases and depth == 1:
            at += 1
            continue
        if letter == "\\":
            at += 2
            continue
        if letter == "'":
            end = text.find("'", at + 1)
            at = len(text) if end < 0 else end + 1
            continue
        if letter == '"':
            at = _end_of_quotes(text, at + 1) + 1
            continue
        if letter == opening:
            depth += 1
        elif letter == close:
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return len(text)


def _end_of_quotes(text: str, at: int) -> int:
    while at < len(text) and text[at] != '"':
        if text[at] == "\\":
            at += 1
        elif text.startswith("$(", at):
            at = closing(text, at + 2, "(", ")")
        at += 1
    return at


def expand(word: str, scope: Scope) -> list[str]:
    """The fields that a word becomes."""
    fields: list[str] = []
    for alternative in braces(word):
        fields += _fields(alternative, scope)
        if len(fields) > _MAX_FIELDS:
            break
    return fields[:_MAX_FIELDS]


def expand_all(text: str, scope: Scope) -> list[str]:
    """The words of a simple text, expanded."""
    return [one for word in _split_words(text) for one in expand(word, scope)]


def text_of(word: str, scope: Scope) -> str:
    """The one string that a word becomes where nothing is split: assignments, here-strings, redirections."""
    return within("".join(piece for piece, _ in _pieces(word, scope)))


def here(body: str, scope: Scope) -> str:
    """The text of a here-document whose delimiter is not quoted."""
    return within("".join(piece for piece, _ in _pieces(body, scope, quoted=True)))


def _fields(word: str, scope: Scope) -> list[str]:
    fields: list[str] = []
    current: str | None = None
    for piece, split in _pieces(word, scope):
        if not split:
            current = within((current or "") + piece)
            continue
        parts = re.split(r"[ \t\n]+", piece)
        for at, part in enumerate(parts):
            if at and current is not None:
                fields.append(current)
                current = None
            if part:
                current = within((current or "") + part)
    if current is not None:
        fields.append(current)
    return fields


def _pieces(word: str, scope: Scope, quoted: bool = False) -> list[tuple[str, bool]]:
    """Pieces of a word with whether the shell splits them."""
    pieces: list[tuple[str, bool]] = []
    at = 0
    if not quoted and (word == "~" or word.startswith("~/")):
        pieces.append((scope.variables.get("HOME", "~"), False))
        at = 1
    while at < len(word):
        letter = word[at]
        if letter == "\\":
            following = word[at + 1 : at + 2]
            if following == "\n":
                pass
            elif quoted and following not in '$`"\\':
                pieces.append(("\\" + following, False))
            else:
                pieces.append((following, False))
            at += 2
        elif letter == "'" and not quoted:
            end = word.find("'", at + 1)
            end = len(word) if end < 0 else end
            pieces.append((word[at + 1 : end], False))
            at = end + 1
        elif word.startswith("$'", at) and not quoted:
            end = at + 2
            while end < len(word) and word[end] != "'":
                end += 2 if word[end] == "\\" else 1
            pieces.append((unescape(word[at + 2 : end]), False))
            at = end + 1
        elif letter == '"' and not quoted:
            end = _end_of_quotes(word, at + 1)
            pieces.append(("", False))
            pieces += _pieces(word[at + 1 : end], scope, quoted=True)
            at = end + 1
        elif word.startswith('$"', at) and not quoted:
            at += 1
        elif word.startswith("$((", at):
            end = closing(word, at + 3, "(", ")")
            pieces.append((_arithmetic(word[at + 3 : end], scope), False))
            at = end + 2
        elif word.startswith("$(", at):
            end = closing(word, at + 2, "(", ")")
            pieces.append((scope.output(word[at + 2 : end]), not quoted))
            at = end + 1
        elif letter == "`":
            end = at + 1
            while end < len(word) and word[end] != "`":
                end += 2 if word[end] == "\\" else 1
            pieces.append((scope.output(re.sub(r"\\([`\\$])", r"\1", word[at + 1 : end])), not quoted))
            at = end + 1
        elif word.startswith(("<(", ">("), at) and not quoted:
            end = closing(word, at + 2, "(", ")")
            pieces.append((scope.file(word[at + 2 : end], letter), False))
            at = end + 1
        elif word.startswith("${", at):
            end = closing(word, at + 2, "{", "}")
            every = re.fullmatch(r"@|[A-Za-z_]\w*\[@\]", word[at + 2 : end]) is not None
            pieces.append((_parameter(word[at + 2 : end], scope), not quoted or every))
            at = end + 1
        elif letter == "$" and (name := _NAME.match(word, at + 1)):
            pieces.append((scope.variables.get(name[0], UNKNOWN), not quoted or name[0] == "@"))
            at = name.end()
        else:
            pieces.append((letter, False))
            at += 1
    return pieces


def _arithmetic(text: str, scope: Scope) -> str:
    inner = here(text, scope).strip()
    inner = re.sub(r"[A-Za-z_]\w*", lambda name: scope.variables.get(name[0], UNKNOWN), inner)
    found = re.fullmatch(r"(\d{1,9})\s*([-+*])\s*(\d{1,9})", inner)
    if found:
        left, right = int(found[1]), int(found[3])
        return str({"+": left + right, "-": left - right, "*": left * right}[found[2]])
    return inner if re.fullmatch(r"\d+", inner) else UNKNOWN


def _parameter(inner: str, scope: Scope) -> str:
    """A ``${…}`` with the forms that change text."""
    if inner.startswith("#") and len(inner) > 1:
        return UNKNOWN
    if inner.startswith("!"):
        name = scope.variables.get(inner[1:], "")
        return scope.variables.get(name, UNKNOWN)
    found = re.match(r"([A-Za-z_]\w*|[0-9@*#?$!-])(\[[^\]]*\])?", inner)
    if not found:
        return UNKNOWN
    value = scope.variables.get(found[1] + (found[2] or ""), scope.variables.get(found[1]))
    rest = inner[found.end() :]
    if not rest:
        return UNKNOWN if value is None else value
    for operator in (":-", ":=", "-", "=", ":+", "+", ":?", "?"):
        if rest.startswith(operator):
            word = text_of(rest[len(operator) :], scope)
            if operator in (":+", "+"):
                return word if value else ""
            return value if value else ("" if "?" in operator else word)
    if value is None:
        return UNKNOWN
    if rest[0] == ":" and (cut := re.fullmatch(r":\s*(-?\d+)(?::(-?\d+))?", rest)):
        start = int(cut[1])
        tail = value[start:]
        return tail if cut[2] is None else tail[: int(cut[2])]
    if rest.startswith(("//", "/")):
        pattern, _, new = rest.lstrip("/").partition("/")
        old, new = text_of(pattern, scope), text_of(new, scope)
        within(new)
        if rest.startswith("//") and value.count(old) * len(new) > LONGEST and old:
            raise TooLong
        return value.replace(old, new, -1 if rest.startswith("//") else 1) if old else value
    if rest[0] in "#%":
        ends = _glob(text_of(rest.lstrip("#%"), scope))
        greedy = rest[:2] in ("##", "%%")
        return _trim(value, ends, front=rest[0] == "#", greedy=greedy)
    if rest in ("^", "^^"):
        return value.upper() if rest == "^^" else value[:1].upper() + value[1:]
    if rest in (",", ",,"):
        return value.lower() if rest == ",," else value[:1].lower() + value[1:]
    return value if rest.startswith("@") else UNKNOWN


def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(
        "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern), re.S
    )


def _trim(value: str, pattern: re.Pattern[str], *, front: bool, greedy: bool) -> str:
    cuts = range(len(value) + 1) if front != greedy else range(len(value), -1, -1)
    for cut in cuts:
        if pattern.fullmatch(value[:cut] if front else value[cut:]):
            return value[cut:] if front else value[:cut]
    return value


def braces(word: str) -> list[str]:
    """Brace expansion, before anything else, on what is not quoted."""
    at = 0
    while at < len(word):
        letter = word[at]
        if letter == "\\":
            at += 2
            continue
        if letter == "'":
            end = word.find("'", at + 1)
            at = len(word) if end < 0 else end + 1
            continue
        if letter == '"':
            at = _end_of_quotes(word, at + 1) + 1
            continue
        if word.startswith("$(", at):
            at = closing(word, at + 2, "(", ")") + 1
            continue
        if word.startswith("${", at):
            at = closing(word, at + 2, "{", "}") + 1
            continue
        if letter == "{":
            end = closing(word, at + 1, "{", "}")
            options = _options(word[at + 1 : end]) if end < len(word) else []
            if options:
                tails = braces(word[end + 1 :])
                heads = [one for option in options for one in braces(option)]
                joined = (word[:at] + head + tail for head in heads for tail in tails)
                return list(islice(joined, _MAX_FIELDS))
        at += 1
    return [word]


def _options(inner: str) -> list[str]:
    """The alternatives between two braces; none where the braces mean themselves."""
    span = re.fullmatch(r"(-?\d{1,6})\.\.(-?\d{1,6})", inner)
    if span:
        first, last = int(span[1]), int(span[2])
        step = 1 if first <= last else -1
        return [str(number) for number in range(first, last + step, step)[:_MAX_FIELDS]]
    letters = re.fullmatch(r"([A-Za-z])\.\.([A-Za-z])", inner)
    if letters:
        first, last = ord(letters[1]), ord(letters[2])
        step = 1 if first <= last else -1
        return [chr(number) for number in range(first, last + step, step)]
    parts, depth, start, at = [], 0, 0, 0
    while at < len(inner):
        letter = inner[at]
        if letter == "\\":
            at += 1
        elif letter == "'":
            end = inner.find("'", at + 1)
            at = len(inner) if end < 0 else end
        elif letter == '"':
            at = _end_of_quotes(inner, at + 1)
        elif letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(inner[start:at])
            start = at + 1
        at += 1
    return [*parts, inner[start:]] if parts else []


def _split_words(text: str) -> list[str]:
    words, current, quote, at = [], "", "", 0
    while at < len(text):
        letter = text[at]
        if letter == "\\" and quote != "'":
            current += text[at : at + 2]
            at += 2
            continue
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in " \t\n":
            if current:
                words.append(current)
            current = ""
            at += 1
            continue
        current += letter
        at += 1
    return [*words, current] if current else words


def cut_at_operators(source: str) -> list[str]:
    """A source cut at its unquoted operators."""
    pieces, current, quote, at = [], "", "", 0
    while at < len(source):
        letter = source[at]
        if letter == "\\" and quote != "'":
            current += source[at : at + 2]
            at += 2
            continue
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in ";&|\n()":
            pieces.append(current)
            current = ""
            at += 1
            continue
        current += letter
        at += 1
    return [piece for piece in [*pieces, current] if piece.strip()]

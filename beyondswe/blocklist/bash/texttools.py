"""What small text programs print, so far as that is known without running them: the way words are put together."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from functools import partial

from beyondswe.blocklist.bash.words import UNKNOWN, unescape

_FORMAT = re.compile(r"%%|%[-+ #0]*\d*(?:\.\d+)?([sbdiqcxXo])")


def echo(arguments: list[str]) -> str:
    escapes, newline = False, True
    while arguments and re.fullmatch(r"-[neE]+", arguments[0]):
        newline = newline and "n" not in arguments[0]
        escapes = "e" in arguments[0]
        arguments = arguments[1:]
    text = " ".join(arguments)
    return (unescape(text) if escapes else text) + ("\n" if newline else "")


def printf(arguments: list[str]) -> str | None:
    """What printf prints; None where it sets a variable."""
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if not arguments or arguments[0] == "-v":
        return None
    form, rest = unescape(arguments[0]), arguments[1:]
    printed = ""
    for _ in range(64):
        values = iter(rest)
        printed += _FORMAT.sub(partial(_filled, values), form)
        left = list(values)
        if not left or len(left) == len(rest):
            break
        rest = left
    return printed


def _filled(values: Iterator[str], found: re.Match[str]) -> str:
    if found[0] == "%%":
        return "%"
    value = next(values, "")
    if found[1] == "b":
        return unescape(value)
    if found[1] in "xXo" and value.isdigit():
        return format(int(value), found[1])
    return value[:1] if found[1] == "c" else value


def filtered(name: str, arguments: list[str], text: str) -> str | None:
    """What a filter prints for a known input; None where that is not known."""
    plain = [one for one in arguments if not one.startswith("-")]
    if name in ("base64", "base32", "basenc", "openssl"):
        return _decode(name, arguments, text)
    if name == "xxd":
        if any(one.startswith("-") and "r" in one for one in arguments):
            digits = re.sub(r"[^0-9a-fA-F]", "", re.sub(r"(?m)^[0-9a-f]{8}:|\s{2}.*$", "", text))
            return bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("utf-8", "replace")
        return None
    if name == "rev":
        return "".join(line[::-1] + "\n" for line in text.splitlines())
    if name == "tac":
        return "".join(line + "\n" for line in reversed(text.splitlines()))
    if name == "tr":
        return _translated(arguments, plain, text)
    if name == "sed":
        return _substituted(plain, text)
    if name in ("head", "tail"):
        return _part(name, arguments, text)
    if name in (
        "sort",
        "uniq",
        "tee",
        "cat",
        "fold",
        "fmt",
        "nl",
        "stdbuf",
        "unbuffer",
        "pv",
        "sponge",
        "less",
        "more",
    ):
        return text
    if name == "paste":
        separator = next((one[2:] or "\t" for one in arguments if one.startswith("-d")), "\t")
        return separator.join(text.splitlines()) + "\n" if any("s" in one for one in arguments) else text
    if name == "cut":
        return _cut(arguments, text)
    return None


def _decode(name: str, arguments: list[str], text: str) -> str | None:
    decoding = any(
        one == "--decode" or (one.startswith("-") and not one.startswith("--") and ("d" in one or "D" in one))
        for one in arguments
    )
    if name == "openssl" and not {"base64", "enc"} & set(arguments):
        return None
    packed = "".join(text.split())
    try:
        if not decoding:
            return base64.b64encode(text.encode()).decode() + "\n" if name == "base64" else None
        if "base32" in (name, *(one.lstrip("-") for one in arguments)):
            return base64.b32decode(packed).decode("utf-8", "replace")
        packed = re.sub(r"[^A-Za-z0-9+/_-]", "", packed).replace("-", "+").replace("_", "/")
        packed = packed[:-1] if len(packed) % 4 == 1 else packed
        return base64.b64decode(packed + "=" * (-len(packed) % 4)).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


def _letters(text: str) -> str:
    text = unescape(text)
    for name, chars in (
        ("[:lower:]", "abcdefghijklmnopqrstuvwxyz"),
        ("[:upper:]", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        ("[:digit:]", "0123456789"),
        ("[:space:]", " \t\n\r\v\f"),
    ):
        text = text.replace(name, chars)
    return re.sub(
        r"([A-Za-z0-9])-([A-Za-z0-9])",
        lambda m: "".join(map(chr, range(ord(m[1]), ord(m[2]) + 1))),
        text,
    )


def _translated(arguments: list[str], plain: list[str], text: str) -> str | None:
    if not plain or any("c" in one for one in arguments if one.startswith("-")):
        return None
    old = _letters(plain[0])
    if any("d" in one for one in arguments if one.startswith("-")):
        return text.translate(dict.fromkeys(map(ord, old)))
    if len(plain) < 2:
        return text
    new = _letters(plain[1])
    if not new:
        return None
    new = new.ljust(len(old), new[-1])
    return text.translate({ord(one): new[at] for at, one in enumerate(old)})


def _substituted(plain: list[str], text: str) -> str | None:
    for script in plain[:1]:
        for part in re.split(r"[;\n]", script):
            part = part.strip()
            if len(part) < 4 or part[0] != "s":
                return None if part and not re.fullmatch(r"[\d,$]*p?", part) else text
            pieces = re.split(rf"(?<!\\){re.escape(part[1])}", part[2:])
            if len(pieces) < 2:
                return None
            try:
                pattern = re.compile(re.sub(r"\\([(){}|+?])", r"\1", pieces[0]))
                new = re.sub(r"(?<!\\)&", r"\\g<0>", pieces[1])
                everywhere = len(pieces) > 2 and "g" in pieces[2]
                text = pattern.sub(new, text, count=0 if everywhere else 1)
            except (re.error, IndexError):
                return None
    return text


def _part(name: str, arguments: list[str], text: str) -> str | None:
    joined = " ".join(arguments)
    lines, letters = re.search(r"-(?:n\s*)?(\d+)", joined), re.search(r"-c\s*(\d+)", joined)
    if letters:
        count = int(letters[1])
        return text[:count] if name == "head" else text[-count:]
    count = int(lines[1]) if lines else 10
    kept = text.splitlines(keepends=True)
    return "".join(kept[:count] if name == "head" else kept[-count:])


def _cut(arguments: list[str], text: str) -> str | None:
    joined = " ".join(arguments)
    letters = re.search(r"-[cb]\s*(\d+)-(\d*)", joined)
    if letters:
        first, last = int(letters[1]) - 1, int(letters[2]) if letters[2] else None
        return "".join(line[first:last] + "\n" for line in text.splitlines())
    field = re.search(r"-f\s*(\d+)(?:\s|$)", joined)
    if not field:
        return None
    separator = next((one[2:] for one in arguments if one.startswith("-d") and len(one) > 2), None)
    if separator is None:
        separator = arguments[arguments.index("-d") + 1] if "-d" in arguments[:-1] else "\t"
    at = int(field[1]) - 1
    chosen = [line.split(separator) for line in text.splitlines()]
    return "".join((parts[at] if at < len(parts) else UNKNOWN) + "\n" for parts in chosen)

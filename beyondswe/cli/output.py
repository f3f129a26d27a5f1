"""How commands speak: one JSON document on standard output, tables and progress for people on standard error."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.console import Console

json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON document on standard output and nothing else there.",
)


@cache
def console() -> Console:
    """Rich console on standard error."""
    from rich.console import Console

    return Console(stderr=True)


def say(line: str) -> None:
    """A line for people, as it is: no markup, and not broken to the width of a terminal."""
    console().print(line, markup=False, highlight=False, soft_wrap=True)


_emitted = False


def begin() -> None:
    """A command begins: nothing is on standard output yet."""
    global _emitted
    _emitted = False


def emit(document: Any) -> None:
    """Print the one JSON document of a command."""
    global _emitted
    _emitted = True
    text = json.dumps(document, indent=2, ensure_ascii=False, default=str)
    # half of a character, which no encoding has, is written as JSON's escape
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")


def emit_error(kind: str, message: str, exit_code: int) -> None:
    """Print an error as the one JSON document, unless the command had printed its own already."""
    if not _emitted:
        emit({"error": {"kind": kind, "message": message, "exit_code": exit_code}})


def file_option(name: str, what: str) -> Callable[[Any], Any]:
    """An option that names a file to be written."""
    from pathlib import Path

    kind = click.Path(dir_okay=False, path_type=Path)
    return click.option(name, type=kind, metavar="FILE", help=what)


def write_file(path: Path, content: str | bytes, *, append: bool = False) -> None:
    """Write a file that the user named, whole or not at all. Raises `UsageError` where that cannot be done."""
    from beyondswe.errors import UsageError
    from beyondswe.runs.folder import write_atomic

    data = content.encode() if isinstance(content, str) else content
    try:
        if append:
            with path.open("ab") as stream:
                stream.write(data)
        else:
            write_atomic(path, data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error

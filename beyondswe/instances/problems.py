"""What can be wrong with a row: the problem alone, and the bad row with the place where it stands."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

_SHOWN = 80  # characters of a value that a message repeats


@dataclass(frozen=True)
class Problem:
    """One thing wrong with one field; "row" stands for the row itself. ``message`` says it in full."""

    field: str
    found: str
    expected: str
    message: str


@dataclass(frozen=True)
class BadRow:
    """A problem and where it is. In a table (parquet) ``line`` is the number of the row, from 1."""

    file: str
    line: int
    instance_id: str
    field: str
    found: str
    expected: str
    message: str

    @classmethod
    def at(cls, file: str, line: int, instance_id: str, problem: Problem) -> BadRow:
        return cls(file=file, line=line, instance_id=printable(instance_id), **asdict(problem))

    def __str__(self) -> str:
        who = f" {self.instance_id}:" if self.instance_id else ""
        return f"{self.file}:{self.line}:{who} {self.message}"


class FieldError(ValueError):
    """A value is not what its field holds: ``str()`` says what is wrong, ``expected`` what would be right."""

    def __init__(self, wrong: str, expected: str) -> None:
        super().__init__(wrong)
        self.expected = expected


def printable(text: str) -> str:
    """The text with all escaped that a terminal would obey or UTF-8 cannot carry."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def shown(value: Any) -> str:
    """A value as a message repeats it: JSON, on one line, cut short."""
    if value is None:
        return "nothing"
    text = json.dumps(
        value[: _SHOWN * 2] if isinstance(value, str) else value, ensure_ascii=False, default=str
    )
    text = printable(text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"

"""One row while it is read: gives checked fields under any of their names and collects all that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from beyondswe.instances.problems import FieldError, Problem, printable, shown

T = TypeVar("T")


class Row:
    """A row's fields. What nobody asked for is in `rest` and is kept with the instance."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._known: set[str] = set()
        self.problems: list[Problem] = []
        for field, value in values.items():
            if not _is_text([field, value]):
                self.bad(
                    printable(field),
                    value,
                    "valid Unicode",
                    "holds half a surrogate pair, which no file can store",
                )

    def bad(self, field: str, found: object, expected: str, wrong: str) -> None:
        """Note a problem: the message says field, what is wrong, what was found and what was expected."""
        value = shown(found)
        self.problems.append(
            Problem(field, value, expected, f"{field}: {wrong}; found {value}, expected {expected}")
        )

    def read(self, parse: Callable[[object], T], *names: str, default: T) -> T:
        """The field under the first of its names that holds something, checked by ``parse``.

        A dot in a name leads into an object. Null and the empty string are nothing. Values under the other
        names stay in `rest`, unless they say the same.
        """
        found = {name: value for name in names if (value := self._at(name)) not in (None, "")}
        if not found:
            self._known.update(names)
            return default
        name = next(iter(found))
        self._known.update(other for other in names if other not in found or found[other] == found[name])
        if self._is_bad(name):
            return default
        try:
            return parse(found[name])
        except FieldError as error:
            self.bad(name, found[name], error.expected, str(error))
            return default

    def require(self, value: object, *names: str, wrong: str, expected: str) -> None:
        """Note that the field under these names holds nothing, unless something worse is known of it."""
        if not value and not any(self._is_bad(name) for name in names):
            self.bad(names[0], self._values.get(names[0]), expected, wrong)

    def rest(self) -> dict[str, Any]:
        """What no field was read from."""
        return {name: value for name, value in self._values.items() if name not in self._known}

    def _at(self, name: str) -> Any:
        value: Any = self._values
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def _is_bad(self, name: str) -> bool:
        return any(problem.field == name for problem in self.problems)


def _is_text(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True

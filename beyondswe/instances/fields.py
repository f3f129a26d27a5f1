"""What fields of a row may hold: a function a kind of field, value in, checked value or `FieldError` out."""

from __future__ import annotations

import ast
import json
import posixpath
import re
import unicodedata
import warnings
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from beyondswe.instances import patches
from beyondswe.instances.problems import FieldError, printable

LONGEST_ID = 200  # bytes: an id names a folder, with room left for a suffix
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")
_TEST_LIST = "a list of test ids, or a string that holds one as JSON or Python list, or a single id"


def text(value: object) -> str:
    if not isinstance(value, str):
        raise FieldError("not text", "a string")
    return value


def identifier(value: object) -> str:
    """An instance id, which must do as the name of a folder. What a shell would act on is just data."""
    expected = f"a name of at most {LONGEST_ID} bytes without slashes and control characters"
    name = text(value)
    if name in (".", "..") or "/" in name or "\\" in name:
        raise FieldError("an instance id that is a path; it names a folder", expected)
    if any(unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in name):
        raise FieldError("an instance id with control characters", expected)
    if len(name.encode()) > LONGEST_ID:
        raise FieldError(f"an instance id of {len(name.encode())} bytes", expected)
    return name


def repository(value: object) -> str:
    name = text(value).strip()
    if not re.fullmatch(r"[^/\s]+/[^/\s]+", name):
        raise FieldError("not the name of a repository", "owner/name")
    return name


def workdir(value: object) -> str:
    path = text(value)
    expected = "an absolute path in the container, such as /workspace"
    if not path.startswith("/") or not path.isprintable():
        raise FieldError("a workdir that is not absolute", expected)
    if ".." in path.split("/") or not path.strip("/"):
        raise FieldError("a workdir that is the root or leads upwards", expected)
    return posixpath.normpath("/" + path.lstrip("/"))


def image(value: object) -> str:
    name = text(value).strip()
    if not _IMAGE.fullmatch(name):
        raise FieldError("not the name of an image", "a container image: name:tag or name@sha256:…")
    return name


def language(value: object) -> str:
    name = text(value).strip().lower()
    if name != "python":
        raise FieldError("a language that cannot be scored yet", "python")
    return name


def commit(value: object) -> str:
    name = text(value).strip()
    if not _COMMIT.fullmatch(name):
        raise FieldError("not a commit id", "7 to 64 hexadecimal digits")
    return name


def patch(value: object) -> str:
    diff = text(value)
    if not diff.strip():
        return ""
    patches.changes(diff)
    return diff


def count(value: object) -> int:
    """A number of tests. Tables make 12.0 and "12" of whole numbers; anything else is refused."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value.strip()):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise FieldError("not a number of tests", "a whole number")
    return value


def names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise FieldError("not a list of names", "a list of strings")
    return tuple(value)


def file_name(value: object) -> str:
    name = text(value)
    if name in (".", "..") or any(char in "/\\" for char in name) or not name.isprintable():
        raise FieldError("a file name with path parts", "the name of a file, without folders")
    return name


def day(value: object) -> str:
    when = text(value)
    try:
        datetime.fromisoformat(when)
    except ValueError as error:
        raise FieldError("not a date", "an ISO date such as 2025-11-30") from error
    return when


def network(value: object) -> str:
    if value not in ("none", "open"):
        raise FieldError("not a network for scoring", "none or open")
    return str(value)


def record(value: object) -> dict[str, Any]:
    """An object, which tables hold as JSON text."""
    found = _json_object(value) if isinstance(value, str) else value
    if not isinstance(found, Mapping):
        raise FieldError("not an object", "an object")
    return dict(found)


def commands(value: object) -> tuple[str, ...]:
    """A shell text, or {"execute_command": {"commands": […]}}, which tables hold as JSON text."""
    if isinstance(value, str):
        parsed = _json_object(value)
        if parsed is None or "execute_command" not in parsed:
            return (value,) if value.strip() else ()
        value = parsed
    inner = value.get("execute_command") if isinstance(value, Mapping) else None
    listed = inner.get("commands") if isinstance(inner, Mapping) else None
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise FieldError("not set-up commands", 'a string or {"execute_command": {"commands": [strings]}}')
    return tuple(listed)


def test_ids(value: object) -> tuple[str, ...]:
    """FAIL_TO_PASS or PASS_TO_PASS. A test that is listed twice counts once."""
    listed = _test_list(value)
    for test in listed:
        if not test.strip() or "\0" in test:
            raise FieldError("a test list with an id that is empty or has a NUL", _TEST_LIST)
        if _leads_outside(test):
            raise FieldError(
                f"a test id that leads outside the tree ('{printable(test[:80])}')",
                "paths inside the workdir",
            )
    return tuple(dict.fromkeys(listed))


def _test_list(value: object) -> list[str]:
    if isinstance(value, str):
        stripped = value.strip()
        if not stripped:
            return []
        if not stripped.startswith("["):
            return [stripped]
        value = _literal_list(stripped)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise FieldError("neither a list of test ids nor JSON of one", _TEST_LIST)
    return value


def _literal_list(source: str) -> object:
    """The list that a string writes down, as JSON or as Python does; None where it is neither."""
    try:
        return json.loads(source)
    except (ValueError, RecursionError):
        pass  # not JSON: Python's repr of a list is common in published rows
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes that Python does not know
            return ast.literal_eval(source)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _leads_outside(test: str) -> bool:
    """Whether the file part of an id is absolute or goes up; parameters in brackets may hold anything."""
    path = re.split(r"::|\[", test, maxsplit=1)[0].replace("\\", "/")
    return path.startswith("/") or re.match(r"[A-Za-z]:/", path) is not None or ".." in path.split("/")


def _json_object(source: str) -> dict[str, Any] | None:
    if not source.lstrip().startswith("{"):
        return None
    try:
        parsed = json.loads(source)
    except (ValueError, RecursionError):
        return None  # a shell group: { command; }
    return parsed if isinstance(parsed, dict) else None

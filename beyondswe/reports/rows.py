"""What a line of ``results.jsonl`` has to be so that numbers can be made of it, whoever wrote it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from beyondswe.instances.model import Family
from beyondswe.scoring.types import Status

_FAMILIES = frozenset(family.value for family in Family)
_STATUSES = frozenset(status.value for status in Status)
_NUMBERS = (int, float)  # and not bool, which is an int to isinstance
_MOST = 1e15  # of tokens, seconds, dollars: what is above was not counted by anybody


def fault(row: Any) -> str | None:
    """What is wrong with an outcome, or None. Of keys that need not be there null is no fault, but for ``attempt``."""
    if not isinstance(row, dict):
        return "a JSON object is expected"
    for key, (what, good) in _NEEDED.items():
        if key not in row:
            return f"{key} is missing"
        if not good(row[key]):
            return f"{key}: {what} is expected, found {_shown(row[key])}"
    for key, (what, good) in _OPTIONAL.items():
        if (row.get(key) is not None or (key == "attempt" and key in row)) and not good(row[key]):
            return f"{key}: {what} is expected, found {_shown(row[key])}"
    return None


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _name(value: Any) -> bool:
    return _text(value) and bool(value) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _amount(value: Any) -> bool:
    return type(value) in _NUMBERS and 0 <= value < _MOST


def _share(value: Any) -> bool:
    return _amount(value) and value <= 1


def _attempt(value: Any) -> bool:
    return isinstance(value, int) and _amount(value) and value >= 1


def _results(value: Any) -> bool:
    return isinstance(value, dict) and set(map(type, value.values())) <= {str}


def _amounts(value: Any) -> bool:
    return isinstance(value, dict) and all(item is None or _amount(item) for item in value.values())


def _usage(value: Any) -> bool:
    if not isinstance(value, dict) or not _amounts({key: value.get(key) for key in AMOUNTS}):
        return False
    calls = value.get("tool_calls")
    return calls is None or (isinstance(calls, dict) and all(map(_amount, calls.values())))


AMOUNTS = ("input_tokens", "output_tokens", "cost_usd", "turns")
_Kind = tuple[str, Callable[[Any], bool]]
_NEEDED: Mapping[str, _Kind] = {
    "instance_id": ("a name", _name),
    "family": (
        f"one of {', '.join(family.value for family in Family)}",
        lambda value: _text(value) and value in _FAMILIES,
    ),
    "status": (
        "a status of the documentation",
        lambda value: _text(value) and value in _STATUSES,
    ),
    "resolved": ("true or false", lambda value: isinstance(value, bool)),
}
_OPTIONAL: Mapping[str, _Kind] = {
    "attempt": ("a number from 1", _attempt),
    "agent_status": ("a word", _text),
    "score": ("a number from 0 to 1", _share),
    "pass_rate": ("a number from 0 to 1", _share),
    **dict.fromkeys(("f2p", "p2p", "tests"), ("an object of results by test", _results)),
    "flags": ("a list of words", lambda value: isinstance(value, list) and all(map(_text, value))),
    "usage": ("an object of counts from 0", _usage),
    "timings": ("an object of seconds", _amounts),
    "image_digest": ("a text", _text),
    "patch_sha256": ("a text", _text),
    "error": ("a text", _text),
}

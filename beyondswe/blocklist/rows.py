"""Rows that ask the blocklist: read from a file, checked, decided in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beyondswe.blocklist import Policy, Target, decide_command, decide_url
from beyondswe.errors import DataError

_LISTS = ("distributions", "aliases", "docs_hosts")


@dataclass(frozen=True)
class Row:
    """One question: the row as it came, and what is read from it."""

    values: dict[str, Any]
    target: Target


def decided(rows: list[Row], policy: Policy, *, search: bool) -> list[dict[str, Any]]:
    """Each row with ``blocked`` and ``rule`` (empty where nothing blocks it)."""
    answers = []
    for row in rows:
        if "url" in row.values:
            decision = decide_url(row.values["url"], row.target, policy)
        else:
            decision = decide_command(row.values["command"], row.target, policy, search=search)
        answers.append({**row.values, "blocked": decision.blocked, "rule": decision.rule})
    return answers


def read_rows(path: Path) -> list[Row]:
    """The rows of a JSONL file or a JSON array; every row that cannot be used is named in one DataError."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    rows: list[Row] = []
    problems: list[str] = []
    for place, values in _values(path, text, problems):
        problem = _problem(values)
        if problem:
            problems.append(f"{place}: {problem}")
        else:
            rows.append(Row(values, _target(values)))
    if problems:
        shown = "".join(f"\n  {one}" for one in problems[:50])
        more = f"\n  and {len(problems) - 50} more" if len(problems) > 50 else ""
        raise DataError(f"{path}: {len(problems)} bad row(s), nothing was decided:{shown}{more}")
    if not rows:
        raise DataError(
            f"{path}: no rows; expected JSONL or a JSON array of objects with repo and url or command"
        )
    return rows


def _values(path: Path, text: str, problems: list[str]) -> Iterator[tuple[str, Any]]:
    """Each row's place for people and its value."""
    if text.lstrip().startswith("["):
        try:
            array = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: not a JSON array: {error}") from error
        for number, values in enumerate(array, 1):
            yield f"row {number}", values
        return
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            problems.append(f"line {number}: not JSON: {error}")
            continue
        yield f"line {number}", values


def _problem(values: Any) -> str:
    """What is wrong with a row, "" where nothing is."""
    if not isinstance(values, dict):
        return f"expected an object, found {type(values).__name__}"
    repo = values.get("repo")
    if not isinstance(repo, str) or not all(part.strip() for part in repo.split("/")) or repo.count("/") < 1:
        return f"repo must be owner/name, found {repo!r}"
    asked = [key for key in ("url", "command") if key in values]
    if len(asked) != 1:
        return f"expected either url or command, found {' and '.join(asked) or 'neither'}"
    if not isinstance(values[asked[0]], str):
        return f"{asked[0]} must be a string, found {type(values[asked[0]]).__name__}"
    for key in _LISTS:
        value = values.get(key)
        if value is not None and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            return f"{key} must be a list of strings, found {value!r}"
    return ""


def _target(values: dict[str, Any]) -> Target:
    return Target(values["repo"], **{key: tuple(values.get(key) or ()) for key in _LISTS})

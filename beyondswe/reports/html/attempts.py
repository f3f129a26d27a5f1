"""What a page shows of one attempt: prompt, trajectory, patch, tests, requests, flags; long texts cut, and so said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from beyondswe.agents.transcripts.base import listed, mapping
from beyondswe.reports.audit.events import read_files
from beyondswe.reports.report import read_results
from beyondswe.runs.folder import RunFolder

TEXT = 12_000  # characters of one text: head and tail are kept
STEPS = 400  # steps of one trajectory
REQUESTS = 500  # requests of one egress log
TOTAL = 48 << 20  # characters of all attempts of a report together


def attempts(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """The attempts of a run, in the order of its results; past the limit on a report with the outcome alone."""
    spent = 0
    for row in read_results(folder.results):
        attempt = int(row.get("attempt", 1))
        shown = _outcome(row)
        path = folder.attempt(row["instance_id"], attempt)
        if not path.is_dir():
            shown["note"] = "the run's folder has no files of this attempt"
        elif spent > TOTAL:
            shown["note"] = "left out of this page, which is large enough; the files are in the run's folder"
        else:
            shown |= _files(path)
            spent += len(json.dumps(shown))
        yield shown


def _outcome(row: dict[str, Any]) -> dict[str, Any]:
    usage = row.get("usage") or {}
    tests = {
        kind: dict(row[key])
        for kind, key in (("fail to pass", "f2p"), ("pass to pass", "p2p"), ("suite", "tests"))
        if row.get(key)
    }
    return {
        "id": row["instance_id"],
        "attempt": int(row.get("attempt", 1)),
        "family": row["family"],
        "status": row["status"],
        "agent_status": row.get("agent_status"),
        "resolved": bool(row.get("resolved")),
        "score": row.get("score"),
        "flags": list(row.get("flags") or ()),
        "error": cut(str(row.get("error") or "")),
        "tests": tests,
        "usage": usage,
        "timings": row.get("timings") or {},
        "image": row.get("image_digest") or "",
    }


def _files(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if text := _read(path / "patch.diff"):
        found["patch"] = cut(text, 8 * TEXT)
    if text := _read(path / "logs" / "tests.log"):
        found["log"] = cut(text, 2 * TEXT)
    if text := _read(path / "logs" / "agent.log"):
        found["agent_log"] = cut(text, 2 * TEXT)
    if requests := _requests(path / "egress.jsonl"):
        found["requests"] = requests
    if (trajectory := path / "trajectory.json").is_file() and not trajectory.is_symlink():
        found["steps"] = _steps(read_files([trajectory], path)["trajectory.json"])
    return found


def _steps(data: bytes) -> list[dict[str, Any]]:
    """The steps of an ATIF trajectory; what is none gives none."""
    try:
        steps = _objects(mapping(json.loads(data)).get("steps"))
    except (ValueError, RecursionError):
        return []
    shown = []
    for step in steps[:STEPS]:
        results: dict[str, str] = {}
        for result in _objects(mapping(step.get("observation")).get("results")):
            key = str(result.get("source_call_id"))
            results[key] = results.get(key, "") + str(result.get("content") or "")
        calls = [
            {
                "tool": str(call.get("function_name")),
                "arguments": cut(_arguments(call.get("arguments"))),
                "result": cut(results.pop(str(call.get("tool_call_id")), "")),
            }
            for call in _objects(step.get("tool_calls"))
        ]
        shown.append(
            {
                "n": step["step_id"] if isinstance(step.get("step_id"), int) else None,
                "source": str(step.get("source")),
                "text": cut(str(step.get("message") or "")),
                "reasoning": cut(str(step.get("reasoning_content") or "")),
                "calls": calls,
                "rest": cut("\n".join(results.values())),
                "tokens": mapping(step.get("metrics")).get("completion_tokens"),
            }
        )
    if len(steps) > STEPS:
        shown.append({"n": None, "source": "note", "text": f"{len(steps) - STEPS} more steps", "calls": []})
    return shown


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in listed(value) if isinstance(item, dict)]


def _arguments(arguments: Any) -> str:
    """One text alone as it is, else JSON."""
    if (
        isinstance(arguments, dict)
        and len(arguments) == 1
        and isinstance(only := next(iter(arguments.values())), str)
    ):
        return only
    return json.dumps(arguments, indent=1, ensure_ascii=False)


def _requests(path: Path) -> list[dict[str, Any]]:
    rows = []
    for line in (_read(path) or "").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(
                {key: row.get(key) for key in ("time", "method", "url", "decision", "rule", "status", "size")}
            )
        if len(rows) == REQUESTS:
            break
    return rows


def _read(path: Path) -> str | None:
    """The text of a file; None where there is none, or a link or pipe that somebody put in its place."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None  # an attempt need not have every file


def cut(text: str, most: int = TEXT) -> str:
    """A text within ``most`` characters: its head, what is left out, its tail."""
    if len(text) <= most:
        return text
    head, tail = most * 3 // 4, most // 4
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{text[-tail:]}"

"""What one job showed: the runner's frames and the container's end state, read once."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from beyondswe.sandbox.types import Ended


@dataclass(frozen=True)
class Phase:
    """One phase of one test, as pytest reported it."""

    when: str  # setup, call, teardown
    outcome: str  # passed, failed, skipped; or a plugin's own word, such as rerun
    xfail: bool = False  # expected to fail: whether it did or not, it is no pass
    raised: bool = False  # the phase ended in an exception, whatever the report says
    subtest: bool = False  # a part of the test that is reported besides the test
    text: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """Everything that a verdict may be made of."""

    ended: Ended
    frames: tuple[str, ...] = ()  # as they came, less the log
    hello: dict[str, Any] | None = None  # the supervisor ran: runner, python
    applied: bool = False  # the change is in place
    fault: str | None = None  # the supervisor's own failure
    start: dict[str, Any] | None = (
        None  # the child imported pytest, or could not: pytest, from_tree, missing, error
    )
    collected: dict[str, Any] | None = None  # selected, deselected, duplicates, plugins, makereport
    phases: dict[str, tuple[Phase, ...]] = field(default_factory=dict)  # by node id
    collection_errors: dict[str, str] = field(default_factory=dict)  # by node id of the collector
    finish: dict[str, Any] | None = None  # pytest came to its end: exit, error
    forged: int = 0  # lines on the record channel with a wrong digest
    end: dict[str, Any] | None = (
        None  # the child's end: exit_code, signal, timed_out, oom_kills, overflow, seconds
    )
    files: dict[str, bytes] = field(default_factory=dict)  # what a `command` job left behind
    files_too_large: bool = False
    log: str = ""

    @property
    def seconds(self) -> float:
        """How long the child ran: the tests, and nothing of the job around them."""
        return float(self.end["seconds"]) if self.end else 0.0

    @property
    def timed_out(self) -> bool:
        """The tests did not end within their limit (the supervisor's clock, else the host's)."""
        return bool(self.end["timed_out"]) if self.end else self.ended.timed_out and self.start is not None

    @property
    def out_of_disk(self) -> bool:
        """The container was ended since it wrote more than it may, and not by itself before."""
        return self.ended.out_of_disk and self.end is None

    @property
    def out_of_memory(self) -> bool:
        return self.ended.oom_killed or bool(self.end and self.end["oom_kills"])


def read_evidence(ended: Ended) -> Evidence:
    """Read the frames in a container's standard output. Anything else in it is a fault of the supervisor."""
    found: dict[str, Any] = {}
    phases: defaultdict[str, list[Phase]] = defaultdict(list)
    errors: dict[str, str] = {}
    files: defaultdict[str, bytearray] = defaultdict(bytearray)
    frames: list[str] = []
    for line in ended.stdout.splitlines():
        try:
            frame = json.loads(line)
            event = frame.pop("event")
        except (ValueError, KeyError, AttributeError):
            found["fault"] = f"the runner's output holds a line that is no frame: {line[:200]!r}"
            continue
        match event:
            case "hello":
                found["hello"] = frame
            case "applied":
                found["applied"] = True
            case "record":
                _record(frame["r"], found, phases, errors)
            case "file":
                if frame.get("too_large"):
                    found["files_too_large"] = True
                else:
                    files[frame["name"]] += base64.b64decode(frame["data"])
                continue
            case "end":
                found["log"] = _log(frame)
                found["end"] = frame
                found["forged"] = frame["forged"]
                line = json.dumps({"event": "end", **frame}, sort_keys=True).encode()
            case "fault":
                found["fault"] = frame["what"]
        frames.append(line.decode("ascii"))
    return Evidence(
        ended=ended,
        frames=tuple(frames),
        phases={name: tuple(steps) for name, steps in phases.items()},
        collection_errors=errors,
        files={name: bytes(data) for name, data in files.items()},
        **found,
    )


def read_rounds(ended: Ended) -> tuple[Evidence, ...]:
    """The evidence of each round of a job that had several; of none, what came before the first.

    A round that was not begun before the container's end is not among them.
    """
    before, *rounds = _split(ended.stdout.splitlines(keepends=True))
    parts = [b"".join(before + own) for own in rounds] or [b"".join(before)]
    return tuple(read_evidence(replace(ended, stdout=part)) for part in parts)


def _split(lines: Iterable[bytes]) -> list[list[bytes]]:
    parts: list[list[bytes]] = [[]]
    for line in lines:
        if b'"round"' in line:
            try:
                frame = json.loads(line)
            except ValueError:
                frame = None  # `read_evidence` says what it thinks of it
            if isinstance(frame, dict) and frame.get("event") == "round":
                parts.append([])
        parts[-1].append(line)
    return parts


def _record(
    record: dict[str, Any],
    found: dict[str, Any],
    phases: defaultdict[str, list[Phase]],
    errors: dict[str, str],
) -> None:
    match record["w"]:
        case "start":
            found["start"] = record
        case "collected":
            found["collected"] = record
        case "collect":
            errors[_text(record["id"])] = _text(record["t"])
        case "end":
            found["finish"] = record
        case when:
            phase = Phase(
                when=when,
                outcome=record["o"],
                xfail=record.get("x", False),
                raised=record.get("r", False),
                subtest=record.get("sub", False),
                text=_text(record.get("t", "")),
                seconds=record.get("d", 0.0),
            )
            phases[_text(record["id"])].append(phase)


def _text(text: str) -> str:
    """Text that can be written down: half characters (lone surrogates) become backslash escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _log(end: dict[str, Any]) -> str:
    head, tail = base64.b64decode(end.pop("log_head")), base64.b64decode(end.pop("log_tail"))
    left_out = end["log_bytes"] - len(head) - len(tail)
    gap = f"\n[… {left_out} bytes left out …]\n".encode() if left_out else b""
    return (head + gap + tail).decode("utf-8", "replace")

"""Audits a whole run, or a folder of transcripts, and writes a run in which confirmed looks count as unresolved."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beyondswe.errors import UsageError
from beyondswe.reports.audit.answers import Answer
from beyondswe.reports.audit.events import read_events, read_files, read_requests
from beyondswe.reports.audit.judge import Finding, judge
from beyondswe.reports.report import read_results
from beyondswe.runs.folder import RunFolder

_OURS = {
    "outcome.json",
    "egress.jsonl",
    "runner.jsonl",
    "model.jsonl",
    "patch.diff",
    "tests.log",
    "error.log",
}


@dataclass(frozen=True)
class Audit:
    """What an audit found, and what it could not look at."""

    findings: tuple[Finding, ...]
    attempts: int  # looked at
    blind: tuple[str, ...]  # attempts without trajectory and egress log, as ``id (attempt)``
    unknown: tuple[str, ...]  # instances that the dataset does not have

    @property
    def confirmed(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.confirmed]


def audit_run(folder: RunFolder, answers: Mapping[str, Answer]) -> Audit:
    """The audit of every attempt of a run; ``answers`` by instance id."""
    findings: list[Finding] = []
    blind, unknown = [], []
    attempts = 0
    for row in read_results(folder.results):
        name, attempt = row["instance_id"], int(row.get("attempt", 1))
        if name not in answers:
            unknown.append(name)
            continue
        attempts += 1
        found = _attempt(answers[name], attempt, folder.attempt(name, attempt))
        if found is None:
            blind.append(f"{name} ({attempt})")
        else:
            findings += found
    return Audit(tuple(findings), attempts, tuple(blind), tuple(dict.fromkeys(unknown)))


def audit_transcripts(path: Path, answers: Mapping[str, Answer]) -> Audit:
    """The audit of transcripts made elsewhere: a file or folder named by the instance's id for each, below ``path``.

    Raises `UsageError` where no name is an instance's.
    """
    findings: list[Finding] = []
    blind, unknown = [], []
    attempts = 0
    for entry in sorted(path.iterdir()):
        name = entry.name if entry.is_dir() else _stem(entry.name, answers)
        if name not in answers:
            unknown.append(entry.name)
            continue
        attempts += 1
        found = _attempt(answers[name], 1, entry)
        if found is None:
            blind.append(f"{name} (1)")
        else:
            findings += found
    if not attempts:
        raise UsageError(
            f"{path} is no run, and no file or folder in it is named by an instance of the dataset"
        )
    return Audit(tuple(findings), attempts, tuple(blind), tuple(unknown))


def _stem(name: str, answers: Mapping[str, Answer]) -> str:
    """The longest instance id that the name begins with, up to a dot."""
    parts = name.split(".")
    forms = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((form for form in forms if form in answers), name)


def _attempt(answer: Answer, attempt: int, path: Path) -> list[Finding] | None:
    """The findings of one attempt; None where there is nothing to look at."""
    root = path if path.is_dir() else path.parent
    candidates = (read_events(read_files(files, root)) for files in _candidates(path))
    events = next((found for found in candidates if found is not None), None)
    log = path / "egress.jsonl"
    requests = read_requests(log.read_bytes()) if log.is_file() else None
    if events is None and requests is None:
        return None
    patch = path / "patch.diff"
    text = patch.read_bytes().decode(errors="replace") if patch.is_file() else ""
    return judge(answer, attempt, events or [], requests, text)


def _candidates(path: Path) -> Iterator[list[Path]]:
    """Sets of files that may be a transcript: ours first, then one by one, then all of a folder together."""
    if path.is_file():
        yield [path]
        return
    if (ours := path / "trajectory.json").is_file():
        yield [ours]
    below = sorted(p for p in path.rglob("*") if p.is_file() and not p.is_symlink())
    files = [p for p in below if p.name not in _OURS and "tries" not in p.relative_to(path).parts]
    for file in files:
        yield [file]
    if files:
        yield files


def regrade(folder: RunFolder, audit: Audit, out: Path) -> int:
    """Write the run anew at ``out`` with confirmed looks as unresolved; how many outcomes changed.

    Raises `UsageError` if something is there already.
    """
    if out.exists():
        raise UsageError(f"{out} is there already: name a folder that is not")
    caught: dict[tuple[str, int], list[Finding]] = {}
    for finding in audit.confirmed:
        caught.setdefault((finding.instance_id, finding.attempt), []).append(finding)
    partial = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    changed = 0
    with (partial / "results.jsonl").open("w", encoding="utf-8") as stream:
        for row in read_results(folder.results):
            found = caught.get((row["instance_id"], int(row.get("attempt", 1))))
            if found:
                changed += bool(row.get("resolved")) or bool(row.get("score"))
                row = _unresolved(row, found)
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    run = folder.read_run()
    run |= {
        "run_id": out.name,
        "regraded": {"from": run["run_id"], "changed": changed, "attempts": len(caught)},
    }
    RunFolder(partial).write_json("run.json", run)
    RunFolder(partial).write_json("audit.json", to_document(audit))
    partial.rename(out)
    return changed


def _unresolved(row: dict[str, Any], found: Iterable[Finding]) -> dict[str, Any]:
    tiers = sorted({finding.tier.value for finding in found})
    before = {key: row.get(key) for key in ("status", "resolved", "score", "pass_rate")}
    return {
        **row,
        "status": "unresolved" if row["status"] == "resolved" else row["status"],
        "resolved": False,
        "score": 0.0,
        "pass_rate": 0.0,
        "flags": sorted({*(row.get("flags") or ()), *(f"looked_at_answer:{tier}" for tier in tiers)}),
        "before_audit": before,
    }


def to_document(audit: Audit) -> dict[str, Any]:
    """The audit as JSON."""
    tiers: dict[str, dict[str, int]] = {}
    for finding in audit.findings:
        counts = tiers.setdefault(finding.tier.value, {"confirmed": 0, "unconfirmed": 0})
        counts["confirmed" if finding.confirmed else "unconfirmed"] += 1
    caught = {(finding.instance_id, finding.attempt) for finding in audit.confirmed}
    return {
        "attempts": audit.attempts,
        "confirmed_attempts": len(caught),
        "tiers": tiers,
        "findings": [finding.to_row() for finding in audit.findings],
        "blind": list(audit.blind),
        "unknown": list(audit.unknown),
    }

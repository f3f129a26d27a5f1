"""Packs a run as a submission; what the run's folder no longer has is left out and said."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from beyondswe.errors import DataError, UsageError
from beyondswe.leaderboard.submission import (
    DESCRIPTION,
    PREDICTIONS,
    RESULTS,
    TRAJECTORIES,
    Submission,
    check_name,
    scores_of,
    submissions_dir,
)
from beyondswe.reports.report import make_report, read_results
from beyondswe.runs.folder import RunFolder, disk_errors, folder_name


@dataclass(frozen=True)
class Words:
    """What a run does not know of itself."""

    authors: Sequence[str] = ()
    links: Sequence[str] = ()
    open_weights: bool | None = None
    model: str | None = None


@dataclass
class Packed:
    """What was written, and what a reader must be told of it."""

    path: Path
    outcomes: int = 0
    predictions: int = 0
    trajectories: int = 0
    notes: list[str] = field(default_factory=list)


def pack(folder: RunFolder, site: Path, name: str, words: Words, *, replace: bool = False) -> Packed:
    """Write ``submissions/<name>/`` of a leaderboard; whole or not at all.

    Raises `UsageError` where it is there already, `DataError` where a patch holds a key of ours.
    """
    out = submissions_dir(site) / check_name(name)
    if out.exists() and not replace:
        raise UsageError(f"{out} is there already; use another --name, or --replace")
    submission = describe(folder, words)
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f".{name}.tmp")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with disk_errors(draft):
            draft.mkdir()
            (draft / DESCRIPTION).write_text(to_yaml(submission), encoding="utf-8")
            packed = _files(folder, draft, submission)
            if out.exists():
                shutil.rmtree(out)
            draft.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    packed.path = out
    return packed


def describe(folder: RunFolder, words: Words) -> Submission:
    """``submission.yaml`` of a run. Raises `UsageError` naming what its ``run.json`` lacks."""
    run, report = folder.read_run(), make_report(folder)
    if not report["families"]:
        raise UsageError(f"run {folder.run_id} has no outcome yet; go on with it first")
    today = datetime.now(UTC).date().isoformat()
    facts: dict[str, Any] = {
        "agent": {"name": run["agent"]["name"], "version": str(run["agent"].get("version") or "")},
        "model": words.model or run.get("model"),
        "open_weights": words.open_weights,
        "date": str(run.get("finished") or today)[:10],
        "authors": list(words.authors),
        "links": list(words.links),
        "search": run.get("search"),
        "network": run.get("network"),
        "prompt": run.get("prompt"),
        "attempts": run.get("attempts", 1),
        "strict": report["strict"],
        "package_version": run.get("package_version"),
        "dataset": {key: run["dataset"].get(key) for key in ("name", "version", "hash")},
        "started": run.get("started"),
        "finished": run.get("finished"),
        "run_id": run["run_id"],
        "scores": scores_of(report),
    }
    try:
        return Submission.model_validate(facts)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False)]
        raise UsageError(
            f"run {folder.run_id} cannot be packed: its run.json, or a given option, has\n  "
            + "\n  ".join(lines)
            + "\nRuns made by `beyondswe eval` and `score` have all of it."
        ) from None


def to_yaml(submission: Submission) -> str:
    """The document as people read it: in the order of the fields, nothing that is not there."""
    import yaml

    facts = submission.model_dump(mode="json", exclude_none=True)
    for key in ("model", "open_weights"):
        facts.setdefault(key, None)
    facts = {key: facts[key] for key in Submission.model_fields if key in facts}
    text: str = yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, width=100)
    return text


def _files(folder: RunFolder, out: Path, submission: Submission) -> Packed:
    packed = Packed(out)
    model = "__".join(filter(None, (submission.agent.name, submission.model)))
    without_patch: list[str] = []
    without_trajectory: list[str] = []
    (out / TRAJECTORIES).mkdir()
    with (out / RESULTS).open("w", encoding="utf-8") as results, (out / PREDICTIONS).open("w") as predictions:
        for row in read_results(folder.results):
            packed.outcomes += 1
            instance_id, attempt = row["instance_id"], int(row.get("attempt", 1))
            shown = f"{instance_id} ({attempt})"
            if "secret_in_patch" in (row.get("flags") or ()):
                raise DataError(f"the patch of {shown} holds a key of this machine: not to be published")
            results.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
            text = _patch(folder, row, attempt)
            if text is None:
                without_patch.append(shown)
            else:
                packed.predictions += 1
                line = {
                    "instance_id": instance_id,
                    "attempt": attempt,
                    "model_name_or_path": model,
                    "model_patch": text,
                }
                predictions.write(json.dumps(line) + "\n")
            trajectory = folder.attempt(instance_id, attempt) / "trajectory.json"
            if trajectory.is_file():
                packed.trajectories += 1
                data = gzip.compress(trajectory.read_bytes(), mtime=0)
                (out / TRAJECTORIES / trajectory_name(instance_id, attempt)).write_bytes(data)
            else:
                without_trajectory.append(shown)
    _say_missing(packed, without_patch, without_trajectory)
    if not packed.predictions:
        (out / PREDICTIONS).unlink()
    if not packed.trajectories:
        (out / TRAJECTORIES).rmdir()
    return packed


def _say_missing(packed: Packed, patches: list[str], trajectories: list[str]) -> None:
    n = packed.outcomes
    if patches:
        packed.notes.append(
            f"without a patch: {len(patches)} of {n} ({_few(patches)}). The run's folder has no attempts/ for them; "
            f"add rows to {PREDICTIONS}, or pack the whole run folder: the check asks for every patch"
        )
    if trajectories:
        packed.notes.append(f"without a trajectory: {len(trajectories)} of {n} ({_few(trajectories)})")


def _patch(folder: RunFolder, row: dict[str, Any], attempt: int) -> str | None:
    """The attempt's patch; empty where there was none to be taken; None where it is not here any more."""
    path = folder.attempt(row["instance_id"], attempt) / "patch.diff"
    if path.is_file():
        return path.read_bytes().decode("utf-8", errors="surrogateescape")
    return None if row.get("patch_sha256") else ""


def trajectory_name(instance_id: str, attempt: int) -> str:
    """The file of an attempt's trajectory."""
    return f"{folder_name(instance_id)}.{attempt}.json.gz"


def _few(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")

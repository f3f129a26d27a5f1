"""Puts the runs of a dataset's shards, made on several machines, together into one run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beyondswe.errors import UsageError
from beyondswe.runs.folder import RunFolder

_ALIKE = (
    ("dataset", "name"),
    ("dataset", "hash"),
    ("agent", "name"),
    ("agent", "version"),
    ("agent", "digest"),
    ("model",),
    ("search",),
    ("prompt",),
    ("network",),
    ("attempts",),
    ("strict",),
    ("provider_tools",),
    ("allow_hosts",),
    ("search_backend",),
    ("page_reader",),
    ("summary_model",),
    ("model_settings",),
    ("limits", "timeout"),
    ("limits", "test_timeout"),
    ("limits", "max_turns"),
    ("limits", "max_cost"),
    ("limits", "max_tokens"),
)
"""What must be the same in all of them; what only some say is not compared."""


def merge(folders: Sequence[RunFolder], out: Path) -> dict[str, Any]:
    """Write one run with the outcomes and files of all; its ``run.json``.

    Raises `UsageError` where runs were asked different things, an attempt is in two of them, or ``out`` is there.
    """
    if out.exists():
        raise UsageError(f"{out} is there already: name another id with --out")
    runs = [folder.read_run() for folder in folders]
    for keys in _ALIKE:
        values = {json.dumps(value): run["run_id"] for run in runs if (value := _at(run, keys)) is not None}
        if len(values) > 1:
            told = "; ".join(f"{run} has {value}" for value, run in values.items())
            raise UsageError(f"these runs are no shards of one: {'.'.join(keys)} differs ({told})")
    partial = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    seen: dict[tuple[str, int], str] = {}
    with (partial / "results.jsonl").open("w", encoding="utf-8") as stream:
        for folder, run in zip(folders, runs, strict=True):
            for row in _rows(folder):
                key = (row["instance_id"], int(row.get("attempt", 1)))
                if key in seen:
                    shutil.rmtree(partial)
                    raise UsageError(
                        f"attempt {key[1]} of {key[0]} is in {seen[key]} and in {run['run_id']}: shards do not overlap"
                    )
                seen[key] = run["run_id"]
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
                files = folder.attempt(*key)
                if files.is_dir():
                    shutil.copytree(files, RunFolder(partial).attempt(*key), symlinks=True)
    document = _document(runs, out.name)
    RunFolder(partial).write_json("run.json", document)
    partial.rename(out)
    return document


def _document(runs: Sequence[dict[str, Any]], run_id: str) -> dict[str, Any]:
    first = runs[0]
    counts = [run["dataset"].get("n") for run in runs]
    families: dict[str, int] = {}
    excluded: dict[str, str] = {}
    for run in runs:
        for name, n in (run["dataset"].get("families") or {}).items():
            families[name] = families.get(name, 0) + n
        excluded |= run["dataset"].get("excluded") or {}
    dataset = {key: value for key, value in first["dataset"].items() if key != "selection"}
    dataset |= {"n": sum(counts) if all(isinstance(n, int) for n in counts) else None, "families": families}
    if excluded:
        dataset["excluded"] = excluded
    finished = [run.get("finished") for run in runs]
    return {
        **first,
        "run_id": run_id,
        "dataset": dataset,
        "notes": [note for run in runs for note in run.get("notes") or ()],
        "started": min((run["started"] for run in runs if run.get("started")), default=None),
        "finished": max(map(str, finished)) if all(finished) else None,
        "images": {name: digest for run in runs for name, digest in (run.get("images") or {}).items()},
        "merged_from": [run["run_id"] for run in runs],
    }


def _rows(folder: RunFolder) -> list[dict[str, Any]]:
    try:
        lines = folder.results.read_bytes().split(b"\n")  # texts in a row may hold other line ends
        return [json.loads(line) for line in lines if line.strip()]
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise UsageError(
            f"{folder.results} is damaged ({error}): let its run go on, which writes it anew"
        ) from error


def _at(run: dict[str, Any], keys: Sequence[str]) -> Any:
    value: Any = run
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value

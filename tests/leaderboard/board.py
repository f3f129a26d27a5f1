"""A leaderboard to work on: runs of the demo dataset made by hand out of its real instances, and the command line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from beyondswe.cli import cli
from beyondswe.cli.datasets import open_dataset
from beyondswe.errors import BeyondSWEError
from beyondswe.instances.dataset import Dataset


@cache
def demo() -> Dataset:
    return open_dataset("demo")


def call(*words: str | Path) -> tuple[int, Any]:
    """Exit code and document of a leaderboard command; of one that cannot be carried out, its code and message."""
    result = CliRunner().invoke(
        cli, ["leaderboard", *map(str, words), "--json"], standalone_mode=False, catch_exceptions=True
    )
    if isinstance(result.exception, BeyondSWEError):
        return result.exception.exit_code, str(result.exception)
    if result.exception is not None:
        raise result.exception
    return result.return_value or 0, json.loads(result.stdout)


def demo_run(
    root: Path, run_id: str, solved: Mapping[str, bool] | bool = True, *, attempts: int = 1, **facts: Any
) -> Path:
    """A run on the demo with patches and trajectories; ``solved`` by id, or all alike."""
    data, folder = demo(), root / run_id
    folder.mkdir(parents=True)
    run = {
        "run_id": run_id,
        "dataset": {"name": "demo", "version": data.version, "hash": data.hash, "n": len(data.instances)},
        "agent": {"name": "someone", "version": "1"},
        "model": "M",
        "search": False,
        "network": "model",
        "attempts": attempts,
        "package_version": "0.1.0",
        "started": "2026-05-01T10:00:00+00:00",
        "finished": "2026-05-01T11:00:00+00:00",
        **facts,
    }
    (folder / "run.json").write_text(json.dumps(run))
    rows = []
    for instance in data.instances:
        for attempt in range(1, attempts + 1):
            good = solved if isinstance(solved, bool) else solved[instance.instance_id]
            result = "passed" if good else "failed"
            tests: list[str] = list((instance.verification or {})["tests"]) if instance.is_doc2repo else []
            patch = instance.patch if good else f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+{run_id}{attempt}\n"
            rows.append(
                {
                    "instance_id": instance.instance_id,
                    "family": instance.family.value,
                    "attempt": attempt,
                    "status": "resolved" if good else "unresolved",
                    "resolved": good,
                    "score": float(good),
                    "pass_rate": float(good),
                    "f2p": dict.fromkeys(instance.fail_to_pass, result),
                    "p2p": dict.fromkeys(instance.pass_to_pass, result),
                    "tests": dict.fromkeys(tests, result),
                    "patch_sha256": hashlib.sha256(patch.encode()).hexdigest(),
                    "usage": {"input_tokens": 900, "output_tokens": 80, "cost_usd": 0.2, "turns": 4},
                }
            )
            files = folder / "attempts" / instance.instance_id / str(attempt)
            files.mkdir(parents=True)
            (files / "patch.diff").write_text(patch)
            (files / "trajectory.json").write_text(json.dumps({"schema_version": "ATIF-v1.8", "steps": []}))
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def change_yaml(folder: Path, **facts: Any) -> None:
    document = yaml.safe_load((folder / "submission.yaml").read_text())
    (folder / "submission.yaml").write_text(yaml.safe_dump({**document, **facts}))


def change_rows(path: Path, change: Any) -> None:
    """Rewrite a JSONL file: ``change`` edits the list of rows in place."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    change(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

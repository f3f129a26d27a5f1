"""SWE-bench's formats: dataset rows that its harness loads, and predictions; rows read back as the same instances."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from beyondswe.errors import DataError, UsageError
from beyondswe.instances.model import Instance
from beyondswe.instances.writing import to_row
from beyondswe.reports.report import read_results
from beyondswe.runs.folder import RunFolder, write_atomic

OURS = "beyondswe"
"""Field of an exported row that holds the row as we have it: SWE-bench's own fields do not say all of it."""
_SCRIPT = "test_fail_to_pass.py"


def to_swebench(instance: Instance) -> dict[str, Any]:
    """An instance as a SWE-bench row. Raises `UsageError` for Doc2Repo, which has no such form."""
    if instance.is_doc2repo:
        raise UsageError(f"{instance.instance_id}: SWE-bench has no form for Doc2Repo")
    created = instance.index_date or (instance.verification or {}).get("index_date") or ""
    return {
        "instance_id": instance.instance_id,
        "repo": instance.repo,
        "base_commit": instance.base_commit,
        "environment_setup_commit": instance.base_commit,
        "version": str(instance.extra.get("version") or "0"),
        "created_at": f"{created}T00:00:00Z" if created else "",
        "problem_statement": instance.problem_statement,
        "hints_text": str(instance.extra.get("hints_text") or ""),
        "patch": instance.patch,
        "test_patch": instance.f2p_patch + _script_patch(instance.f2p_script),
        "FAIL_TO_PASS": json.dumps(list(instance.fail_to_pass)),
        "PASS_TO_PASS": json.dumps(list(instance.pass_to_pass)),
        "task": instance.family.value,
        "image": instance.image,
        "workdir": instance.workdir,
        OURS: json.dumps(to_row(instance)),
    }


def export_swebench(instances: Iterable[Instance], out: Path) -> tuple[int, list[str]]:
    """Write ``dataset.jsonl`` to a folder: how many rows, and the ids that SWE-bench has no form for."""
    rows, left_out = [], []
    for instance in instances:
        if instance.is_doc2repo:
            left_out.append(instance.instance_id)
        else:
            rows.append(json.dumps(to_swebench(instance)) + "\n")
    if not rows:
        raise UsageError(
            "nothing to export: SWE-bench has no form for Doc2Repo, and no other instance is selected"
        )
    write_atomic(out / "dataset.jsonl", "".join(rows).encode())
    return len(rows), left_out


def export_predictions(folder: RunFolder, out: Path, ids: Collection[str]) -> int:
    """Write ``predictions.jsonl``: the patches of a run's first attempts as SWE-bench prediction rows, of the instances
    in ``ids``, as its harness refuses others.

    Raises `UsageError` where the run's folder lacks the patches (CI keeps only its two files).
    """
    run = folder.read_run()
    name = "__".join(filter(None, (run["agent"]["name"], run.get("model") or "")))
    rows = []
    for row in read_results(folder.results):
        if int(row.get("attempt", 1)) != 1 or row["instance_id"] not in ids:
            continue
        patch = folder.attempt(row["instance_id"], 1) / "patch.diff"
        if not patch.is_file() and row.get("patch_sha256"):
            raise UsageError(
                f"{folder.path} has no patches: attempts/ is missing, so only run.json and results.jsonl are left"
            )
        data = patch.read_bytes() if patch.is_file() else b""  # as bytes: line ends are part of a patch
        text = data.decode("utf-8", "surrogateescape")
        rows.append({"instance_id": row["instance_id"], "model_name_or_path": name, "model_patch": text})
    write_atomic(out / "predictions.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
    return len(rows)


def from_swebench(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A row of ours out of a SWE-bench row: the one it was exported from, if it still says the same; else as it is."""
    if OURS not in row:
        return dict(row)
    from beyondswe.instances.families import load_row

    try:
        ours: dict[str, Any] = json.loads(row[OURS])
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: {OURS} is no JSON ({error}); leave the field out to read the row as SWE-bench's"
        ) from None
    if not isinstance(ours, dict):
        raise DataError(f"{where}: {OURS} holds no row")
    loaded = load_row(ours)
    if loaded.instance is None:
        raise DataError(f"{where}: {OURS} holds no instance: {'; '.join(p.message for p in loaded.problems)}")
    again = to_swebench(loaded.instance)
    changed = [key for key in again if key != OURS and key in row and row[key] != again[key]]
    if changed:
        raise DataError(
            f"{where}: {', '.join(changed)} was changed since the row was exported, and {OURS} still says otherwise; "
            f"leave out the field {OURS}"
        )
    return ours


def import_swebench(path: Path) -> list[dict[str, Any]]:
    """Rows of ours out of a file of SWE-bench rows (JSONL, or a JSON list)."""
    try:
        text = path.read_text(encoding="utf-8")
        rows = (
            json.loads(text)
            if text.lstrip().startswith("[")
            else [json.loads(line) for line in text.split("\n") if line.strip()]
        )
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: neither JSON nor JSONL ({error})") from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError(f"{path}, row {number}: a JSON object is expected, found {type(row).__name__}")
    return [from_swebench(row, f"{path}, row {number}") for number, row in enumerate(rows, 1)]


def _script_patch(script: str) -> str:
    """The patch that brings the hidden test file."""
    if not script:
        return ""
    lines = script.split("\n")
    ends = lines[-1] == ""
    body = lines[:-1] if ends else lines
    head = f"diff --git a/{_SCRIPT} b/{_SCRIPT}\nnew file mode 100644\n--- /dev/null\n+++ b/{_SCRIPT}\n"
    head += f"@@ -0,0 +1,{len(body)} @@\n"
    tail = "" if ends else "\\ No newline at end of file\n"
    return head + "".join(f"+{line}\n" for line in body) + tail

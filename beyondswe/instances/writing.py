"""Instances as rows again, under the published field names: they read back as the same instances."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from beyondswe.instances.model import Instance

ALWAYS = {
    "instance_id": "instance_id",
    "task": "family",
    "repo": "repo",
    "base_commit": "base_commit",
    "workdir": "workdir",
    "image": "image",
    "language": "language",
    "patch": "patch",
}
"""Published name → our name, of the fields that every row has."""

WHERE_FILLED = {
    "problem_statement": "problem_statement",
    "REPO_DOCUMENT_CONTENT": "specification",
    "FAIL_TO_PASS": "fail_to_pass",
    "PASS_TO_PASS": "pass_to_pass",
    "f2p_patch": "f2p_patch",
    "f2p_script": "f2p_script",
    "test_suite": "test_suite",
    "test_suite_num": "test_suite_num",
    "pre_commands": "pre_commands",
    "distributions": "distributions",
    "aliases": "aliases",
    "docs_hosts": "docs_hosts",
    "index_date": "index_date",
    "score_network": "score_network",
    "reference_archive": "reference_archive",
    "verification": "verification",
}
"""The same, of the fields that a row has only if they say something."""


def to_row(instance: Instance) -> dict[str, Any]:
    """The row of an instance; without ``test_suite_dir``, which is where the dataset is on this machine."""
    ours = instance.model_dump(mode="json")
    row = {published: ours[name] for published, name in ALWAYS.items()}
    row |= {
        published: ours[name]
        for published, name in WHERE_FILLED.items()
        if ours[name] not in (None, "", [], 0)
    }
    if instance.pre_commands:
        row["pre_commands"] = {"execute_command": {"commands": ours["pre_commands"]}}
    return {**instance.extra, **row}


def write_instances(path: Path, instances: Iterable[Instance]) -> None:
    """Write instances as JSONL, one row a line. The file appears whole or not at all; its folder is made.

    ASCII alone, so that no reader splits a row at a character that it takes for the end of a line.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            for instance in instances:
                stream.write(json.dumps(to_row(instance)) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

"""Runs in the image of Harbor's verifier: ``prepare`` when it is built, ``score`` when a trial is to be scored.

``prepare`` snapshots the environment's pristine work folder, holds it against the tree that was recorded, and
removes it: so a file that the agent deleted is not there when Harbor puts the agent's folder in its place.
``score`` compares that folder with the snapshot and scores the difference as `beyondswe score` does. Where the
machine is at fault no reward is written: Harbor counts an error then, not a failed attempt.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from beyondswe.errors import BeyondSWEError, ScoringError
from beyondswe.export.harbor.rooms import Brought, Rooms
from beyondswe.instances.families import load_row
from beyondswe.instances.model import Instance
from beyondswe.sandbox import snapshot
from beyondswe.sandbox.trees import SYMLINK, Trees
from beyondswe.sandbox.types import Environment, Limits, Snapshot
from beyondswe.scoring.extract import PatchTooLarge, extract_patch
from beyondswe.scoring.score import score_patch
from beyondswe.scoring.types import Patch, Scored, Status, TestResult

HOME = Path("/opt/beyondswe")
TESTS = Path("/tests")
ROOMS = "/run/beyondswe-rooms"
_BASE = HOME / "base"
_LOGS = Path("/logs/verifier")
_KEY = "base"


class Task(BaseModel):
    """What a task's verifier must know beside the instance (``tests/task.json``)."""

    workdir: str
    user: str  # the environment image's, "" is root
    tree: str  # git's name of the pristine work folder
    base_tree: str  # of what the base commit tracks of it
    base_commit: str
    instruction_sha256: str  # of what the agent is told: who changed it did not change the instance
    flags: tuple[str, ...] = ()  # of the environment
    test_timeout: float = 1800.0


def prepare(task: Task) -> None:
    """Snapshot the work folder of this image and remove it. `ScoringError` where it is not what was exported."""
    os.environ["BEYONDSWE_CACHE"] = str(_BASE)
    tracked = None if task.base_tree == task.tree else (TESTS / "tracked").read_bytes().split(b"\0")[:-1]
    with Brought(task.workdir).get(task.workdir) as archive:
        prefix = os.fsencode(posixpath.basename(task.workdir))
        taken = snapshot.take(_KEY, archive, prefix=prefix, tracked=tracked)
    if (taken.tree, taken.base_tree) != (task.tree, task.base_tree):
        raise ScoringError(
            f"{task.workdir} is not the tree that the task was exported from ({taken.tree} for {task.tree}); "
            "the environment image was changed: export the dataset again"
        )
    shutil.rmtree(task.workdir)


def score(task: Task) -> int:
    """Score the folder that was brought; the exit code is 3 where that could not be done."""
    try:
        instance = _instance()
        patch, scored = _scored(task, instance)
    except BeyondSWEError as error:
        _write(
            "reward-details.json", json.dumps({"status": Status.INFRASTRUCTURE_ERROR, "error": str(error)})
        )
        print(error, file=sys.stderr)
        return 3
    _write("reward-details.json", json.dumps(_details(task, instance, patch, scored), indent=1))
    _write("patch.diff", patch.text)
    _write("tests.log", scored.log)
    _write("runner.jsonl", "".join(f"{frame}\n" for frame in scored.records))
    print(f"{scored.status}: {scored.score:g}{f' ({scored.error})' if scored.error else ''}")
    if scored.status is Status.INFRASTRUCTURE_ERROR:
        return 3
    reward: float = scored.score if instance.is_doc2repo else int(scored.score)
    _write("reward.txt", f"{reward}\n")
    _write("reward.json", json.dumps({"reward": reward}))
    return 0


def _instance() -> Instance:
    loaded = load_row(json.loads((TESTS / "instance.json").read_text("utf-8")))
    if loaded.instance is None:
        raise ScoringError(
            f"tests/instance.json: {'; '.join(problem.message for problem in loaded.problems)}"
        )
    return loaded.instance.model_copy(update={"test_suite_dir": TESTS})


def _scored(task: Task, instance: Instance) -> tuple[Patch, Scored]:
    if not Path(task.workdir).is_dir():
        raise ScoringError(f"the work folder {task.workdir} did not come: see artifacts/manifest.json")
    git_dir = _BASE / "snapshots" / _KEY / "git"
    environment = Environment(
        image="",
        source_image=instance.image,
        image_digest="",
        workdir=task.workdir,
        user=task.user,
        snapshot=Snapshot(git_dir, task.tree, task.base_tree),
        flags=task.flags,
    )
    _put_back_links(environment)
    try:
        patch = extract_patch(Brought(task.workdir), environment)
    except PatchTooLarge as error:
        nothing = Patch("", hashlib.sha256(b"").hexdigest(), ())
        return nothing, Scored(status=Status.PATCH_REJECTED, score=0.0, pass_rate=0.0, error=str(error))
    limits = Limits(test_timeout=task.test_timeout)
    return patch, score_patch(Rooms(Path(ROOMS)), instance, environment, patch.text, limits=limits)


def _put_back_links(environment: Environment) -> None:
    """Links of the base that lead out of the work folder, which Harbor carries to nowhere.

    Price: an agent cannot remove one.
    """
    with Trees.above(environment.snapshot.git_dir) as trees:
        for path, entry in trees.entries(environment.snapshot.tree).items():
            if entry.mode == SYMLINK and leads_out(path, target := trees.read(entry.oid)):
                place = Path(environment.workdir, os.fsdecode(path))
                if not os.path.lexists(place) and place.parent.is_dir():
                    place.symlink_to(os.fsdecode(target))


def leads_out(path: bytes, target: bytes) -> bool:
    """Whether a link, relative to the work folder, is absolute or leaves it."""
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return target.startswith(b"/") or reached.split(b"/")[0] == b".."


def _details(task: Task, instance: Instance, patch: Patch, scored: Scored) -> dict[str, Any]:
    tables = {"f2p": scored.f2p, "p2p": scored.p2p, "tests": scored.tests}
    return {
        "instance_id": instance.instance_id,
        "family": instance.family.value,
        "base_commit": task.base_commit,
        "status": scored.status,
        "resolved": scored.status is Status.RESOLVED,
        "score": scored.score,
        "pass_rate": scored.pass_rate,
        "counts": {name: _counts(table) for name, table in tables.items() if table},
        **{name: table for name, table in tables.items() if table},
        "flags": [*task.flags, *scored.flags],
        "controls": vars(scored.controls) if scored.controls else None,
        "error": scored.error,
        "patch_sha256": patch.sha256,
        "left_out": list(patch.left_out),
        "timings": dict(scored.timings),
    }


def _counts(table: Mapping[str, TestResult]) -> dict[str, int]:
    return dict(Counter(result.value for result in table.values()))


def _write(name: str, text: str) -> None:
    """Write a file of the verifier's folder; it appears whole or not at all."""
    temporary = _LOGS / f".{name}.tmp"
    temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
    temporary.replace(_LOGS / name)


def main(words: list[str]) -> int:
    """``prepare`` or ``score``, with the tools that come with the image and nothing of its environment's."""
    os.environ["PATH"] = f"{HOME}/bin:{os.environ.get('PATH', os.defpath)}"
    os.environ.setdefault("BEYONDSWE_CACHE", "/tmp/beyondswe")
    task = Task.model_validate_json((TESTS / "task.json").read_bytes())
    if words == ["prepare"]:
        prepare(task)
        return 0
    return score(task)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

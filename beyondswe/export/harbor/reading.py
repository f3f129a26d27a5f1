"""Instances out of Harbor tasks: those that `export harbor` wrote as they were, others as far as their files say.

Others are laid out as the released Harbor form of BeyondSWE is: ``task.toml``, ``instruction.md``, ``environment/``,
``tests/``, ``solution/``. What such a task does only in a script of its own (which tests must pass, say) is not
guessed: `Read.incomplete` names the fields that are still to be filled, by hand or by `beyondswe verify`.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beyondswe.errors import DataError
from beyondswe.export.harbor.manifest import ROW
from beyondswe.instances.families import find_family
from beyondswe.instances.model import Family

_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1[^\n]*\n(.*?)^\2$", re.MULTILINE | re.DOTALL)
_PULL_REQUEST = re.compile(r"(?P<owner>[A-Za-z0-9-]+)_(?P<name>.+)_pr(?P<number>\d+)")
_CANARY = re.compile(r"\A(\s*(<!--[^\n]*canary[^\n]*-->|#[^\n]*canary[^\n]*)\n)+", re.IGNORECASE)
_SAYS_NOTHING = {"FROM", "WORKDIR", "LABEL", "CMD", "ENTRYPOINT"}
_SUITE = "test_suite.zip"
_SPECIFICATION = "repo_document.md"
_TESTS = (
    "FAIL_TO_PASS",
    "PASS_TO_PASS",
    "f2p_patch",
    "f2p_script",
    "test_patch",
    "base_commit",
    "test_suite_num",
)


@dataclass
class Read:
    """Rows, the files that they name (to lie beside the rows), and what is missing."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)
    incomplete: dict[str, list[str]] = field(default_factory=dict)
    to_build: dict[str, Path] = field(default_factory=dict)  # image -> folder of its Dockerfile


def read_tasks(folder: Path, *, as_family: Family | None = None) -> Read:
    """The rows of a task, or of a folder of tasks. `DataError` for a task that is none: no task is passed over."""
    found = Read()
    for task in _tasks(folder):
        row = _ours(task, found) if (task / ROW).is_file() else _other(task, found, as_family)
        found.rows.append(row)
    return found


def _tasks(folder: Path) -> Iterator[Path]:
    if (folder / "task.toml").is_file():
        yield folder
        return
    below = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    tasks = [path for path in below if _looks_like_a_task(path)]
    if not tasks:  # the released dataset keeps them in a folder of its own
        tasks = [path for place in below for path in sorted(place.iterdir()) if _looks_like_a_task(path)]
    if not tasks:
        raise DataError(f"{folder}: neither a Harbor task nor a folder of tasks (there is no task.toml)")
    yield from tasks


def _looks_like_a_task(path: Path) -> bool:
    return path.is_dir() and any((path / name).exists() for name in ("task.toml", "instruction.md"))


def _ours(task: Path, found: Read) -> dict[str, Any]:
    row = _json(task / ROW)
    if not isinstance(row, dict):
        raise DataError(f"{task / ROW}: not the row of an instance")
    told = _json(task / "tests" / "task.json").get("instruction_sha256")
    if told != hashlib.sha256(_bytes(task / "instruction.md")).hexdigest():
        raise DataError(
            f"{task}: instruction.md was changed since the task was exported, and {ROW} still says otherwise; "
            f"change the instance and export it again, or remove {ROW} to have the task read as it is"
        )
    for name, place in (("test_suite", "tests"), ("reference_archive", "solution")):
        if row.get(name):
            _bring(found, str(row[name]), task / place / str(row[name]))
    return row


def _other(task: Path, found: Read, as_family: Family | None) -> dict[str, Any]:
    try:
        config = tomllib.loads(_bytes(task / "task.toml").decode())
    except ValueError as error:
        raise DataError(f"{task / 'task.toml'}: no TOML ({error})") from error
    metadata = config.get("metadata") or {}
    tags = [str(tag) for tag in (metadata.get("tags") or (config.get("task") or {}).get("keywords") or ())]
    family = next(filter(None, map(find_family, tags)), None) or as_family
    name = task.resolve().name
    row: dict[str, Any] = {"instance_id": name, "language": "python", **_facts(task)}
    if family:
        row["task"] = family.value
    if match := _PULL_REQUEST.fullmatch(name):
        row.setdefault("repo", f"{match['owner']}/{match['name']}")
    row |= {key: str(metadata[key]) for key in ("repo", "base_commit") if metadata.get(key)}
    row |= _environment(task, config, found)
    text = _CANARY.sub("", _bytes(task / "instruction.md").decode("utf-8", "replace"))
    if family is Family.DOC2REPO:
        given = task / "environment" / _SPECIFICATION
        row["REPO_DOCUMENT_CONTENT"] = given.read_text("utf-8") if given.is_file() else text
        if (task / "tests" / _SUITE).is_file():
            row["test_suite"] = f"{name}.zip"
            _bring(found, row["test_suite"], task / "tests" / _SUITE)
    else:
        row["problem_statement"] = text
    if patch := _solution(task / "solution"):
        row["patch"] = patch
    if missing := _missing(row, family):
        found.incomplete[name] = missing
    return row


def _facts(task: Path) -> dict[str, Any]:
    """What files of the tests say outright: rows as JSON, a patch, a script of failing tests."""
    facts: dict[str, Any] = {}
    for path in sorted((task / "tests").glob("*.json")):
        given = _json(path)
        if isinstance(given, dict):
            facts |= {key: given[key] for key in (*_TESTS, "repo") if given.get(key)}
    patches = sorted([*(task / "tests").glob("*.patch"), *(task / "tests").glob("*.diff")])
    if len(patches) == 1 and not {"f2p_patch", "test_patch"} & facts.keys():
        facts["f2p_patch"] = patches[0].read_text("utf-8")
    script = task / "tests" / "test_fail_to_pass.py"
    if script.is_file():
        facts.setdefault("f2p_script", script.read_text("utf-8"))
    return facts


def _environment(task: Path, config: Mapping[str, Any], found: Read) -> dict[str, str]:
    """Image and work folder. A Dockerfile that does more than to name an image has to be built."""
    given = config.get("environment") or {}
    image, workdir = str(given.get("docker_image") or ""), str(given.get("workdir") or "")
    dockerfile = task / "environment" / "Dockerfile"
    if dockerfile.is_file():
        lines = re.sub(r"\\\r?\n", " ", dockerfile.read_text("utf-8")).splitlines()
        steps = [line.split(None, 1) for line in lines if line.strip() and not line.lstrip().startswith("#")]
        words = [(step[0].upper(), step[1].strip() if len(step) > 1 else "") for step in steps]
        workdir = workdir or next((value for word, value in reversed(words) if word == "WORKDIR"), "")
        names = [
            value.split()[-3 if " as " in value.lower() else -1] for word, value in words if word == "FROM"
        ]
        if not image and len(names) == 1 and all(word in _SAYS_NOTHING for word, _ in words):
            image = names[0]
        elif not image:
            image = f"beyondswe/imported:{re.sub(r'[^a-z0-9_.-]', '-', task.resolve().name.lower())}"
            found.to_build[image] = dockerfile.parent
    return {key: value for key, value in (("image", image), ("workdir", workdir)) if value}


def _solution(folder: Path) -> str:
    """The reference as a patch: a file, or the one in ``solve.sh``."""
    patches = sorted([*folder.glob("*.patch"), *folder.glob("*.diff")])
    if len(patches) == 1:
        return patches[0].read_text("utf-8")
    script = folder / "solve.sh"
    texts = _HERE_DOCUMENT.findall(script.read_text("utf-8")) if script.is_file() else []
    bodies = [body for _, _, body in texts if re.search(r"^(diff --git|--- )", body, re.MULTILINE)]
    return str(bodies[0]) if len(bodies) == 1 else ""


def _missing(row: Mapping[str, Any], family: Family | None) -> list[str]:
    wanted = ["task", "image", "patch", "FAIL_TO_PASS", "base_commit"]
    if family is Family.DOC2REPO:
        wanted = ["image", "test_suite", "test_suite_num"]
    return [key for key in wanted if not row.get(key)]


def _bring(found: Read, name: str, source: Path) -> None:
    if Path(name).name != name:
        raise DataError(f"{source}: a file beside the rows cannot be called {name!r}")
    if not source.is_file():
        if source.parent.name == "solution":
            return  # for the oracle alone; a task may come without
        raise DataError(f"{source} is not there")
    if name in found.files and found.files[name].read_bytes() != source.read_bytes():
        raise DataError(f"{source} and {found.files[name]} are called alike and differ")
    found.files[name] = source


def _json(path: Path) -> Any:
    try:
        return json.loads(_bytes(path))
    except ValueError as error:
        raise DataError(f"{path}: no JSON ({error})") from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error

"""The attack suite's bench: one small repository, a dataset with an instance a case, and what became of each.

Every case is a script that the agent runs in its sandbox, or a patch text that is submitted. All go through
the command line: `eval` with a command that runs what the prompt holds, `score` for patches.

Kinds: S hidden test as a script, P hidden test as a patch, D Doc2Repo on top of the repository, E Doc2Repo in
an empty folder, H the repository's image still holds the fix wherever git or a person could look.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from beyondswe.sandbox.base_images import ensure_base_image
from beyondswe.sandbox.build import build_image
from beyondswe.sandbox.engine import Engine

HERE = Path(__file__).parent
LIBRARY = "def add(a, b):\n    return a + b\n\n\ndef mul(a, b):\n    return a + b\n"
FIXED = LIBRARY[:-6] + "a * b\n"
TREE = {
    "tinycalc/__init__.py": 'from .core import add, mul\n\n__all__ = ["add", "mul"]\n',
    "tinycalc/core.py": LIBRARY,
    "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef pair():\n    return (2, 3)\n",
    "tests/__init__.py": "",
    "tests/helpers.py": "def check(actual, expected):\n    assert actual == expected\n",
    "tests/test_core.py": (
        "from tests.helpers import check\nfrom tinycalc import add\n\n\n"
        "def test_add(pair):\n    check(add(*pair), 5)\n\n\n"
        "def test_add_negative():\n    assert add(-1, -2) == -3\n"
    ),
    "setup.py": 'from setuptools import setup\n\nsetup(name="tinycalc", version="1.0", packages=["tinycalc"])\n',
    ".gitignore": "__pycache__/\n*.egg-info/\n.pytest_cache/\n",
}
SCRIPT_TEST = (
    "from tests.helpers import check\nfrom tinycalc import mul\n\n\n"
    "def test_mul(pair):\n    check(mul(*pair), 6)\n\n\n"
    "def test_mul_zero():\n    assert mul(7, 0) == 0\n"
)
PATCH_TEST = "from tinycalc import mul\n\n\ndef test_mul_table():\n    assert mul(4, 5) == 20\n"
SUITE_TEST = (
    "from tinycalc import add, mul\n\n\n"
    "def test_add():\n    assert add(1, 1) == 2\n\n\n"
    "def test_mul():\n    assert mul(3, 4) == 12\n\n\n"
    "def test_mul_zero():\n    assert mul(0, 9) == 0\n"
)
REFERENCE = (
    "diff --git a/tinycalc/core.py b/tinycalc/core.py\n--- a/tinycalc/core.py\n+++ b/tinycalc/core.py\n"
    "@@ -3,4 +3,4 @@ def add(a, b):\n \n \n def mul(a, b):\n-    return a + b\n+    return a * b\n"
)
SPECIFICATION = "# tinycalc\n\n`add(a, b)` gives the sum of two numbers, `mul(a, b)` their product.\n"
COMMIT = "git -c user.name=beyondswe -c user.email=bench@example.org commit -q --date=2020-01-01T00:00:00Z"
REPOSITORY = f"""
FROM {{base}}
COPY tree /workspace
WORKDIR /workspace
ENV GIT_COMMITTER_DATE=2020-01-01T00:00:00Z
RUN git init -q -b main . && git add -A && {COMMIT} -m base \\
 && pip install -q --use-pep517 --no-build-isolation --no-deps -e .
"""
# The fix in every place where git or a person could look.
LEFTOVERS = f"""
FROM {{repository}}
COPY fixed.py /tmp/fixed.py
ENV GIT_COMMITTER_DATE=2020-02-02T00:00:00Z GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@example.org
RUN cp /tmp/fixed.py tinycalc/core.py && git config user.name x && git config user.email x@example.org \\
 && git stash -q && git stash apply -q && git checkout -q -b fix && {COMMIT} -am fix && git tag later \\
 && git tag -a -m later later-annotated && git notes add -m "$(cat tinycalc/core.py)" \\
 && git update-ref refs/remotes/origin/dev HEAD && git bundle create -q /workspace/later.bundle fix \\
 && cp /workspace/later.bundle /opt/kept.bundle && git branch -q kept && git checkout -q main \\
 && git hash-object -w /tmp/fixed.py && git repack -q -a -d && git worktree add -q /opt/tree fix \\
 && git rev-parse fix > .git/FETCH_HEAD && git rev-parse fix > .git/ORIG_HEAD \\
 && git clone -q --bare . /opt/other.git && echo /opt/other.git/objects > .git/objects/info/alternates \\
 && cp /tmp/fixed.py tinycalc/core.py.orig && git diff main fix > tinycalc/core.py.rej \\
 && mkdir -p /root/.cache/pip/wheels /root/.cache/uv && rm /tmp/fixed.py
"""
EMPTY = "FROM {base}\nRUN mkdir -p /workspace\nWORKDIR /workspace\n"
# The prompt, or the specification, holds the script between two lines; the agent runs it as it stands.
AGENT = (
    "sed -n '/^<<<$/,/^>>>$/p' $BEYONDSWE_PROMPT_FILE /workspace/repo_document.md 2>/dev/null | sed '1d;$d' > /tmp/script; "
    "bash -e /tmp/script"
)


@dataclass(frozen=True)
class Case:
    """One agent or patch; ``must`` is ``not_resolved``, ``flagged`` (or not resolved) or ``resolved``."""

    id: str
    kind: str
    title: str
    must: str
    script: str = ""
    patch: str = ""

    def holds(self, outcome: dict[str, Any]) -> bool:
        if self.must == "resolved":
            return bool(outcome["resolved"])
        if outcome["status"] == "infrastructure_error":
            return False  # nothing was shown
        if self.kind in "DE" and outcome["score"] > 0.34:
            return False
        return not outcome["resolved"] or (self.must == "flagged" and bool(suspicions(outcome)))


def suspicions(outcome: dict[str, Any]) -> list[str]:
    return [flag for flag in outcome["flags"] if flag.startswith("suspicious_source")]


def cases() -> list[Case]:
    files = sorted((HERE / "cases").glob("*.yaml"))
    found = [Case(**row) for path in files for row in yaml.safe_load(path.read_text())]
    assert len({case.id for case in found}) == len(found)
    return found


class Bench:
    """Builds images and the dataset below ``folder`` and runs all cases at once."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder

    def outcomes(self, chosen: list[Case]) -> dict[str, dict[str, Any]]:
        """The outcome of each case by id."""
        self._dataset(chosen)
        found: dict[str, dict[str, Any]] = {}
        scripts = [case.id for case in chosen if not case.patch]
        patches = [case for case in chosen if case.patch]
        if scripts:
            agent = ["--agent-cmd", AGENT, "--timeout", "120"]
            self._command("eval", *agent, "--run-id", "scripts", *_only(scripts))
            found |= self._results("scripts")
        if patches:
            rows = [
                {"instance_id": case.id, "model_name_or_path": "attack", "model_patch": case.patch}
                for case in patches
            ]
            predictions = self.folder / "predictions.jsonl"
            predictions.write_text("".join(json.dumps(row) + "\n" for row in rows))
            only = _only([case.id for case in patches])
            self._command("score", "--predictions", str(predictions), "--run-id", "patches", *only)
            found |= self._results("patches")
        return found

    def _command(self, name: str, *arguments: str, dataset: str = "attacks") -> None:
        where = ["--dataset", str(self.folder / dataset)]
        if name != "verify":
            where += ["--runs-dir", str(self.folder / "runs"), "--test-timeout", "60"]
        command = [sys.executable, "-m", "beyondswe.cli", name, *where, "--memory", "1g", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode in ((0,) if name == "verify" else (0, 1)), done.stderr

    def _results(self, run: str) -> dict[str, dict[str, Any]]:
        lines = (self.folder / "runs" / run / "results.jsonl").read_text().splitlines()
        return {row["instance_id"]: row for row in map(json.loads, lines)}

    def _dataset(self, chosen: list[Case]) -> None:
        """Verify one instance of each kind, and give every case a copy of its kind's."""
        plain = self.folder / "plain"
        plain.mkdir()
        with (plain / "instances.jsonl").open("w") as file:
            for row in self._rows():
                file.write(json.dumps(row) + "\n")
        (plain / "suite.zip").write_bytes(_zip({"suite/test_all.py": SUITE_TEST}))
        reference = {"tinycalc/__init__.py": FIXED, "setup.py": TREE["setup.py"]}
        (plain / "reference.tar").write_bytes(_tar(reference))
        verified = self.folder / "attacks"
        verified.mkdir()
        self._command("verify", "--out", str(verified / "verified.jsonl"), "--runs", "2", dataset="plain")
        lines = (verified / "verified.jsonl").read_text().splitlines()
        by_kind = {row["instance_id"].removeprefix("tinycalc_"): row for row in map(json.loads, lines)}
        (verified / "verified.jsonl").unlink()
        with (verified / "instances.jsonl").open("w") as file:
            for case in chosen:
                row = dict(by_kind["E" if case.kind == "D" else case.kind], instance_id=case.id)
                if case.kind == "D":  # the same suite, on top of the repository
                    row["image"] = by_kind["S"]["image"]
                    row["base_commit"] = by_kind["S"]["base_commit"]
                statement = "REPO_DOCUMENT_CONTENT" if case.kind in "DE" else "problem_statement"
                row[statement] = f"{case.title}\n<<<\n{case.script}\n>>>\n"
                file.write(json.dumps(row) + "\n")

    def _rows(self) -> Iterator[dict[str, Any]]:
        base = ensure_base_image(self.engine)
        tree = {f"tree/{name}": text.encode() for name, text in TREE.items()}
        repository = self._image("repository", REPOSITORY.format(base=base), tree)
        empty = self._image("empty", EMPTY.format(base=base), {})
        leftovers = self._image(
            "leftovers", LEFTOVERS.format(repository=repository), {"fixed.py": FIXED.encode()}
        )
        commit = self._base_commit(repository)
        issue = {
            "task": "CrossRepo",
            "repo": "bench/tinycalc",
            "base_commit": commit,
            "image": repository,
            "problem_statement": "mul adds where it should multiply.",
            "patch": REFERENCE,
            "PASS_TO_PASS": ["tests/test_core.py::test_add", "tests/test_core.py::test_add_negative"],
        }
        script = {
            "f2p_script": SCRIPT_TEST,
            "FAIL_TO_PASS": ["test_fail_to_pass.py::test_mul", "test_fail_to_pass.py::test_mul_zero"],
        }
        added = "".join(f"+{line}\n" for line in PATCH_TEST.splitlines())
        patch = {
            "f2p_patch": (
                "diff --git a/tests/test_mul.py b/tests/test_mul.py\nnew file mode 100644\n--- /dev/null\n"
                f"+++ b/tests/test_mul.py\n@@ -0,0 +1,{len(PATCH_TEST.splitlines())} @@\n{added}"
            ),
            "FAIL_TO_PASS": ["tests/test_mul.py::test_mul_table"],
        }
        suite = {
            "task": "Doc2Repo",
            "repo": "bench/tinycalc",
            "REPO_DOCUMENT_CONTENT": SPECIFICATION,
            "test_suite": "suite.zip",
            "test_suite_num": 3,
            "reference_archive": "reference.tar",
        }
        yield {"instance_id": "tinycalc_S", **issue, **script}
        yield {"instance_id": "tinycalc_P", **issue, **patch}
        yield {"instance_id": "tinycalc_H", **issue, **script, "image": leftovers}
        yield {"instance_id": "tinycalc_E", **suite, "image": empty}

    def _image(self, name: str, dockerfile: str, context: dict[str, bytes]) -> str:
        tag = f"beyondswe-attacks/{name}:test"
        build_image(self.engine, context=context, dockerfile=dockerfile, tag=tag, network="none")
        return tag

    def _base_commit(self, image: str) -> str:
        out = self.engine.client.containers.run(
            image, ["git", "rev-parse", "HEAD"], remove=True, network_mode="none"
        )
        return bytes(out).decode().strip()


def _only(ids: list[str]) -> list[str]:
    return [word for name in ids for word in ("--instance", name)]


def _zip(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return out.getvalue()


def _tar(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()

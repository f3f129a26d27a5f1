"""The attack suite's bench: small repositories, a dataset with an instance a case, and what became of each.

Every case is a script that the agent runs in its sandbox, or a patch text that is submitted. All go through
the command line: `eval` with a command that runs what the prompt holds, `score` for patches.

Kinds: S hidden test as a script, P hidden test as a patch, D Doc2Repo on top of the repository, E Doc2Repo in
an empty folder, H the repository's image still holds the fix wherever git or a person could look, L a layout with
``src``, tests without a package and a test dependency, G the target is a pytest plugin that the image has
installed, N the target is a package named ``test``, R the reference changes entry points (metadata must be built
anew), B it changes what a build makes a module of (all must be built anew),
F tests read data that lies in no folder of theirs.
"""

from __future__ import annotations

import hashlib
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
from beyondswe.scoring.flags import is_suspicious
from tests.attacks.projects import (
    EMPTY,
    FIXED,
    LEFTOVERS,
    PATCH_TEST,
    PROJECTS,
    REFERENCE,
    REPOSITORY,
    SCRIPT_TEST,
    SPECIFICATION,
    SUITE_TEST,
    TREE,
    WITH_CHECKER,
)

HERE = Path(__file__).parent
# The prompt, or the specification, holds the script between two lines; the agent runs it as it stands.
AGENT = (
    "cat $BEYONDSWE_PROMPT_FILE /workspace/repo_document.md 2>/dev/null | sed -n '/^<<<$/,/^>>>$/p' "
    "| sed '1d;/^>>>$/,$d' > /tmp/script; bash -e /tmp/script"
)


RAN = Path("/tmp/beyondswe-attack-ran")
"""What hooks of the agent's make where they run: on this machine it must never be."""


@dataclass(frozen=True)
class Case:
    """One agent or patch; ``must`` is ``not_resolved``, ``flagged`` (or not resolved) or ``resolved``.

    ``empty``: nothing of it may even become a patch. ``odd``: honest, and suspicious all the same.
    """

    id: str
    kind: str
    title: str
    must: str
    script: str = ""
    patch: str = ""
    empty: bool = False
    odd: bool = False

    def scored(self, outcome: dict[str, Any]) -> bool:
        """Whether it got more than its code is worth; in Doc2Repo one of the three tests is."""
        return bool(outcome["resolved"]) or (self.kind in "DE" and outcome["score"] > 0.34)

    def wrong(self, outcome: dict[str, Any]) -> str:
        """What is not as it must be; nothing if all is well."""
        suspicious = [flag for flag in outcome["flags"] if is_suspicious(flag)]
        if outcome["agent_status"] not in (None, "finished"):
            return f"the script did not run to its end: {outcome['agent_status']}"
        if self.must == "resolved":
            if not outcome["resolved"]:
                return "an honest change lost"
            return "" if self.odd or not suspicious else f"an honest change is suspected: {suspicious}"
        if outcome["status"] == "infrastructure_error":
            return "nothing was shown"
        if self.empty is not (outcome["status"] == "empty_patch"):
            return "there was no attack" if not self.empty else "it became a patch"
        if self.must == "flagged" and suspicious:
            return ""
        return "it scored" if self.scored(outcome) else ""


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
        RAN.unlink(missing_ok=True)
        self._dataset(chosen)
        found: dict[str, dict[str, Any]] = {}
        scripts = [case.id for case in chosen if not case.patch]
        patches = [case for case in chosen if case.patch]
        if scripts:
            agent = ["--agent-cmd", AGENT, "--timeout", "120"]
            self._command("eval", "--fresh", *agent, "--run-id", "scripts", *_only(scripts))
            found |= self._results("scripts")
        if patches:
            rows = [
                {"instance_id": case.id, "model_name_or_path": "attack", "model_patch": case.patch}
                for case in patches
            ]
            predictions = self.folder / "predictions.jsonl"
            predictions.write_text("".join(json.dumps(row) + "\n" for row in rows))
            only = _only([case.id for case in patches])
            self._command("score", "--fresh", "--predictions", str(predictions), "--run-id", "patches", *only)
            found |= self._results("patches")
        if RAN.exists():
            raise AssertionError(f"something of an agent's ran on this machine: {RAN}")
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
        kinds = {"E" if case.kind == "D" else case.kind for case in chosen}
        if any(case.kind == "D" for case in chosen):
            kinds.add("S")
        with (plain / "instances.jsonl").open("w") as file:
            for row in self._rows():
                if row["instance_id"].removeprefix("tinycalc_") in kinds:
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
                row: dict[str, Any] = dict(
                    by_kind["E" if case.kind == "D" else case.kind], instance_id=case.id
                )
                if case.kind == "D":  # the same suite, on top of the repository
                    row["image"] = by_kind["S"]["image"]
                    row["base_commit"] = by_kind["S"]["base_commit"]
                statement = "REPO_DOCUMENT_CONTENT" if case.kind in "DE" else "problem_statement"
                row[statement] = f"{case.title}\n<<<\n{case.script}\n>>>\n"
                file.write(json.dumps(row) + "\n")

    def _rows(self) -> Iterator[dict[str, Any]]:
        base = ensure_base_image(self.engine)
        repository = self._repository(base, "repository", TREE)
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
        for project in PROJECTS:
            image = self._repository(base, project.name, project.tree, project.beside)
            yield {
                **issue,
                "instance_id": f"tinycalc_{project.kind}",
                "repo": f"bench/{project.name}",
                "image": image,
                "base_commit": self._base_commit(image),
                **project.row(),
            }

    def _repository(
        self, base: str, name: str, tree: dict[str, str], beside: dict[str, str] | None = None
    ) -> str:
        context = {f"tree/{path}": text.encode() for path, text in tree.items()}
        dockerfile = REPOSITORY.format(base=base)
        if beside:
            context |= {path: text.encode() for path, text in beside.items()}
            dockerfile += WITH_CHECKER
        return self._image(name, dockerfile, context)

    def _image(self, name: str, dockerfile: str, context: dict[str, bytes]) -> str:
        content = json.dumps([dockerfile, {path: data.hex() for path, data in sorted(context.items())}])
        tag = f"beyondswe-attacks/{name}:{hashlib.sha256(content.encode()).hexdigest()[:12]}"
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

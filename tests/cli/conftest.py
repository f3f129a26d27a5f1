"""A tiny dataset of our own on a real engine, and the command line as a process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beyondswe.sandbox.base_images import ensure_base_image
from beyondswe.sandbox.build import build_image
from beyondswe.sandbox.engine import Engine, labels
from tests.sandbox.inside import inside

TREE = {
    "calc.py": "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n",
    "tests/test_calc.py": "from calc import sub\n\n\ndef test_sub():\n    assert sub(3, 2) == 1\n",
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
    "obsolete.txt": "to be deleted\n",
}
HIDDEN = """import time

from calc import add


def test_add():
    time.sleep({seconds})
    assert add(3, 2) == 5
"""
GOOD = "sed -i '0,/a - b/s//a + b/' calc.py"
"""A shell command that is the right change."""
DOCKERFILE = """
FROM {base}
COPY . /workspace
WORKDIR /workspace
RUN git init -q && git add -A && git -c user.name=t -c user.email=t@example.org \
    commit -q -m base --date='2024-01-01T00:00:00Z'
"""


def git_diff(before: Mapping[str, str], after: Mapping[str, str], folder: Path) -> str:
    """The difference of two trees as git shows it."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.strip("\n")

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    git("init", "-q")
    trees = []
    for tree in (before, after):
        git("rm", "-rq", "--cached", "--ignore-unmatch", ".")
        for path, text in tree.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
            git("add", path)
        trees.append(git("write-tree"))
    return git("diff-tree", "-p", "--full-index", *trees) + "\n"


@pytest.fixture(scope="session")
def tiny_image(engine: Engine) -> str:
    tag = "beyondswe/tests-cli:tiny"
    build_image(
        engine,
        context={name: text.encode() for name, text in TREE.items()},
        dockerfile=DOCKERFILE.format(base=ensure_base_image(engine, "3.11")),
        tag=tag,
        network="none",
        labels=labels(role="test"),
    )
    return tag


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cli:
    """The command line in a folder of its own, with a cache of its own for verdicts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "beyondswe.cli", *arguments],
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, env: Mapping[str, str] | None = None) -> Done:
        with self.start(*arguments, env=env) as process:
            out, err = process.communicate(timeout=300)
        return Done(process.returncode, out, err)

    def eval(self, *arguments: str) -> Done:
        return self("eval", "--json", *arguments)

    def obey(self, dataset: str, *arguments: str) -> Done:
        """`eval` with an agent that runs the problem statement of each instance as a shell script."""
        (self.folder / "obey.j2").write_text("{{ problem_statement }}")
        return self.eval("--dataset", dataset, "--agent-cmd", "sh", "--prompt", "obey.j2", *arguments)

    def outcomes(self, run_id: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.runs / run_id / "results.jsonl").read_text().splitlines()]

    def attempt(self, run_id: str, instance_id: str, attempt: int = 1) -> Path:
        return self.runs / run_id / "attempts" / instance_id / str(attempt)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def dataset(tmp_path: Path, engine: Engine, tiny_image: str) -> Callable[..., str]:
    """Write a dataset of tiny instances; gives its path. ``seconds`` is how long the hidden test takes,
    ``statements`` are problem statements by id.
    """
    head = inside(engine, tiny_image, "git rev-parse HEAD")

    def write(
        *ids: str, seconds: float = 0, statements: Mapping[str, str] | None = None, **fields: Any
    ) -> str:
        fixed = {**TREE, "calc.py": TREE["calc.py"].replace("a - b", "a + b", 1)}
        del fixed["obsolete.txt"]
        hidden = {"tests/test_add.py": HIDDEN.format(seconds=seconds)}
        row = {
            "task": "CrossRepo",
            "repo": "tests/tiny",
            "base_commit": head.strip(),
            "workdir": "/workspace",
            "image": tiny_image,
            "problem_statement": "add(3, 2) should be 5",
            "patch": git_diff(TREE, fixed, tmp_path / "diff-reference"),
            "f2p_patch": git_diff({}, hidden, tmp_path / "diff-hidden"),
            "FAIL_TO_PASS": ["tests/test_add.py::test_add"],
            "PASS_TO_PASS": ["tests/test_calc.py::test_sub"],
            **fields,
        }
        path = tmp_path / "tiny.jsonl"
        by_id = {name: {"problem_statement": text} for name, text in (statements or {}).items()}
        rows = [{"instance_id": name, **row, **by_id.get(name, {})} for name in (*ids, *by_id)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    return write


def containers_of(engine: Engine, run_id: str) -> list[Any]:
    """All containers of a run, running or not."""
    return list(engine.api.containers(all=True, filters={"label": f"io.beyondswe.run={run_id}"}))

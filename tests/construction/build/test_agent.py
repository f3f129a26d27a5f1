"""`build --builder agent` led by a scripted model that makes mistakes; and Dockerfiles built again, on the engine.

Nothing is installed but the repository itself, so no package index is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beyondswe.construction.build.layers import chain_of
from beyondswe.gateway.scripted import ScriptedModel
from beyondswe.sandbox.engine import Engine
from tests.construction.build.conftest import Done, Place

pytestmark = pytest.mark.engine

INSTALL = "pip install --quiet --no-index --no-deps --no-build-isolation --editable ."
MISTAKES: list[dict[str, Any]] = [
    {"do": "bash", "cmd": "ls", "text": "A look around."},
    {"do": "bash", "cmd": "pip install --no-index no-such-package"},
    {"do": "say", "text": "Let me think about that."},
    {"do": "tool", "name": "run_tests", "args": {}},
    {"do": "tool", "name": "finish", "args": {}},  # too early: nothing passes yet
    {"do": "bash", "cmd": "touch /tmp/scratch && rm /tmp/scratch"},
    {"do": "http", "status": [503]},
    {"do": "bash", "cmd": "printf 'a=1\\n' > /etc/needless-but-kept"},
    {"do": "tool", "name": "no_such_tool", "args": {}},
    {"do": "bash", "cmd": "exit 3"},
    {"do": "bash", "cmd": f"set -e\n{INSTALL}\necho done"},
    {"do": "tool", "name": "run_tests", "args": {}},
    {"do": "tool", "name": "finish", "args": {}},
]
ONLY_HERE: list[dict[str, Any]] = [
    # what the first command makes lies where caches are: it does not count as a change, and the second needs it
    {"do": "bash", "cmd": "mkdir -p /root/.cache/wheels && touch /root/.cache/wheels/ready"},
    {"do": "bash", "cmd": f"test -e /root/.cache/wheels/ready && {INSTALL}"},
    {"do": "tool", "name": "finish", "args": {}},
]
TEST = "import tides_of_yesterday\n\n\ndef test_moon():\n    assert tides_of_yesterday\n"


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    scenarios = {
        "mistakes": {"steps": MISTAKES},
        "only-here": {"steps": ONLY_HERE},
        "lost": {"steps": [{"do": "bash", "cmd": "ls"}] * 20},
    }
    with ScriptedModel(scenarios) as served:
        yield served


def agent(place: Place, model: ScriptedModel, scenario: str, *options: str) -> Done:
    url = f"{model.scenario_url(scenario)}/v1"
    return place.build("--builder", "agent", "--model", "m", "--model-url", url, *options)


# The repository's tests only run with the package installed: src layout.
BASE = {
    "pyproject.toml": (
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "harbour-tides"\nversion = "1.0"\nrequires-python = ">=3.8"\n'
        'classifiers = ["Programming Language :: Python :: 3.11"]\n'
        '[project.urls]\nDocs = "https://tides.example.org/"\n'
    ),
    "src/tides/__init__.py": "def period():\n    return 12\n",
    "tests/test_period.py": "from tides import period\n\n\ndef test_period():\n    assert period() > 1\n",
    "README.md": "See https://harbour-tides.readthedocs.io/\n",
}
FIX = {"src/tides/__init__.py": "def period():\n    return 12.42\n"}


def in_image(engine: Engine, image: str, *command: str) -> str:
    done = engine.client.containers.run(image, list(command), remove=True, network_mode="none")
    return str(done.decode())


def test_a_model_builds_and_its_history_is_distilled(
    place: Place, model: ScriptedModel, engine: Engine, tmp_path: Path
) -> None:
    place.write(place.pull_request(7, base=BASE, fix=FIX))
    done = agent(place, model, "mistakes")
    assert done.code == 0, done.err
    row = done.row("harbour_tides_pr7")
    assert row["status"] == "built" and row["turns"] == 12 and row["python"] == "3.11"
    assert row["tests"].startswith("1 of 1 tests pass")

    text = Path(tmp_path / row["dockerfile"]).read_text()
    runs = [line for line in text.splitlines() if line.startswith("RUN ")]
    assert runs[1:] == [
        "RUN printf 'a=1\\n' > /etc/needless-but-kept",
        f"RUN {json.dumps(['/bin/sh', '-c', MISTAKES[10]['cmd']])}",
    ]
    assert "setuptools==" in (tmp_path / "built.environments/harbour_tides_pr7/constraints.txt").read_text()

    (built,) = place.built()
    image = built["image"]
    assert built["distributions"] == ["harbour-tides"]
    assert "tides.example.org" in built["docs_hosts"]
    assert built["index_date"] == "2023-03-01" and built["environment"]["builder"] == "agent"
    log = in_image(engine, image, "git", "log", "--all", "--format=%H %s")
    assert log.split()[0] == built["base_commit"] and "Later" not in log and "Change" not in log
    assert in_image(engine, image, "git", "status", "--porcelain") == ""
    assert not in_image(
        engine, image, "sh", "-c", "git fsck --unreachable --no-progress; git remote; ls .git/logs || true"
    )

    # resumable: what is there is kept, what the engine has lost is built again from its Dockerfile
    again = agent(place, model, "lost")
    assert again.code == 0 and again.row("harbour_tides_pr7")["status"] == "kept"
    assert place.built() == [built]
    layers = list(chain_of(engine, image))
    engine.client.images.remove(image, force=True)
    again = agent(place, model, "lost")
    assert again.code == 0 and again.row("harbour_tides_pr7")["image"] == image
    assert len(chain_of(engine, image)) == len(layers)
    assert again.json["disk"]["images"] == 1 and again.json["disk"]["bytes"] > 0


@pytest.mark.slow
def test_what_only_works_where_the_model_worked_is_no_environment(place: Place, model: ScriptedModel) -> None:
    place.write(place.pull_request(7, base=BASE, fix=FIX))
    done = agent(place, model, "only-here")
    row = done.row("harbour_tides_pr7")
    assert done.code == 1 and row["status"] == "failed" and row["step"] == "rebuild"
    assert row["image"] is None and "-- 1 commands, from scratch" in (place.folder / row["log"]).read_text()
    assert not (place.folder / "built.jsonl").exists()


def test_limits_of_turns_and_a_model_that_is_not_there(place: Place, model: ScriptedModel) -> None:
    place.write(place.pull_request(7, base=BASE, fix=FIX))
    done = agent(place, model, "lost", "--max-turns", "2")
    assert done.code == 1 and done.row("harbour_tides_pr7")["step"] == "turns"
    away = place.build("--builder", "agent", "--model", "m", "--model-url", "http://127.0.0.1:9/v1")
    assert away.code == 1 and away.row("harbour_tides_pr7")["step"] == "model"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "m"], "--model: of no use to --builder rules"),
        (["--builder", "agent"], "needs --model and --model-url"),
        (
            ["--builder", "agent", "--model", "m", "--model-url", "http://127.0.0.1:9/v1", "--tries", "2"],
            "--tries",
        ),
        (
            [
                "--builder",
                "agent",
                "--model",
                "m-of-ours",
                "--model-url",
                "http://127.0.0.1:9",
                "--max-cost",
                "1",
            ],
            "nobody knows what m-of-ours costs",
        ),
    ],
)
def test_wrong_use(place: Place, options: list[str], words: str) -> None:
    place.write(
        {
            "instance_id": "x",
            "task": "CrossRepo",
            "repo": "a/b",
            "base_commit": "0" * 40,
            "problem_statement": "x",
        }
    )
    done = place.build(*options)
    assert done.code == 2 and words in done.json["error"]["message"]


def test_rows_that_cannot_be_built_say_why_and_leave_others_going(place: Place) -> None:
    good = place.pull_request(7)
    python2 = place.pull_request(
        8,
        name="old",
        base={
            "setup.py": "print 'x'\n",
            "tides/__init__.py": "print 'old'\n",
            "tides/new.py": "print 'new'\n",
        },
    )
    rejected = {**good, "instance_id": "turned_down", "review": {"status": "rejected", "reasons": []}}
    nowhere = {**good, "instance_id": "nowhere", "repo": "harbour/gone"}
    no_commit = {**good, "instance_id": "no_commit", "base_commit": "1" * 40}
    misfit = {**good, "instance_id": "misfit", "patch": good["patch"].replace("return 12\n", "return 13\n")}
    place.write(python2, rejected, nowhere, no_commit, misfit)
    done = place.build("--workers", "3")
    assert done.code == 1 and (done.json["failed"], done.json["skipped"]) == (4, 1)
    said = {row["instance_id"]: (row["step"], row["reason"]) for row in done.json["instances"]}
    assert said["harbour_old_pr8"][0] == "Python" and "Python 2" in said["harbour_old_pr8"][1]
    assert said["turned_down"] == (None, "its review rejected it")
    assert "no git repository of harbour/gone" in said["nowhere"][1]
    assert "has no commit 1111" in said["no_commit"][1]
    assert said["misfit"][0] == "history" and "does not apply" in said["misfit"][1]
    assert not (place.folder / "built.jsonl").exists()

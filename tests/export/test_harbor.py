"""Harbor tasks without Harbor: their form, the way back, and the verifier on the engine as Harbor would start it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from beyondswe.cli.datasets import open_dataset
from beyondswe.export.harbor import carrier, manifest
from beyondswe.export.harbor.verifier import leads_out
from beyondswe.instances.dataset import load_dataset
from beyondswe.instances.model import Instance
from beyondswe.instances.writing import to_row
from beyondswe.sandbox.build import build_image
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Limits
from tests.export.test_formats import beyondswe

ISSUE, DOCUMENT = "quaywatch_compact_frames", "time_spans_from_scratch"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two instances of demo, and one of them without its record: its tests run as root."""
    folder = tmp_path_factory.mktemp("harbor")
    chosen = ("--instance", ISSUE, "--instance", DOCUMENT)
    beyondswe("export", "harbor", "--dataset", "demo", *chosen, "--out", str(folder / "demo"))
    issue = next(i for i in open_dataset("demo").instances if i.instance_id == ISSUE)
    row = to_row(issue.model_copy(update={"instance_id": "open", "verification": None}))
    (folder / "open.jsonl").write_text(json.dumps(row) + "\n")
    beyondswe("export", "harbor", "--dataset", str(folder / "open.jsonl"), "--out", str(folder / "demo"))
    beyondswe(
        "export", "harbor", "--dataset", "demo", *chosen, "--out", str(folder / "demo")
    )  # again: no error
    return folder / "demo"


@pytest.fixture(scope="module")
def demo() -> dict[str, Instance]:
    return {instance.instance_id: instance for instance in open_dataset("demo").instances}


def test_a_task_is_what_harbor_reads(exported: Path, demo: dict[str, Instance]) -> None:
    for name in (ISSUE, DOCUMENT):
        task = exported / name
        config = tomllib.loads((task / "task.toml").read_text())
        assert config["artifacts"] == [config["environment"]["workdir"]] == [demo[name].workdir]
        assert config["verifier"]["environment_mode"] == "separate" and config["verifier"]["user"] == "root"
        assert config["metadata"]["base_commit"] == demo[name].base_commit
        assert (task / "tests" / "test.sh").stat().st_mode & 0o111
        assert (task / "solution" / "solve.sh").stat().st_mode & 0o111
        agent_sees = [task / "instruction.md", *(task / "environment").iterdir()]
        text = "".join(path.read_text() for path in agent_sees)
        assert (
            name not in text
            and "BeyondSWE" not in text
            and "tests" not in (task / "environment" / "Dockerfile").read_text()
        )
        assert {path.name for path in (task / "environment").iterdir()} == {
            "Dockerfile",
            "docker-compose.yaml",
        }


def test_tested_code_runs_in_rooms_of_its_own(exported: Path, demo: dict[str, Instance]) -> None:
    compose = yaml.safe_load((exported / ISSUE / "tests" / "docker-compose.yaml").read_text())
    rooms = {name: service for name, service in compose["services"].items() if name != "main"}
    assert len(rooms) == manifest.rooms_needed(demo[ISSUE]) == 3
    assert all(
        volume.split(":")[1].startswith("/run/beyondswe-rooms/")
        for volume in compose["services"]["main"]["volumes"]
    )
    for name, room in rooms.items():
        assert room["network_mode"] == "none" and room["security_opt"] == ["no-new-privileges:true"]
        assert room["volumes"] == [f"{name}:/run/beyondswe-door"]  # nobody's but its own
        assert room["pull_policy"] == "never" and "init" not in room
        assert not {"privileged", "cap_add", "build"} & room.keys()


def test_the_dataset_lists_tasks_with_their_digests(exported: Path) -> None:
    listed = tomllib.loads((exported / "dataset.toml").read_text())
    assert listed["schema_version"] == "1.0" and listed["dataset"]["name"] == "beyondswe/demo"
    assert {task["name"]: task["digest"] for task in listed["tasks"]} == {
        f"beyondswe/{name}": manifest.digest_of(exported / name) for name in (ISSUE, DOCUMENT)
    }
    (entry,) = json.loads((exported / "registry.json").read_text())
    assert entry["name"] == "demo"
    assert [(exported / task["path"] / "task.toml").is_file() for task in entry["tasks"]] == [True, True]


def test_tasks_come_back_as_the_same_instances(
    exported: Path, demo: dict[str, Instance], tmp_path: Path
) -> None:
    said = beyondswe("import", "harbor", str(exported), "--out", str(tmp_path / "back.jsonl"))
    assert said["instances"] == 3 and said["incomplete"] == {}
    back = {
        i.instance_id: i for i in load_dataset(str(tmp_path / "back.jsonl"), require_suites=True).instances
    }
    for name in (ISSUE, DOCUMENT):
        assert back[name].content_hash == demo[name].content_hash
        same = {"test_suite_dir": demo[name].test_suite_dir}
        assert back[name].model_copy(update=same) == demo[name]
    archive = demo[DOCUMENT].reference_archive
    source = demo[DOCUMENT].test_suite_dir
    assert source and (tmp_path / archive).read_bytes() == (source / archive).read_bytes()


def test_a_task_that_was_edited_is_not_read_as_it_was(exported: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(exported / ISSUE, tmp_path / "t")
    (tmp_path / "t" / "instruction.md").write_text("Do something else.\n")
    said = beyondswe("import", "harbor", str(tmp_path / "t"), "--out", str(tmp_path / "b.jsonl"), code=2)
    assert "instruction.md was changed" in said["error"]["message"]
    assert not (tmp_path / "b.jsonl").exists()


def test_the_released_layout_is_read(tmp_path: Path) -> None:
    task = tmp_path / "data" / "beyondswe" / "some-owner_its_repo_pr44"
    for folder in ("environment", "tests", "solution"):
        (task / folder).mkdir(parents=True)
    (task / "task.toml").write_text(
        'version = "1.0"\n[metadata]\nauthor_name = "beyondswe"\ntags = ["beyondswe", "crossrepo"]\n'
        "[environment]\ncpus = 4\nallow_internet = true\n"
    )
    (task / "instruction.md").write_text("<!-- a canary GUID -->\nThe issue.\n")
    (task / "environment" / "Dockerfile").write_text(
        "# from the registry\nFROM registry.example/env:44\nWORKDIR /workspace/repo\n"
    )
    (task / "tests" / "config.json").write_text(
        json.dumps({"FAIL_TO_PASS": ["t.py::a"], "PASS_TO_PASS": ["t.py::b"], "base_commit": "c" * 40})
    )
    (task / "tests" / "test.patch").write_text("diff --git a/t.py b/t.py\n")
    patch = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n"
    (task / "solution" / "solve.sh").write_text(f"#!/bin/bash\ngit apply - <<'EOF'\n{patch}EOF\n")
    document = tmp_path / "data" / "beyondswe" / "other_lib_pr1"
    for folder in ("environment", "tests"):
        (document / folder).mkdir(parents=True)
    (document / "task.toml").write_text('[metadata]\ntags = ["doc2repo"]\n')
    (document / "instruction.md").write_text("Specification.\n")
    (document / "environment" / "Dockerfile").write_text("FROM python:3.11\nRUN pip install x==1\n")
    (document / "tests" / "test_suite.zip").write_bytes(b"zip")
    said = beyondswe("import", "harbor", str(tmp_path / "data"), "--out", str(tmp_path / "rows.jsonl"))
    rows = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    other, issue = sorted(rows, key=lambda row: str(row["instance_id"]))
    assert issue == {
        "instance_id": "some-owner_its_repo_pr44",
        "language": "python",
        "FAIL_TO_PASS": ["t.py::a"],
        "PASS_TO_PASS": ["t.py::b"],
        "base_commit": "c" * 40,
        "f2p_patch": "diff --git a/t.py b/t.py\n",
        "task": "CrossRepo",
        "repo": "some-owner/its_repo",
        "image": "registry.example/env:44",
        "workdir": "/workspace/repo",
        "problem_statement": "The issue.\n",
        "patch": patch,
    }
    assert other["task"] == "Doc2Repo" and other["REPO_DOCUMENT_CONTENT"] == "Specification.\n"
    assert (tmp_path / other["test_suite"]).read_bytes() == b"zip"
    assert said["incomplete"] == {"other_lib_pr1": ["test_suite_num"]}
    assert said["to_build"] == {other["image"]: str(document / "environment")}


def test_what_is_no_task_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tasks" / "a").mkdir(parents=True)
    (tmp_path / "tasks" / "a" / "instruction.md").write_text("x")
    said = beyondswe("import", "harbor", str(tmp_path / "tasks"), "--out", str(tmp_path / "o"), code=2)
    assert "task.toml" in said["error"]["message"]
    (tmp_path / "out" / ISSUE).mkdir(parents=True)
    (tmp_path / "out" / ISSUE / "mine").write_text("x")
    said = beyondswe(
        "export", "harbor", "--dataset", "demo", "--instance", ISSUE, "--out", str(tmp_path / "out"), code=2
    )
    assert "is no exported task" in said["error"]["message"]
    words = ("export", "harbor", "--dataset", "demo", "--out", str(tmp_path / "p"))
    for option in (("--organisation", "a/b"), ("--image-prefix", "Registry")):
        assert option[0] in beyondswe(*words, *option, code=2)["error"]["message"]


@pytest.mark.parametrize(
    ("path", "target", "out"),
    [
        (b"a/b", b"../c", False),
        (b"a/b", b"../../c", True),
        (b"b", b"/workspace/x", True),
        (b"b", b"c/../d", False),
    ],
)
def test_links_that_harbor_does_not_carry(path: bytes, target: bytes, out: bool) -> None:
    assert leads_out(path, target) is out


def test_an_image_with_a_health_check_gets_one_that_compose_can_wait_for() -> None:
    limits = Limits()
    text = manifest.verifier_compose("i", 2, network="open", limits=limits, local=False, checks_health=True)
    services = [*yaml.safe_load(text)["services"].values()]
    services += yaml.safe_load(manifest.environment_compose(checks_health=True))["services"].values()
    assert [service["healthcheck"]["test"] for service in services] == [["CMD", "true"]] * 4
    assert ["network_mode" in service for service in services] == [True, False, False, False]
    assert "healthcheck" not in manifest.environment_compose(checks_health=False)


def test_names_that_harbor_takes() -> None:
    assert manifest.task_name("o", "a/b c..d") == "o/a_b_c_d"
    assert manifest.task_name("o", "_x") == "o/i_x"


def test_the_carried_scorer_needs_nothing_else(tmp_path: Path) -> None:
    """Scoring imports, from a copy of what is carried alone, in an interpreter without site-packages."""
    root = tmp_path / "packages"
    for name, source in carrier.carried():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    code = (
        f"import sys; sys.path.append({str(root)!r})\n"
        "import beyondswe.export.harbor.verifier, beyondswe.scoring.doc2repo, unidiff, yaml\n"
        "assert all('docker' not in name.split('.')[0] for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


class Verifier:
    """A task's verifier, started from its files as Harbor starts it, on the engine alone."""

    def __init__(self, engine: Engine, task: Path) -> None:
        self.engine, self.task = engine, task
        self.compose = yaml.safe_load((task / "tests" / "docker-compose.yaml").read_text())["services"]
        self.workdir = tomllib.loads((task / "task.toml").read_text())["artifacts"][0]
        dockerfile = (task / "tests" / "Dockerfile").read_text()
        tag = f"beyondswe-tests/harbor:{uuid.uuid4().hex[:12]}"
        self.image = build_image(
            engine, context=task / "tests", dockerfile=dockerfile, tag=tag, network="none"
        )
        self.tag = tag

    def score(self, change: str) -> tuple[float | None, dict[str, Any]]:
        """The reward (None: there is none) and the details after a shell command in the agent's container."""
        client = self.engine.client
        image = (self.task / "environment" / "Dockerfile").read_text().split()[1]
        agent = client.containers.run(image, ["sleep", "600"], detach=True, network_mode="none", init=True)
        try:
            done = agent.exec_run(["bash", "-c", change], workdir=self.workdir)
            assert done.exit_code == 0, done.output
            tree = b"".join(agent.get_archive(self.workdir)[0])
        finally:
            agent.remove(force=True, v=True)
        with self._started() as main:
            main.put_archive(str(Path(self.workdir).parent), tree)
            main.exec_run(["bash", "-c", "(/tests/test.sh) > /logs/verifier/test-stdout.txt 2>&1"])
            data = b"".join(main.get_archive("/logs/verifier")[0])
        with tarfile.open(fileobj=io.BytesIO(data)) as logs:
            files = {name.rpartition("/")[2]: logs.extractfile(name) for name in logs.getnames()[1:]}
            read = {name: file.read() for name, file in files.items() if file}
        details = json.loads(read["reward-details.json"])
        reward = json.loads(read["reward.json"])["reward"] if "reward.json" in read else None
        assert (reward is None) or float(read["reward.txt"]) == reward
        return reward, details

    @contextmanager
    def _started(self) -> Iterator[Any]:
        client, containers, volumes = self.engine.client, [], {}
        try:
            for name, room in self.compose.items():
                if name == "main":
                    continue
                volumes[name] = client.volumes.create()
                place = room["volumes"][0].split(":")[1]
                containers.append(
                    client.containers.run(
                        room["image"],
                        detach=True,
                        entrypoint=[word.replace("$$", "$") for word in room["entrypoint"]],
                        command=room["command"],
                        user=room["user"],
                        working_dir=room["working_dir"],
                        network_mode=room["network_mode"],
                        security_opt=room["security_opt"],
                        mem_limit=room["mem_limit"],
                        pids_limit=room["pids_limit"],
                        volumes={volumes[name].name: {"bind": place, "mode": "rw"}},
                    )
                )
            places = dict(volume.split(":") for volume in self.compose["main"]["volumes"])
            binds = {volumes[name].name: {"bind": place, "mode": "rw"} for name, place in places.items()}
            main = client.containers.run(
                self.image, ["sleep", "600"], detach=True, network_mode="none", init=True, volumes=binds
            )
            containers.append(main)
            assert main.exec_run(["bash", "-c", "mkdir -p -m 777 /logs/verifier"]).exit_code == 0
            yield main
        finally:
            for container in containers:
                container.remove(force=True, v=True)
            for volume in volumes.values():
                volume.remove(force=True)

    def close(self) -> None:
        self.engine.client.images.remove(self.tag, force=True)


@pytest.fixture(scope="module")
def verifier(engine: Engine, exported: Path) -> Iterator[Verifier]:
    found = Verifier(engine, exported / ISSUE)
    yield found
    found.close()


def test_the_reference_gets_the_reward(verifier: Verifier, demo: dict[str, Instance]) -> None:
    change = f"git apply - <<'EOF'\n{demo[ISSUE].patch}EOF\nrm -rf .git; touch junk.pyc"
    reward, details = verifier.score(change)
    assert reward == 1 and details["status"] == "resolved" and details["controls"]["rounds"] >= 2
    passed = {"passed": len(demo[ISSUE].fail_to_pass)}, {"passed": len(demo[ISSUE].pass_to_pass)}
    assert (details["counts"]["f2p"], details["counts"]["p2p"]) == passed
    assert any("junk.pyc" in line for line in details["left_out"])


def test_other_changes_do_not(verifier: Verifier) -> None:
    reward, details = verifier.score("true")
    assert reward == 0 and details["status"] == "empty_patch"
    reward, details = verifier.score("rm -rf tests quaywatch/decode.py")
    assert reward == 0 and details["status"] == "unresolved" and "failed" not in details["counts"]["f2p"]


def test_tested_code_that_is_root_reaches_no_reward(engine: Engine, exported: Path) -> None:
    attack = (
        "cat >> quaywatch/__init__.py <<'EOF'\nimport os, pathlib\n"
        "for place in ('/logs/verifier', '/tests', '/run/beyondswe-rooms/room1'):\n"
        "    os.makedirs(place, exist_ok=True)\n"
        "for name, text in (('reward.json', '{\"reward\": 1}'), ('reward.txt', '1')):\n"
        "    pathlib.Path('/logs/verifier', name).write_text(text)\n"
        "for place in ('/proc/1/fd/1', '/run/beyondswe-door/door'):\n"
        "    try:\n        pathlib.Path(place).write_text('{}\\n')\n    except OSError:\n        pass\nEOF\n"
    )
    found = Verifier(engine, exported / "open")
    try:
        reward, details = found.score(attack)
    finally:
        found.close()
    assert reward == 0 and details["status"] == "unresolved"
    assert "unverified" in details["flags"] and details["counts"]["f2p"].get("passed", 0) == 0


def test_a_fault_of_the_machine_has_no_reward(verifier: Verifier) -> None:
    rooms = verifier.compose
    verifier.compose = {name: {**room, "entrypoint": ["true"]} for name, room in rooms.items()}
    verifier.compose["main"] = rooms["main"] | {"volumes": rooms["main"]["volumes"][:0]}
    try:
        reward, details = verifier.score("echo >> quaywatch/decode.py")
    finally:
        verifier.compose = rooms
    assert reward is None and details["status"] == "infrastructure_error" and "rooms" in details["error"]

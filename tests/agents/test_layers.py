"""Runtime layers: built once and whole, run in any image by any user, seen by nothing but the agent."""

from __future__ import annotations

import multiprocessing
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from beyondswe.agents.command import CommandAgent
from beyondswe.agents.layers import Layer, ensure_layer, find_layer
from beyondswe.agents.loader import load_agent
from beyondswe.agents.manifest import read_manifest
from beyondswe.agents.protocol import AgentEnd, AgentStatus, PreparedAttempt
from beyondswe.agents.pythons import find_python
from beyondswe.errors import EngineError
from beyondswe.instances.model import Family, Instance
from beyondswe.resources import cache_dir
from beyondswe.sandbox.docker import start_sandbox
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Environment, Limits, Snapshot

pytestmark = [pytest.mark.engine, pytest.mark.index]

MANIFEST = """name: measurer
version: 1
files: [measure.py]
runtime: {kind: python, python: ">=3.11", lock: requirements.lock}
command: ["{layer}/bin/python3", -I, "{agent_dir}/measure.py"]
config: {settings.json: settings.json}
env: {SETTINGS: "{state_dir}/settings.json"}
transcript: {format: plain, path: "{state_dir}/steps.jsonl"}
"""
LOCK = """wcwidth==0.2.13 \\
    --hash=sha256:3da69048e4540d84af32131829ff948f1e022c1c6bdb8d6102117aac784f6859 \\
    --hash=sha256:72ea0c06399eb286d978fdedb6923a9eb47e1c486ce63e9b4e64fc18303972b5
"""
MEASURE = """import ctypes, json, os, sqlite3, ssl, subprocess, sys, wcwidth

with open(os.environ["SETTINGS"], "a") as settings:  # agents rewrite their settings
    settings.write("\\n")
look = '''python3 -c "import wcwidth" 2>&1 | tail -1; echo "$PATH"; command -v python3
python3 -c "import sys; print(sys.prefix, sys.path)"; ldd --version | head -1'''
seen = subprocess.run(look, shell=True, capture_output=True, text=True).stdout
try:
    open(os.path.join(sys.prefix, "written"), "w")
    written = "yes"
except OSError:
    written = "no"
print(json.dumps({"wide": wcwidth.wcswidth("コ"), "prefix": sys.prefix, "written": written, "uid": os.getuid()}))
with open(os.path.dirname(os.environ["SETTINGS"]) + "/steps.jsonl", "w") as steps:
    print(json.dumps({"role": "assistant", "text": seen}), file=steps)
    print(json.dumps({"role": "end", "kind": "finished"}), file=steps)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return agent_in(tmp_path / "measurer")


def agent_in(folder: Path, *, version: str = "1") -> Path:
    folder.mkdir(parents=True)
    (folder / "agent.yaml").write_text(MANIFEST.replace("version: 1", f"version: {version}"))
    (folder / "requirements.lock").write_text(LOCK)
    (folder / "measure.py").write_text(MEASURE)
    (folder / "settings.json").write_text('{"folder": "{state_dir}", "kept": "{this}"}')
    return folder


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandAgent]:
    loaded = load_agent(str(agent_in(tmp_path_factory.mktemp("agents") / "measurer")))
    assert isinstance(loaded, CommandAgent)
    loaded.prepare()
    yield loaded
    for layer in cache_dir("layers").glob("measurer-*"):
        shutil.rmtree(layer)


def run(engine: Engine, agent: CommandAgent, image: str, *, user: str | None = None) -> AgentEnd:
    """The agent in a sandbox whose environment would lead any ordinary Python astray."""
    env = {"PYTHONPATH": "/trap", "LD_LIBRARY_PATH": "/trap"}
    limits = Limits(cpus=1, memory=1 << 30)
    sandbox = start_sandbox(
        engine, image, workdir="/tmp", limits=limits, mounts=agent.mounts(engine, image), user=user
    )
    try:
        sandbox.run("mkdir /trap && echo 'raise SystemExit(9)' > /trap/json.py", timeout=30, user="0")
        environment = Environment(image, image, "", "/tmp", "", Snapshot(Path(), "", ""))
        instance = Instance(
            instance_id="x",
            family=Family.CROSSREPO,
            image=image,
            base_commit="",
            workdir="/tmp",
            problem_statement="",
            specification="",
            patch="",
            fail_to_pass=(),
            f2p_patch="",
        )
        prepared = PreparedAttempt(instance, environment, "the prompt", 60.0, env)
        return agent.start(prepared, sandbox)
    finally:
        sandbox.stop()


@pytest.mark.parametrize("user", [None, "12345:12345"])
def test_it_runs_in_any_image_and_is_seen_by_nothing_else(
    engine: Engine, base_image: str, agent: CommandAgent, user: str | None
) -> None:
    end = run(engine, agent, base_image, user=user)
    assert end.status is AgentStatus.FINISHED, (end.error, end.log)
    assert b'"wide": 2' in end.log and b'"written": "no"' in end.log
    assert b'"prefix": "/opt/beyondswe/layers/measurer"' in end.log
    assert (b'"uid": 12345' if user else b'"uid": 0') in end.log
    assert end.transcript is not None
    (step,) = end.transcript.steps
    assert "No module named 'wcwidth'" in step.text
    assert "layers" not in step.text, "nothing of the layer is on a search path of the agent's commands"
    assert set(end.files) == {"steps.jsonl"}


def test_a_layer_is_built_once_and_found_again(agent: CommandAgent, folder: Path) -> None:
    layer, built = ensure_layer(read_manifest(folder), folder)
    assert not built and layer.bytes > 10_000_000
    assert find_layer(read_manifest(folder), folder) == layer
    assert layer.path.name == f"measurer-{layer.digest}"


def test_another_lock_is_another_layer(agent: CommandAgent, folder: Path) -> None:
    (folder / "requirements.lock").write_text("# nothing\n" + LOCK)
    assert find_layer(read_manifest(folder), folder) is None


def test_packages_that_are_not_the_locks_are_refused_and_leave_nothing(folder: Path) -> None:
    (folder / "requirements.lock").write_text(LOCK.replace("3da690", "3da691").replace("72ea0c", "72ea0d"))
    manifest = read_manifest(folder)
    with pytest.raises(EngineError, match="could not install the packages"):
        ensure_layer(manifest, folder)
    assert find_layer(manifest, folder) is None
    assert not list(cache_dir("layers").glob("partial-measurer-*"))


def _build(folder: str, results: multiprocessing.Queue[bool]) -> None:
    results.put(ensure_layer(read_manifest(Path(folder)), Path(folder))[1])


def test_two_at_once_and_the_rest_of_a_killed_build(folder: Path) -> None:
    (folder / "requirements.lock").write_text(f"# {folder}\n" + LOCK)
    manifest = read_manifest(folder)
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[bool] = context.Queue()
    builders = [context.Process(target=_build, args=(str(folder), results)) for _ in range(2)]
    for builder in builders:
        builder.start()
    built = sorted(results.get(timeout=300) for _ in builders)
    for builder in builders:
        builder.join()
    assert built == [False, True]
    layer = find_layer(manifest, folder)
    assert layer is not None
    # killed before it was whole: what lies there is no layer, and the next build takes its place
    broken = layer.path.with_name(f"partial-{layer.path.name}")
    layer.path.rename(broken)
    (broken / "layer.json").unlink()
    assert find_layer(manifest, folder) is None
    again, built_again = ensure_layer(manifest, folder)
    assert built_again and again.path == layer.path and not broken.exists()


def test_a_python_that_is_nowhere_is_named(folder: Path, tmp_path: Path) -> None:
    manifest = folder / "agent.yaml"
    manifest.write_text(MANIFEST.replace('">=3.11"', '">=3.11,!=3.11.*,<3.12"'))
    with pytest.raises(EngineError, match=r"needs Python >=3\.11,!=3\.11\.\*,<3\.12.*--python-dir"):
        ensure_layer(read_manifest(folder), folder, tmp_path)


def test_a_folder_of_interpreters_is_looked_into_alone(tmp_path: Path) -> None:
    assert find_python(">=3.11") is not None
    assert find_python(">=3.11", tmp_path) is None


@pytest.fixture
def far_engine(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The same engine by a TCP address, as one on another machine is reached."""
    server = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while piece := source.recv(1 << 16):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            inner = socket.socket(socket.AF_UNIX)
            inner.connect(engine.host.removeprefix("unix://"))
            for one, other in ((client, inner), (inner, client)):
                threading.Thread(target=pump, args=(one, other), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.getsockname()[1]}")
    far = Engine.connect()
    yield far
    server.close()


def test_an_engine_elsewhere_gets_the_layer_as_a_volume(
    far_engine: Engine, base_image: str, agent: CommandAgent
) -> None:
    (mount,) = agent.mounts(far_engine, base_image)
    assert not mount.source.startswith("/")
    try:
        end = run(far_engine, agent, base_image)
        assert end.status is AgentStatus.FINISHED, (end.error, end.log)
        assert b'"written": "no"' in end.log
        assert agent.mounts(far_engine, base_image) == (mount,)
    finally:
        for name in (mount.source, f"{mount.source}-whole"):
            far_engine.client.volumes.get(name).remove(force=True)


def test_the_layer_says_what_it_is(agent: CommandAgent, folder: Path) -> None:
    layer = find_layer(read_manifest(folder), folder)
    assert isinstance(layer, Layer)
    assert layer.runtime.startswith("Python 3.") and layer.mount == "/opt/beyondswe/layers/measurer"

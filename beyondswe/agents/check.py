"""A smoke run: the real agent in a sandbox, through the model gateway, against the scripted model.

It has to mend one line of a small repository. What is checked is what only a real run shows: that the layer runs
in the image, that the agent finds the model by the protocol it is said to speak, that it ends well by its own
word, that its transcript can be read, and that what it starts sees nothing of its layer.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyondswe.agents.command import CommandAgent
from beyondswe.agents.layers import MOUNT
from beyondswe.agents.manifest import Protocol
from beyondswe.agents.protocol import AgentStatus, PreparedAttempt
from beyondswe.errors import UsageError
from beyondswe.gateway.access import Access, AccessSettings, AttemptAccess
from beyondswe.gateway.atif import read_calls
from beyondswe.gateway.metering import Budget
from beyondswe.gateway.process import GatewaySettings
from beyondswe.gateway.scripted import ScriptedModel
from beyondswe.instances.model import Family, Instance
from beyondswe.sandbox import hostgit
from beyondswe.sandbox.docker import DockerSandbox, start_sandbox
from beyondswe.sandbox.types import Environment, Limits, Network, Snapshot

if TYPE_CHECKING:
    from beyondswe.sandbox.engine import Engine

WORKDIR = "/workspace/sums"
_SEEN = "/tmp/seen-by-a-command"
_WRONG, _RIGHT = "    return a - b\n", "    return a + b\n"
_FILES = {
    "sums.py": f"def add(a, b):\n{_WRONG}",
    "test_sums.py": "import unittest\n\nimport sums\n\n\nclass Sums(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(sums.add(1, 2), 3)\n",
}
_PROMPT = f"In {WORKDIR} the function add in sums.py subtracts. Correct it, so that test_sums.py passes."
_TURNS = 20
_LOOK = (
    f"env > {_SEEN}; python3 -c 'import sys; print(sys.path, sys.executable)' >> {_SEEN}; "
    f"command -v python3 python node npm >> {_SEEN}; true"
)
SCENARIO: dict[str, Any] = {
    "root": WORKDIR,
    "steps": [
        {"do": "bash", "cmd": _LOOK},
        {"do": "read", "path": "sums.py"},
        {"do": "edit", "path": "sums.py", "old": _WRONG.rstrip("\n"), "new": _RIGHT.rstrip("\n")},
        {"do": "bash", "cmd": "python3 -m unittest -q test_sums"},
        {"do": "finish", "text": "add adds now."},
    ],
}
_SCENARIOS = {"default": SCENARIO}
_SEARCHED = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "NODE_PATH", "LD_LIBRARY_PATH", "LD_PRELOAD")
_PATHS = {
    Protocol.CHAT: "/chat/completions",
    Protocol.RESPONSES: "/responses",
    Protocol.MESSAGES: "/messages",
    Protocol.GENERATE: "enerateContent",
}


@dataclass(frozen=True)
class Checked:
    """What a smoke run showed; no problems: it passed."""

    name: str
    version: str
    image: str
    problems: tuple[str, ...]
    status: str
    error: str | None
    steps: int  # of its transcript
    calls: int  # of the model
    seconds: dict[str, float] = field(default_factory=dict)  # start (of the sandbox), agent
    log: str = ""  # its end, where there are problems

    @property
    def ok(self) -> bool:
        return not self.problems


def check_agent(engine: Engine, agent: CommandAgent, image: str, *, timeout: float = 600.0) -> Checked:
    """Run the agent once in a sandbox of ``image``, which must hold Python 3."""
    if agent.manifest.command is None:
        raise UsageError(f"agent {agent.name} has no command: there is nothing to check")
    agent.prepare()
    with tempfile.TemporaryDirectory(prefix="beyondswe-check-") as name, ScriptedModel(_SCENARIOS) as model:
        record_to = Path(name, "calls.jsonl")
        uses_model = agent.manifest.protocol is not None
        gateway = GatewaySettings("scripted", url=f"{model.url}/v1", budget=Budget(max_turns=_TURNS))
        settings = AccessSettings(
            network=Network.MODEL if uses_model else Network.NONE, model=gateway if uses_model else None
        )
        with Access(engine, settings, {"role": "check"}) as access:
            opened = access.open(f"check-{agent.name}", _instance(image), record_to)
            try:
                return _run(engine, agent, image, opened, record_to, model, timeout)
            finally:
                opened.abandon()


def _run(
    engine: Engine,
    agent: CommandAgent,
    image: str,
    access: AttemptAccess,
    record_to: Path,
    model: ScriptedModel,
    timeout: float,
) -> Checked:
    began = time.monotonic()
    sandbox = start_sandbox(
        engine,
        image,
        workdir="/",
        limits=Limits(cpus=2, memory=4 << 30),
        network=access.network,
        env=access.sandbox_env,
        run_labels={"role": "check"},
        mounts=agent.mounts(engine, image),
    )
    try:
        started = time.monotonic()
        sandbox.put(_repository())
        sandbox.workdir = WORKDIR
        environment = Environment(image, image, "", WORKDIR, "", Snapshot(Path(), "", ""))
        prepared = PreparedAttempt(
            _instance(image), environment, _PROMPT, timeout, env=access.env, model=access.model
        )
        end = agent.start(prepared, sandbox)
        ended = time.monotonic()
        problems = _problems(agent, end.status, end.error, sandbox, model)
        if agent.manifest.transcript and not (end.transcript and end.transcript.steps):
            problems.append("its transcript could not be read, or has no steps")
        calls = sum(1 for _ in read_calls(record_to))
        return Checked(
            agent.name,
            agent.version,
            image,
            tuple(problems),
            end.status.value,
            end.error,
            len(end.transcript.steps) if end.transcript else 0,
            calls,
            {"start": round(started - began, 3), "agent": round(ended - started, 3)},
            end.log.decode("utf-8", "replace")[-4000:] if problems else "",
        )
    finally:
        sandbox.stop()


def _problems(
    agent: CommandAgent, status: AgentStatus, error: str | None, sandbox: DockerSandbox, model: ScriptedModel
) -> list[str]:
    found = []
    if status is not AgentStatus.FINISHED:
        found.append(f"it ended as {status.value}: {error}")
    if _RIGHT.encode() not in sandbox.run(["cat", "sums.py"], timeout=30).stdout:
        found.append("the wrong line is still there")
    protocol = agent.manifest.protocol
    if protocol and not any(_PATHS[protocol] in str(request["path"]) for request in model.requests):
        found.append(f"it asked the model nothing by the protocol {protocol.value}")
    seen = sandbox.run(f"cat {_SEEN} 2> /dev/null", timeout=30).stdout.decode("utf-8", "replace")
    found += [f"its commands see its layer: {line[:200]}" for line in seen.splitlines() if _is_search(line)]
    return found


def _is_search(line: str) -> bool:
    """Whether a line of what a command saw says that programs or modules are looked for in the layer."""
    name, is_variable, _ = line.partition("=")
    return MOUNT in line and (not is_variable or name in _SEARCHED)


def _instance(image: str) -> Instance:
    return Instance(
        instance_id="agent-check",
        family=Family.CROSSREPO,
        image=image,
        base_commit="",
        workdir=WORKDIR,
        problem_statement=_PROMPT,
        specification="",
        patch="",
        fail_to_pass=("test_sums.py::Sums::test_add",),
        f2p_patch="",
    )


def _repository() -> bytes:
    """The small repository with one commit, as a tar for ``/``."""
    with tempfile.TemporaryDirectory(prefix="beyondswe-check-") as name:
        folder = Path(name) / "sums"
        folder.mkdir()
        for path, text in _FILES.items():
            (folder / path).write_text(text)
        names = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
        environment = hostgit.environment(**{f"GIT_{name}": "check@localhost" for name in names})
        for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "sums")):
            command = hostgit.command(*arguments)
            subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        stream = io.BytesIO()

        def of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode |= 0o666 if member.isfile() else 0o777  # whoever the image's user is
            return member

        with tarfile.open(fileobj=stream, mode="w") as archive:
            archive.add(folder, arcname=WORKDIR.lstrip("/"), filter=of_root)
        return stream.getvalue()


def as_document(checked: Checked) -> dict[str, Any]:
    """For ``--json``."""
    return {"ok": checked.ok, **asdict(checked)}

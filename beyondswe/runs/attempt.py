"""One attempt from instance to outcome: prepare, let the agent work, take its patch, score it.

What goes wrong on our side ends in an infrastructure error that carries all evidence gathered so far. Where
that includes the patch, the next try scores it again and does not run (and pay) the agent a second time.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Protocol, runtime_checkable

from beyondswe.agents.protocol import Agent, AgentEnd, AgentStatus, PreparedAttempt
from beyondswe.agents.transcripts.model import Transcript
from beyondswe.errors import AgentError, BeyondSWEError
from beyondswe.gateway.access import Access, AttemptAccess, Left
from beyondswe.gateway.atif import call_log, read_calls
from beyondswe.instances.model import Instance
from beyondswe.runs.folder import StorageError
from beyondswe.runs.masking import Mask
from beyondswe.runs.model_end import MODEL_FLAGS, end_by_gateway, flags_of
from beyondswe.runs.outcome import Outcome, Usage, attempt_status
from beyondswe.runs.trajectory import trajectory
from beyondswe.runs.verdicts import VerdictCache, verdict_key
from beyondswe.sandbox.disk import DiskWatch
from beyondswe.sandbox.docker import DockerSandbox, Mount, SandboxDied, start_sandbox
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.environment import prepare
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.extract import PatchTooLarge, extract_patch
from beyondswe.scoring.job import runner_version
from beyondswe.scoring.score import score_patch
from beyondswe.scoring.types import Patch, Scored, Status

Work = Callable[[Instance, int, Path | None], "Finished"]
"""Makes one attempt of an instance; the last is the folder of its latest earlier try, if there was one."""
ImageProvider = Callable[[Instance], str]
"""Sees to it that an instance's image is there, and gives its name."""
LEFT_OUT_LISTED = 1000  # paths left out of a patch that an outcome lists
CARRIED = ("trajectory.json", "egress.jsonl", "logs/model.jsonl")
"""Files of the agent's work that an attempt takes over from an earlier try whose scoring failed."""


@runtime_checkable
class NeedsMounts(Protocol):
    """An agent whose sandbox has to see something of the host, such as its runtime layer."""

    def mounts(self, engine: Engine, image: str) -> tuple[Mount, ...]:
        """What, for a sandbox of this image."""


@runtime_checkable
class KeepsAccount(Protocol):
    """An agent with a transcript of its own, which can be had when its sandbox ended under it."""

    def account(
        self, prepared: PreparedAttempt, sandbox: DockerSandbox, stdout: bytes
    ) -> tuple[Transcript | None, dict[str, bytes]]:
        """The transcript as far as it can be read, and its files as they are."""


@dataclass(frozen=True)
class Finished:
    """An outcome, and the files of the attempt by name."""

    outcome: Outcome
    files: dict[str, bytes]
    permanent: bool = False  # an infrastructure error that trying again cannot mend


class Environments:
    """Makes an instance's environment ready once, however many workers ask for it."""

    def __init__(self, engine: Engine, provide_image: ImageProvider, run_labels: Mapping[str, str]) -> None:
        self._engine, self._provide_image, self._labels = engine, provide_image, run_labels
        self._ready: dict[str, Environment] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._guard = threading.Lock()

    def get(self, instance: Instance) -> Environment:
        with self._guard:
            lock = self._locks[instance.instance_id]
        with lock:
            if instance.instance_id not in self._ready:
                extra = {"repo_document.md": instance.specification.encode()} if instance.is_doc2repo else {}
                self._ready[instance.instance_id] = prepare(
                    self._engine,
                    self._provide_image(instance),
                    workdir=instance.workdir,
                    base_commit=instance.base_commit,
                    pre_commands=instance.pre_commands,
                    extra_files=extra,
                    names=instance.project_names,
                    run_labels=self._labels,
                )
            return self._ready[instance.instance_id]

    def forget(self, instance: Instance) -> None:
        """Prepare it anew when it is next asked for: its image may be gone."""
        self._ready.pop(instance.instance_id, None)


@dataclass
class _Evidence:
    """What is known of an attempt so far; an outcome can be made of it at any point."""

    instance: Instance
    attempt: int
    environment: Environment | None = None
    end: AgentEnd | None = None
    patch: Patch | None = None
    scored: Scored | None = None
    usage: Usage = field(default_factory=Usage)
    timings: dict[str, float] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    cached: bool = False
    error: str | None = None
    permanent: bool = False
    trace: str = ""
    files: dict[str, bytes] = field(default_factory=dict)  # of the agent's work, by name, not masked
    mask: Mask = field(default_factory=lambda: Mask(os.environ))

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.timings[phase] = round(self.timings.get(phase, 0.0) + time.monotonic() - started, 4)


class Attempts:
    """Makes attempts: with an agent, or from a patch made elsewhere. Safe to call from many threads."""

    def __init__(
        self,
        engine: Engine,
        *,
        environments: Environments,
        limits: Limits,
        access: Access,
        run_labels: Mapping[str, str],
        verdicts: VerdictCache,
        fresh: bool = False,
    ) -> None:
        """``fresh`` asks for every verdict anew; the cache is written all the same."""
        self._engine, self._environments, self._limits = engine, environments, limits
        self._access, self._labels, self._verdicts, self._fresh = access, run_labels, verdicts, fresh

    def of_agent(self, agent: Agent, prompt: Callable[[Instance], str]) -> Work:
        """Attempts in which ``agent`` works on the instance."""

        def work(instance: Instance, attempt: int, earlier: Path | None) -> Finished:
            evidence = _Evidence(instance, attempt)
            with self._faults(evidence):
                with evidence.timed("setup"):
                    evidence.environment = self._environments.get(instance)
                if not (earlier and _carry_over(evidence, earlier)):
                    self._run_agent(evidence, agent, prompt(instance))
                self._score(evidence)
            return _finished(evidence)

        return work

    def of_patches(self, patch: Callable[[Instance], str | None], missing: Callable[[Instance], str]) -> Work:
        """Attempts that were made elsewhere; ``patch`` gives the text, or None where ``missing`` says why
        there is none.
        """

        def work(instance: Instance, attempt: int, earlier: Path | None) -> Finished:
            evidence = _Evidence(instance, attempt)
            with self._faults(evidence):
                text = patch(instance)
                if text is None:
                    evidence.scored = Scored(Status.EMPTY_PATCH, 0.0, 0.0, error=missing(instance))
                    evidence.flags.append("no_prediction")
                else:
                    evidence.patch = _patch(text)
                    with evidence.timed("setup"):
                        evidence.environment = self._environments.get(instance)
                    self._score(evidence)
            return _finished(evidence)

        return work

    def _run_agent(self, evidence: _Evidence, agent: Agent, prompt: str) -> None:
        environment = evidence.environment
        assert environment is not None
        name = f"{evidence.instance.instance_id}#{evidence.attempt}"
        with tempfile.TemporaryDirectory(prefix="attempt-") as folder:
            record_to = Path(folder, "calls.jsonl")
            with evidence.timed("setup"):
                access = self._access.open(name, evidence.instance, record_to)
            try:
                with evidence.timed("setup"):
                    sandbox = start_sandbox(
                        self._engine,
                        environment.image,
                        workdir=environment.workdir,
                        limits=self._limits,
                        network=access.network,
                        env=access.sandbox_env,
                        run_labels=self._labels,
                        mounts=agent.mounts(self._engine, environment.image)
                        if isinstance(agent, NeedsMounts)
                        else (),
                    )
                try:
                    self._work(evidence, agent, prompt, access, sandbox, record_to)
                finally:
                    sandbox.stop()
            finally:
                access.abandon()

    def _work(
        self,
        evidence: _Evidence,
        agent: Agent,
        prompt: str,
        access: AttemptAccess,
        sandbox: DockerSandbox,
        record_to: Path,
    ) -> None:
        """From a started sandbox to the patch."""
        environment = evidence.environment
        assert environment is not None
        with evidence.timed("setup"):
            access.make_ready(sandbox)
        prepared = PreparedAttempt(
            evidence.instance, environment, prompt, self._limits.timeout, env=access.env, model=access.model
        )
        disk = DiskWatch(self._engine, sandbox.id, self._limits.disk, end=sandbox.freeze)
        budget = access.watch(sandbox.freeze)
        with evidence.timed("agent"), disk, budget:
            try:
                end = agent.start(prepared, sandbox)
            except AgentError as error:
                end = AgentEnd(AgentStatus.ERROR, None, str(error))
            except SandboxDied as error:
                if disk.exceeded or budget.over:
                    end = AgentEnd(AgentStatus.ERROR, log=error.output)
                elif sandbox.end_state().oom_killed:
                    end = AgentEnd(AgentStatus.ERROR, None, f"out of memory: {error}", error.output)
                else:
                    raise  # ended from outside: nothing inside can end it but hunger
                if isinstance(agent, KeepsAccount):
                    transcript, files = agent.account(prepared, sandbox, error.output)
                    end = replace(end, transcript=transcript, files=files)
        if disk.exceeded:  # whatever the agent was told of its command, this is why it ended
            end = replace(end, status=AgentStatus.ERROR, exit_code=None, error=disk.reason)
        with evidence.timed("extract"):
            sandbox.freeze()
            evidence.end = end
            _take_account(evidence, agent, prompt, prepared, access.close(), record_to)
            try:
                evidence.patch = extract_patch(sandbox, environment)
            except PatchTooLarge as error:
                status = Status.EMPTY_PATCH if disk.exceeded else Status.PATCH_REJECTED
                evidence.scored = Scored(status, 0.0, 0.0, error=str(error))

    def _score(self, evidence: _Evidence) -> None:
        """The verdict on the patch, unless it was too large to be taken."""
        environment, patch = evidence.environment, evidence.patch
        if patch is None or environment is None:
            return
        key = verdict_key(
            image_digest=environment.image_digest,
            instance_hash=evidence.instance.content_hash,
            patch_sha256=patch.sha256,
            runner=runner_version(),
            limits=self._limits,
        )
        with evidence.timed("score"):
            known = None if self._fresh else self._verdicts.get(key)
            evidence.cached = known is not None
            evidence.scored = known or evidence.mask.scored(
                score_patch(
                    self._engine,
                    evidence.instance,
                    environment,
                    patch.text,
                    limits=self._limits,
                    run_labels=self._labels,
                )
            )
        if evidence.mask.holds_secret(patch.text):
            evidence.flags.append("secret_in_patch")
        if known is None:
            self._verdicts.put(key, evidence.scored)

    @contextmanager
    def _faults(self, evidence: _Evidence) -> Iterator[None]:
        """Whatever fails in here is ours: it becomes an infrastructure error, but for a full disk, which ends
        the run.
        """
        try:
            yield
        except StorageError:
            raise
        except BeyondSWEError as error:
            evidence.error, evidence.trace = str(error), traceback.format_exc()
            evidence.permanent = error.permanent
        except Exception as error:
            # A fault of this program, or an answer that nobody foresaw: it may cost one attempt, not all.
            evidence.error, evidence.trace = f"{type(error).__name__}: {error}", traceback.format_exc()
        if evidence.error or (evidence.scored and evidence.scored.status is Status.INFRASTRUCTURE_ERROR):
            self._environments.forget(evidence.instance)


def _take_account(
    evidence: _Evidence, agent: Agent, prompt: str, prepared: PreparedAttempt, left: Left, record_to: Path
) -> None:
    """Usage, trajectory and logs of what the agent did, and what its end was in view of them. Raises
    `UpstreamFailed`, with all of that kept, where the model was why it ended.
    """
    end, account = evidence.end, left.account
    assert end is not None
    evidence.files |= {f"logs/agent/{name}": data for name, data in end.files.items() if _is_plain(name)}
    if left.egress is not None or end.egress:
        rows = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in end.egress)
        evidence.files["egress.jsonl"] = (left.egress or b"") + rows.encode("utf-8", "backslashreplace")
    if account is not None:
        evidence.usage = Usage.model_validate(account.usage)
        if end.tool_calls is not None:
            evidence.usage.tool_calls = dict(sorted(end.tool_calls.items()))
        evidence.flags += flags_of(account.state)
        evidence.files["logs/model.jsonl"] = call_log(read_calls(record_to))
    if account is not None or end.transcript is not None:
        document = trajectory(
            session=f"{evidence.instance.instance_id}#{evidence.attempt}",
            agent={"name": agent.name, "version": agent.version},
            model=prepared.model.name if prepared.model else None,
            prompt=prompt,
            calls=read_calls(record_to),
            usage=account.usage if account else None,
            transcript=end.transcript,
        )
        evidence.files["trajectory.json"] = document.encode()
    if account is not None and prepared.model is not None:
        evidence.end = end_by_gateway(end, account.state, max_turns=prepared.model.max_turns)


def _is_plain(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _patch(text: str, left_out: Iterable[str] = ()) -> Patch:
    return Patch(text, hashlib.sha256(text.encode()).hexdigest(), tuple(left_out))


def _carry_over(evidence: _Evidence, earlier: Path) -> bool:
    """Take patch and agent's end from an earlier try whose scoring failed; False if it got not that far."""
    try:
        row = json.loads((earlier / "outcome.json").read_text(encoding="utf-8"))
        text = (earlier / "patch.diff").read_bytes().decode()
        log = (earlier / "logs" / "agent.log").read_bytes()
    except (OSError, ValueError):
        return False  # the earlier try ended before there was a patch, or was cut short while it was written
    outcome = Outcome.model_validate(row)
    patch = _patch(text, row.get("left_out", ()))
    if outcome.agent_status is None or outcome.patch_sha256 != patch.sha256:
        return False
    evidence.patch = patch
    evidence.end = AgentEnd(outcome.agent_status, row.get("agent_exit_code"), row.get("agent_error"), log)
    evidence.usage = outcome.usage
    evidence.flags += [flag for flag in outcome.flags if flag in MODEL_FLAGS]
    for path in (*map(earlier.joinpath, CARRIED), *earlier.glob("logs/agent/**/*")):
        if path.is_file():
            evidence.files[path.relative_to(earlier).as_posix()] = path.read_bytes()
    evidence.timings |= {
        phase: outcome.timings[phase] for phase in ("agent", "extract") if phase in outcome.timings
    }
    return True


def _finished(evidence: _Evidence) -> Finished:
    """The outcome and the files that an attempt leaves."""
    scored = evidence.scored or Scored(Status.INFRASTRUCTURE_ERROR, 0.0, 0.0)
    if evidence.error is not None:
        scored = Scored(
            Status.INFRASTRUCTURE_ERROR,
            0.0,
            0.0,
            error=evidence.mask.text(evidence.error),
            log=scored.log,
            records=scored.records,
            permanent=evidence.permanent,
        )
    end, environment, patch = evidence.end, evidence.environment, evidence.patch
    if end:
        error = end.error and evidence.mask.text(end.error)
        end = replace(end, error=error, log=evidence.mask.data(end.log))
    more = {
        "agent_exit_code": end.exit_code if end else None,
        "agent_error": end.error if end else None,
        "left_out": list(patch.left_out[:LEFT_OUT_LISTED]) if patch else [],
        "environment_notes": list(environment.notes) if environment else [],
        "scoring": dict(scored.timings),
        "controls": asdict(scored.controls) if scored.controls else None,
        "cached": evidence.cached,
    }
    agent_status = end.status if end else None
    status = attempt_status(scored.status, agent_status)
    outcome = Outcome(
        instance_id=evidence.instance.instance_id,
        family=evidence.instance.family,
        attempt=evidence.attempt,
        status=status,
        agent_status=agent_status,
        resolved=scored.resolved,
        score=scored.score,
        pass_rate=scored.pass_rate,
        f2p=scored.f2p,
        p2p=scored.p2p,
        tests=scored.tests,
        flags=sorted({*scored.flags, *evidence.flags, *(environment.flags if environment else ())}),
        patch_sha256=patch.sha256 if patch else "",
        image_digest=environment.image_digest if environment else "",
        usage=evidence.usage,
        timings={phase: evidence.timings.get(phase, 0.0) for phase in ("setup", "agent", "extract", "score")},
        error=end.error if end and status is not scored.status else scored.error,
        **{name: value for name, value in more.items() if value not in (None, [], {}, False)},
    )
    files = {"outcome.json": (json.dumps(outcome.to_row(), indent=2, ensure_ascii=False) + "\n").encode()}
    if patch:
        files["patch.diff"] = patch.text.encode()
    if end:
        files["logs/agent.log"] = end.log
    if scored.log:
        files["logs/tests.log"] = scored.log.encode("utf-8", "backslashreplace")
    if scored.records:
        files["runner.jsonl"] = "".join(f"{record}\n" for record in scored.records).encode(
            "utf-8", "backslashreplace"
        )
    files |= {name: evidence.mask.data(data) for name, data in evidence.files.items()}
    if evidence.trace:
        files["logs/error.log"] = evidence.mask.text(evidence.trace).encode("utf-8", "backslashreplace")
    return Finished(outcome, files, permanent=scored.permanent)

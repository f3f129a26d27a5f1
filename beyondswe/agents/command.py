"""The agent that is a command: its files and the prompt are put into the sandbox, and it runs there."""

from __future__ import annotations

import hashlib
import io
import re
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from beyondswe.agents.collect import TRANSCRIPT_LIMIT, fetch_files, shortened
from beyondswe.agents.endings import Seen, ending
from beyondswe.agents.layers import (
    Layer,
    check_opt_in,
    ensure_layer,
    layer_mount,
    layer_mounts,
    needed_source,
)
from beyondswe.agents.manifest import STDOUT, Manifest, PromptVia, agent_files
from beyondswe.agents.protocol import AgentEnd, AgentStatus, ModelAccess, PreparedAttempt
from beyondswe.agents.transcripts import Transcript, read_transcript
from beyondswe.errors import AgentError
from beyondswe.sandbox.types import Network, Sandbox

if TYPE_CHECKING:
    from beyondswe.sandbox.docker import Mount
    from beyondswe.sandbox.engine import Engine

_ROOT = "/opt/beyondswe"  # outside every work folder, so that none of it can get into a patch
PROMPT_FILE = f"{_ROOT}/prompt.md"
AGENT_DIR = f"{_ROOT}/agent"
STATE_DIR = f"{_ROOT}/state"
"""Where an agent may write: its settings, its history."""
_NO_LIMIT = 1_000_000  # turns
LOG_LIMIT = 1 << 20  # bytes kept of each of standard output and standard error, head and tail


class CommandAgent:
    """An agent from an ``agent.yaml`` (or made on the spot by ``--agent-cmd``)."""

    def __init__(self, manifest: Manifest, *, digest: str, folder: Path | None = None) -> None:
        self.name = manifest.name
        self.version = manifest.version
        self.digest = digest
        self.network = manifest.network
        self.manifest = manifest
        self._folder = folder
        self._layer: Layer | None = None

    def check(self) -> None:
        """`UsageError` where it lacks what only its user can give."""
        check_opt_in(self.manifest)
        needed_source(self.manifest)

    def prepare(self, python_dir: Path | None = None) -> None:
        """See to the runtime layer, if it has one: built here if it is not there. Before any attempt."""
        if self._layer is not None:
            return
        if self.manifest.runtime is not None and self._folder is not None:
            self._layer, _ = ensure_layer(self.manifest, self._folder, python_dir)
            version = self._layer.runtime.partition(" from ")[0]  # the same wherever its Python was found
            made_of = f"{self.digest} {self._layer.digest} {version}"
            self.digest = hashlib.sha256(made_of.encode()).hexdigest()
        else:
            check_opt_in(self.manifest)

    def mounts(self, engine: Engine, image: str) -> tuple[Mount, ...]:
        """What its sandboxes have to see of the host."""
        return layer_mounts(engine, self._layer, image) if self._layer else ()

    def start(self, prepared: PreparedAttempt, sandbox: Sandbox) -> AgentEnd:
        manifest = self.manifest
        if manifest.command is None:
            raise AgentError(f"agent {self.name} has no command")
        if manifest.network is not Network.NONE and manifest.protocol and prepared.model is None:
            raise AgentError(f"agent {self.name} needs a model, and the attempt has none: give --model")
        words = self._words(prepared)
        env = {
            **prepared.env,
            **{name: replace_words(value, words) for name, value in manifest.env.items()},
            "BEYONDSWE_PROMPT_FILE": PROMPT_FILE,
            "BEYONDSWE_WORKDIR": prepared.environment.workdir,
            **_model_env(prepared.model),
        }
        if manifest.prompt is PromptVia.ENV:
            env[manifest.prompt_env] = prepared.prompt
        timeout = min(prepared.timeout, manifest.timeout or prepared.timeout)
        sandbox.put(self._archive(prepared.prompt, words))
        printed = manifest.transcript is not None and manifest.transcript.path == STDOUT
        result = sandbox.run(
            command_line(manifest, words),
            timeout=timeout,
            env=env,
            user=manifest.user or None,
            cwd=manifest.workdir or None,
            stdin=prepared.prompt.encode() if manifest.prompt is PromptVia.STDIN else None,
            max_output=TRANSCRIPT_LIMIT if printed else LOG_LIMIT,
        )
        out, errors = result.stdout, result.stderr
        if printed:  # more was kept of it than a log takes
            out, errors = shortened(out, LOG_LIMIT), shortened(errors, LOG_LIMIT)
        log = out + (b"\n--- standard error ---\n" + errors if errors else b"")
        transcript, files = self.account(prepared, sandbox, result.stdout)
        seen = Seen(
            exit_code=result.exit_code,
            timed_out=result.timed_out,
            timeout=timeout,
            reported=transcript.end if transcript else None,
        )
        status, error = ending(seen)
        if status is AgentStatus.ERROR and (kills := _memory_kills(sandbox)):
            error = f"{error}; out of memory: {kills} of its processes were killed at the limit"
        if status is AgentStatus.ERROR and (missing := _missing(sandbox, manifest.needs)):
            error = f"{error}; the image lacks {', '.join(missing)}, which the agent needs"
        return AgentEnd(status, result.exit_code, error, log, files, transcript)

    def account(
        self, prepared: PreparedAttempt, sandbox: Sandbox, stdout: bytes
    ) -> tuple[Transcript | None, dict[str, bytes]]:
        """What the agent wrote down itself, read, and its files as they are; neither is to be trusted."""
        where = self.manifest.transcript
        if where is None:
            return None, {}
        if where.path == STDOUT:
            files = {"stdout": stdout}
            return read_transcript(where.format, files), files
        files = fetch_files(sandbox, replace_words(where.path, self._words(prepared)), where.files)
        return read_transcript(where.format, {**files, "stdout": stdout}), files

    def _words(self, prepared: PreparedAttempt) -> dict[str, str]:
        """What stands for the words of a manifest."""
        return {
            "{prompt}": prepared.prompt,
            "{prompt_file}": PROMPT_FILE,
            "{workdir}": prepared.environment.workdir,
            "{agent_dir}": AGENT_DIR,
            "{state_dir}": STATE_DIR,
            "{layer}": layer_mount(self.name),
            **_model_words(prepared.model),
        }

    def _archive(self, prompt: str, words: Mapping[str, str]) -> bytes:
        """The prompt and the agent's files as a tar for ``/``, readable by any user of the image. What lies in
        its own folder anybody may change: agents rewrite their settings, whatever user the image has.
        """
        files = {PROMPT_FILE: (prompt.encode(), 0o644)}
        if self._folder is not None:
            wanted = [Path(name) for name in self.manifest.files]
            for path in agent_files(self._folder):
                inside = path.relative_to(self._folder)
                if any(inside.is_relative_to(root) for root in wanted):
                    mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
                    files[f"{AGENT_DIR}/{inside.as_posix()}"] = (path.read_bytes(), mode)
            for target, name in self.manifest.config.items():
                text = (self._folder / name).read_text(encoding="utf-8")
                files[f"{STATE_DIR}/{target}"] = (replace_words(text, words).encode(), 0o666)
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
            folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
            for above in sorted(folders | {AGENT_DIR, STATE_DIR}):
                if above.startswith(_ROOT):
                    entry = tarfile.TarInfo(above.lstrip("/"))
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o777 if above.startswith(STATE_DIR) else 0o755
                    archive.addfile(entry)
            for name, (data, mode) in files.items():
                entry = tarfile.TarInfo(name.lstrip("/"))
                entry.size, entry.mode = len(data), mode
                archive.addfile(entry, io.BytesIO(data))
        return stream.getvalue()


def _model_words(model: ModelAccess | None) -> dict[str, str]:
    if model is None:
        return {}
    return {
        "{model}": model.name,
        "{model_url}": model.url,
        "{token}": model.token,
        "{max_turns}": str(model.max_turns or _NO_LIMIT),
    }


def _model_env(model: ModelAccess | None) -> dict[str, str]:
    if model is None:
        return {}
    return {
        "BEYONDSWE_MODEL": model.name,
        "BEYONDSWE_MODEL_URL": model.url,
        "BEYONDSWE_MODEL_TOKEN": model.token,
    }


def _missing(sandbox: Sandbox, needs: Sequence[str]) -> list[str]:
    """Which of the programs that an agent needs the image lacks; needs that are no program's name are not asked."""
    programs = [name for name in needs if re.fullmatch(r"[\w.+-]+", name)]
    if not programs:
        return []
    ask = f"for name in {' '.join(programs)}; do command -v $name > /dev/null || echo $name; done"
    answer = sandbox.run(ask, timeout=20, user="0", cwd="/").stdout.decode("utf-8", "replace").split()
    return [name for name in programs if name in answer]


def _memory_kills(sandbox: Sandbox) -> int:
    """How many processes the kernel ended for want of memory; the sandbox's own word, good for a message."""
    counters = "/sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control"  # cgroup v2, v1
    shown = sandbox.run(f"cat {counters} 2> /dev/null", timeout=20, user="0", cwd="/").stdout
    return sum(int(count) for count in re.findall(rb"^oom_kill (\d+)$", shown, re.MULTILINE))


def replace_words(text: str, words: Mapping[str, str], *, quote: bool = False) -> str:
    """Replace the known words in one pass, so that a prompt that holds ``{workdir}`` stays as it is."""
    pattern = "|".join(re.escape(word) for word in words)
    return re.sub(pattern, lambda m: shlex.quote(words[m[0]]) if quote else words[m[0]], text)


def command_line(manifest: Manifest, words: Mapping[str, str]) -> str | list[str]:
    """The command with its words replaced; with ``prompt: argument`` and no ``{prompt}`` in it, the prompt
    comes last.
    """
    command = manifest.command
    assert command is not None
    parts = [command] if isinstance(command, str) else command
    add_prompt = manifest.prompt is PromptVia.ARGUMENT and not any("{prompt}" in part for part in parts)
    if isinstance(command, str):
        text = replace_words(command, words, quote=True)
        return f"{text} {shlex.quote(words['{prompt}'])}" if add_prompt else text
    arguments = [replace_words(part, words) for part in command]
    return [*arguments, words["{prompt}"]] if add_prompt else arguments

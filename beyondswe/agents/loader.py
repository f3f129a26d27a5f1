"""Find an agent: by name among those that come with the product, in a folder, or made on the spot from a
command.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from beyondswe.agents.command import CommandAgent
from beyondswe.agents.manifest import Manifest, folder_digest, read_manifest
from beyondswe.agents.oracle import OracleAgent
from beyondswe.agents.protocol import Agent
from beyondswe.errors import UsageError
from beyondswe.resources import resource


def shipped_agents() -> list[Manifest]:
    """Manifests of the agents that come with the product, by name."""
    return [read_manifest(path.parent) for path in sorted(resource("harness", "agents").glob("*/agent.yaml"))]


def agent_folder(name: str) -> Path:
    """The folder of an agent: by name among those that come with the product, or ``./PATH``."""
    if "/" in name or name in (".", ".."):
        folder = Path(name)
        if not folder.is_dir():
            raise UsageError(f"--agent {name}: no such folder")
        return folder

    known = [manifest.name for manifest in shipped_agents()]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean {near[0]}? There" if near else "; there"
        hint = f" (for the folder here, write ./{name})" if Path(name, "agent.yaml").is_file() else ""
        raise UsageError(
            f"no agent is called {name!r}{meant} are {', '.join(known)}, or a folder ./PATH{hint}"
        )
    return resource("harness", "agents", name)


def load_agent(name: str) -> Agent:
    """``oracle`` and the like by name; anything with a slash (``./folder``) is a folder with an
    ``agent.yaml``.
    """
    folder = agent_folder(name)
    manifest = read_manifest(folder)
    digest = folder_digest(folder)
    if manifest.builtin is not None:
        return _builtin(folder, manifest, digest)
    if manifest.command is None and manifest.name == "command":
        raise UsageError("agent command has no command of its own: give one with --agent-cmd 'CMD'")
    if manifest.command is None:
        raise UsageError(
            f"{folder / 'agent.yaml'}: there is no command; add `command:`, such as "
            '`command: [sh, "{agent_dir}/solve.sh"]` with `files: [solve.sh]`'
        )
    return CommandAgent(manifest, digest=digest, folder=folder)


def _oracle(manifest: Manifest, digest: str) -> Agent:
    return OracleAgent(manifest, digest=digest)


def _searchswe(manifest: Manifest, digest: str) -> Agent:
    from beyondswe.agents.searchswe.agent import SearchSWEAgent

    return SearchSWEAgent(manifest, digest=digest)


_BUILTINS: dict[str, Callable[[Manifest, str], Agent]] = {"oracle": _oracle, "searchswe": _searchswe}
"""Agents that work from the host, by the word that their manifests have."""


def _builtin(folder: Path, manifest: Manifest, digest: str) -> Agent:
    make = _BUILTINS.get(str(manifest.builtin))
    if make is None:
        raise UsageError(
            f"{folder / 'agent.yaml'}: builtin: there is no {manifest.builtin!r}; there are {', '.join(_BUILTINS)}"
        )
    return make(manifest, digest)


def agent_from_command(command: str) -> Agent:
    """An agent made on the spot: `sh -c` in the work folder, the prompt on standard input and in a file."""
    if not command.strip():
        raise UsageError("--agent-cmd is empty")
    digest = hashlib.sha256(command.encode()).hexdigest()
    base = read_manifest(resource("harness", "agents", "command"))
    manifest = base.model_copy(update={"name": _name_of(command), "command": command, "version": digest[:12]})
    return CommandAgent(manifest, digest=digest)


def _name_of(command: str) -> str:
    """A name that tells commands apart for people: ``cmd-`` and the first word that is no assignment."""
    words = [word for word in command.split() if not re.match(r"\w+=", word)]
    program = Path(words[0].strip("'\"();")).name if words else ""
    return (
        f"cmd-{name}" if (name := re.sub(r"[^A-Za-z0-9._-]+", "-", program)[:40].strip("-.")) else "command"
    )

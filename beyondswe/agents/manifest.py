"""``agent.yaml``: how an agent is started, where the prompt comes in, and what it needs."""

from __future__ import annotations

import difflib
import hashlib
import json
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from beyondswe.errors import UsageError
from beyondswe.sandbox.types import Network

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


class PromptVia(StrEnum):
    """Where the prompt comes in. It always lies in the file ``$BEYONDSWE_PROMPT_FILE`` as well."""

    FILE = "file"
    STDIN = "stdin"
    ARGUMENT = "argument"
    ENV = "env"


STDOUT = "stdout"
"""A transcript's path that means what the agent prints."""


class Protocol(StrEnum):
    """What an agent speaks to its model."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GENERATE = "generate"


class RuntimeKind(StrEnum):
    PYTHON = "python"
    NPM = "npm"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Part):
    """A source tree that the user has to bring, for an agent that is on no registry."""

    variable: str = Field(description="the environment variable that names it")
    holds: str = Field(description="a file by which it is known")


class Runtime(_Part):
    """What an agent's runtime layer is made of. In a sandbox it lies at ``{layer}``."""

    kind: RuntimeKind = Field(description="python or npm")
    lock: str = Field(
        description="requirements with hashes, or package-lock.json with its package.json beside it"
    )
    python: str = Field(
        ">=3.11", description="which interpreters will do; {python} is the one that was taken"
    )
    node: bool = Field(
        False, description="npm: bring Node as {layer}/bin/node, for packages that are scripts"
    )
    source: Source | None = Field(None, description="copied to {layer}/source")
    programs: dict[str, str] = Field(
        default_factory=dict, description="links in {layer}/bin: name to the one file that a pattern finds"
    )
    drop: list[str] = Field(default_factory=list, description="patterns of what is not needed")


class TranscriptAt(_Part):
    """Where an agent leaves its transcript, and what form it has."""

    format: str = Field(description="one of the readers in beyondswe/agents/transcripts")
    path: str = Field(STDOUT, description="file or folder in the sandbox, or stdout")
    files: str = Field("*", description="pattern of the names wanted, where the path is a folder")


class Manifest(BaseModel):
    """The content of an ``agent.yaml``.

    In ``command`` and the values of ``env`` these words are replaced: ``{prompt}``, ``{prompt_file}``,
    ``{workdir}``, ``{agent_dir}``, and where the attempt has a model ``{model}``, ``{model_url}`` (the base
    address, without ``/v1``), ``{token}``, ``{max_turns}``; ``{layer}`` is the folder of its runtime layer,
    ``{state_dir}`` one that it may write to. Anything else in braces stays as it is. In a command that is a
    string they are shell-quoted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    version: str = "0"
    description: str = ""
    command: str | list[str] | None = Field(None, description="a list of arguments, or a string for `sh -c`")
    builtin: str | None = Field(None, description="an agent that works from the host, in place of a command")
    prompt: PromptVia = Field(
        PromptVia.FILE, description="where the prompt comes in: file, stdin, argument or env"
    )
    prompt_env: str = Field("BEYONDSWE_PROMPT", description="name of the variable, with `prompt: env`")
    env: dict[str, str] = Field(default_factory=dict)
    workdir: str = Field("", description="folder in the sandbox to start in; default: the instance's")
    user: str = Field("", description="user in the sandbox; default: the image's")
    timeout: float | None = Field(None, gt=0, description="seconds; the run's own limit holds if it is lower")
    network: Network = Field(Network.NONE, description="the least that the agent needs: none, model or open")
    files: list[str] = Field(
        default_factory=list,
        description="files and folders of the agent's folder copied to {agent_dir}; `.` is all of it",
    )
    protocol: Protocol | None = Field(None, description="chat, responses, messages or generate")
    needs: list[str] = Field(default_factory=list, description="programs that the instance's image must have")
    licence: str = Field("", description="of the agent itself")
    opt_in: str = Field(
        "", description="variable that its user sets to 1, where the licence asks for their word"
    )
    runtime: Runtime | None = None
    config: dict[str, str] = Field(
        default_factory=dict,
        description="file below {state_dir} to file of the agent's folder, in which words are replaced",
    )
    transcript: TranscriptAt | None = None

    @field_validator("version", mode="before")
    @classmethod
    def _number_as_text(cls, value: object) -> object:
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value

    @field_validator("network")
    @classmethod
    def _network_that_exists(cls, value: Network) -> Network:
        if value not in (Network.NONE, Network.MODEL, Network.OPEN):
            raise ValueError("only none, model and open are there so far")
        return value

    @field_validator("files")
    @classmethod
    def _inside(cls, value: list[str]) -> list[str]:
        for name in value:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"{name!r} lies outside the agent's folder")
        return value

    @model_validator(mode="after")
    def _one_way_to_start(self) -> Manifest:
        if self.command is not None and self.builtin is not None:
            raise ValueError("command and builtin exclude each other")
        if self.command is not None and not self.command:
            raise ValueError("command is empty")
        return self


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an agent's folder; every fault is named with its field."""
    path = folder / "agent.yaml"
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{folder} is no agent: it has no agent.yaml") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path}{_yaml_fault(error)}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(
            f"{path}: expected fields such as `name: my-agent` and `command: …`, found {_shown(document)}"
        )
    try:
        manifest = Manifest.model_validate(document)
    except ValidationError as error:
        faults = dict.fromkeys(_fault(detail, document) for detail in error.errors())
        raise UsageError(f"{path}: {'; '.join(faults)}") from None
    files = [file.relative_to(folder) for file in agent_files(folder)]
    named = [("files", name) for name in manifest.files] + [
        ("config", name) for name in manifest.config.values()
    ]
    if manifest.runtime:
        named.append(("runtime", manifest.runtime.lock))
    for field, name in named:
        if not any(file.is_relative_to(name) for file in files):
            raise UsageError(f"{path}: {field}: there is no file {name!r} in {folder}")
    return manifest


_EXPECTED = {
    "name": "letters, digits, dot, dash and underscore, at most 64 of them, beginning with a letter or digit",
    "version": "text or a number",
    "command": "text for `sh -c`, or a list of texts (the program and its arguments)",
    "builtin": "oracle or searchswe",
    "prompt": "file, stdin, argument or env",
    "env": "names of variables, each with a text",
    "timeout": "a number of seconds above 0",
    "network": "none, model or open",
    "files": "a list of names of files and folders",
}
"""What the fields hold, in the words of a message; any other field holds text."""


def _fault(detail: ErrorDetails, document: dict[Any, Any]) -> str:
    """One fault of a manifest in plain words."""
    if not detail["loc"]:
        return detail["msg"].removeprefix("Value error, ")
    field = str(detail["loc"][0])
    if detail["type"] == "missing":
        return f"{field} is missing: add `{field}: my-agent`"
    if detail["type"] == "extra_forbidden":
        near = difflib.get_close_matches(field, Manifest.model_fields, n=1)
        known = f"did you mean {near[0]}?" if near else f"there are {', '.join(Manifest.model_fields)}"
        return f"unknown field {field!r}; {known}"
    if detail["type"] == "value_error":
        return f"{field}: {detail['msg'].removeprefix('Value error, ')}"
    return f"{field}: expected {_EXPECTED.get(field, 'text')}; found {_shown(document.get(field))}"


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return "nothing" if value is None else text if len(text) <= 80 else f"{text[:79]}…"


def _yaml_fault(error: yaml.YAMLError) -> str:
    """Where and why a text is no YAML, on one line."""
    mark = getattr(error, "problem_mark", None)
    where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    why = getattr(error, "problem", None) or " ".join(str(error).split())
    return f"{where}: this is no YAML: {why}"


def agent_files(folder: Path, *, links: bool = False) -> list[Path]:
    """All files of an agent's folder that make it what it is, sorted; links are refused (they could lead
    out) unless ``links`` leaves them out.
    """
    found = []
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts or ".git" in path.parts:
            continue
        if path.is_symlink():
            if links:
                continue
            raise UsageError(f"{path}: an agent's folder must not hold links; copy the file instead")
        if path.is_file():
            found.append(path)
    return found


def folder_digest(folder: Path, *, links: bool = False) -> str:
    """sha256 over names, modes and contents of an agent's files; links as in `agent_files`."""
    total = hashlib.sha256()
    for path in agent_files(folder, links=links):
        executable = bool(path.stat().st_mode & 0o100)
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(folder).as_posix()}\0{executable}\0{content}\n".encode())
    return total.hexdigest()

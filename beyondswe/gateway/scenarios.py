"""Scenarios of the scripted model: abstract steps, rendered as calls of whatever tools a request offers.

No state of a conversation is kept but which faults were played: the step to play is the number of calls that
the conversation already holds, so retries and agents side by side are safe.
"""

from __future__ import annotations

import json
import posixpath
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beyondswe.errors import DataError
from beyondswe.gateway.conversation import Reply, Request, Role, Tool, ToolCall
from beyondswe.gateway.protocols.base import new_id

FAULTS = ("http", "hang", "garbage", "cut")

_SHELLS = (
    "bash",
    "Bash",
    "exec_command",
    "shell_command",
    "shell",
    "terminal",
    "execute_bash",
    "run_shell_command",
    "run_terminal_cmd",
    "local_shell",
)
"""Names under which agents offer a shell, most wanted first."""
_EDITORS = ("file_editor", "str_replace_editor", "str_replace_based_edit_tool")
_READERS = ("Read", "read_file", "read")
_REPLACERS = ("Edit", "replace", "edit")
_WRITERS = ("Write", "write_file", "write")
_FINISHERS = ("finish", "submit", "attempt_completion")
_SUBMIT_LINE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"  # mini-swe-agent ends by this line alone


class UsageFigures(BaseModel):
    """Tokens that the model claims, in place of a count by length."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: int | None = None
    cached: int = 0
    output: int | None = None


class Step(BaseModel):
    """One step: something that the model does, or a fault before the next such step.

    ``bash`` cmd · ``read`` path · ``edit`` path, old, new · ``create`` path, text · ``tool`` name, args (a call
    as it stands) · ``say`` text (prose without a call) · ``finish`` text · faults: ``http`` status (one, or one a
    request) with headers, ``hang`` seconds, ``garbage`` (a 200 that is not the protocol), ``cut`` (the answer of
    the next step, broken off in its middle). A fault plays once a conversation, with ``always`` every time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    do: Literal["bash", "read", "edit", "create", "tool", "say", "finish", "http", "hang", "garbage", "cut"]
    cmd: str = ""
    path: str = ""
    old: str = ""
    new: str = ""
    text: str = ""
    name: str = ""
    args: dict[str, Any] = Field(default_factory=dict)
    reasoning: str = ""
    usage: UsageFigures | None = None
    delay: float = Field(
        default=0.0, ge=0, description="seconds before each event of a stream, or before the answer"
    )
    status: int | list[int] = 500
    headers: dict[str, str] = Field(default_factory=dict)
    seconds: float = Field(default=5.0, ge=0)
    always: bool = False

    @property
    def is_fault(self) -> bool:
        return self.do in FAULTS

    @property
    def statuses(self) -> list[int]:
        return self.status if isinstance(self.status, list) else [self.status]


class Scenario(BaseModel):
    """What one model does. ``root`` is the work folder, for tools that want absolute paths.

    Requests without tools get prose (an agent's side request, a title say; edits as SEARCH/REPLACE blocks for
    agents that edit by text); with ``toolless: steps`` they get the steps, of which only ``say`` can be played.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    root: str = "/"
    steps: list[Step] = Field(default_factory=list)
    usage: UsageFigures | None = None
    toolless: Literal["prose", "steps"] = "prose"


def read_scenarios(source: Path | Mapping[str, Any]) -> dict[str, Scenario]:
    """Scenarios by name, from a mapping or a JSON file that holds one (a lone scenario is ``default``)."""
    document: Any = source
    if isinstance(source, Path):
        try:
            document = json.loads(source.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{source} cannot be read as scenarios: {error}") from error
    if isinstance(document, Mapping) and "steps" in document:
        document = {"default": document}
    try:
        return {str(name): Scenario.model_validate(found) for name, found in document.items()}
    except (ValidationError, AttributeError) as error:
        raise DataError(f"{source if isinstance(source, Path) else 'scenarios'}: {error}") from None


def played(scenario: Scenario, request: Request) -> int:
    """How many steps a conversation already holds.

    Agents may open with assistant prose of their own, so of the prose only what the scenario said itself counts.
    """
    own = [message for message in request.messages if message.role is Role.ASSISTANT]
    said = {step.text.strip() for step in scenario.steps if step.do == "say"}
    calls = sum(len(message.calls) for message in own)
    return calls + sum(1 for message in own if not message.calls and message.text.strip() in said)


def render(step: Step, request: Request, root: str) -> Reply:
    """One step as a call of a tool that the request offers, or prose where there is none for it."""
    tools = {tool.name: tool for tool in request.tools}
    match step.do:
        case "say":
            return Reply(step.text, step.reasoning)
        case "finish":
            return _finish(step, tools, request)
    call: ToolCall | str
    match step.do:
        case "tool":
            tool = tools.get(step.name, Tool(step.name))
            text = step.args.get("input", "") if tool.kind == "custom" else step.args
            call = _call(tool, text)
        case "bash":
            call = _shell(tools, step.cmd)
        case "read":
            call = _read(tools, step.path, _full(step.path, root))
        case "edit":
            call = _edit(tools, step, _full(step.path, root))
        case _:
            call = _create(tools, step, _full(step.path, root))
    if isinstance(call, str):
        return Reply(call, step.reasoning)
    prose = step.text if step.do not in ("create",) else ""
    return Reply(prose, step.reasoning, (call,))


def prose(scenario: Scenario, request: Request) -> str:
    """For requests without tools: edits by text where the prompt asks for them, else the closing words."""
    prompt = "\n".join(message.text for message in request.messages)
    if "SEARCH/REPLACE" in prompt or "<<<<<<< SEARCH" in prompt:
        return "\n\n".join(
            f"{step.path}\n```\n<<<<<<< SEARCH\n{step.old}\n=======\n{step.new}\n>>>>>>> REPLACE\n```"
            for step in scenario.steps
            if step.do == "edit"
        )
    last = [step.text for step in scenario.steps if step.do == "finish"]
    return (last[-1] if last else "") or "ok"


def _full(path: str, root: str) -> str:
    return posixpath.join(root, path)


def _call(tool: Tool, arguments: Mapping[str, Any] | str) -> ToolCall:
    return ToolCall(new_id("call_"), tool.name, arguments, tool.kind, tool.namespace)


def _filled(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Every property that the schema requires has some harmless value."""
    filled = dict(arguments)
    for name in tool.schema.get("required") or []:
        if name in filled:
            continue
        schema = tool.properties.get(name) or {}
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), "string")
        values: dict[Any, Any] = {"boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}
        filled[name] = schema["enum"][0] if schema.get("enum") else values.get(kind, "scripted step")
    return filled


def _named(tool: Tool, *names: str) -> str:
    """The first of these properties that a tool has."""
    return next((name for name in names if name in tool.properties), names[0])


def _first(tools: Mapping[str, Tool], names: tuple[str, ...], property_name: str = "") -> Tool | None:
    for name in names:
        if name in tools and (not property_name or property_name in tools[name].properties):
            return tools[name]
    return None


def _shell(tools: Mapping[str, Tool], command: str) -> ToolCall | str:
    tool = _first(tools, _SHELLS)
    if tool is None:
        return f"no shell tool is offered; wanted to run: {command}"
    if tool.kind == "local_shell":
        return _call(tool, {"command": ["bash", "-lc", command]})
    name = _named(tool, "command", "cmd")
    as_list = (tool.properties.get(name) or {}).get("type") == "array"
    return _call(tool, _filled(tool, {name: ["bash", "-lc", command] if as_list else command}))


def _finish(step: Step, tools: Mapping[str, Tool], request: Request) -> Reply:
    text = step.text or "Done."
    if (tool := _first(tools, _FINISHERS)) is not None:
        name = next((name for name in ("message", "result", "text") if name in tool.properties), None)
        return Reply("", step.reasoning, (_call(tool, _filled(tool, {name: text} if name else {})),))
    if "bash" in tools and any(_SUBMIT_LINE in message.text for message in request.messages):
        call = _shell(tools, f"echo {_SUBMIT_LINE}")
        assert isinstance(call, ToolCall)
        return Reply(text, step.reasoning, (call,))
    return Reply(text, step.reasoning)


def _read(tools: Mapping[str, Tool], path: str, full: str) -> ToolCall | str:
    if (tool := _first(tools, _EDITORS, "path")) is not None:
        return _call(tool, _filled(tool, {"command": "view", "path": full}))
    if (tool := _first(tools, _READERS)) is not None:
        name = _named(tool, "file_path", "filePath", "absolute_path", "path")
        return _call(tool, _filled(tool, {name: full}))
    return _shell(tools, f"cat {shlex.quote(path)}")


def _edit(tools: Mapping[str, Tool], step: Step, full: str) -> ToolCall | str:
    if (tool := _first(tools, _EDITORS, "old_str")) is not None:
        arguments = {"command": "str_replace", "path": full, "old_str": step.old, "new_str": step.new}
        return _call(tool, _filled(tool, arguments))
    if (tool := _first(tools, _REPLACERS)) is not None:
        arguments = {
            _named(tool, "file_path", "filePath"): full,
            _named(tool, "old_string", "oldString"): step.old,
            _named(tool, "new_string", "newString"): step.new,
        }
        return _call(tool, _filled(tool, arguments))
    program = (
        "import sys; path, old, new = sys.argv[1:]; text = open(path).read(); "
        "sys.exit('old text not found once') if text.count(old) != 1 "
        "else open(path, 'w').write(text.replace(old, new))"
    )
    words = ("python3", "-c", program, step.path, step.old, step.new)
    return _shell(tools, " ".join(map(shlex.quote, words)))


def _create(tools: Mapping[str, Tool], step: Step, full: str) -> ToolCall | str:
    if (tool := _first(tools, _EDITORS, "file_text")) is not None:
        return _call(tool, _filled(tool, {"command": "create", "path": full, "file_text": step.text}))
    if (tool := _first(tools, _WRITERS)) is not None:
        name = _named(tool, "file_path", "filePath", "path")
        return _call(tool, _filled(tool, {name: full, "content": step.text}))
    folder = posixpath.dirname(step.path)
    make = f"mkdir -p {shlex.quote(folder)} && " if folder else ""
    return _shell(tools, f"{make}printf %s {shlex.quote(step.text)} > {shlex.quote(step.path)}")

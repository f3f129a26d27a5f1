"""Carries out the calls of one attempt: each gives text for the model, and none of them raises for its sake."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from beyondswe.agents.searchswe.calls import Call
from beyondswe.agents.searchswe.context import cut
from beyondswe.agents.searchswe.editor import Editor
from beyondswe.agents.searchswe.model import OutOfTime
from beyondswe.agents.searchswe.schemas import BASH_TIMEOUT, OUTPUT_LIMIT, Schema
from beyondswe.agents.searchswe.shell import Ran, Shell
from beyondswe.search.tools import WebTools

Advice = Callable[[str], str | None]
"""Why a command should not be run, or None."""


class Toolbox:
    """The tools of one attempt, and how often each was called."""

    def __init__(
        self,
        *,
        schemas: tuple[Schema, ...],
        shell: Shell,
        editor: Editor,
        web: WebTools | None,
        advice: Advice,
        deadline: float,
    ) -> None:
        """``deadline`` is the monotonic time at which the attempt is over."""
        self.schemas = schemas
        self.counts: Counter[str] = Counter()
        self._shell, self._editor, self._web = shell, editor, web
        self._advice, self._deadline = advice, deadline

    def run(self, call: Call) -> str:
        """The observation of a call."""
        self.counts[call.name] += 1
        if call.fault:
            return f"Error: {call.fault}. Nothing was done; call again."
        arguments = call.arguments
        match call.name:
            case "bash":
                return self._bash(str(arguments["command"]), arguments.get("timeout"))
            case "str_replace_editor":
                return self._editor.run(arguments)
            case "think":
                return "Noted."
            case "search" if self._web is not None:
                more = {key: arguments[key] for key in ("num", "start") if key in arguments}
                return cut(self._web.search(arguments["query"], **more), OUTPUT_LIMIT)
            case "link_summary" if self._web is not None:
                return cut(self._web.link_summary(arguments["url"], arguments["goal"]), OUTPUT_LIMIT)
            case _:
                return "The work is ended."

    def _bash(self, command: str, timeout: float | None) -> str:
        if not command.strip():
            return "Error: the command is empty."
        if why := self._advice(command):
            return f"Error: this command is blocked ({why}). Nothing was run."
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime
        asked = BASH_TIMEOUT if timeout is None else min(max(timeout, 1.0), BASH_TIMEOUT)
        ran = self._shell.run(command, timeout=min(asked, left))
        if ran.exit_code is None and time.monotonic() >= self._deadline:
            raise OutOfTime
        return cut(_shown(ran, asked), OUTPUT_LIMIT + 500)


def _shown(ran: Ran, timeout: float) -> str:
    """What a command wrote, and how it ended where that is not plainly well."""
    parts = []
    if ran.state_lost:
        parts.append("[The shell's files were gone: this is a fresh shell, in the folder where you began.]")
    if output := ran.output.rstrip("\n"):
        parts.append(cut(output, OUTPUT_LIMIT))
    if ran.exit_code is None:
        parts.append(
            f"[The command was ended after {timeout:g} seconds, with all that it had started. The shell is as it "
            "was before it.]"
        )
    elif ran.exit_code:
        parts.append(f"[exit code {ran.exit_code}]")
    if ran.exit_code is not None and not ran.state_kept:
        parts.append("[What this command changed in the shell (folder, variables) was not kept.]")
    return "\n".join(parts) or "(no output)"

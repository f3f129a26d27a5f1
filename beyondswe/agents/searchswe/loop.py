"""The loop: ask the model, carry out its calls, give it what they say; until it finishes or something ends it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from beyondswe.agents.protocol import AgentStatus
from beyondswe.agents.searchswe.calls import Call, native_calls, text_calls
from beyondswe.agents.searchswe.context import Message, Window
from beyondswe.agents.searchswe.model import (
    Answer,
    BudgetExhausted,
    Model,
    ModelFailed,
    OutOfTime,
    PromptTooLong,
)
from beyondswe.agents.searchswe.settings import Calls, ModelSettings
from beyondswe.agents.searchswe.tools import Toolbox

EMPTY_TURNS = 3  # in a row, with neither text nor a call: the attempt ends
IDLE_TURNS = 10  # in a row, with text but no call: the model takes itself to be done
_SHRINK = (0.7, 0.45, 0.3)  # of the window, when the model finds the prompt too long

_EMPTY = "Your last turn was empty. Go on with the task by calling a tool, or call `finish` if it is done."
_IDLE = (
    "Your last turn called no tool. If the task is done, call `finish`; else go on with it by calling a tool. "
    "Nobody reads what you write or answers questions."
)
_CUT_OFF = (
    "Your last turn was longer than one answer may be, and was cut off before it was complete. Work in smaller "
    "steps: write long files in several calls."
)


@dataclass(frozen=True)
class LoopEnd:
    """How a loop ended."""

    status: AgentStatus
    why: str | None
    turns: int


class Loop:
    """One attempt's conversation."""

    def __init__(
        self,
        model: Model,
        toolbox: Toolbox,
        settings: ModelSettings,
        *,
        completion_tokens: int | None,
        max_turns: int,
        log: Callable[[str], None],
    ) -> None:
        self._model, self._toolbox, self._settings = model, toolbox, settings
        self._completion, self._max_turns, self._log = completion_tokens, max_turns, log
        self._native = settings.tool_calls is Calls.NATIVE
        self._functions = [schema.function() for schema in toolbox.schemas] if self._native else []
        self._fixed = len(json.dumps(self._functions).encode())
        self._window = Window(
            settings.context_window, reserve=completion_tokens or settings.context_window // 8
        )
        self.messages: list[Message] = []

    def run(self, system: str, task: str) -> LoopEnd:
        """Work on the task to the end."""
        self.messages = [{"role": "system", "content": system}, {"role": "user", "content": task}]
        empty = idle = turns = 0
        try:
            while turns < self._max_turns:
                answer = self._ask()
                turns += 1
                calls = self._calls(answer)
                self._record(answer, calls)
                if calls:
                    empty = idle = 0
                    if self._carry_out(calls):
                        return LoopEnd(AgentStatus.FINISHED, None, turns)
                    continue
                cut_off = answer.finish == "length"
                if answer.text.strip():
                    empty, idle = 0, idle + 1
                else:
                    empty, idle = empty + 1, idle + 1
                if empty >= EMPTY_TURNS:
                    return LoopEnd(
                        AgentStatus.ERROR, f"the model gave {EMPTY_TURNS} empty turns in a row", turns
                    )
                if idle >= IDLE_TURNS:
                    return LoopEnd(AgentStatus.FINISHED, None, turns)
                self._say(_CUT_OFF if cut_off else _IDLE if answer.text.strip() else _EMPTY)
        except BudgetExhausted as end:
            return LoopEnd(AgentStatus.BUDGET_EXHAUSTED, str(end), turns)
        except OutOfTime:
            return LoopEnd(AgentStatus.TIMEOUT, "ended by the time limit", turns)
        except ModelFailed as failure:
            return LoopEnd(AgentStatus.ERROR, str(failure), turns)
        except PromptTooLong as error:
            why = f"the conversation does not fit the model's window, condensed as it may be: {error}"
            return LoopEnd(AgentStatus.ERROR, why, turns)
        return LoopEnd(AgentStatus.BUDGET_EXHAUSTED, f"{self._max_turns} turns are used up", turns)

    @property
    def condensed(self) -> int:
        """How many messages were condensed to fit the window."""
        return self._window.condensed

    def _ask(self) -> Answer:
        """The next answer; what does not fit the window is condensed for good, so that later prompts begin
        alike (and a provider's cache of them holds).
        """
        self.messages = self._window.fit(self.messages, fixed=self._fixed)
        for tighter in (*_SHRINK, None):
            try:
                answer = self._model.ask(
                    self.messages, tools=self._functions, completion_tokens=self._completion
                )
            except PromptTooLong:
                if tighter is None:
                    raise
                self.messages = self._window.fit(self.messages, fixed=self._fixed, tighter=tighter)
                continue
            self._window.learn(self.messages, answer.prompt_tokens - self._fixed // 4)
            return answer
        raise AssertionError("unreachable")

    def _calls(self, answer: Answer) -> list[Call]:
        """The calls of an answer, in the model's own way or, where it slips, in the other one."""
        calls = native_calls(answer.message, self._toolbox.schemas)
        return calls or text_calls(answer.text, self._toolbox.schemas)

    def _record(self, answer: Answer, calls: list[Call]) -> None:
        """Keep the model's turn as it can be sent again: with arguments that are JSON, and never empty."""
        message: dict[str, Any] = {"role": "assistant", "content": answer.text}
        if self._settings.send_reasoning and answer.reasoning:
            message["reasoning_content"] = answer.reasoning
        native = bool(answer.message.get("tool_calls") or answer.message.get("function_call")) and calls
        if native and self._native:
            message["content"] = answer.text or None
            message["tool_calls"] = [_as_sent(call) for call in calls]
        elif native or not answer.text.strip():
            message["content"] = answer.text or "(an empty turn)"
        self.messages.append(message)
        self._log(f"[assistant] {answer.text}" if answer.text else "[assistant]")

    def _carry_out(self, calls: list[Call]) -> bool:
        """Carry out a turn's calls in order; True once `finish` was called (what follows it is not done)."""
        by_id = {call["id"] for call in self.messages[-1].get("tool_calls") or []}
        texts = []
        finished = False
        for call in calls:
            self._log(f"[call] {call.name} {json.dumps(dict(call.arguments), ensure_ascii=False)}")
            observation = "Not done: the work is ended." if finished else self._toolbox.run(call)
            self._log(f"[observation] {observation}")
            if call.id in by_id:
                self.messages.append({"role": "tool", "tool_call_id": call.id, "content": observation})
            else:
                texts.append(f"Observation of {call.name}:\n{observation}")
            finished = finished or (call.name == "finish" and not call.fault)
        if texts:
            self._say("\n\n".join(texts))
        return finished

    def _say(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})


def _as_sent(call: Call) -> Mapping[str, Any]:
    return {
        "id": call.id or f"call_{uuid.uuid4().hex[:16]}",
        "type": "function",
        "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)},
    }

"""The form for agents of one's own: a JSON object a line, ``{"role": "assistant", "text", "calls"}``,
``{"role": "tool", "call_id", "text", "is_error"}`` and at last ``{"role": "end", "kind", "message"}``.
"""

from __future__ import annotations

from beyondswe.agents.transcripts.base import (
    Files,
    Steps,
    arguments,
    json_lines,
    listed,
    seconds,
    text_of,
    tokens,
)
from beyondswe.agents.transcripts.model import End, EndKind, Result, Step, Transcript
from beyondswe.gateway.conversation import ToolCall


def known(files: Files) -> bool:
    return any(row.get("role") == "end" and "kind" in row for row in json_lines(files))


def read(files: Files) -> Transcript:
    steps, end = Steps(), None
    for row in json_lines(files):
        match row.get("role"):
            case "assistant":
                calls = [
                    ToolCall(
                        str(call.get("id", "")), str(call.get("name", "")), arguments(call.get("arguments"))
                    )
                    for call in listed(row.get("calls"))
                ]
                usage = tokens(row.get("tokens"), input="input", output="output", cached="cached")
                time = seconds(row.get("time"))
                steps.add(Step(text_of(row.get("text")), calls=tuple(calls), tokens=usage, time=time))
            case "tool":
                error = bool(row.get("is_error"))
                steps.result(Result(str(row.get("call_id", "")), text_of(row.get("text")), error))
            case "end":
                end = End(EndKind(row["kind"]), text_of(row.get("message")))
    return Transcript("plain", steps.done(), end)

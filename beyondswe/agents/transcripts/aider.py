"""aider's history of the model (requests and answers as prose); the answers are its steps, it has no tools."""

from __future__ import annotations

import re

from beyondswe.agents.transcripts.base import Files, seconds
from beyondswe.agents.transcripts.model import End, EndKind, Step, Transcript

_ANSWER = re.compile(rb"^(LLM RESPONSE|TO LLM) (\S+)\n", re.MULTILINE)
_REFUSED = re.compile(r"^litellm\.(\w+: .*(?:\n.+)?)", re.MULTILINE)


def known(files: Files) -> bool:
    return any(re.match(rb"TO LLM \d{4}-", data) for data in files.values())


def read(files: Files) -> Transcript:
    steps = []
    for name in sorted(files):
        if name == "stdout":
            continue
        parts = _ANSWER.split(files[name])
        for kind, time, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            if kind == b"LLM RESPONSE":
                lines = body.decode("utf-8", "replace").splitlines()
                text = "\n".join(line.removeprefix("ASSISTANT ") for line in lines).strip()
                if text:
                    steps.append(Step(text, time=seconds(time.decode())))
    return Transcript(
        "aider", tuple(steps), _end(files.get("stdout", b"").decode("utf-8", "replace"), bool(steps))
    )


def _end(printed: str, answered: bool) -> End | None:
    """It ends with 0 whatever happened; what it prints tells of a model that did not answer after all."""
    if not printed:
        return None
    refused = list(_REFUSED.finditer(printed))
    if refused and printed.rfind("\nTokens: ") < refused[-1].start():
        return End(EndKind.ERROR, refused[-1][1])
    return End(EndKind.FINISHED) if answered else None

"""Qwen Code's stream-json: Claude Code's shape, with the tokens of every answer."""

from __future__ import annotations

from dataclasses import replace

from beyondswe.agents.transcripts.base import Files, json_lines
from beyondswe.agents.transcripts.claude import read_stream
from beyondswe.agents.transcripts.model import Transcript
from beyondswe.gateway.conversation import Tokens


def known(files: Files) -> bool:
    return any(
        row.get("type") == "system" and row.get("subtype") == "init" and "permission_mode" in row
        for row in json_lines(files)
    )


def read(files: Files) -> Transcript:
    found = read_stream(files, "qwen", each=True)
    steps = tuple(replace(step, tokens=_own(step.tokens)) for step in found.steps)
    return replace(found, steps=steps, total=_own(found.total))


def _own(tokens: Tokens | None) -> Tokens | None:
    """Here ``input_tokens`` is all of the prompt, what came from the cache included."""
    return replace(tokens, input=tokens.input - tokens.cached) if tokens else None

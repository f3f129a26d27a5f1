"""How a model is spoken to: one frozen record a model, from ``--model-option`` or a matrix, kept in ``run.json``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beyondswe.errors import UsageError

DOC2REPO_COMPLETION = 16_384
"""Completion tokens a call in Doc2Repo, where the model's settings say nothing (released configuration)."""


class Calls(StrEnum):
    """How the model calls tools."""

    NATIVE = "native"  # function calls of chat completions
    XML = "xml"  # calls written into the text, for models without them


class ModelSettings(BaseModel):
    """Everything else that is given goes into the body of every request as it stands (`request`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool_calls: Calls = Field(default=Calls.NATIVE, description="native or xml")
    context_window: int = Field(
        default=128_000, ge=4_000, description="tokens that prompt and completion may take"
    )
    max_completion_tokens: int | None = Field(
        default=None, ge=1, description="tokens a call; default: the model's own, in Doc2Repo 16,384"
    )
    send_reasoning: bool = Field(
        default=False,
        description="give the model's reasoning back to it (models that ask for that with tools)",
    )
    request: Mapping[str, Any] = Field(
        default_factory=dict, description="temperature, top_p, reasoning_effort, seed and whatever else"
    )

    def completion_tokens(self, *, doc2repo: bool) -> int | None:
        return self.max_completion_tokens or (DOC2REPO_COMPLETION if doc2repo else None)


_RESERVED = ("model", "messages", "tools", "stream")


def model_settings(options: Mapping[str, Any]) -> ModelSettings:
    """Settings out of flat options: known names are ours, all others go into the request's body."""
    own = {name: value for name, value in options.items() if name in ModelSettings.model_fields}
    rest = {name: value for name, value in options.items() if name not in own}
    if taken := [name for name in rest if name in _RESERVED]:
        raise UsageError(f"model option {taken[0]}: this is what the agent itself fills in")
    if nested := own.pop("request", None):
        if not isinstance(nested, Mapping):
            raise UsageError("model option request: expected names and values")
        rest = {**nested, **rest}
    try:
        return ModelSettings.model_validate({**own, "request": rest})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "?"
        raise UsageError(f"model option {name}: {first['msg']}, found {first['input']!r}") from None


def parse_options(given: tuple[str, ...]) -> dict[str, Any]:
    """``KEY=VALUE`` words; a value is read as YAML (numbers, booleans, lists), else it is text."""
    import yaml

    found: dict[str, Any] = {}
    for word in given:
        key, equals, text = word.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--model-option {word}: expected KEY=VALUE, such as temperature=0.2")
        try:
            found[key.strip()] = yaml.safe_load(text)
        except yaml.YAMLError:
            found[key.strip()] = text
    return found

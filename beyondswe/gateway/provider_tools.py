"""Finds in a request what the provider itself would run or fetch: web search, page fetch, code execution.

Such tools reach the web past any sandbox, so they are refused unless the run allows them. What a client runs is
listed and everything else counts as the provider's: a new kind of tool is refused until somebody has looked at
it. Parameters and models that search by themselves have no such list; those known are named here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from beyondswe.gateway.protocols import ANTHROPIC, CHAT, GEMINI, RESPONSES, WireProtocol
from beyondswe.gateway.protocols.base import mappings
from beyondswe.gateway.protocols.gemini import either

_OPENAI_CLIENT = {"function", "custom", "local_shell", "apply_patch", "namespace", "tool_search", "computer"}
_ANTHROPIC_CLIENT = re.compile(r"(custom|bash|text_editor|computer|memory|tool_search_tool)(_|$)")
_PARAMETERS = {
    "web_search_options",  # OpenAI
    "search_parameters",  # xAI
    "enable_search",  # Qwen
    "web_search",
    "plugins",  # OpenRouter: web, file parsing
    "mcp_servers",  # Anthropic
    "container",  # Anthropic: skills run at the provider
    "cachedContent",  # Gemini: may hold tools
    "cached_content",
}
_SEARCHING_MODEL = re.compile(
    r"search-(preview|api)|deep-research|\bsonar\b|\bcompound\b|:online$", re.IGNORECASE
)
_SERVICES = re.compile(
    r"/(batches|files|assistants|threads|vector_stores|containers|conversations|agents|sessions|environments|"
    r"skills|interactions|cachedContents|videos|realtime|uploads|evals|fine_tuning|beta/sessions)(/|:|$)|:batch"
)


def provider_tools(protocol: WireProtocol, body: Mapping[str, Any]) -> list[str]:
    """What of a generation's request the provider would run, by name."""
    find = {
        CHAT.name: _openai,
        RESPONSES.name: _openai,
        ANTHROPIC.name: _anthropic,
        GEMINI.name: _gemini,
    }[protocol.name]
    found = [*find(body), *_parameters(body)]
    return list(dict.fromkeys(found))


def provider_service(method: str, path: str, body: Any) -> str | None:
    """What a request that is no generation would have the provider do: jobs and files that run there."""
    if method not in ("GET", "HEAD") and (match := _SERVICES.search(path)):
        return match[1] or "batch"
    if isinstance(body, Mapping):
        typed = [tool for tool in mappings(body.get("tools")) if tool.get("type")]
        found = [*_openai({"tools": typed}), *_gemini_groups(body), *_parameters(body)]
        return found[0] if found else None
    return None


def _parameters(body: Mapping[str, Any]) -> Iterator[str]:
    yield from (name for name in sorted(_PARAMETERS) if body.get(name) not in (None, False, [], {}))
    if isinstance(body.get("prompt"), Mapping):
        yield "prompt"  # OpenAI responses: a stored template, with tools of its own
    models = body.get("models")
    names = [body.get("model"), *(models if isinstance(models, list) else [])]
    yield from (str(name) for name in names if _SEARCHING_MODEL.search(str(name or "")))


def _openai(body: Mapping[str, Any]) -> Iterator[str]:
    for tool in mappings(body.get("tools")):
        kind = str(tool.get("type") or ("function" if "function" in tool else ""))
        if kind == "namespace":
            yield from _openai(tool)
        elif kind == "shell":
            environment = tool.get("environment")
            if isinstance(environment, Mapping) and environment.get("type") != "local":
                yield "shell"
        elif kind not in _OPENAI_CLIENT and not kind.startswith("computer_use"):
            yield kind or "a tool without a type"


def _anthropic(body: Mapping[str, Any]) -> Iterator[str]:
    for tool in mappings(body.get("tools")):
        kind = str(tool.get("type") or "custom")
        if not _ANTHROPIC_CLIENT.match(kind):
            yield kind


def _gemini(body: Mapping[str, Any]) -> Iterator[str]:
    for group in mappings(body.get("tools")):
        for name in group:
            if name not in ("functionDeclarations", "function_declarations"):
                yield name


def _gemini_groups(body: Mapping[str, Any]) -> Iterator[str]:
    """Gemini's tools in a request of unknown shape, where `_openai` has looked already."""
    for nested in ("generateContentRequest", "generate_content_request"):
        if isinstance(inner := either(body, nested), Mapping):
            yield from _gemini(inner)

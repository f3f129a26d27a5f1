"""Options of `eval` about search and the model's own settings, and what is made of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from beyondswe.agents.protocol import Agent

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_READER = "jina"

_SEARCH = [
    click.option(
        "--search/--no-search",
        default=None,
        help="With search an agent gets the prompts that ask for it, and the filtered web. searchswe has its two web "
        "tools then, and without it is the baseline. Default: --no-search, but for searchswe --search.",
    ),
    click.option(
        "--search-backend",
        metavar="B",
        help="Where searchswe searches: serpapi, searxng, brave, serper, or local (the documents of the demo dataset, "
        "local:DIR for a folder of yours). Keys and addresses come from the environment: SERPAPI_API_KEY, "
        "SEARXNG_URL, BRAVE_API_KEY, SERPER_API_KEY. Default: the first of these that is set; where none is, local "
        "for the demo dataset.",
    ),
    click.option(
        "--page-reader",
        metavar="R",
        help="How searchswe reads pages: jina (default; JINA_API_KEY if there is one) or plain. The local backend "
        "reads its own documents.",
    ),
    click.option(
        "--summary-model",
        metavar="M",
        help="Model that sums up pages for searchswe, at the same --model-url. Default: the model itself.",
    ),
    click.option(
        "--web-cache",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Folder of what searchswe finds on the web; what is in it already is not asked for again. Default: the "
        "run's own, so that a run that goes on sees the same web.",
    ),
    click.option(
        "--model-option",
        "model_options",
        multiple=True,
        metavar="K=V",
        help="Goes into every request of any agent as it stands (temperature=0.2, reasoning_effort=high). "
        "For searchswe also how it speaks to the model: tool_calls=xml for models without function calls, "
        "context_window=N, max_completion_tokens=N, send_reasoning=true. Repeatable.",
    ),
]


def search_options(command: F) -> F:
    """The options that `searching` takes."""
    for option in reversed(_SEARCH):
        command = option(command)
    return command


@dataclass(frozen=True)
class Searching:
    """An agent made ready for a run with or without search."""

    agent: Agent
    search: bool
    prompt: str
    asked: dict[str, Any]  # what decides the outcomes, by the words of the command line
    facts: dict[str, Any]  # for run.json
    request: dict[str, Any]  # what the gateway puts into the calls of an agent that is not ours


def searching(
    agent: Agent,
    *,
    search: bool | None,
    prompt: str | None,
    search_backend: str | None,
    page_reader: str | None,
    summary_model: str | None,
    web_cache: Path | None,
    model_options: tuple[str, ...],
    has_model: bool,
    dataset: str,
    run_folder: Path,
) -> Searching:
    """Checked before anything starts: `UsageError` for keys that are missing and options without effect."""
    from beyondswe.agents.prompts import DEFAULT, SEARCHSWE
    from beyondswe.agents.searchswe.agent import SearchOptions, SearchSWEAgent
    from beyondswe.agents.searchswe.settings import model_settings, parse_options
    from beyondswe.errors import UsageError
    from beyondswe.search.options import default_backend, open_web

    ours = isinstance(agent, SearchSWEAgent)
    wanted = ours if search is None else search
    prompt = prompt or (SEARCHSWE if wanted else DEFAULT)
    given = {
        "--search-backend": search_backend,
        "--page-reader": page_reader,
        "--summary-model": summary_model,
        "--web-cache": web_cache,
    }
    for name, value in given.items():
        if value and not ours:
            raise UsageError(f"{name} has no effect: it is for the agent searchswe, not for {agent.name}")
        if value and not wanted:
            raise UsageError(f"{name} has no effect with --no-search")
    settings = model_settings(parse_options(model_options))
    if not isinstance(agent, SearchSWEAgent):
        if own := settings.model_fields_set - {"request"}:
            raise UsageError(
                f"--model-option {sorted(own)[0]} has no effect: it is for the agent searchswe, not for {agent.name}"
            )
        request = dict(settings.request)
        if request and not has_model:
            raise UsageError("--model-option has no effect without --model")
        asked = {"--search": wanted, "--model-option": request}
        return Searching(
            agent, wanted, prompt, asked, {"search": wanted, "model_settings": {"request": request}}, request
        )
    backend = search_backend or default_backend(os.environ, dataset)
    if page_reader and backend.partition(":")[0] == "local":
        raise UsageError(
            "--page-reader has no effect with --search-backend local, which reads its own documents"
        )
    options = SearchOptions(
        web=open_web(backend, page_reader or DEFAULT_READER, os.environ) if wanted else None,
        cache=(web_cache or run_folder / "web").resolve(),
        summary_model=summary_model or "",
        settings=settings,
    )
    facts = options.facts()
    asked = {
        "--search": wanted,
        "--search-backend": facts.get("search_backend"),
        "--page-reader": facts.get("page_reader"),
        "--summary-model": facts.get("summary_model"),
        "--model-option": facts["model_settings"],
    }
    return Searching(agent.with_options(options), wanted, prompt, asked, {"search": wanted, **facts}, {})

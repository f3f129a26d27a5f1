"""Options of the commands that let an agent have a model, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from beyondswe.cli.parameters import Number

if TYPE_CHECKING:
    from beyondswe.gateway.process import GatewaySettings
    from beyondswe.runs.settings import ModelFacts

F = TypeVar("F", bound=Callable[..., Any])

MAX_TURNS = 200

_MAX_TURNS = click.option(
    "--max-turns",
    type=click.IntRange(1),
    default=MAX_TURNS,
    show_default=True,
    metavar="N",
    help="Model calls that an attempt may make.",
)
_ANY_TURNS = click.option(
    "--max-turns",
    type=click.IntRange(1),
    metavar="N",
    help="Model calls that a token may make. Default: no limit.",
)

_GATEWAY = [
    click.option(
        "--model-url",
        metavar="U",
        help="Address of the model's API, such as https://host/v1. Default: the provider's own (OpenAI, Anthropic, "
        "Google, by what the agent speaks). Keys come from the environment: BEYONDSWE_MODEL_KEY, or OPENAI_API_KEY, "
        "ANTHROPIC_API_KEY, GEMINI_API_KEY, GOOGLE_API_KEY; none gets into a sandbox.",
    ),
    click.option(
        "--max-cost",
        type=Number(0, min_open=True),
        metavar="USD",
        help="US dollars that an attempt may cost.",
    ),
    click.option(
        "--max-tokens",
        type=click.IntRange(1),
        metavar="N",
        help="Tokens that an attempt may use, prompts and answers.",
    ),
    click.option(
        "--prices",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Prices of models that are not well known: YAML or JSON, {model: {input, output, cached}} in US "
        "dollars a million tokens.",
    ),
    click.option(
        "--rate",
        type=Number(0, min_open=True),
        metavar="N",
        help="Calls of one model a minute at most, over all workers.",
    ),
    click.option(
        "--provider-tools",
        is_flag=True,
        help="Allow tools that the model's provider runs itself (web search, page fetch, code): they reach the web "
        "past any sandbox.",
    ),
]


def gateway_options(command: F) -> F:
    """Options of the gateway: where to, within what budget, at what price."""
    return _with(command, _MAX_TURNS)


def endpoint_options(command: F) -> F:
    """The same for a gateway by itself, whose tokens may make as many calls as they like."""
    return _with(command, _ANY_TURNS)


def _with(command: F, turns: Callable[[F], F]) -> F:
    url, *others = _GATEWAY
    for option in reversed(others):
        command = option(command)
    return url(turns(command))


def gateway_settings(
    model: str,
    *,
    model_url: str | None,
    max_turns: int | None,
    max_cost: float | None,
    max_tokens: int | None,
    prices: Path | None,
    rate: float | None,
    provider_tools: bool,
    request: Mapping[str, Any],
) -> tuple[GatewaySettings, list[str]]:
    """Checked: `UsageError` for what cannot work; and notes on what will not be counted."""
    from beyondswe.gateway.metering import Budget
    from beyondswe.gateway.prices import read_prices
    from beyondswe.gateway.process import GatewaySettings

    settings = GatewaySettings(
        model=model,
        url=model_url,
        budget=Budget(max_turns=max_turns, max_cost=max_cost, max_tokens=max_tokens),
        prices=read_prices(prices) if prices else {},
        rate=rate,
        provider_tools=provider_tools,
        request=request,
    )
    return settings, settings.check()


def model_facts(settings: GatewaySettings) -> ModelFacts:
    """What of them goes into the run's settings."""
    import hashlib
    import json

    from beyondswe.runs.settings import ModelFacts

    prices = json.dumps({name: price.model_dump() for name, price in settings.prices.items()}, sort_keys=True)
    return ModelFacts(
        name=settings.model,
        url=settings.url,
        budget=settings.budget,
        provider_tools=settings.provider_tools,
        prices_sha256=hashlib.sha256(prices.encode()).hexdigest() if settings.prices else "",
    )


def refuse_without_model() -> None:
    """Raise `UsageError` for the options of a model that were given though there is none."""
    from click.core import ParameterSource

    from beyondswe.errors import UsageError

    context = click.get_current_context()
    names = ("model_url", "max_turns", "max_cost", "max_tokens", "prices", "rate", "provider_tools")
    given = [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given:
        raise UsageError(f"--{given[0].replace('_', '-')} has no effect without --model")

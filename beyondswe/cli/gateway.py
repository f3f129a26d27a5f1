"""`beyondswe gateway serve`: the model gateway alone, for metered and recorded endpoints without an evaluation."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from beyondswe.cli.models import endpoint_options
from beyondswe.cli.output import emit, json_option, say


@click.group("gateway")
def command() -> None:
    """Run the model gateway alone."""


@command.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="H", help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=28610,
    show_default=True,
    metavar="N",
    help="Port to listen on; 0: a free one.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("gateway"),
    show_default=True,
    metavar="DIR",
    help="Where usage.json, trajectory.json and calls.jsonl of each token go.",
)
@click.option(
    "--token",
    "tokens",
    multiple=True,
    metavar="NAME[=TOKEN]",
    help="A name to account to, and its token (default: one made up). May be given several times; default: one "
    "called default.",
)
@endpoint_options
@json_option
def serve(
    host: str,
    port: int,
    out: Path,
    tokens: tuple[str, ...],
    model_url: str | None,
    max_turns: int | None,
    max_cost: float | None,
    max_tokens: int | None,
    prices: Path | None,
    rate: float | None,
    provider_tools: bool,
    as_json: bool,
) -> int:
    """Serve a model's API, metered and recorded; Ctrl-C ends it.

    Clients use the printed address and a token as their key; the real key stays in this process's environment.
    Budgets hold for each token. With --json the document comes when it listens: url, out, tokens.
    """
    from beyondswe.gateway.metering import Budget
    from beyondswe.gateway.prices import read_prices
    from beyondswe.gateway.standalone import Standalone, parse_tokens

    server = Standalone(
        out=out,
        tokens=parse_tokens(tokens),
        url=model_url,
        budget=Budget(max_turns=max_turns, max_cost=max_cost, max_tokens=max_tokens),
        prices=read_prices(prices) if prices else {},
        rate=rate,
        provider_tools=provider_tools,
    )

    def on_ready(url: str) -> None:
        if as_json:
            emit({"url": url, "out": str(out.resolve()), "tokens": server.tokens})
            sys.stdout.flush()
        say(f"the model gateway listens on {url}; accounts go to {out}")
        for name, token in server.tokens.items():
            say(f"  {name}: {token}")

    server.run(host, port, on_ready)
    for name, usage in server.usage().items():
        cost = "price unknown" if usage["cost_usd"] is None else f"{usage['cost_usd']:.4f} US dollars"
        say(
            f"{name}: {usage['turns']} calls, {usage['input_tokens']} + {usage['output_tokens']} tokens, {cost}"
        )
    return 0

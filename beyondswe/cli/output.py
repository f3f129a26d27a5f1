"""How commands speak: one JSON document on standard output, tables and progress for people on standard error."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON document on standard output and nothing else there.",
)


@cache
def console() -> Console:
    """Rich console on standard error."""
    from rich.console import Console

    return Console(stderr=True)


def emit(document: Any) -> None:
    """Print the one JSON document of a command."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write("\n")

"""What the gateway gives an attempt: the way to its model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ModelAccess:
    """One attempt's way to its model. The token is worth nothing elsewhere; the keys stay with the gateway.

    ``url`` is the base as seen inside the sandbox, without ``/v1``; ``socket`` is the gateway's Unix socket on
    this host, for agents that work from outside.
    """

    name: str
    url: str
    token: str
    socket: Path
    max_turns: int

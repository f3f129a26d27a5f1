"""A history of commands made into what has to be done: what failed or changed nothing goes, the rest stays in order."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from beyondswe.construction.build.recipe import Step

FINGERPRINT = (
    "find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/tmp -o -path /run "
    "-o -path /var/log -o -path /var/cache -o -path '*/.cache' -o -path /workspace/.git "
    "-o -name __pycache__ -o -name .pytest_cache -o -name '*.pyc' \\) -prune -o \\( -type f -o -type l \\) "
    "-printf '%p %s %C@ %l\\n' | sort | sha256sum"
)
"""A shell command whose output changes when a file does that an environment may need. Caches are none of them."""


@dataclass(frozen=True)
class Ran:
    """A command that a builder ran. ``changed``: some file is another one than before."""

    command: str
    exit_code: int | None
    changed: bool
    why: str = ""

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


def distilled(history: Sequence[Ran]) -> list[Step]:
    """The commands that worked and changed something; of one that was said twice in a row the last."""
    kept = [ran for ran in history if ran.ok and ran.changed]
    return [_step(ran, ran.command) for ran in kept]


def with_partial(history: Sequence[Ran]) -> list[Step]:
    """Also those that failed half-way and left something behind, which later ones may stand on."""
    kept = [ran for ran in history if ran.changed]
    return [
        _step(ran, ran.command if ran.ok else f"{{ {ran.command.rstrip().rstrip(';')}; }} || true")
        for ran in kept
    ]


def _step(ran: Ran, command: str) -> Step:
    return Step(instruction(command), ran.why)


def instruction(command: str) -> str:
    """A shell command as a Dockerfile's RUN takes it: more than one line only as JSON."""
    text = command.strip()
    if (
        "\n" in text
        or text.endswith("\\")
        or text.startswith(("[", "--", "<<"))
        or re.search(r"<<-?\s*\w", text)
    ):
        return json.dumps(["/bin/sh", "-c", text])
    return text


def dropped(history: Sequence[Ran]) -> dict[str, int]:
    """How many commands went, by reason."""
    return {
        "failed": sum(not ran.ok and not ran.changed for ran in history),
        "failed, but changed something": sum(not ran.ok and ran.changed for ran in history),
        "changed nothing": sum(ran.ok and not ran.changed for ran in history),
    }

"""Values on the command line that click has no kind for, as callbacks of options: sizes in bytes, shards."""

from __future__ import annotations

import math
import re
from typing import Any

import click

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

LEAST_MEMORY = 64 << 20
"""Bytes of memory below which no test runner comes to its feet."""


class Number(click.FloatRange):
    """A number within bounds. NaN is within none, though it is not outside of them either."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value!r} is no finite number.", param, ctx)
        return found


def size(_ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """``512m``, ``8g``, ``8GiB`` or a number of bytes, in powers of 1024."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", value.strip().lower())
    if not match:
        raise click.BadParameter(f"{value!r} is no size; write 512m, 8g or a number of bytes", param=param)
    number = int(float(match[1]) * _UNITS[match[2]])
    if number < 1:
        raise click.BadParameter(f"{value!r} must be more than 0", param=param)
    return number


def memory(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A `size` that a container can work with."""
    given = size(ctx, param, value)
    if given is not None and given < LEAST_MEMORY:
        raise click.BadParameter(
            f"{value!r} is too little for a sandbox; the least is {LEAST_MEMORY >> 20}m", param=param
        )
    return given


def shard(_ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """``I/N``: the I-th of N parts."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+)/(\d+)", value.strip())
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise click.BadParameter(
            f"{value!r} is no shard; write I/N with I from 1 to N, such as 1/4", param=param
        )
    return int(match[1]), int(match[2])

"""What a call costs: prices of well-known models by `genai-prices`, of others from a file. Unknown stays unknown.

A price file (YAML or JSON) names models, ``*`` and ``?`` allowed, with US dollars a million tokens:
``{"my-model": {"input": 0.5, "cached": 0.05, "cache_write": 0.6, "output": 1.5}}``; ``cached`` and ``cache_write``
default to ``input``. It comes before the known prices.
"""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from beyondswe.errors import DataError
from beyondswe.gateway.conversation import Tokens


class Price(BaseModel):
    """US dollars a million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0, allow_inf_nan=False, strict=True)
    output: float = Field(ge=0, allow_inf_nan=False, strict=True)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False, strict=True)
    cache_write: float | None = Field(default=None, ge=0, allow_inf_nan=False, strict=True)

    def cost(self, tokens: Tokens) -> float:
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        plain = tokens.input - tokens.cached - tokens.cache_written
        total = (
            plain * self.input
            + tokens.cached * cached
            + tokens.cache_written * written
            + tokens.output * self.output
        )
        return total / 1e6


_FILE = TypeAdapter(dict[str, Price])


class Prices:
    """Prices of a run: its own file first, then the known ones."""

    def __init__(self, own: dict[str, Price] | None = None) -> None:
        self.own = own or {}

    def cost(self, model: str, tokens: Tokens) -> float | None:
        """US dollars of one call; None where nobody knows the model's price."""
        for pattern, price in self.own.items():
            if fnmatchcase(model, pattern):
                return price.cost(tokens)
        return _known(model, tokens)

    def knows(self, model: str) -> bool:
        return self.cost(model, Tokens(input=1, output=1)) is not None

    def knows_frugally(self, model: str) -> bool:
        """The same, asked of a process of its own: the known prices take tens of MiB to read."""
        if any(fnmatchcase(model, pattern) for pattern in self.own):
            return True
        command = [sys.executable, "-m", "beyondswe.gateway.prices", model]
        return (
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode
            == 0
        )


def read_prices(path: Path) -> dict[str, Price]:
    """The prices of a file; `DataError` names what is wrong with it."""
    import yaml

    try:
        return _FILE.validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, RecursionError, yaml.YAMLError) as error:
        raise DataError(f"--prices {path} cannot be read: {error}") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc']) or 'the file'}: {fault['msg']}"
            for fault in error.errors()
        )
        raise DataError(
            f"--prices {path}: {faults}. Write each model as `my-model: {{input: 0.5, output: 1.5}}`, US dollars a "
            "million tokens."
        ) from None


def _known(model: str, tokens: Tokens) -> float | None:
    reference = _reference(model)
    if reference is None:
        return None
    name, provider = reference
    from genai_prices import Usage, calc_price

    usage = Usage(
        input_tokens=tokens.input,
        cache_read_tokens=tokens.cached,
        cache_write_tokens=tokens.cache_written,
        output_tokens=tokens.output,
    )
    total: Decimal = calc_price(usage, name, provider_id=provider).total_price
    return float(total)


@cache
def _reference(model: str) -> tuple[str, str | None] | None:
    """By what name and provider a model's price is found; agents write ``provider/model`` as well."""
    from genai_prices import Usage, calc_price

    provider, _, rest = model.partition("/")
    candidates: list[tuple[str, str | None]] = [(model, None)]
    if rest:
        candidates += [(rest, provider), (rest.replace(".", "-"), provider), (rest.rpartition("/")[2], None)]
    for name, by in candidates:
        try:
            calc_price(Usage(input_tokens=1, output_tokens=1), name, provider_id=by)
        except (LookupError, ValueError):
            continue
        return name, by
    return None


if __name__ == "__main__":
    sys.exit(not Prices().knows(sys.argv[1]))

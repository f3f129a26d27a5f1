"""What the keeper of a machine says about its way to the web: the file that ``BEYONDSWE_EGRESS_CONFIG`` names.

Nothing in it can be set by an agent, nor by a dataset. It is read when a run starts and stands in ``run.json``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from beyondswe.errors import UsageError

VARIABLE = "BEYONDSWE_EGRESS_CONFIG"


class LimitSettings(BaseModel):
    """Limits of one attempt, as `egress_rules.EgressLimits` has them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    response: int = Field(default=1 << 30, ge=1)
    total: int = Field(default=20 << 30, ge=1)
    request: int = Field(default=256 << 20, ge=1)
    rate: float = Field(default=50.0, gt=0)
    burst: int = Field(default=500, ge=1)


class EgressConfig(BaseModel):
    """The settings of the proxy that are the machine's and not the run's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: dict[str, str] = Field(
        default_factory=dict,
        description="HOST:PORT as sandboxes name it, and HOST:PORT where it really is: a mirror inside. Rules go by "
        "the first; the second may be an address of the host's networks",
    )
    certificates: Path | None = Field(
        default=None, description="PEM file of more authorities to trust upstream"
    )
    index: str = Field(
        default="", description="simple index that is asked when files were uploaded; else pip's own"
    )
    limits: LimitSettings = LimitSettings()

    @field_validator("hosts")
    @classmethod
    def _places(cls, hosts: dict[str, str]) -> dict[str, str]:
        for place in (*hosts, *hosts.values()):
            if not re.fullmatch(r"[^\s/:]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}", place):
                raise ValueError(f"{place!r} is not HOST:PORT")
        return {name.lower(): place for name, place in hosts.items()}

    @field_validator("index")
    @classmethod
    def _simple(cls, index: str) -> str:
        if index and not re.match(r"https?://", index):
            raise ValueError("must be an http or https address, such as https://mirror.example/simple/")
        return index.rstrip("/") + "/" if index else ""


def egress_config() -> EgressConfig:
    """The settings of this machine; the defaults where no file is named. `UsageError` for a file that is wrong."""
    named = os.environ.get(VARIABLE)
    if not named:
        return EgressConfig()
    try:
        document: Any = yaml.safe_load(Path(named).read_text(encoding="utf-8")) or {}
        return EgressConfig.model_validate(document)
    except OSError as error:
        raise UsageError(f"{VARIABLE} names {named}, which cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{VARIABLE} names {named}, which is no YAML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{VARIABLE} names {named}, whose {where or 'content'} is wrong: {first['msg']}"
        ) from None


def default_index() -> str:
    """The simple index that pip asks where nobody says otherwise."""
    from pip._internal.models.index import PyPI

    return str(PyPI.simple_url).rstrip("/") + "/"

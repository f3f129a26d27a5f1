"""What a run was asked to do: kept in ``run.json``, and compared when a run id is used again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from beyondswe.errors import UsageError
from beyondswe.gateway.metering import Budget
from beyondswe.instances.model import Instance
from beyondswe.sandbox.types import Limits, Network


@dataclass(frozen=True)
class DatasetFacts:
    """Which instances a run is about."""

    name: str
    version: str
    hash: str
    selection: str  # sha256 over ids and contents of the selected instances, in order
    families: dict[str, int]
    excluded: dict[str, str] = field(default_factory=dict)  # ids left out on purpose, and why

    @property
    def n(self) -> int:
        return sum(self.families.values())


@dataclass(frozen=True)
class ModelFacts:
    """Which model a run asks, where, and within what budget an attempt."""

    name: str
    url: str | None
    budget: Budget
    provider_tools: bool
    prices_sha256: str  # of the price file, "" without one

    def options(self) -> dict[str, Any]:
        return {
            "--model": self.name,
            "--model-url": self.url,
            "--max-turns": self.budget.max_turns,
            "--max-cost": self.budget.max_cost,
            "--max-tokens": self.budget.max_tokens,
            "--provider-tools": self.provider_tools,
            "--prices": self.prices_sha256,
        }


@dataclass(frozen=True)
class Settings:
    """One run's options. Those in `options` must be equal to go on with a run; the rest may differ."""

    dataset: DatasetFacts
    agent: dict[str, str]  # name, version, digest
    limits: Limits  # as the host can give them
    limits_asked: Limits
    network: Network = Network.NONE
    model: ModelFacts | None = None
    prompt: str | None = None
    prompt_sha256: str = ""
    attempts: int = 1
    strict: bool = False
    notes: tuple[str, ...] = ()  # what was capped, skipped or could not be used
    asked: dict[str, Any] = field(
        default_factory=dict
    )  # further options that decide the outcomes, by their words
    more: dict[str, Any] = field(
        default_factory=dict
    )  # what only one command knows, as it goes into run.json

    def options(self) -> dict[str, Any]:
        """What decides the outcomes, by the words of the command line."""
        limits = asdict(self.limits_asked)
        return {
            "--dataset": [self.dataset.name, self.dataset.hash],
            "the selection of instances": self.dataset.selection,
            "the agent": self.agent,
            "--prompt": [self.prompt, self.prompt_sha256],
            "--network": self.network.value,
            "--attempts": self.attempts,
            **self.asked,
            **(self.model.options() if self.model else {}),
            **{_LIMIT_OPTIONS[name]: value for name, value in limits.items() if name in _LIMIT_OPTIONS},
        }

    def run_document(self, run_id: str, *, package_version: str, started: str) -> dict[str, Any]:
        """``run.json`` as it stands while the run goes on."""
        dataset = {
            "name": self.dataset.name,
            "version": self.dataset.version,
            "hash": self.dataset.hash,
            "n": self.dataset.n,
            "families": self.dataset.families,
            "selection": self.dataset.selection,
            **({"excluded": self.dataset.excluded} if self.dataset.excluded else {}),
        }
        return {
            "run_id": run_id,
            "dataset": dataset,
            "agent": self.agent,
            "model": self.model.name if self.model else None,
            "search": False,
            "prompt": self.prompt,
            "network": self.network.value,
            "limits": {**asdict(self.limits), **(asdict(self.model.budget) if self.model else {})},
            "attempts": self.attempts,
            "strict": self.strict,
            "notes": list(self.notes),
            **self._model_document(),
            **self.more,
            "package_version": package_version,
            "started": started,
            "finished": None,
            "images": {},
        }

    def _model_document(self) -> dict[str, Any]:
        if self.model is None:
            return {}
        return {
            "model_url": self.model.url,
            "provider_tools": self.model.provider_tools,
            "prices_sha256": self.model.prices_sha256,
        }


_LIMIT_OPTIONS = {
    "cpus": "--cpus",
    "memory": "--memory",
    "disk": "--disk",
    "timeout": "--timeout",
    "test_timeout": "--test-timeout",
}


def selection_hash(instances: Iterable[Instance]) -> str:
    """One hash for a choice of instances and what they ask."""
    total = hashlib.sha256()
    for instance in instances:
        total.update(f"{instance.instance_id}\0{instance.content_hash}\0{instance.image}\n".encode())
    return total.hexdigest()


def families_of(instances: Sequence[Instance]) -> dict[str, int]:
    """How many instances each family has."""
    counts: dict[str, int] = {}
    for instance in instances:
        counts[instance.family.value] = counts.get(instance.family.value, 0) + 1
    return counts


def check_same(run_id: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise `UsageError` naming every option that differs from those that the run was started with."""
    differing = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if differing:
        changes = "; ".join(
            f"{name} (then {_shown(before.get(name))}, now {_shown(now.get(name))})" for name in differing
        )
        raise UsageError(
            f"run {run_id} was started with other options: {changes}. "
            "Use the same ones to go on with it, or another --run-id for a new run."
        )


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(_shown(part) for part in value.values())
    if isinstance(value, list):
        return " ".join(_shown(part) for part in value if part)
    text = str(value)
    return text[:12] if len(text) == 64 else text

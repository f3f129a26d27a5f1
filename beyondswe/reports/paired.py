"""Two runs side by side: the score of every instance in each, and what stands in only one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from beyondswe.errors import UsageError
from beyondswe.instances.model import Family
from beyondswe.reports.report import outcome_score, read_results
from beyondswe.runs.folder import RunFolder
from beyondswe.scoring.types import Status


@dataclass
class Judged:
    """One instance's attempts in one run."""

    family: Family
    scores: list[float] = field(default_factory=list)  # 0 to 1, infrastructure errors left out
    unjudged: int = 0  # attempts that ended in an infrastructure error
    statuses: list[str] = field(default_factory=list)

    def mean(self, unjudged_as: float) -> float:
        """The mean over attempts, with those that nobody could judge counted as ``unjudged_as``."""
        total = sum(self.scores) + self.unjudged * unjudged_as
        return total / (len(self.scores) + self.unjudged)


@dataclass(frozen=True)
class RunScores:
    """A run as far as a comparison needs it."""

    run: dict[str, Any]  # run.json
    instances: dict[str, Judged]

    @property
    def run_id(self) -> str:
        return str(self.run["run_id"])


@dataclass(frozen=True)
class Pair:
    """One instance in both runs; scores are 0 to 1, means over attempts."""

    instance_id: str
    family: Family
    a: float
    b: float

    @property
    def difference(self) -> float:
        return self.b - self.a


def read_scores(folder: RunFolder, *, strict: bool = False) -> RunScores:
    """The scores of a run, from ``run.json`` and ``results.jsonl`` alone. Raises `UsageError` if there is no
    outcome.
    """
    instances: dict[str, Judged] = {}
    for row in read_results(folder.results):
        judged = instances.setdefault(row["instance_id"], Judged(Family(row["family"])))
        judged.statuses.append(row["status"])
        if row["status"] == Status.INFRASTRUCTURE_ERROR.value:
            judged.unjudged += 1
        else:
            judged.scores.append(outcome_score(row, strict=strict))
    if not instances:
        raise UsageError(f"run {folder.path} has no outcome yet: let it finish, then compare")
    return RunScores(folder.read_run(), instances)


def pair(a: RunScores, b: RunScores, *, unjudged: tuple[float, float] = (0.0, 0.0)) -> list[Pair]:
    """The instances that both runs have, by id; ``unjudged`` is what an infrastructure error counts in each.

    Raises `UsageError` if there is none, or if one is of another family in the other run.
    """
    both = sorted(a.instances.keys() & b.instances.keys())
    if not both:
        raise UsageError(
            f"runs {a.run_id} and {b.run_id} have no instance in common: "
            f"{_dataset(a)} there, {_dataset(b)} here"
        )
    for name in both:
        if a.instances[name].family is not b.instances[name].family:
            raise UsageError(
                f"{name} is {a.instances[name].family.value} in {a.run_id} and "
                f"{b.instances[name].family.value} in {b.run_id}: these are different datasets"
            )
    return [
        Pair(
            name,
            a.instances[name].family,
            a.instances[name].mean(unjudged[0]),
            b.instances[name].mean(unjudged[1]),
        )
        for name in both
    ]


def by_family(pairs: Sequence[Pair]) -> dict[Family, list[Pair]]:
    """The pairs of each family that has any, in the order of the benchmark's table."""
    groups = {family: [pair for pair in pairs if pair.family is family] for family in Family}
    return {family: group for family, group in groups.items() if group}


def weights(pairs: Sequence[Pair]) -> list[float]:
    """What each pair's difference counts in the difference of AVG: families alike, instances alike in one."""
    groups = by_family(pairs)
    return [1 / (len(groups) * len(groups[pair.family])) for pair in pairs]


def average_difference(pairs: Sequence[Pair]) -> float:
    """Δ AVG from ``a`` to ``b``, 0 to 1."""
    return sum(w * pair.difference for w, pair in zip(weights(pairs), pairs, strict=True))


def dataset_notes(a: RunScores, b: RunScores) -> list[str]:
    """What must be said where the two runs were not asked the same."""
    notes = []
    first, second = a.run["dataset"], b.run["dataset"]
    if first.get("hash") and second.get("hash") and first["hash"] != second["hash"]:
        notes.append(
            f"the datasets differ: {_dataset(a)} ({first['hash'][:12]}) and {_dataset(b)} "
            f"({second['hash'][:12]}); instances are paired by id"
        )
    elif first["name"] != second["name"]:
        notes.append(f"the datasets have different names: {first['name']} and {second['name']}")
    for scores, other in ((a, b), (b, a)):
        if only := sorted(scores.instances.keys() - other.instances.keys()):
            shown = ", ".join(only[:5]) + (", …" if len(only) > 5 else "")
            notes.append(f"only in {scores.run_id}: {len(only)} instances ({shown})")
        if count := sum(judged.unjudged for judged in scores.instances.values()):
            notes.append(f"{scores.run_id}: {count} attempts ended in an infrastructure error")
    return notes


def _dataset(scores: RunScores) -> str:
    dataset = scores.run["dataset"]
    return f"{dataset['name']} {dataset['version']}" if dataset.get("version") else str(dataset["name"])

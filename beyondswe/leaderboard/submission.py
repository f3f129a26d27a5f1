"""A submission: its folder, its ``submission.yaml``, and reading both although strangers wrote them."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from beyondswe.errors import DataError, UsageError
from beyondswe.instances.model import Family
from beyondswe.reports.report import read_results
from beyondswe.runs.folder import RunFolder

DESCRIPTION, PREDICTIONS, RESULTS, TRAJECTORIES = (
    "submission.yaml",
    "predictions.jsonl",
    "results.jsonl",
    "trajectories",
)
LIMITS = {DESCRIPTION: 64 << 10, PREDICTIONS: 512 << 20, RESULTS: 512 << 20}
"""Bytes that a file of a submission may have."""
TRAJECTORY_LIMIT, TRAJECTORY_UNPACKED = 64 << 20, 512 << 20
MAX_LINE = 128 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def _plain(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError("holds control characters")
    return text


def _web(link: str) -> str:
    if not re.fullmatch(r"https?://[^\s<>\"']+", link):
        raise ValueError("is no http or https address")
    return link


Word = Annotated[
    str, StringConstraints(min_length=1, max_length=120, strip_whitespace=True), AfterValidator(_plain)
]
Link = Annotated[str, StringConstraints(max_length=500), AfterValidator(_plain), AfterValidator(_web)]
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Interval = tuple[Percent, Percent]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AgentFacts(_Model):
    """Which agent."""

    name: Word
    version: Annotated[str, StringConstraints(max_length=120), AfterValidator(_plain)] = ""


class DatasetFacts(_Model):
    """Which dataset, as the run knew it."""

    name: Word
    version: Word
    hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class FamilyScores(_Model):
    """A family's numbers as `report.json` has them: ``rate`` of issues, ``pass_rate`` and counts of Doc2Repo."""

    n: Annotated[int, Field(ge=1)]
    rate: Percent | None = None
    resolved: int | None = None
    pass_rate: Percent | None = None
    interval: Interval | None = None
    almost_correct: int | None = None
    correct: int | None = None


class Scores(_Model):
    """What the submission claims; `check` computes it anew."""

    avg: Percent
    avg_interval: Interval | None = None
    families: dict[Family, FamilyScores] = Field(min_length=1)


class Submission(_Model):
    """``submission.yaml``."""

    agent: AgentFacts
    model: Word | None
    open_weights: bool | None = None
    date: datetime.date
    authors: list[Word] = Field(default_factory=list, max_length=50)
    links: list[Link] = Field(default_factory=list, max_length=10)
    search: bool
    network: Literal["none", "model", "filtered", "open"]
    prompt: Word | None = None
    attempts: Annotated[int, Field(ge=1, le=1000)]
    strict: bool = False
    package_version: Word
    dataset: DatasetFacts
    started: datetime.datetime | None = None
    finished: datetime.datetime | None = None
    run_id: Word | None = None
    scores: Scores

    @property
    def label(self) -> str:
        """Agent and model, as a row shows them."""
        return f"{self.agent.name}, {self.model}" if self.model else self.agent.name


class SubmissionFolder(RunFolder):
    """A submission's folder, read as the run that it came from."""

    def read_run(self) -> dict[str, Any]:
        return as_run(self.path.name, read_submission(self.path))


def as_run(name: str, submission: Submission) -> dict[str, Any]:
    """What a report needs of ``run.json``."""
    facts = submission.model_dump(mode="json", exclude={"scores", "run_id"})
    return {**facts, "run_id": name}


def scores_of(report: dict[str, Any]) -> dict[str, Any]:
    """The part of a report that a submission claims."""
    families = {
        name: {key: entry[key] for key in FamilyScores.model_fields if key in entry}
        for name, entry in report["families"].items()
    }
    return {"avg": report["avg"], "avg_interval": report["avg_interval"], "families": families}


def check_name(name: str) -> str:
    """The name itself, if it can name a submission's folder and page."""
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise UsageError(
            f"submission name {name!r}: use up to 80 letters, digits, dots, dashes and underscores; "
            "begin with a letter or digit"
        )
    return name


def submissions_dir(site: Path) -> Path:
    return site / "submissions"


def list_names(site: Path) -> list[str]:
    """Names of all submissions; what is hidden or a plain file (a README) is none."""
    folder = submissions_dir(site)
    if not folder.is_dir():
        raise UsageError(
            f"{site} is no leaderboard: it has no folder submissions/; `leaderboard pack RUN` makes one, "
            "or name another folder with --site"
        )
    return sorted(
        entry.name
        for entry in os.scandir(folder)
        if not entry.name.startswith(".") and (entry.is_dir() or entry.is_symlink())
    )


def same_but_case(names: list[str]) -> dict[str, list[str]]:
    """Names that a case-insensitive disk takes for one, each with the others."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.casefold(), []).append(name)
    return {
        name: [o for o in group if o != name] for group in groups.values() if len(group) > 1 for name in group
    }


def safe_file(path: Path, limit: int) -> Path:
    """The path, if it is a plain file of at most ``limit`` bytes. Raises `DataError`; opens nothing."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        raise DataError(f"{path.name} is missing") from None
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror}") from None
    if stat.S_ISLNK(found.st_mode):
        raise DataError(f"{path.name} is a symbolic link; put the file itself there")
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path.name} is no plain file")
    if found.st_size > limit:
        raise DataError(f"{path.name} has {found.st_size:,} bytes; at most {limit:,} are taken")
    return path


def read_submission(folder: Path) -> Submission:
    """``submission.yaml``. Raises `DataError` with a line for each fault."""
    if folder.is_symlink() or folder.parent.is_symlink():
        raise DataError(f"{folder.name} is a symbolic link; a submission is a folder")
    path = safe_file(folder / DESCRIPTION, LIMITS[DESCRIPTION])
    try:
        return Submission.model_validate(_read_yaml(path.read_bytes()))
    except ValidationError as error:
        lines = [_line(one) for one in error.errors(include_url=False)[:20]]
        raise DataError("\n".join(lines)) from None


def _line(fault: Any) -> str:
    where = ".".join(str(part) for part in fault["loc"]) or "the document"
    shown = "" if fault["type"] == "missing" else f", found {fault['input']!r:.80}"
    return f"{DESCRIPTION}: {where}: {fault['msg'].removeprefix('Value error, ')}{shown}"


def _read_yaml(data: bytes) -> Any:
    """A YAML document without aliases, tags of our own, or the same key twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise DataError(f"{DESCRIPTION}: aliases (*name) are not taken; write the value out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = Counter(key.value for key, _ in node.value if isinstance(key.value, str))
            if twice := sorted(key for key, n in keys.items() if n > 1):
                raise DataError(f"{DESCRIPTION}: {', '.join(twice)} stands there twice")
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(data.decode("utf-8"), Loader)
    except UnicodeDecodeError:
        raise DataError(f"{DESCRIPTION} is not UTF-8") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise DataError(f"{DESCRIPTION} is no YAML that can be read: {said}") from None


def safe_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The outcomes of ``results.jsonl``, each with an ``attempt`` that is a number. Raises `DataError`."""
    path = safe_file(folder / RESULTS, LIMITS[RESULTS])
    try:
        for row in read_results(path):
            if not isinstance(row["instance_id"], str) or type(row.get("attempt", 1)) is not int:
                raise DataError(f"{RESULTS}: instance_id must be text and attempt a number")
            yield row
    except RecursionError:
        raise DataError(f"{RESULTS}: a row is nested too deeply") from None


def fingerprint(folder: Path) -> str:
    """sha256 over what a submission says and claims; its patches are bound to it by their hashes in the outcomes."""
    total = hashlib.sha256()
    for name in (DESCRIPTION, RESULTS):
        with safe_file(folder / name, LIMITS[name]).open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()

"""Checks a submission against itself and its dataset; every message says what a submitter is to do.

What cannot be seen here, outcomes that are forged in every place alike, is found by scoring again (`rescore`).
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from beyondswe.errors import BeyondSWEError, DataError
from beyondswe.instances.model import Instance
from beyondswe.leaderboard.pack import trajectory_name
from beyondswe.leaderboard.submission import (
    DESCRIPTION,
    LIMITS,
    MAX_LINE,
    PREDICTIONS,
    RESULTS,
    TRAJECTORIES,
    TRAJECTORY_LIMIT,
    TRAJECTORY_UNPACKED,
    Scores,
    Submission,
    as_run,
    check_name,
    read_submission,
    safe_file,
    safe_rows,
    scores_of,
)
from beyondswe.reports.report import report_of
from beyondswe.runs.outcome import Outcome
from beyondswe.scoring.types import Status, TestResult

RELEASED = date(2026, 3, 3)
"""The benchmark's day (arXiv:2603.03194): nothing can have been run on it before."""
VERSIONS = frozenset({"0.1.0"})
"""Releases of this package whose scores are taken, beside the one that checks."""
_SHOWN = 20
_ROUNDING = 6e-5  # rates are written with four decimals
Key = tuple[str, int]


@dataclass(frozen=True)
class Asked:
    """The dataset that a submission must answer, as the keeper has it."""

    name: str
    version: str
    hash: str
    instances: Mapping[str, Instance]
    excluded: frozenset[str] = frozenset()  # ids that the keeper takes a submission without


@dataclass
class Findings:
    """What a check found: errors fail the submission, warnings are shown."""

    name: str
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    submission: Submission | None = None

    @property
    def passed(self) -> bool:
        return not self.errors

    def many(self, title: str, names: list[str]) -> None:
        """One error for many of a kind."""
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            self.errors.append(f"{title}: {', '.join(names[:_SHOWN])}{more}")

    def to_document(self) -> dict[str, Any]:
        return {"name": self.name, "passed": self.passed, "errors": self.errors, "warnings": self.warnings}


def check_description(folder: Path, *, now: datetime | None = None) -> Findings:
    """The folder's names and ``submission.yaml``: all that can be said without the dataset and the outcomes."""
    found = Findings(folder.name)
    try:
        check_name(folder.name)
        found.submission = read_submission(folder)
    except BeyondSWEError as error:
        found.errors += str(error).splitlines()
        return found
    _strangers(folder, found)
    _dates(found.submission, found, now or datetime.now(UTC))
    _versions(found.submission, found)
    if not found.submission.authors:
        found.warnings.append(f"{DESCRIPTION}: authors is empty; say who answers for it")
    if found.submission.open_weights is None and found.submission.model:
        found.warnings.append(f"{DESCRIPTION}: open_weights is not said; true or false")
    return found


def check(folder: Path, asked: Asked, *, now: datetime | None = None) -> Findings:
    """All checks of one submission."""
    found = check_description(folder, now=now)
    if found.submission is None:
        return found
    _dataset(found.submission, asked, found)
    try:
        outcomes = _outcomes(folder, found.submission, asked, found)
        _arithmetic(folder, found.submission, found)
        _predictions(folder, outcomes, asked, found)
        _trajectories(folder, outcomes, found)
    except DataError as error:
        found.errors.append(str(error))
    return found


def _strangers(folder: Path, found: Findings) -> None:
    """Files that have no place in a submission, links among them."""
    allowed = {DESCRIPTION, PREDICTIONS, RESULTS, TRAJECTORIES, "README.md"}
    wrong = [e.name for e in os.scandir(folder) if e.name not in allowed or e.is_symlink()]
    found.many("these have no place in a submission (or are links)", sorted(map(repr, wrong)))


def _dates(submission: Submission, found: Findings, now: datetime) -> None:
    today = (now + timedelta(hours=14)).date()  # somewhere it is tomorrow already
    if not RELEASED <= submission.date <= today:
        found.errors.append(
            f"date {submission.date} cannot be: between {RELEASED} (the benchmark's day) and {today}"
        )
    times = {"started": submission.started, "finished": submission.finished}
    given = {k: (v if v.tzinfo else v.replace(tzinfo=UTC)) for k, v in times.items() if v is not None}
    for key, value in given.items():
        if value > now + timedelta(hours=1) or value.date() < RELEASED:
            found.errors.append(f"{key} {value.isoformat()} cannot be: before the benchmark, or to come")
    if len(given) == 2 and given["finished"] < given["started"]:
        found.errors.append("finished is before started")
    if "finished" in given and submission.date < (given["finished"] - timedelta(hours=24)).date():
        found.errors.append(f"date {submission.date} is before the run was finished")


@cache
def known_versions() -> frozenset[str]:
    """Versions of this package whose scores are taken."""
    return VERSIONS | {version("beyondswe")}


def _versions(submission: Submission, found: Findings) -> None:
    known = known_versions()
    if submission.package_version not in known:
        found.errors.append(
            f"package_version {submission.package_version!r} is not known; known are {', '.join(sorted(known))}: "
            "score the predictions with one of them and pack that run"
        )


def _dataset(submission: Submission, asked: Asked, found: Findings) -> None:
    theirs = submission.dataset
    if theirs.hash != asked.hash or theirs.version != asked.version:
        found.errors.append(
            f"dataset {theirs.name} is version {theirs.version}, hash {theirs.hash[:12]} there, and {asked.name} "
            f"version {asked.version}, hash {asked.hash[:12]} here: score the predictions on this one"
        )


def _outcomes(folder: Path, submission: Submission, asked: Asked, found: Findings) -> dict[Key, str]:
    """The patch hash of each outcome, once every row was looked at."""
    hashes: dict[Key, str] = {}
    twice, unknown, broken, infrastructure = [], [], [], []
    for number, row in enumerate(safe_rows(folder), 1):
        try:
            outcome = Outcome.model_validate(row)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            broken.append(f"line {number}, {'.'.join(map(str, first['loc']))}: {first['msg']}")
            continue
        key = (outcome.instance_id, outcome.attempt)
        instance = asked.instances.get(outcome.instance_id)
        if key in hashes:
            twice.append(_shown(key))
        elif instance is None or outcome.attempt > submission.attempts:
            if outcome.instance_id not in asked.excluded:
                unknown.append(_shown(key))
        else:
            hashes[key] = outcome.patch_sha256
            broken += [f"{_shown(key)}: {fault}" for fault in outcome_faults(outcome, instance)]
            if outcome.status is Status.INFRASTRUCTURE_ERROR:
                infrastructure.append(_shown(key))
    wanted = ((name, k) for name in asked.instances for k in range(1, submission.attempts + 1))
    missing = [_shown(key) for key in wanted if key not in hashes]
    found.many(f"{RESULTS}: outcomes that stand there twice; keep one", twice)
    found.many(f"{RESULTS}: not of this dataset, or beyond attempts: {submission.attempts}", unknown)
    found.many(f"{RESULTS}: {len(missing)} outcomes are missing; run these instances and pack again", missing)
    found.many(f"{RESULTS}: outcomes that contradict themselves", broken)
    found.many(
        f"{RESULTS}: {len(infrastructure)} ended in an infrastructure error; go on with the run (same command and "
        "--run-id) and pack again",
        infrastructure,
    )
    return hashes


def outcome_faults(outcome: Outcome, instance: Instance) -> Iterator[str]:
    """What in an outcome cannot be, by its own numbers and its instance's tests."""
    if outcome.family is not instance.family:
        yield f"family is {outcome.family}, not {instance.family}"
    if outcome.resolved != (outcome.status is Status.RESOLVED):
        yield f"resolved is {outcome.resolved} and status {outcome.status}"
    results = {**outcome.f2p, **outcome.p2p, **outcome.tests}
    passed = sum(result is TestResult.PASSED for result in results.values())
    if instance.is_doc2repo:
        share = min(1.0, passed / instance.test_suite_num) if instance.test_suite_num else 0.0
        named = (instance.verification or {}).get("tests")
        strange = set(outcome.tests) - set(named) if named else set()
        whole = share == 1.0
    else:
        expected = {*instance.fail_to_pass, *instance.pass_to_pass}
        share = passed / len(results) if results else 0.0
        strange = (set(outcome.f2p) - set(instance.fail_to_pass)) | (
            set(outcome.p2p) - set(instance.pass_to_pass)
        )
        whole = passed == len(expected) == len(results)
    if strange:
        yield f"tests that are not the instance's: {', '.join(sorted(strange)[:3])}"
    settled = outcome.status not in (Status.TAMPERED, Status.INFRASTRUCTURE_ERROR)
    if settled and abs(outcome.pass_rate - share) > _ROUNDING:
        yield f"pass_rate is {outcome.pass_rate:.4f}, its tests give {share:.4f}"
    if outcome.resolved and not whole:
        yield "resolved, but not all of the instance's tests passed"
    if outcome.resolved and outcome.score != 1.0:
        yield f"resolved, but its score is {outcome.score}"
    if not outcome.resolved and not instance.is_doc2repo and outcome.score != 0.0:
        yield f"not resolved, but its score is {outcome.score}"
    if instance.is_doc2repo and outcome.score > outcome.pass_rate + _ROUNDING:
        yield f"score {outcome.score:.4f} is above pass_rate {outcome.pass_rate:.4f}"
    if passed and not outcome.patch_sha256:
        yield "tests passed, but there is no patch_sha256"


def _arithmetic(folder: Path, submission: Submission, found: Findings) -> None:
    """The claimed scores against those that the outcomes give."""
    try:
        report = report_of(as_run(folder.name, submission), safe_rows(folder), folder / RESULTS)
        if report["avg"] is None:
            raise DataError(f"{RESULTS} holds no outcome")
        computed = Scores.model_validate(scores_of(report))
    except (ValidationError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(f"{RESULTS}: no scores can be computed from it ({error})") from None
    found.errors += wrong_scores(submission.scores, computed)


def wrong_scores(claimed: Scores, computed: Scores, *, intervals: bool = True) -> list[str]:
    """A line for each number that the outcomes do not give."""
    ours, theirs = _numbers(computed), _numbers(claimed)
    lines = []
    for key in {**ours, **theirs}:
        if not intervals and "interval" in key:
            continue
        a, b = theirs.get(key), ours.get(key)
        if (a is None) != (b is None) or (a is not None and b is not None and abs(a - b) > _ROUNDING):
            lines.append(f"{DESCRIPTION}: scores.{key} is {a}, the outcomes give {b}")
    return lines


def _numbers(scores: Scores) -> dict[str, float]:
    found: dict[str, float] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                walk(one, f"{path}.{key}" if path else str(key))
        elif isinstance(value, (list, tuple)):
            for n, one in enumerate(value):
                walk(one, f"{path}.{n}")
        elif value is not None:
            found[path] = float(value)

    walk(scores.model_dump(mode="json"), "")
    return found


def read_predictions(folder: Path) -> Iterator[tuple[Key, str]]:
    """Every patch of ``predictions.jsonl`` by instance and attempt. Raises `DataError` at a row that is none."""
    path = safe_file(folder / PREDICTIONS, LIMITS[PREDICTIONS])
    with path.open("rb") as stream:
        for number in range(1, 10_000_000):
            line = stream.readline(MAX_LINE + 1)
            if not line:
                return
            where = f"{PREDICTIONS}, line {number}"
            if len(line) > MAX_LINE:
                raise DataError(f"{where} is longer than {MAX_LINE >> 20} MiB")
            try:
                row = json.loads(line)
                name, attempt, patch = row["instance_id"], row.get("attempt", 1), row["model_patch"]
                patch = "" if patch is None else patch
                if not (isinstance(name, str) and type(attempt) is int and isinstance(patch, str)):
                    raise TypeError("instance_id and model_patch must be text, attempt a number")
                patch.encode()
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise DataError(
                    f"{where} is no prediction with instance_id, attempt and model_patch "
                    f"({type(error).__name__}: {str(error)[:120]})"
                ) from None
            yield (name, attempt), patch


def _predictions(folder: Path, outcomes: Mapping[Key, str], asked: Asked, found: Findings) -> None:
    if not (folder / PREDICTIONS).exists():
        found.errors.append(
            f"{PREDICTIONS} is missing: add a row with instance_id, attempt and model_patch for each of the "
            f"{len(outcomes)} outcomes, or pack a run folder that still has its attempts/"
        )
        return
    seen: set[Key] = set()
    twice, unknown, differing = [], [], []
    for key, patch in read_predictions(folder):
        if key in seen:
            twice.append(_shown(key))
        seen.add(key)
        if key not in outcomes:
            unknown += [_shown(key)] if key[0] not in asked.excluded else []
            continue
        digest = hashlib.sha256(patch.encode()).hexdigest()
        if digest != outcomes[key] and (patch or outcomes[key]):
            differing.append(_shown(key))
    found.many(f"{PREDICTIONS}: patches that stand there twice; keep one", twice)
    found.many(f"{PREDICTIONS}: patches without an outcome", unknown)
    found.many(f"{PREDICTIONS}: patches missing", [_shown(key) for key in outcomes if key not in seen])
    found.many(
        f"{PREDICTIONS}: patches that are not those which were scored (sha256 differs from patch_sha256)",
        differing,
    )


def _trajectories(folder: Path, outcomes: Mapping[Key, str], found: Findings) -> None:
    base = folder / TRAJECTORIES
    if not base.exists():
        found.warnings.append(f"no {TRAJECTORIES}/: nobody can see how the patches came about")
        return
    if base.is_symlink() or not base.is_dir():
        raise DataError(f"{TRAJECTORIES} must be a folder")
    expected = {trajectory_name(*key): key for key in outcomes}
    here, strange = set(), []
    for entry in os.scandir(base):
        if entry.name not in expected:
            strange.append(repr(entry.name))
            continue
        here.add(entry.name)
        try:
            _read_trajectory(safe_file(Path(entry.path), TRAJECTORY_LIMIT))
        except DataError as error:
            found.errors.append(f"{TRAJECTORIES}/{error}")
    found.many(f"{TRAJECTORIES}/: files of no outcome; the name is INSTANCE.ATTEMPT.json.gz", sorted(strange))
    if absent := [_shown(key) for name, key in expected.items() if name not in here]:
        found.warnings.append(f"{len(absent)} outcomes have no trajectory: {', '.join(absent[:5])}")


def _read_trajectory(path: Path) -> None:
    """Raises `DataError` unless it is a gzip of a JSON object."""
    unpack = zlib.decompressobj(wbits=31)
    try:
        text = unpack.decompress(path.read_bytes(), TRAJECTORY_UNPACKED + 1)  # a bomb is never unpacked whole
    except zlib.error as error:
        raise DataError(f"{path.name} is no gzip file ({error})") from None
    if len(text) > TRAJECTORY_UNPACKED:
        raise DataError(f"{path.name} unpacks to more than {TRAJECTORY_UNPACKED >> 20} MiB")
    try:
        if not isinstance(json.loads(text), dict):
            raise ValueError("no object")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path.name} is no JSON object ({str(error)[:100]})") from None


def _shown(key: Key) -> str:
    return f"{key[0]:.100} ({key[1]})".encode("utf-8", "replace").decode()

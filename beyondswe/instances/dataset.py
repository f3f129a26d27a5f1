"""A dataset: the instances that a command asked for, read and checked from wherever they are."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from beyondswe.errors import DataError, UsageError
from beyondswe.instances import selection
from beyondswe.instances.families import find_family, load_row, named_family
from beyondswe.instances.model import Family, Instance
from beyondswe.instances.problems import BadRow, Problem, printable, shown
from beyondswe.instances.seen import Seen, remember
from beyondswe.instances.sources import RawRow, open_source

SUITE_FOLDERS = ("", "doc2repo_test_suite")
"""Where the suites' zips are, seen from the dataset's folder; the second is the published dataset's."""


@dataclass(frozen=True)
class Dataset:
    """Instances in the order of their rows; ``hash`` and ``rows`` (their number) are of the whole dataset.

    ``hash`` is a sha256 over what every row asks: order, selection and unknown fields do not change it.
    """

    name: str
    version: str
    hash: str
    instances: tuple[Instance, ...]
    bad: tuple[BadRow, ...]
    rows: int = 0
    excluded: Mapping[str, str] = field(default_factory=dict)  # ids that were left out on purpose, and why


@dataclass(frozen=True)
class _Entry:
    """One row after reading: an instance or what is wrong."""

    instance_id: str
    family: Family | None
    digest: str
    instance: Instance | None
    bad: tuple[BadRow, ...]


def load_dataset(
    spec: str,
    *,
    families: Sequence[str] = (),
    instances: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
    shard: tuple[int, int] | None = None,
    as_family: str | None = None,
    test_suite_dir: Path | None = None,
    split: str | None = None,
    skip_bad: bool = False,
    require_tests: bool = True,
    require_suites: bool = False,
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
    exclude: Mapping[str, str] | None = None,
) -> Dataset:
    """Load the dataset that ``spec`` names: a .jsonl, .json or .parquet file, a folder, or a Hugging Face id.

    ``instances`` are globs over ids; ``limit`` draws a sample by family, ``shard`` (I, N) takes one of its N
    parts. ``as_family`` is the family of rows that name none. ``require_tests=False`` is for candidates,
    whose tests nobody has found yet; with ``require_suites`` a row whose suite is not there is a bad one.
    ``defaults`` (family → field → value, "" for every family) stand in for fields that a candidate lacks yet.
    ``exclude`` (id → reason) are left out before a sample is drawn; ids that the dataset lacks are no error.
    `DataError` lists every bad row among the selected, unless ``skip_bad``: then they are in ``bad``.
    """
    wanted = {named_family(name, "--family") for name in families}
    assumed = named_family(as_family, "--as-family") if as_family else None
    source = open_source(spec, split=split)
    suites = _suite_folders(test_suite_dir, source.folder)

    known: dict[str, tuple[str, str]] = {}
    entries: list[_Entry] = []
    counts: Counter[Family | None] = Counter()
    for raw in source.rows:
        if defaults and raw.values is not None:
            named = find_family(str(raw.values.get("task") or as_family or ""))
            given = {**defaults.get("", {}), **defaults.get(named or "-", {})}
            raw = replace(
                raw, values={**raw.values, **{k: v for k, v in given.items() if not raw.values.get(k)}}
            )
        entry = _read(raw, assumed, require_tests, require_suites, known, suites)
        counts[entry.family] += entry.instance is not None
        if not selection.may_be_wanted(entry, wanted, instances):
            entry = replace(entry, instance=None)  # nobody asked for it: not kept in memory
        entries.append(entry)
    if not entries:
        raise DataError(f"{spec}: there are no rows in it")
    digest = hashlib.sha256("\n".join(sorted(entry.digest for entry in entries)).encode()).hexdigest()
    version = source.version or digest[:12]
    if source.from_hub:
        remember(
            Seen(source.name, version, digest, {str(name): counts[name] for name in Family if counts[name]})
        )

    selected = selection.of_families(entries, wanted)
    selected = selection.matching(selected, instances)
    left_out = {
        e.instance_id: exclude[e.instance_id] for e in selected if exclude and e.instance_id in exclude
    }
    selected = [entry for entry in selected if entry.instance_id not in left_out]
    if limit is not None:
        selected = selection.sample(selected, limit, seed)
    if shard is not None:
        selected = selection.shard(selected, *shard)
    if not selected:
        raise UsageError(
            f"{spec}: none of its {len(entries)} rows is of the family, sample and shard that were asked for"
            + (f"; {len(left_out)} are excluded" if left_out else "")
        )
    bad = tuple(row for entry in selected for row in entry.bad)
    if bad and not skip_bad:
        rows = sum(bool(entry.bad) for entry in selected)
        raise DataError(
            f"{spec}: {rows} of {len(selected)} selected rows are bad; "
            "mend them, or go on without them with --skip-bad\n" + "\n".join(f"  {row}" for row in bad)
        )
    return Dataset(
        name=source.name,
        version=version,
        hash=digest,
        instances=tuple(entry.instance for entry in selected if entry.instance),
        bad=bad,
        rows=len(entries),
        excluded=left_out,
    )


def _read(
    raw: RawRow,
    assumed: Family | None,
    require_tests: bool,
    require_suites: bool,
    known: dict[str, tuple[str, str]],
    suites: Sequence[Path],
) -> _Entry:
    """One row → entry. ``known`` has the ids of the rows before it and their places; this one's is added."""
    if raw.values is None:
        assert raw.problem is not None
        return _Entry("", None, raw.digest, None, (BadRow.at(raw.file, raw.line, "", raw.problem),))
    loaded = load_row(raw.values, as_family=assumed, require_tests=require_tests)
    problems = [*loaded.problems, *_clash(loaded.instance_id, f"{raw.file}:{raw.line}", known)]
    bad = tuple(BadRow.at(raw.file, raw.line, loaded.instance_id, problem) for problem in problems)
    instance = loaded.instance if not bad else None
    if instance is not None and instance.test_suite:
        found = next((folder for folder in suites if (folder / instance.test_suite).is_file()), None)
        if folder := found or next(iter(suites), None):
            instance = instance.model_copy(update={"test_suite_dir": folder})
        if found is None and require_suites:
            bad = (BadRow.at(raw.file, raw.line, loaded.instance_id, _no_suite(instance.test_suite, suites)),)
    digest = instance.content_hash if instance else raw.digest
    return _Entry(loaded.instance_id, loaded.family, digest, None if bad else instance, bad)


def _no_suite(name: str, suites: Sequence[Path]) -> Problem:
    looked = f" (looked in {', '.join(map(str, suites))})" if suites else ""
    return Problem(
        "test_suite",
        shown(name),
        "the name of a zip that is there",
        f"test_suite: there is no suite {printable(name)}{looked}; name the folder that holds it with "
        "--test-suite-dir",
    )


def _clash(instance_id: str, place: str, known: dict[str, tuple[str, str]]) -> list[Problem]:
    """Whether an earlier row has this id, or one that is the same where upper and lower case are one."""
    folded = unicodedata.normalize("NFC", instance_id).casefold()
    if not instance_id or folded not in known:
        known[folded] = (instance_id, place)
        return []
    other, where = known[folded]
    name = printable(instance_id)
    if other == instance_id:
        wrong = f"instance_id: duplicate id; '{name}' is at {where} and again at {place}"
        return [Problem("instance_id", name, "a unique id", wrong)]
    wrong = (
        f"instance_id: '{name}' at {place} and '{printable(other)}' at {where} differ only in case; "
        "on many file systems they name one folder"
    )
    return [Problem("instance_id", name, "an id that differs in more than case", wrong)]


def _suite_folders(named: Path | None, folder: Path | None) -> list[Path]:
    """Where the zips of Doc2Repo suites may be: in the folder that was named, else beside the dataset."""
    if named is not None:
        if not named.is_dir():
            raise UsageError(f"--test-suite-dir {named}: there is no such folder")
        return [named.absolute()]
    return [(folder / name).absolute() for name in SUITE_FOLDERS] if folder else []

"""Finds the way in which an instance's tests are run: by whom, and whether the project is built anew for it.

One run each tells: by somebody who cannot write to the tree, where as much passes as by the image's user; as it is
installed, where no build makes more of the hidden tests pass. What is found is used for every run that counts, and goes
into the record, so that attempts are scored likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from beyondswe.instances.model import Instance
from beyondswe.scoring.archives import BadArchive
from beyondswe.scoring.compose import SCRIPT, expected_ids, file_of
from beyondswe.scoring.reinstall import FULL, METADATA, NONE, with_mode
from beyondswe.scoring.types import TestResult, TestRun, Variation
from beyondswe.scoring.wheels import Brought

Runs = Callable[[Sequence[tuple[Instance, Variation | None]]], Sequence[TestRun]]
"""Runs of the tests with the reference change, at once."""


@dataclass(frozen=True)
class Way:
    """How the tests of ``instance`` are run (its record says so), and a run of that kind."""

    instance: Instance
    first: TestRun
    needs_network: tuple[str, ...] = ()  # pass with the network only
    why_not_built: str = ""  # where a build might have helped


def find_way(instance: Instance, runs: Runs, brings: Callable[[], Brought], *, listed: bool) -> Way:
    """The way of an instance. ``brings`` builds the reference, and raises `BadArchive` where it does not build;
    ``listed`` tests are what must pass, else what hidden files hold.
    """
    plain = instance.model_copy(update={"verification": _kept(instance)})
    sealed = plain.model_copy(update={"verification": {**(plain.verification or {}), "tree": "read_only"}})
    first, other = runs([(plain, None), (sealed, None)])
    way = Way(plain, first)
    if other.finished and passed(other) >= passed(first):
        way = Way(sealed, other)
    if instance.is_doc2repo or not _missing(instance, way.first, listed):
        return way
    way = _built(way, runs, brings, listed)
    missing = _missing(instance, way.first, listed)
    if missing and instance.score_network == "none":
        (online,) = runs([(way.instance, Variation(network="open"))])
        way = replace(way, needs_network=tuple(sorted(missing & passed(online))))
    return way


def _built(way: Way, runs: Runs, brings: Callable[[], Brought], listed: bool) -> Way:
    """The first way of building anew with which all that is missing passes, or else the one with which most does."""
    try:
        reference = brings()
    except BadArchive as error:
        return replace(way, why_not_built=str(error))
    best, most = way, 0
    for mode in (METADATA, FULL):
        tried = with_mode(way.instance, mode, reference)
        (found,) = runs([(tried, None)])
        gained = len(passed(found).difference(passed(way.first)))
        if gained > most and passed(found) >= passed(way.first):
            best, most = Way(tried, found), gained
        if not _missing(way.instance, found, listed):
            break
    return best


def _kept(instance: Instance) -> dict[str, object] | None:
    """What of an old record says how tests are called; the rest is found anew."""
    renames = (instance.verification or {}).get("renames")
    return {"renames": renames} if renames else None


def passed(run: TestRun) -> set[str]:
    return {name for name, result in run.tests.items() if result is TestResult.PASSED}


def _missing(instance: Instance, run: TestRun, listed: bool) -> set[str]:
    """Tests that ought to pass with the reference and do not: those that are listed, or those in hidden files."""
    if listed:
        return set(expected_ids(instance).values()) - passed(run)
    hidden = _hidden_files(instance)
    failing = {
        name
        for name, result in run.tests.items()
        if result in (TestResult.FAILED, TestResult.ERROR, TestResult.MISSING)
    }
    found = {name for name in {*failing, *run.collection_errors} if file_of(name) in hidden}
    return found or ({"(its tests do not run)"} if not run.finished else set())


def _hidden_files(instance: Instance) -> set[str]:
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    found = {SCRIPT.decode()} if instance.f2p_script else set()
    with suppress(UnidiffParseError):  # git says what it thinks of it when the tests are put in place
        found |= {file.path for file in PatchSet(instance.f2p_patch)}
    return found


def described(instance: Instance, image_user: str) -> dict[str, object]:
    """The way for a record."""
    record = instance.verification or {}
    sealed = record.get("tree") == "read_only"
    return {
        "user": "nobody" if sealed else image_user or "root",
        "tree": "read_only" if sealed else "writable",
        "reinstall": record.get("reinstall", NONE),
        **({"installs": record["installs"]} if "installs" in record else {}),
        **({"renames": record["renames"]} if "renames" in record else {}),
    }

"""Builds the patched project anew where the tests look at its metadata or at what its build makes.

Modes, found when an instance is verified (the first under which the reference resolves): ``none``; ``metadata``, the
wheel's ``.dist-info`` and its commands; ``full``, its modules and files too. Deliberate:

- The build runs in a throw-away container that never sees the hidden tests, without network; what comes back is a
  wheel, read as data. It is built of the patched tree with protected files as the snapshot has them.
- What of a wheel may come before the image's own packages is what the reference's wheel brings too: groups of entry
  points, names of pytest plugins and commands, top-level modules. Other modules come last of all, the rest is left out.
- A wheel is no way round the protected files: where it has one, the trusted one is taken.
- Modules that are imported from the tree stay the tree's; files that a build makes (extension modules, a version file)
  are put beside them, as an editable installation would.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from beyondswe.errors import InstanceFault, ScoringError
from beyondswe.instances.model import Instance
from beyondswe.resources import resource
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.paths import inside, quoted
from beyondswe.sandbox.trees import FILE, Entry, Trees
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring import suspicion
from beyondswe.scoring.archives import BadArchive, read_zip
from beyondswe.scoring.compose import Composition, Trusted, overlaid, shortened, trusted, writes
from beyondswe.scoring.job import Job, Write, run_job
from beyondswe.scoring.protected import IMPORT_ROOTS, is_protected
from beyondswe.scoring.verdict import infrastructure_fault, last_line
from beyondswe.scoring.wheels import Brought, brought, installed, starts_by_itself

NONE, METADATA, FULL = "none", "metadata", "full"
MODES = (NONE, METADATA, FULL)

PLACES = tuple(f"/opt/beyondswe-target/{name}" for name in ("metadata", "lib", "bin", "late"))
_METADATA, _LIBRARY, _COMMANDS, _LATE = 1, 2, 3, 4  # numbers of places in a job; 0 is the workdir

_OUT = "/tmp/beyondswe-wheels"
_TIMEOUT = 900.0
_KEPT = 16  # wheels in memory: a verification builds two trees many times over
_wheels: dict[tuple[str, ...], Wheel] = {}
_lock = threading.Lock()
_building: dict[tuple[str, ...], threading.Lock] = {}


@dataclass(frozen=True)
class Wheel:
    """What a build gave: a wheel, or why there is none."""

    data: bytes = b""
    log: str = ""
    failed: str = ""


def mode_of(instance: Instance) -> str:
    """How an instance's patches are installed; the record of its verification says so."""
    mode = (instance.verification or {}).get("reinstall") or NONE
    if mode not in MODES:
        raise InstanceFault(
            f"instance {instance.instance_id}: its record names the reinstall mode {mode!r}; "
            f"known are {', '.join(MODES)}. Verify it again."
        )
    return str(mode)


def with_mode(instance: Instance, mode: str, brings: Brought) -> Instance:
    """The instance as it is installed by ``mode``, with what the reference's wheel brings."""
    record = {**(instance.verification or {}), "reinstall": mode}
    record.pop("installs", None)
    if mode != NONE:
        record["installs"] = brings.to_record()
    return instance.model_copy(update={"verification": record})


def reference_brings(
    engine: Engine,
    instance: Instance,
    environment: Environment,
    trees: Trees,
    tree: str,
    *,
    limits: Limits,
    run_labels: Mapping[str, str] | None,
) -> Brought:
    """What the wheel of the reference's tree brings; raises `BadArchive` with the reason where none is built."""
    wheel = build(engine, instance, environment, trees, tree, limits=limits, run_labels=run_labels)
    if wheel.failed:
        raise BadArchive(wheel.failed)
    return brought(wheel.data)


def reinstalled(
    engine: Engine,
    instance: Instance,
    environment: Environment,
    trees: Trees,
    tree: str,
    composition: Composition,
    *,
    limits: Limits,
    run_labels: Mapping[str, str] | None,
) -> tuple[Composition, str]:
    """The composition with the tree's own build in place, as the instance's record says, and the build's log.

    A tree that does not build is no fault of the machine: the tests run without, with a flag.
    """
    mode = mode_of(instance)
    if mode == NONE:
        return composition, ""
    allowed = Brought.from_record((instance.verification or {}).get("installs") or {})
    wheel = build(engine, instance, environment, trees, tree, limits=limits, run_labels=run_labels)
    flags: list[str] = []
    write: list[Write] = []
    log, modules = wheel.log, frozenset[str]()
    try:
        if wheel.failed:
            raise BadArchive(wheel.failed)
        known = trusted(trees, environment.snapshot, instance)
        write += _placed(wheel.data, mode, allowed, flags)
        if mode == FULL:
            write, made = _over(trees, environment, known, composition, write, flags)
            write += made
            modules = frozenset(allowed.modules)
    except BadArchive as error:
        write, flags = [], ["install_failed"]
        log = f"{log}\nthe patched project was not installed: {error}\n"
    tests = {
        **composition.tests,
        "front": [PLACES[_METADATA - 1]],
        "library": {"path": PLACES[_LIBRARY - 1], "modules": sorted(modules)},
        "append": [*composition.tests["append"], PLACES[_LATE - 1]],
        "first_commands": [PLACES[_COMMANDS - 1]],
    }
    return (
        replace(
            composition,
            write=(*composition.write, *write),
            places=PLACES,
            tests=tests,
            flags=tuple(shortened([*composition.flags, *flags])),
        ),
        log,
    )


def build(
    engine: Engine,
    instance: Instance,
    environment: Environment,
    trees: Trees,
    tree: str,
    *,
    limits: Limits,
    run_labels: Mapping[str, str] | None,
) -> Wheel:
    """The wheel of a tree, built in a container of its own; kept for who asks for the same one.

    Raises `ScoringError` where the machine is at fault.
    """
    key = (environment.image, tree, instance.instance_id, *instance.project_names)
    with _lock:
        own = _building.setdefault(key, threading.Lock())
    with own:
        found = _wheels.get(key)
        if found is None:
            found = _built(engine, instance, environment, trees, tree, limits, run_labels)
            with _lock:
                _wheels[key] = found
                while len(_wheels) > _KEPT:
                    oldest = next(iter(_wheels))
                    _wheels.pop(oldest)
                    _building.pop(oldest, None)
        return found


def _built(
    engine: Engine,
    instance: Instance,
    environment: Environment,
    trees: Trees,
    tree: str,
    limits: Limits,
    run_labels: Mapping[str, str] | None,
) -> Wheel:
    snapshot = environment.snapshot
    known = trusted(trees, snapshot, instance)
    overlay = overlaid(known, trees.changed(snapshot.tree, tree))
    files = {path: content for path, content in overlay.files.items() if path not in known.files}
    script = resource("harness", "runner", "build.py").read_text("utf-8")
    job = Job(
        workdir=environment.workdir,
        user=environment.user,
        delete=tuple(sorted(path for path, content in files.items() if content is None)),
        write=tuple(writes(trees, files)),
        command=("{python}", "-c", script, _OUT, *instance.project_names),
        collect=_OUT,
    )
    limits = replace(limits, test_timeout=min(limits.test_timeout, _TIMEOUT))
    evidence = run_job(engine, environment.image, job, limits=limits, run_labels=run_labels)
    if reason := infrastructure_fault(evidence):
        raise ScoringError(f"while the patched project was built: {reason}")
    wheels = [data for name, data in evidence.files.items() if name.endswith(".whl")]
    if evidence.files_too_large:
        return Wheel(log=evidence.log, failed="what the build left is too large")
    if evidence.timed_out:
        return Wheel(log=evidence.log, failed="the build did not end in time")
    if len(wheels) != 1:
        return Wheel(log=evidence.log, failed=f"the build left no wheel: {last_line(evidence.log)}")
    return Wheel(wheels[0], evidence.log)


def _placed(wheel: bytes, mode: str, allowed: Brought, flags: list[str]) -> Iterator[Write]:
    """The wheel's files at their places; what may not be there is named in ``flags``."""
    own = brought(wheel)
    if own.distribution != allowed.distribution:
        raise BadArchive(f"it is called {own.distribution}, and the reference's {allowed.distribution}")
    flags += (f"plugin_dropped:{name}" for name in sorted(set(own.plugins) - set(allowed.plugins)))
    flags += (f"entry_points_dropped:{name}" for name in sorted(set(own.groups) - set(allowed.groups)))
    for write in installed(
        wheel, library=_LIBRARY, commands=_COMMANDS, keeps=allowed.keeps, distribution=own.distribution
    ):
        top = write.path.split(b"/")[0]
        if write.place == _COMMANDS:
            if write.path.decode("utf-8", "surrogateescape") in allowed.commands:
                yield write
        elif top.endswith(b".dist-info"):
            yield replace(write, place=_METADATA)
        elif mode == FULL:
            name = top.split(b".")[0].decode("utf-8", "surrogateescape")
            yield write if name in allowed.modules else replace(write, place=_LATE)
    flags += (
        f"build_output_dropped:{quoted(path)}" for path in sorted(read_zip(wheel)) if starts_by_itself(path)
    )


def _over(
    trees: Trees,
    environment: Environment,
    known: Trusted,
    composition: Composition,
    placed: Sequence[Write],
    flags: list[str],
) -> tuple[list[Write], list[Write]]:
    """The modules less what is protected, and the files that the build made for the tree, beside its modules."""
    snapshot = environment.snapshot
    gone = set(composition.delete)
    there = {path: entry for path, entry in trees.entries(snapshot.tree).items() if path not in gone}
    written = {write.path for write in composition.write if write.place == 0}
    tracked = set(trees.entries(snapshot.base_tree))
    paths = {*there, *written}
    roots = {top: root for root in reversed(IMPORT_ROOTS) for top in _tops(paths, root)}
    kept: list[Write] = []
    made: list[Write] = []
    texts: dict[bytes, tuple[bytes | None, bytes]] = {}
    for write in placed:
        if write.place not in (_LIBRARY, _LATE):
            kept.append(write)
            continue
        root = roots.get(write.path.split(b"/")[0])
        path = write.path if not root else root + b"/" + write.path
        if is_protected(write.path) or known.protects(path):
            if (trusted_one := _trusted_bytes(trees, known, there, path)) is not None:
                kept.append(replace(write, data=trusted_one))
            else:
                flags.append(f"build_output_dropped:{quoted(write.path)}")
            continue
        kept.append(write)
        if root is None or not inside(path) or path in written or path in tracked:
            continue
        if write.path.endswith(b".py"):
            texts[path] = (None, write.data)
        made.append(Write(path, FILE, write.data))
    for path, mark in suspicion.suspicious_marks(texts, known.marks):
        if mark in suspicion.ALWAYS_ODD:
            flags.append(f"suspicious_source:{quoted(path)}:{mark}")
    return kept, made


def _tops(paths: Iterable[bytes], root: bytes) -> set[bytes]:
    """Names below an import root of the tree."""
    prefix = root + b"/" if root else b""
    return {path[len(prefix) :].split(b"/")[0] for path in paths if path.startswith(prefix)}


def _trusted_bytes(trees: Trees, known: Trusted, there: Mapping[bytes, Entry], path: bytes) -> bytes | None:
    if path in known.files:
        held = known.files[path]
        return held.data if held else None
    return trees.read(there[path].oid) if path in there else None

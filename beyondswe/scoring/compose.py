"""The tree that the tests see, put together on the host: snapshot + patch, protected files restored, hidden
tests added.

Nothing is copied: the snapshot is in the image already, so a composition is what differs from it. What is
trusted (hidden tests, the reference's version of protected files, pytest's configuration) depends on the
instance alone and is made once (`trusted`); a patch then costs one comparison of trees. Deliberate:

- A protected file is the snapshot's plus what the reference patch and the hidden tests change in it. So the
  reference's helpers reach every patch, and an agent's own edit there is dropped with a flag.
- Of the files that the reference changes one kind stays the agent's: modules of a package called ``test``
  that are no tests by name (``django/test/client.py``). Price: they could be weakened, and the hidden tests
  would use them.
- A module that is expected for its doctests alone is source, and stays the agent's; an edit has a flag where the
  a doctest is changed. Price: a doctest can be weakened.
- A trusted path wins over whatever the patch puts in its way, link or folder, or a module of its name in another
  form.
"""

from __future__ import annotations

import posixpath
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from beyondswe.errors import InstanceFault
from beyondswe.instances.model import Instance
from beyondswe.sandbox.paths import inside, parents, quoted
from beyondswe.sandbox.trees import FILE, SYMLINK, Changed, Entry, File, Trees
from beyondswe.sandbox.types import Snapshot
from beyondswe.scoring import suspicion
from beyondswe.scoring.job import Write
from beyondswe.scoring.named_data import named_data
from beyondswe.scoring.patches import PatchRejected, apply_patch
from beyondswe.scoring.protected import (
    in_test_folder,
    is_loaded_by_pytest,
    is_loaded_by_python,
    is_protected,
    is_test_file,
)
from beyondswe.scoring.pytest_config import PytestConfig, configurations, filtered_addopts, without_places
from beyondswe.scoring.shadows import Module, brought_by, is_taken, modules_of, names_of_target
from beyondswe.scoring.types import Selection

SCRIPT = b"test_fail_to_pass.py"
"""Where the text of ``f2p_script`` goes."""

_A_TEST = re.compile(rb"^\s*(async\s+)?def test|^\s*class \w*Test|\bunittest\b|>>> ", re.MULTILINE)
_FLAGS_SHOWN = 20
_KNOWN_LIMIT = 64  # instances whose trusted part is kept in memory
_known: dict[tuple[str, str, str], Trusted] = {}


class Held(NamedTuple):
    """A trusted file, with its bytes: it outlives the git directory that it was made in."""

    entry: Entry
    data: bytes


@dataclass(frozen=True)
class Trusted:
    """What an instance says about its own tests, whoever's patch is scored."""

    files: Mapping[bytes, Held | None]  # protected paths that are not as in the snapshot; None: not there
    exact: frozenset[bytes]  # protected by name: the hidden tests and the files of expected ids
    open: frozenset[bytes]  # would be protected by their names, but are the reference's source
    doctested: frozenset[bytes]  # sources with expected doctests that the reference leaves alone
    data: frozenset[bytes]  # protected since the tests name them (`named_data`)
    watched: frozenset[bytes]  # named as well, and somebody else's: a change has a flag
    environments: frozenset[bytes]  # virtual environments of the image that lie in the tree
    modules: frozenset[Module]  # what can be imported without a patch, or with the reference's
    held: frozenset[Module]  # of these, the protected ones
    names: frozenset[bytes]  # see `names_of_target`
    configs: tuple[PytestConfig, ...]
    base_configs: tuple[PytestConfig, ...]  # those of the snapshot
    values: Mapping[str, tuple[object, ...]]  # what each test that fails before compares with
    literals: tuple[object, ...]  # what the reference adds to the source
    marks: frozenset[str]  # what of `suspicion.marks` the reference has
    expected: Mapping[str, str]  # expected id -> the id that pytest gives it
    targets: tuple[str, ...]  # the files of the expected ids that are there

    def protects(self, path: bytes) -> bool:
        if path in self.exact:
            return True
        if self.environments and not self.environments.isdisjoint(parents(path)):
            return True
        return path not in self.open and (path in self.data or is_protected(path))


@dataclass(frozen=True)
class Composition:
    """What a job does to the snapshot's tree, and which tests it runs then."""

    delete: tuple[bytes, ...]
    write: tuple[Write, ...]
    tests: Mapping[str, Any]  # the child's task, see harness/runner/worker.py
    places: tuple[str, ...] = ()  # folders outside the tree that files go to as well
    expected: Mapping[str, str] = field(default_factory=dict)  # see `Trusted.expected`
    flags: tuple[str, ...] = ()


@dataclass
class Overlay:
    """What becomes of paths on top of a snapshot; None: gone."""

    files: dict[bytes, Entry | Held | None] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    added: set[Module] = field(default_factory=set)  # modules that nobody but the patch has


def compose(
    trees: Trees, snapshot: Snapshot, instance: Instance, tree: str, selection: Selection | None = None
) -> Composition:
    """Compose the job for ``tree`` (the snapshot with a patch applied).

    Without a selection the instance's expected ids are run. Raises `InstanceFault` where the dataset is at
    fault.
    """
    known = trusted(trees, snapshot, instance)
    overlay = overlaid(known, trees.changed(snapshot.tree, tree))
    if selection is None:
        ids, targets = sorted(set(known.expected.values())), known.targets
        if not targets:
            raise InstanceFault(
                f"instance {instance.instance_id} is at fault, not the patch: none of the files that its "
                "expected tests name is in the tree, nor do its hidden tests bring one. "
                "Check FAIL_TO_PASS, f2p_patch and f2p_script."
            )
    else:
        ids = list(selection.ids)
        wished = selection.files or tuple(dict.fromkeys(map(file_of, ids)))
        # pytest runs nothing at all where one of its arguments is not there.
        targets = tuple(target for target in wished if _is_there(trees, tree, overlay, target))
        if wished and not targets:
            raise InstanceFault(
                f"instance {instance.instance_id}: none of {', '.join(wished[:5])} is in the tree"
            )
    task, copies = child_task(
        known.configs, targets, ids or None, roots=[instance.workdir], added=overlay.added
    )
    overlay.flags += _config_flags(trees, tree, known, overlay)
    overlay.flags += source_flags(trees, snapshot, known, overlay)
    return Composition(
        delete=tuple(sorted(path for path, content in overlay.files.items() if content is None)),
        write=(*writes(trees, overlay.files), *copies),
        tests=task,
        expected=known.expected,
        flags=tuple(shortened(overlay.flags)),
    )


def overlaid(known: Trusted, changes: Iterable[Changed]) -> Overlay:
    """The patch's changes less those that touch what is protected, and the trusted files on top."""
    overlay = Overlay(dict(known.files))
    kept = {path for path, content in known.files.items() if content is not None}
    loose: list[Changed] = []
    for change in changes:
        if not known.protects(change.path):
            loose.append(change)
            continue
        if change.path in known.files:
            held = known.files[change.path]
            if change.new == (held.entry if held else None):
                continue
        elif change.old is not None:
            kept.add(change.path)  # as the snapshot has it
        overlay.flags.append(dropped_flag(change))
    folders = {folder for path in kept for folder in parents(path)}
    for change in loose:
        if change.new is not None and (change.path in folders or not kept.isdisjoint(parents(change.path))):
            overlay.flags.append(f"protected_path_squatted:{quoted(change.path)}")
            continue
        if change.new is not None:
            brought = brought_by(change)
            if not known.held.isdisjoint(brought):
                overlay.flags.append(f"protected_path_squatted:{quoted(change.path)}")
                continue
            new = [module for module in brought if module not in known.modules]
            if any(is_taken(module) and module[1] not in known.names for module in new):
                overlay.flags.append(f"import_shadow_dropped:{quoted(change.path)}")
                continue
            overlay.added.update(module for module in new if module[1].lower() not in known.names)
        overlay.files[change.path] = change.new
    return overlay


def _config_flags(trees: Trees, tree: str, known: Trusted, overlay: Overlay) -> Iterator[str]:
    """The files whose section for pytest the patch changes, which the tests do not run under."""
    changed = [path for path in (b"pyproject.toml", b"tox.ini", b"setup.cfg") if path in overlay.files]
    if changed:
        try:
            configs = tuple(configurations(_reader(trees, tree)))
        except ValueError:
            configs = ()
        used = {*known.configs, *known.base_configs}
        if not used.issuperset(configs):
            names = {config.name for config in set(configs) - used}
            yield from (
                f"pytest_config_not_used:{quoted(path)}"
                for path in changed
                if not names or {path.decode(), path.decode().replace(".", "-") + ".ini"} & names
            )


def source_flags(trees: Trees, snapshot: Snapshot, known: Trusted, overlay: Overlay) -> Iterator[str]:
    """What is suspicious in the source that the patch leaves behind, see `suspicion`."""
    looked_at = {
        path: content
        for path, content in overlay.files.items()
        if isinstance(content, Entry) and content.mode != SYMLINK and path.endswith((b".py", b".so", b".pyd"))
    }
    before = trees.entries(snapshot.tree, list(looked_at))
    changed = {
        path: (trees.read(before[path].oid) if path in before else None, trees.read(content.oid))
        for path, content in looked_at.items()
    }
    for path in known.doctested.intersection(changed):
        if suspicion.doctests_of(changed[path][0] or b"") - suspicion.doctests_of(changed[path][1]):
            yield f"doctests_changed:{quoted(path)}"
    for path in sorted(known.watched.intersection(overlay.files)):
        yield f"test_data_changed:{quoted(path)}"
    for path, mark in suspicion.suspicious_marks(changed, known.marks):
        if not suspicion.is_common(mark, _sources(trees, snapshot)):
            yield f"suspicious_source:{quoted(path)}:{mark}"
    if found := suspicion.holds_expected_values(changed, known.values, known.literals):
        yield f"suspicious_source:{quoted(found)}:expected_values"


def _sources(trees: Trees, snapshot: Snapshot) -> Iterator[bytes]:
    """The source as it was before any patch."""
    for path, entry in trees.entries(snapshot.tree).items():
        if path.endswith(b".py") and not is_protected(path):
            yield trees.read(entry.oid)


def trusted(trees: Trees, snapshot: Snapshot, instance: Instance) -> Trusted:
    """The trusted part of an instance on its snapshot; kept, since every patch needs it."""
    key = (str(snapshot.git_dir), snapshot.tree, instance.content_hash)
    known = _known.get(key)
    if known is None:
        known = _trusted(trees, snapshot, instance)
        while len(_known) >= _KNOWN_LIMIT:
            _known.pop(next(iter(_known)), None)
        _known[key] = known
    return known


def _trusted(trees: Trees, snapshot: Snapshot, instance: Instance) -> Trusted:
    expected = expected_ids(instance)
    files = list(dict.fromkeys(_encoded(file_of(name)) for name in expected.values()))
    doctested = _doctested(expected.values())
    there = {path for path in files if inside(path)}
    named = there - doctested
    reference = snapshot.tree
    if instance.patch:
        try:
            reference = apply_patch(trees, snapshot.tree, instance.patch).tree
        except PatchRejected as error:
            raise _fault(instance, "its reference patch does not apply to the tree", error) from error
    changed = {change.path: change.new for change in trees.changed(snapshot.tree, reference)}
    restored = {
        path: entry
        for path, entry in changed.items()
        if path in named or (is_protected(path) and not _is_source(trees, reference, path))
    }
    if len(restored) == len(changed):
        # A reference changes some source: where all of it looks like tests, the target lies in such a folder.
        restored = {
            path: entry for path, entry in restored.items() if path in named or not _may_be_source(path)
        }
    with_reference = trees.edit(snapshot.tree, restored)
    hidden = _hidden_tests(trees, instance, (with_reference, snapshot.tree))
    tree = trees.edit(with_reference, hidden)
    overlay = {change.path: change.new for change in trees.changed(snapshot.tree, tree)}
    there.intersection_update(trees.entries(tree, sorted(there)))
    open_ = frozenset(path for path in changed if is_protected(path) and path not in restored)
    exact = frozenset(named.union(hidden))
    before = trees.entries(snapshot.tree)
    source = {
        path: trees.read(entry.oid) for path, entry in changed.items() if entry and path not in restored
    }
    old = {path: trees.read(before[path].oid) for path in source if path in before}
    test_texts = {path: trees.read(entry.oid) for path, entry in trees.entries(tree, list(there)).items()}
    data, watched = named_data(test_texts.values(), before, changed)
    paths = {*before, *(path for path, entry in {**changed, **overlay}.items() if entry)}
    return Trusted(
        files={
            path: Held(entry, trees.read(entry.oid)) if entry else None for path, entry in overlay.items()
        },
        exact=exact,
        open=open_,
        doctested=frozenset(doctested.difference(changed)),
        data=data.difference(there),
        watched=watched.difference(there),
        environments=frozenset(path.rpartition(b"/")[0] for path in before if path.endswith(b"/pyvenv.cfg")),
        modules=modules_of(paths),
        held=modules_of(
            path for path in paths if path in exact or (path not in open_ and is_protected(path))
        ),
        names=names_of_target(instance),
        configs=_configs(trees, trees.edit(reference, hidden), instance),
        base_configs=_configs(trees, snapshot.tree, instance),
        values=_values(instance, expected, test_texts),
        literals=tuple(
            value
            for path, text in source.items()
            for value in set(suspicion.literals(text)).difference(suspicion.literals(old.get(path, b"")))
        ),
        marks=frozenset(mark for path, text in source.items() for mark in suspicion.marks(text)),
        expected=expected,
        targets=tuple(path.decode("utf-8", "surrogateescape") for path in files if path in there),
    )


def _hidden_tests(trees: Trees, instance: Instance, bases: Iterable[str]) -> dict[bytes, Entry | File | None]:
    """What the hidden tests make of the paths that they touch.

    Made on the first base that the patch applies to; what it creates is cleared where it is in the way.
    """
    hidden: dict[bytes, Entry | File | None] = {}
    if instance.f2p_patch.strip():
        hidden |= _patched(trees, instance, bases)
    if instance.f2p_script:
        hidden[SCRIPT] = File(FILE, instance.f2p_script.encode())
    return hidden


def _patched(trees: Trees, instance: Instance, bases: Iterable[str]) -> dict[bytes, Entry | None]:
    first: PatchRejected | None = None
    created = dict.fromkeys(_created(instance))
    for base in bases:
        for start in (base, trees.edit(base, created)):
            try:
                tree = apply_patch(trees, start, instance.f2p_patch).tree
            except PatchRejected as error:
                first = first or error
            else:
                return {change.path: change.new for change in trees.changed(start, tree)}
    raise _fault(instance, "its f2p_patch does not apply to the tree", first)


def _created(instance: Instance) -> list[bytes]:
    """The paths that the hidden patch says it creates."""
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    try:
        return [file.path.encode() for file in PatchSet(instance.f2p_patch) if file.is_added_file]
    except (UnidiffParseError, UnicodeEncodeError):
        return []  # then git's own words on it are what the user sees


def _doctested(ids: Iterable[str]) -> set[bytes]:
    """Modules that are no tests by their names, and of which only doctests are expected."""
    modules: dict[bytes, bool] = {}
    for name in ids:
        file, _, rest = name.partition("::")
        stem = posixpath.basename(file).removesuffix(".py")
        module = posixpath.basename(posixpath.dirname(file)) if stem == "__init__" else stem
        is_doctest = "::" not in rest and bool(re.match(rf"([\w.]+\.)?{re.escape(module)}(\.[\w.]+)?$", rest))
        path = _encoded(file)
        if file.endswith(".py") and not is_protected(path):
            modules[path] = modules.get(path, True) and is_doctest
    return {path for path, only in modules.items() if only}


def _is_source(trees: Trees, tree: str, path: bytes) -> bool:
    """A module of a package called ``test`` that is no test by its own name, such as
    ``django/test/client.py``; or one outside of such folders that is named like a test and holds none, such as
    ``app/test_runner.py``.
    """
    folders = path.split(b"/")[:-1]
    if is_test_file(path) and not in_test_folder(path) and not is_loaded_by_python(path):
        entry = trees.entries(tree, [path]).get(path)
        return entry is not None and not _A_TEST.search(trees.read(entry.oid))
    if not _may_be_source(path):
        return False
    if folders.count(b"test") != 1 or folders[0] == b"test":
        return False
    folder = b"/".join(folders[: folders.index(b"test") + 1])
    packages = [folder + b"/__init__.py", posixpath.dirname(folder) + b"/__init__.py"]
    return len(trees.entries(tree, packages)) == len(packages)


def _may_be_source(path: bytes) -> bool:
    return (
        path.endswith(b".py")
        and not is_test_file(path)
        and not is_loaded_by_pytest(path)
        and not is_loaded_by_python(path)
        and b"tests" not in path.split(b"/")[:-1]
    )


def _values(
    instance: Instance, expected: Mapping[str, str], texts: Mapping[bytes, bytes]
) -> dict[str, tuple[object, ...]]:
    """The literals that each test which fails before the change compares with."""
    by_file: dict[bytes, set[str]] = {}
    for name in instance.fail_to_pass:
        file, _, rest = expected[name].partition("::")
        by_file.setdefault(_encoded(file), set()).add(rest.partition("[")[0])
    return {
        f"{quoted(path)}::{name}": tuple(values)
        for path, names in by_file.items()
        for name, values in suspicion.asserted_values(texts.get(path, b""), names).items()
    }


def _reader(trees: Trees, tree: str) -> Callable[[str], bytes | None]:
    def read(name: str) -> bytes | None:
        entry = trees.entries(tree, [name.encode()]).get(name.encode())
        return trees.read(entry.oid) if entry else None

    return read


def _configs(trees: Trees, tree: str, instance: Instance) -> tuple[PytestConfig, ...]:
    try:
        return tuple(configurations(_reader(trees, tree)))
    except ValueError as error:
        raise _fault(instance, "the addopts of its pytest configuration cannot be split", error) from error


def is_sealed(instance: Instance) -> bool:
    """Whether the instance was verified, and so is scored, by a user who cannot write to the tree."""
    return (instance.verification or {}).get("tree") == "read_only"


def expected_ids(instance: Instance) -> dict[str, str]:
    """Each expected id and what pytest calls it: the same, save where the instance's ``renames`` say
    otherwise.
    """
    renames = (instance.verification or {}).get("renames", {})
    return {name: renames.get(name, name) for name in (*instance.fail_to_pass, *instance.pass_to_pass)}


def file_of(node_id: str) -> str:
    """The file of a node id; a parameter may hold ``::`` too."""
    return node_id.split("::", 1)[0]


def child_task(
    configs: Iterable[PytestConfig],
    targets: Iterable[str],
    ids: Sequence[str] | None,
    *,
    roots: Sequence[str],
    options: Sequence[str] = (),
    append: Sequence[str] = (),
    commands: Sequence[str] = (),
    added: Iterable[Module] = (),
) -> tuple[dict[str, Any], list[Write]]:
    """The child's task (see harness/runner/worker.py), and the copies of the configurations that it needs.

    ``ids`` None runs whatever the targets hold, and then the configuration's own selection counts. ``roots``
    come first on the import path, ``append`` last; ``commands`` are folders put at the end of ``PATH``; ``added``
    are modules that come last of all of their name. What was built anew is added by `reinstall`.
    """
    stem = f".beyondswe-{secrets.token_hex(4)}-"
    named, copies = [], []
    places = [f"./{target}" if target.startswith("-") else target for target in targets]
    for config in configs:
        name = config.name
        if config.content is not None:
            name = stem + name
            copies.append(Write(name.encode(), FILE, config.content))
        addopts = filtered_addopts(config.addopts, keep_selection=ids is None)
        if places:
            addopts = without_places(addopts)
        named.append({"since": config.since, "name": name, "addopts": [*addopts, *options]})
    task = {
        "configs": named,
        "targets": places,
        "ids": ids,
        "roots": list(roots),
        "front": [],
        "library": {"path": "", "modules": []},
        "append": list(append),
        "first_commands": [],
        "commands": list(commands),
        "added": sorted(posixpath.join(*module).decode("utf-8", "surrogateescape") for module in added),
    }
    return task, copies


def writes(trees: Trees, files: Mapping[bytes, Entry | Held | None]) -> Iterator[Write]:
    """The files to write, with their bytes."""
    for path, content in sorted(files.items()):
        if isinstance(content, Held):
            yield Write(path, content.entry.mode, content.data)
        elif content is not None:
            yield Write(path, content.mode, trees.read(content.oid))


def dropped_flag(change: Changed) -> str:
    """What became of a patch's change to a protected path, for people: it was left out."""
    if change.old is not None:
        return f"protected_file_edited:{quoted(change.path)}"
    if is_loaded_by_pytest(change.path) or is_loaded_by_python(change.path):
        return f"autoloaded_file_dropped:{quoted(change.path)}"
    return f"test_file_dropped:{quoted(change.path)}"


def shortened(flags: Sequence[str]) -> list[str]:
    """The first flags, and how many more there are: a patch may touch thousands of files."""
    if len(flags) <= _FLAGS_SHOWN:
        return list(flags)
    return [*flags[:_FLAGS_SHOWN], f"more_flags:{len(flags) - _FLAGS_SHOWN}"]


def _is_there(trees: Trees, tree: str, overlay: Overlay, target: str) -> bool:
    path = posixpath.normpath(_encoded(target))
    if path == b".":
        return True
    found = set(trees.entries(tree, [path]))
    for changed, content in overlay.files.items():
        if changed == path or changed.startswith(path + b"/"):
            found.discard(changed) if content is None else found.add(changed)
    return bool(found)


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _fault(instance: Instance, what: str, error: Exception | None) -> InstanceFault:
    return InstanceFault(f"instance {instance.instance_id} is at fault, not the patch: {what} ({error})")

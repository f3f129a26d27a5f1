"""Doc2Repo: the generated package built and installed as data, the suite put in its place, its tests counted.

The suite decides what is run: its evaluation script (official zips hold one) is read for pytest's arguments
and never run, only ids from the suite's own files count, and the rate is at most 1. Deliberate:

- The package is built in a throw-away container that never sees the suite; what comes back is a wheel, read
  as data. It lies in a folder of its own at the end of the import path, so nothing in it stands before the
  image's packages.
- A package that does not build is no infrastructure error: the tree's root and ``src`` are put on the path,
  with a flag.
- Where the suite lies inside the package's own folder (it has an ``__init__.py`` there, and the suite no file
  directly in it), only the suite's folders below are cleared, not the package.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from posixpath import basename

from beyondswe.errors import InstanceFault, ScoringError
from beyondswe.instances.model import Instance
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.paths import parents, quoted
from beyondswe.sandbox.trees import SYMLINK, Entry, File, Trees
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring import suspicion
from beyondswe.scoring.archives import BadArchive, read_zip
from beyondswe.scoring.compose import Composition, Held, child_task, file_of, shortened, writes
from beyondswe.scoring.evidence import Evidence
from beyondswe.scoring.job import Job, Write, run_job
from beyondswe.scoring.protected import is_loaded_by_pytest, is_loaded_by_python, is_protected
from beyondswe.scoring.pytest_config import configurations, filtered_addopts
from beyondswe.scoring.shadows import Module, brought_by, is_taken, modules_of, names_of_target
from beyondswe.scoring.types import Status, TestResult
from beyondswe.scoring.verdict import Verdict, infrastructure_fault, last_line, oddities, result_of, tampering
from beyondswe.scoring.wheels import installed

EVALUATION_SCRIPT = b"realswe_eval_script.py"
LIBRARY, COMMANDS = "/opt/beyondswe-target/lib", "/opt/beyondswe-target/bin"
"""Where the built package goes in the scoring container."""

_WHEELS = "/tmp/beyondswe-wheels"
_BUILD_TIMEOUT = 600.0
_PIP = ("{python}", "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir")
_PIP_ENVIRONMENT = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    # A workspace without history has no version to find.
    "SETUPTOOLS_SCM_PRETEND_VERSION": "0.0.0",
}


@dataclass(frozen=True)
class Suite:
    """The tests of one instance, from its zip."""

    files: Mapping[bytes, File]  # by path in the workdir, less the evaluation script
    targets: tuple[str, ...]  # what pytest is given
    options: tuple[str, ...]  # of the evaluation script, less reporting and the like


@dataclass(frozen=True)
class Built:
    """The generated package, made ready: files to put in place, or why there are none."""

    write: tuple[Write, ...] = ()
    flags: tuple[str, ...] = ()
    log: str = ""


def read_suite(instance: Instance) -> Suite:
    """Read an instance's suite. Raises `InstanceFault`: a missing or bad zip is the dataset's fault."""
    where = f"instance {instance.instance_id}: its test suite {instance.test_suite or '(no name)'}"
    if not instance.test_suite or instance.test_suite_dir is None:
        raise InstanceFault(
            f"{where} was not found. Put the zip beside the dataset or name its folder: --test-suite-dir"
        )
    path = instance.test_suite_dir / instance.test_suite
    try:
        files = dict(read_zip(path.read_bytes()))
    except OSError as error:
        raise InstanceFault(
            f"{where} cannot be read: {error}. Name the folder that holds it: --test-suite-dir"
        ) from error
    except BadArchive as error:
        raise InstanceFault(f"{where} is refused: {error}") from error
    script = files.pop(EVALUATION_SCRIPT, None)
    if not files:
        raise InstanceFault(f"{where} holds no tests")
    targets, options = arguments_of(script.data, files) if script else ((), ())
    if not targets:
        targets = tuple(sorted({_text(path.split(b"/")[0]) for path in files if _may_hold_tests(path)}))
    return Suite(files, targets, options)


def arguments_of(script: bytes, files: Collection[bytes]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Targets and options of the pytest command in an evaluation script, which is read, not run.

    Targets are arguments that name a file or folder of the suite; options are kept as `filtered_addopts`
    keeps them.
    """
    words = next(_commands(script), [])
    known = {_text(path) for path in files} | {_text(folder) for path in files for folder in parents(path)}
    targets, options = [], []
    for word in filtered_addopts(tuple(words), keep_selection=True):
        name = word.removeprefix("./").rstrip("/")
        if name == "." or file_of(name) in known:
            targets.append(name)
        else:
            options.append(word)
    return tuple(targets), tuple(options)


def _commands(script: bytes) -> Iterator[list[str]]:
    """The arguments of each pytest command that a script's source holds as a text or as a list of words."""
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        words: list[str] = []
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "pytest" in node.value:
            try:
                words = shlex.split(node.value)
            except ValueError:
                continue
        elif isinstance(node, ast.List | ast.Tuple):
            words = [
                part.value
                for part in node.elts
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("pytest.main") and node.args:
            given = node.args[0]
            if isinstance(given, ast.List | ast.Tuple):
                values = [part.value for part in given.elts if isinstance(part, ast.Constant)]
                words = ["pytest", *(value for value in values if isinstance(value, str))]
        for position, word in enumerate(words):
            if re.fullmatch(r"(.*/)?(pytest|py\.test)", word) and len(words) > position + 1:
                rest = words[position + 1 :]
                stop = next((at for at, part in enumerate(rest) if re.match(r"[|;&>]|\d>", part)), len(rest))
                yield rest[:stop]
                break


def build_package(
    engine: Engine,
    environment: Environment,
    trees: Trees,
    tree: str,
    suite: Suite,
    *,
    limits: Limits,
    run_labels: Mapping[str, str] | None,
) -> Built:
    """Build the generated package in a container of its own. Raises `ScoringError` where the machine is at
    fault.
    """
    snapshot = environment.snapshot
    if not trees.entries(tree, [b"pyproject.toml", b"setup.py"]):
        return Built(flags=("not_installed",))
    changes = {change.path: change.new for change in trees.changed(snapshot.tree, tree)}
    job = Job(
        workdir=environment.workdir,
        user=environment.user,
        delete=tuple(sorted(path for path, entry in changes.items() if entry is None)),
        write=tuple(writes(trees, changes)),
        command=(*_PIP, "--wheel-dir", _WHEELS, environment.workdir),
        environment=_PIP_ENVIRONMENT,
        collect=_WHEELS,
    )
    limits = replace(limits, test_timeout=min(limits.test_timeout, _BUILD_TIMEOUT))
    evidence = run_job(engine, environment.image, job, limits=limits, run_labels=run_labels)
    if reason := infrastructure_fault(evidence):
        raise ScoringError(f"while the generated package was built: {reason}")
    wheels = [data for name, data in evidence.files.items() if name.endswith(".whl")]
    try:
        if len(wheels) != 1 or evidence.files_too_large:
            raise BadArchive(_why_not(evidence))
        tops = {root for root in cleared(suite, set(trees.entries(tree))) if b"/" not in root}
        return Built(tuple(installed(wheels[0], library=1, commands=2, without=tops)), log=evidence.log)
    except BadArchive as error:
        return Built(
            flags=("install_failed",), log=f"{evidence.log}\nthe package was not installed: {error}\n"
        )


def _why_not(evidence: Evidence) -> str:
    if evidence.files_too_large:
        return "what the build left is too large"
    if evidence.timed_out:
        return "the build did not end in time"
    return f"the build left no wheel: {last_line(evidence.log)}"


def compose_suite(
    trees: Trees, environment: Environment, instance: Instance, tree: str, suite: Suite, built: Built
) -> Composition:
    """The generated tree less whatever stands where the suite goes or steers pytest, and the suite on top."""
    snapshot = environment.snapshot
    there = trees.entries(tree)
    roots = cleared(suite, set(there))
    flags = list(built.flags)
    files: dict[bytes, Entry | Held | None] = {}
    before = trees.entries(snapshot.tree)
    delete = {path for path in before if _is_cleared(path, roots)}
    known, names = modules_of([*before, *suite.files]), names_of_target(instance)
    added: set[Module] = set()
    for change in trees.changed(snapshot.tree, tree):
        if _is_cleared(change.path, roots):
            if change.path in roots and change.new is not None and change.path not in suite.files:
                flags.append(f"protected_path_squatted:{quoted(change.path)}")
        elif change.new is None:
            delete.add(change.path)
        else:
            new = [module for module in brought_by(change) if module not in known]
            if any(is_taken(module) and module[1] not in names for module in new):
                flags.append(f"import_shadow_dropped:{quoted(change.path)}")
                continue
            added.update(module for module in new if module[1].lower() not in names)
            files[change.path] = change.new
    flags += _source_flags(trees, files)
    installed_here = bool(built.write)
    roots_on_path = [environment.workdir]
    if not installed_here:
        roots_on_path.append(f"{environment.workdir.rstrip('/')}/src")
    task, copies = child_task(
        configurations(lambda name: file.data if (file := suite.files.get(name.encode())) else None),
        suite.targets,
        None,
        roots=roots_on_path,
        options=suite.options,
        append=[LIBRARY] if installed_here else [],
        commands=[COMMANDS] if installed_here else [],
        added=added,
    )
    placed = (Write(path, file.mode, file.data) for path, file in suite.files.items())
    return Composition(
        delete=tuple(sorted(delete)),
        write=(*writes(trees, files), *placed, *copies, *built.write),
        places=(LIBRARY, COMMANDS),
        tests=task,
        flags=tuple(shortened(flags)),
    )


def _source_flags(trees: Trees, files: Mapping[bytes, Entry | Held | None]) -> Iterator[str]:
    texts = {
        path: (None, trees.read(entry.oid))
        for path, entry in files.items()
        if isinstance(entry, Entry)
        and entry.mode != SYMLINK
        and path.endswith(b".py")
        and path != b"setup.py"
        and not is_protected(path)
    }
    for path, mark in suspicion.suspicious_marks(texts, ()):
        if mark in suspicion.ALWAYS_ODD:
            yield f"suspicious_source:{quoted(path)}:{mark}"


def cleared(suite: Suite, tree: Collection[bytes]) -> set[bytes]:
    """The files and folders of a tree that the suite takes the place of."""
    with_files = {path.rpartition(b"/")[0] for path in suite.files}
    roots: set[bytes] = set()
    for path in suite.files:
        outermost = (
            folder for folder in parents(path) if folder in with_files or folder + b"/__init__.py" not in tree
        )
        roots.add(next(outermost, path))
    return roots


def _is_cleared(path: bytes, roots: Collection[bytes]) -> bool:
    return (
        path in roots
        or any(folder in roots for folder in parents(path))
        or is_loaded_by_pytest(path)
        or is_loaded_by_python(path)
    )


def judge_suite(evidence: Evidence, instance: Instance, suite: Suite) -> tuple[Verdict, float]:
    """The verdict and the rate: tests that passed, of those that are expected."""
    if instance.test_suite_num == 0:
        raise InstanceFault(
            f"instance {instance.instance_id} does not say how many tests its suite has: test_suite_num"
        )
    if reason := infrastructure_fault(evidence):
        return Verdict(Status.INFRASTRUCTURE_ERROR, error=reason), 0.0
    names: Sequence[str] = (instance.verification or {}).get("tests") or reported(evidence, suite)
    tests = {name: result_of(evidence, name) for name in names}
    flags, error = oddities(evidence)
    if reason := tampering(evidence):
        return Verdict(Status.TAMPERED, tests, flags, reason), 0.0
    passed = sum(result is TestResult.PASSED for result in tests.values())
    rate = min(1.0, passed / instance.test_suite_num)
    if evidence.timed_out:
        status = Status.TEST_TIMEOUT
    else:
        status = Status.RESOLVED if rate == 1.0 and evidence.finish else Status.UNRESOLVED
    return Verdict(status, tests, flags, error), rate


def reported(evidence: Evidence, suite: Suite) -> list[str]:
    """The ids that were reported and belong to the suite's own files."""
    return [
        name for name in evidence.phases if file_of(name).encode("utf-8", "surrogateescape") in suite.files
    ]


def _may_hold_tests(path: bytes) -> bool:
    return b"/" in path or (path.endswith(b".py") and basename(path) != b"conftest.py")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")

"""Candidates as tasks: rows that have no environment yet, which tests decide them, and their repository's facts."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from beyondswe.construction.build.facts import Tree, read_facts
from beyondswe.construction.build.pythons import RELEASED, as_of, candidates
from beyondswe.construction.build.repositories import History, patched
from beyondswe.construction.build.stopped import BuildStopped
from beyondswe.construction.build.types import Options, Task
from beyondswe.construction.build.whole import suite_modules
from beyondswe.instances import patches
from beyondswe.instances.model import Instance

UNBUILT = "beyondswe/unbuilt"
"""The image of a row that has none yet; no image is called so."""

_MOST_FILES = 5000

DEFAULTS = {
    "": {"image": UNBUILT},
    "Doc2Repo": {"REPO_DOCUMENT_CONTENT": "not written yet", "test_suite": "not-made-yet.zip"},
}
"""What stands in for fields that `build` finds, while a candidate is read."""


def is_rejected(instance: Instance) -> bool:
    """Whether a review turned the candidate down. One that waits is built: its environment helps to judge it."""
    review: Any = instance.extra.get("review")
    return isinstance(review, dict) and review.get("status") == "rejected"


def hidden_tests(instance: Instance) -> tuple[str, ...]:
    """The test modules that the hidden tests bring or change; empty where they name none."""
    names = ["test_fail_to_pass.py"] if instance.f2p_script else []
    if instance.f2p_patch.strip():
        deleted = set(re.findall(r"^--- a/(\S+)\n\+\+\+ /dev/null", instance.f2p_patch, re.MULTILINE))
        paths = [change.path for change in patches.changes(instance.f2p_patch) if change.path not in deleted]
        modules = [path for path in paths if _is_test_module(path)]
        names += modules or [path for path in paths if _may_be_test_module(path)]
    return tuple(dict.fromkeys(names))


def _is_test_module(path: str) -> bool:
    pure = PurePosixPath(path)
    if pure.suffix != ".py" or pure.name in ("conftest.py", "__init__.py", "setup.py"):
        return False
    return bool(re.search(r"(^|[_-])tests?([_.-]|$)|^test", pure.name)) or (
        pure.name.startswith("test") or pure.stem.endswith("test") or pure.stem.endswith("tests")
    )


def _may_be_test_module(path: str) -> bool:
    """Python in a folder of tests, under a name that says nothing: asked only where no name does."""
    pure = PurePosixPath(path)
    folders = {part.lower() for part in pure.parts[:-1]}
    return (
        pure.suffix == ".py"
        and pure.name not in ("conftest.py", "__init__.py")
        and not folders.isdisjoint({"test", "tests", "testing", "testsuite", "unit_tests", "unittests"})
    )


def imported_by_tests(tree: Path, script: str = "") -> frozenset[str]:
    """Top-level modules that the tests of a tree import."""
    found: set[str] = set()
    texts = [script]
    for path in sorted(tree.rglob("*.py"))[:_MOST_FILES]:
        name = path.relative_to(tree).as_posix()
        if _is_test_module(name) or _may_be_test_module(name) or path.name == "conftest.py":
            texts.append(Tree(tree).read(name) or "")  # a link may lead anywhere
    for text in texts:
        try:
            nodes = list(ast.walk(ast.parse(text)))
        except (SyntaxError, ValueError):
            continue
        for node in nodes:
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return frozenset(found)


def make_task(options: Options, instance: Instance, scratch: Path, say: Callable[[str], None]) -> Task:
    """Everything about a candidate that does not need a container."""
    if not instance.repo:
        raise BuildStopped("history", "the row names no repository (field repo: owner/name)")
    if not instance.base_commit:
        raise BuildStopped("history", "the row names no base commit")
    history = History.of(options.repo_url, instance.repo, instance.base_commit)
    commit, day = history.full_id(instance.base_commit), history.day(instance.base_commit)
    say(f"{instance.repo} at {commit} of {day}")
    tree, after = scratch / "base", scratch / "after"
    for folder in (tree, after):
        history.checkout(commit, folder)
    if why := patched(after, instance.patch):
        raise BuildStopped("history", f"the reference change does not apply to {commit}: {why}")
    facts = read_facts(tree)
    # what tox and the like say depends on the Python, which depends on what they name
    wanted = candidates(facts, day, list(RELEASED))
    python = wanted[0] if wanted else "3.11"
    say(f"Python {python} is of the time; packages as of {as_of(day, python)}")
    after_facts = read_facts(after, python)
    if why := patched(after, instance.f2p_patch):  # where it must apply, it says so again
        say(f"the hidden tests do not apply to plain files: {why}")
    return Task(
        instance=instance,
        history=history,
        commit=commit,
        day=day,
        base=read_facts(tree, python),
        after=after_facts,
        imported=imported_by_tests(after, instance.f2p_script),
        tests=suite_modules(tree) if instance.is_doc2repo else hidden_tests(instance),
        bundle=history.bundle(commit, scratch),
        tree=tree,
        say=say,
        deadline=time.monotonic() + options.row_timeout,
    )

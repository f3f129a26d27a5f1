"""Doc2Repo: from the environment in which a repository's own tests run to one that holds none of it.

The environment is found with the repository as it is. Then its packages stay, an empty `target_repo` takes its place,
and specification, masked suite and reference are made; in the rebuilt image the suite must pass on the reference.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from beyondswe.construction.build.acceptance import Accepted
from beyondswe.construction.build.recipe import Recipe, Step, build
from beyondswe.construction.build.stopped import BuildStopped
from beyondswe.construction.build.types import Options, Task
from beyondswe.construction.collect.names import find_names
from beyondswe.construction.collect.split import is_test
from beyondswe.construction.commits import read_files
from beyondswe.construction.doc2repo.hiding import TARGET, names_of
from beyondswe.construction.doc2repo.making import Made, make, with_files
from beyondswe.construction.doc2repo.material import pyproject
from beyondswe.construction.doc2repo.specification import Rewrite
from beyondswe.construction.doc2repo.trimming import without_tests
from beyondswe.construction.reference import reference_patch
from beyondswe.errors import DataError
from beyondswe.instances.model import Instance
from beyondswe.sandbox.environment import prepare
from beyondswe.scoring.score import run_tests
from beyondswe.scoring.types import TestResult, TestRun

_TRIMMINGS = 3  # times that tests are taken out of a suite before it is given up
_EDITABLE = "pip install --quiet --no-cache-dir --no-index --no-deps --no-build-isolation --editable ."


@dataclass(frozen=True)
class Whole:
    """A built Doc2Repo instance, the recipe of its image and what its suite showed."""

    instance: Instance
    recipe: Recipe
    accepted: Accepted


def suite_modules(tree: Path) -> tuple[str, ...]:
    """The test modules of a repository: what an environment must be able to run."""
    paths = [path.relative_to(tree).as_posix() for path in sorted(tree.rglob("*.py"))]
    return tuple(
        path
        for path in paths
        if (is_test(path) and path.rpartition("/")[2].startswith("test")) or path.endswith("_test.py")
    )


def build_whole(
    options: Options,
    task: Task,
    found: Recipe,
    folder: Path,
    write: Callable[[Recipe], None],
    rewrite: Rewrite | None,
) -> Whole:
    """Make the instance; suite and reference go into ``folder``, ``write`` keeps the recipe. `BuildStopped` where it
    cannot be masked, or its suite does not pass on its own reference.
    """
    try:
        made = _make(task, rewrite)
    except DataError as error:
        raise BuildStopped("specification", str(error)) from error
    for each in made.requirements:
        task.say(f"only tests know ({each.kind}): {each.what} ({each.where})")
    recipe = emptied(found, task)
    write(recipe)
    task.say("-- the Dockerfile with an empty package, from scratch")
    image = build(options.engine, recipe, b"", on_line=task.say)
    instance = task.instance.model_copy(
        update={
            "image": image,
            "base_commit": "",
            "extra": {**task.instance.extra, "reference_commit": task.commit},
        }
    )
    given = instance
    try:
        for _ in range(_TRIMMINGS):
            given = with_files(instance, made, folder, task.day)
            accepted, failed = _accept(options, task, given)
            if not failed:
                return Whole(given.model_copy(update={"test_suite_num": accepted.turned}), recipe, accepted)
            suite = without_tests(made.suite, failed)
            made = replace(made, masked=replace(made.masked, suite=suite), left_out=(*made.left_out, *failed))
        raise BuildStopped(
            "acceptance", f"{len(failed)} tests of the suite do not pass on the reference: {failed[0]}"
        )
    except BaseException:  # no files of a row that is not there
        for name in filter(None, (given.test_suite, given.reference_archive)):
            if name.startswith(f"{instance.instance_id}."):
                (folder / name).unlink(missing_ok=True)
        raise


def emptied(found: Recipe, task: Task) -> Recipe:
    """The recipe with an empty package in the repository's place, and without the target among the packages."""
    if tuple(map(int, found.python.split(".")[:2])) < (3, 7):
        raise BuildStopped(
            "specification", f"an empty package cannot be installed with Python {found.python}"
        )
    own = {canonicalize_name(name) for name in (*task.instance.distributions, task.base.name) if name}
    # A line break in a command is the end of it in a Dockerfile, so printf makes them.
    text = shlex.quote(pyproject(TARGET, "0.0.0").replace("\n", "\\n"))
    package = f"mkdir -p {TARGET} && : > {TARGET}/__init__.py"
    command = f"{package} && printf '%b' {text} > pyproject.toml && {_EDITABLE}"
    return replace(
        found,
        empty=TARGET,
        pins={name: version for name, version in found.pins.items() if canonicalize_name(name) not in own},
        reasons={name: why for name, why in found.reasons.items() if canonicalize_name(name) not in own},
        install=(Step(command, f"an empty package {TARGET}, installed in editable mode"),),
    )


def _make(task: Task, rewrite: Rewrite | None) -> Made:
    instance = task.instance
    files = read_files(task.tree)
    names = find_names(
        instance.repo,
        files,
        lambda path: files[path].data.decode("utf-8", "replace") if path in files else None,
    )
    known = names_of(
        instance.repo,
        instance.extra.get("modules") or names.modules,
        instance.distributions or names.distributions,
        instance.aliases or names.aliases,
        instance.docs_hosts or names.docs_hosts,
    )
    return make(files, known, rewrite=rewrite)


def _accept(options: Options, task: Task, instance: Instance) -> tuple[Accepted, list[str]]:
    """One run of the suite on each side, as scoring does it; and the tests that do not pass on the reference, which are
    taken out (they ask for what lies outside the package). `BuildStopped` if these are more than those that pass.
    """
    environment = prepare(
        options.engine,
        instance.image,
        workdir=instance.workdir,
        base_commit="",
        pre_commands=instance.pre_commands,
        names=instance.project_names,
        run_labels=options.run_labels,
    )

    def side(patch: str | None) -> TestRun:
        task.left()
        return run_tests(
            options.engine, instance, environment, patch, limits=options.limits, run_labels=options.run_labels
        )

    after = side(reference_patch(instance, environment))
    passed = {name for name, result in after.tests.items() if result is TestResult.PASSED}
    task.say(f"the suite on the masked reference: {len(passed)} of {len(after.tests)} tests pass")
    if not passed:
        task.say(after.log)
        why = after.error or next(
            (line for line in reversed(after.log.splitlines()) if "Error" in line), "no test ran"
        )
        raise BuildStopped(
            "acceptance", f"no test of the masked suite passes on the masked reference: {why.strip()[:300]}"
        )
    failed = sorted(
        name for name, result in after.tests.items() if result in (TestResult.FAILED, TestResult.ERROR)
    )
    for name in failed:
        task.say(f"left out, fails on the reference: {name}")
    if len(failed) > len(passed):
        task.say(after.log)
        raise BuildStopped(
            "acceptance", f"{len(failed)} of {len(after.tests)} tests fail on the masked reference"
        )
    if failed:
        return Accepted(len(passed), len(after.tests), 0), failed
    before = side(None)
    turned = {name for name in passed if before.tests.get(name) is not TestResult.PASSED}
    return Accepted(len(passed), len(after.tests), len(turned)), []

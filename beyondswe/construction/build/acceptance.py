"""Whether a rebuilt image is an environment: the tests run in it as scoring runs them, without network.

Said by the code that verifies and scores: history cut, hidden tests in place, the trusted runner, both sides of
the reference change.
"""

from __future__ import annotations

from dataclasses import dataclass

from beyondswe.construction.build.stopped import BuildStopped
from beyondswe.construction.build.types import Options, Task
from beyondswe.instances.model import Instance
from beyondswe.sandbox.environment import prepare
from beyondswe.scoring.score import run_tests
from beyondswe.scoring.types import Selection, TestResult, TestRun


@dataclass(frozen=True)
class Accepted:
    """What one run of each side showed; `verify` finds the lists, with more runs and all tests."""

    passed: int  # with the reference change
    ran: int
    turned: int  # failed or missing before, passed after

    def __str__(self) -> str:
        return f"{self.passed} of {self.ran} tests pass with the reference change, {self.turned} only with it"


def accept(options: Options, task: Task, image: str) -> Accepted:
    """Run the hidden tests on both sides in a rebuilt image. `BuildStopped` where they cannot be judged."""
    instance = task.instance.model_copy(update={"image": image})
    environment = prepare(
        options.engine,
        image,
        workdir=instance.workdir,
        base_commit=instance.base_commit,
        pre_commands=instance.pre_commands,
        names=instance.project_names,
        run_labels=options.run_labels,
    )
    selection = Selection(files=task.tests or (".",))

    def side(patch: str | None) -> TestRun:
        task.left()
        return run_tests(
            options.engine,
            instance,
            environment,
            patch,
            selection=selection,
            limits=options.limits,
            run_labels=options.run_labels,
        )

    after = side(instance.patch)
    passed = {name for name, result in after.tests.items() if result is TestResult.PASSED}
    task.say(f"scoring's runner, with the reference change: {_in_words(after)}")
    if not passed:
        task.say(after.log)
        raise BuildStopped(
            "acceptance",
            f"in the rebuilt image no hidden test passes with the reference change: {_why(instance, after)}",
        )
    before = side(None)
    task.say(f"scoring's runner, without it: {_in_words(before)}")
    turned = {name for name in passed if before.tests.get(name) is not TestResult.PASSED}
    return Accepted(len(passed), len(after.tests), len(turned))


def _in_words(run: TestRun) -> str:
    counts: dict[str, int] = {}
    for result in run.tests.values():
        counts[str(result)] = counts.get(str(result), 0) + 1
    return ", ".join(f"{number} {what}" for what, number in sorted(counts.items())) or "no test ran"


def _why(instance: Instance, run: TestRun) -> str:
    if run.timed_out:
        return "they did not end in time"
    if run.error:
        return run.error
    lines = [line.strip() for line in run.log.splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line] or lines
    return telling[-1][:300] if telling else f"no test of {instance.instance_id} ran"

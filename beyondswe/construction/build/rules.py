"""Builds an environment by rules, without a model: what the repository says, then what each failure shows.

A try is: Debian packages, packages resolved as of the day, the repository installed, the hidden tests run with
the reference change applied. What is missing is read from the failure and added for the next try. A change that
makes things worse is taken back. When the hidden tests run, the rest of the suite gets a few tries of its own,
so that tests which must stay as they are can run as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from beyondswe.construction.build import pythons
from beyondswe.construction.build.diagnosis import Kind, Known, Remedy, install_failed, tests_failed
from beyondswe.construction.build.identity import packages_of
from beyondswe.construction.build.needs import Level
from beyondswe.construction.build.plan import Plan, bare, changed, first_plan, said
from beyondswe.construction.build.recipe import Recipe, Step, digest_of, ensure_uv_image, uv_binary
from beyondswe.construction.build.stopped import BuildStopped
from beyondswe.construction.build.types import Found, Options, Task
from beyondswe.construction.build.workshop import Done, TestReport, Workshop, dates_file, last_words, tested
from beyondswe.sandbox.base_images import ensure_base_image

PYTHONS = 3
"""How many Pythons are tried for a row."""

SHARED_DAYS = 400
"""How much older than a commit the packages of an earlier instance may be."""

SUITE_TRIES = 4

IN_VAIN = 2
"""Tries in a row that may change nothing: one thing often has to be there before the next is missed."""

EDITABLE = "pip install --quiet --no-cache-dir --no-index --no-deps --no-build-isolation --editable ."


@dataclass(frozen=True)
class _State:
    """A try that came as far as running tests."""

    plan: Plan
    pins: dict[str, str]
    steps: tuple[Step, ...]
    report: TestReport
    notes: tuple[str, ...] = ()


class _Hopeless(BuildStopped):
    """No Python helps."""


class _OtherPython(Exception):
    """The failure says that this Python is not the one."""

    def __init__(self, remedy: Remedy) -> None:
        self.remedy = remedy


def search(options: Options, task: Task, earlier: Recipe | None = None) -> Found:
    """An environment in which the hidden tests run with the reference change. `BuildStopped` where none is
    found. Where all of them pass with the packages of an earlier instance, those are taken.
    """
    _refuse_python2(task)
    if earlier is not None and (task.day - earlier.committed).days <= SHARED_DAYS and not task.upgrade:
        task.say("== packages of an earlier instance")
        if found := _Search(options, task, earlier.python).with_packages_of(earlier):
            return found
    folder = options.python_dir
    order = pythons.candidates(task.base, task.day, pythons.available(folder))
    if not order:
        there = ", ".join(pythons.available(folder))
        raise BuildStopped(
            "Python", f"the repository asks for Python {task.base.requires_python}; there are: {there}"
        )
    best: tuple[TestReport, Found] | None = None
    stopped: BuildStopped | None = None
    for _ in range(PYTHONS):
        if not order:
            break
        python = order.pop(0)
        task.say(f"== Python {python}")
        hint: Remedy | None = None
        try:
            found, hint = _Search(options, task, python).run()
        except _Hopeless:
            raise
        except BuildStopped as error:
            stopped = error
        except _OtherPython as error:
            hint = error.remedy
            stopped = BuildStopped("Python", f"Python {python} is not the one: {hint.why}")
        else:
            if best is None or found.report.rank > best[0].rank:
                best = (found.report, found)
            if found.report.clean or hint is None:
                break
        order = _reordered(order, python, hint)
    if best is not None:
        return best[1]
    assert stopped is not None
    raise stopped


def _reordered(order: Sequence[str], python: str, hint: Remedy | None) -> list[str]:
    """What is tried next: nearest first on the side that the failure points to."""
    if hint is None:
        return list(order)
    number = pythons.number
    if hint.kind is Kind.OLDER_PYTHON:
        limit = min(number(hint.what), number(python))
        return sorted((one for one in order if number(one) < limit), key=number, reverse=True)
    limit = max(number(hint.what), number(python) + 1)
    return sorted((one for one in order if number(one) >= limit), key=number)


def _refuse_python2(task: Task) -> None:
    """`BuildStopped` for what only Python 2 reads: no image here has one. A file or two of it are data of tests,
    or for both Pythons.
    """
    sources: list[Path] = []
    for name in task.base.packages or packages_of(task.tree):
        for root in ("", "src", "lib"):
            sources.append(task.tree / root / f"{name}.py")
            sources += sorted((task.tree / root / name).glob("*.py"))
    for group in (sources, [task.tree / name for name in task.tests]):
        there = [path for path in group if path.is_file()]
        old = [
            path
            for path in there
            if pythons.uses_python2_syntax(path.read_text(encoding="utf-8", errors="replace"))
        ]
        if len(old) * 2 > len(there):
            raise BuildStopped(
                "Python",
                f"{old[0].relative_to(task.tree)} is Python 2 (it parses as no Python 3); base images have "
                f"Python {min(pythons.RELEASED, key=pythons.number)} and newer",
            )


class _Search:
    """The tries with one Python."""

    def __init__(self, options: Options, task: Task, python: str) -> None:
        self.options, self.task, self.python = options, task, python
        self.tries = 0
        self.said = said([task.after, task.base])
        self.modules = {*task.base.modules, *task.after.modules}

    def run(self) -> tuple[Found, Remedy | None]:
        """What was found, and a hint at another Python where it left something to wish for."""
        options, task = self.options, self.task
        folder = options.python_dir
        base = ensure_base_image(options.engine, self.python, python_dir=folder, on_line=task.say)
        shop = self._open(base)
        try:
            plan = first_plan(
                task.base, task.after, self.python, task.day, upgrade=task.upgrade, imported=task.imported
            )
            state, hint = self._improve(shop, plan, task.tests, self.options.tries)
            if state.report.passed == 0 and (path := self._missed_submodule(state.report.log)):
                raise _Hopeless("tests", f"they need the submodule {path}, which is a repository of its own")
            if state.report.passed == 0 and hint is not None:
                raise _OtherPython(hint)
            if state.report.passed == 0:
                raise BuildStopped("tests", f"{state.report}: {last_words(state.report.log)}")
            hidden = state.report
            if task.tests:
                state = self._with_suite(shop, state)
            recipe = self._recipe(shop, base, state)
            newest = shop.newest(state.pins)
        finally:
            shop.close()
        dropped = tuple(f"{name}: {why}" for name, why in state.plan.dropped.items())
        return Found(recipe, hidden, self.tries, newest, dropped=dropped), None if hidden.clean else hint

    def _missed_submodule(self, log: str) -> str:
        """The submodule that a failure names; "" where it names none."""
        modules = self.task.tree / ".gitmodules"
        if not modules.is_file():
            return ""
        paths = re.findall(r"^\s*path\s*=\s*(\S+)", modules.read_text(errors="replace"), re.MULTILINE)
        return next((path for path in paths if path in log), "")

    def with_packages_of(self, earlier: Recipe) -> Found | None:
        """The environment with exactly the packages of an earlier one, where the tests pass with them."""
        shop = self._open(
            ensure_base_image(self.options.engine, self.python, python_dir=self.options.python_dir)
        )
        try:
            plan = Plan(self.python, earlier.day, system=earlier.system, build_limits=earlier.build_limits)
            self.tries = 1
            done = shop.system(tuple(plan.system))
            if done.ok:
                done = shop.install(plan, earlier.pins, self.task.day, dates=earlier.dates)
            if not done.ok:
                return None
            done, steps, _ = self._install_repository(shop, plan)
            if not done.ok:
                return None
            report = self._test(shop, self.task.tests)
            suite = self._test(shop, ()) if report.clean and self.task.tests else report
            if not report.clean or tests_failed(suite.log, self._known(dict(earlier.pins))):
                return None
            newest = shop.newest(earlier.pins)
        finally:
            shop.close()
        recipe = replace(
            earlier,
            instance_id=self.task.instance.instance_id,
            commit=self.task.commit,
            committed=self.task.day,
            install=steps,
        )
        return Found(recipe, report, self.tries, newest)

    def _open(self, base: str) -> Workshop:
        return Workshop.open(
            self.options.engine,
            base,
            bundle=self.task.bundle,
            uv=uv_binary(),
            limits=self.options.limits,
            run_labels=self.options.run_labels,
            say=self.task.say,
        )

    def _improve(
        self, shop: Workshop, plan: Plan, files: Sequence[str], tries: int
    ) -> tuple[_State, Remedy | None]:
        """Try and mend until the tests pass or nothing more can be changed; the best state that was seen."""
        best: _State | None = None
        hint: Remedy | None = None
        in_vain = 0
        for _ in range(tries):
            self.task.left()
            self.tries += 1
            self.task.say(f"-- try {self.tries}")
            done, pins, steps, notes = self._install(shop, plan)
            if done is not None:
                remedies = install_failed(done.log, self._known(pins))
                following = self._next(plan, remedies, everything=False)
                if following is None and best is None:
                    following = bare(plan, last_words(done.log))
                if following is None:
                    if best is not None:
                        break
                    if other := _python_hint(remedies):
                        raise _OtherPython(other)
                    raise BuildStopped("packages", last_words(done.log))
                plan = following
                continue
            report = self._test(shop, files)
            state = _State(plan, pins, steps, report, notes)
            remedies = [] if report.clean else tests_failed(report.log, self._known(pins))
            if best is not None and report.rank < best.report.rank:
                self.task.say(f"worse than before ({best.report}): taken back")
                self._install(shop, best.plan)
                break
            if best is None or report.rank > best.report.rank:
                best, hint, in_vain = state, _python_hint(remedies), 0
            else:
                in_vain += 1
            following = self._next(plan, remedies, everything=True)
            if report.clean or following is None or in_vain >= IN_VAIN:
                break
            plan = following
        if best is None:
            raise BuildStopped("packages", f"no set of packages could be installed in {tries} tries")
        return best, hint

    def _next(self, plan: Plan, remedies: Iterable[Remedy], *, everything: bool) -> Plan | None:
        """The plan with remedies that change something; of an install that failed the first kind alone, since
        one cause shows itself in many words.
        """
        made: Plan | None = None
        kinds: set[Kind] = set()
        for remedy in remedies:
            if not everything and kinds and remedy.kind not in kinds:
                continue
            if (following := changed(made or plan, remedy)) is not None:
                self.task.say(f"remedy: {remedy.kind} {remedy.what}: {remedy.why}")
                made = following
                kinds.add(remedy.kind)
        return made

    def _known(self, pins: dict[str, str]) -> Known:
        return Known(self.python, self.modules, self.said, pins)

    def _install(
        self, shop: Workshop, plan: Plan
    ) -> tuple[Done | None, dict[str, str], tuple[Step, ...], tuple[str, ...]]:
        """What failed (None: nothing did), versions, the commands that install the repository, and notes."""
        done = shop.system(tuple(plan.system))
        if not done.ok:
            return done, {}, (), ()
        done, pins = shop.resolve(plan, self.task.day)
        if not done.ok:
            return done, {}, (), ()
        done = shop.install(plan, pins, self.task.day)
        if not done.ok:
            return done, pins, (), ()
        done, steps, notes = self._install_repository(shop, plan)
        return (None if done.ok else done), pins, steps, notes

    def _install_repository(
        self, shop: Workshop, plan: Plan
    ) -> tuple[Done, tuple[Step, ...], tuple[str, ...]]:
        facts = self.task.base
        logs: list[str] = []
        if facts.is_installable:
            for step in self._ways(shop, plan):
                done = shop.run(step.command)
                if done.ok:
                    return done, (step,), ()
                logs.append(done.log)
                shop.restore()
            log = "\n".join(logs)
            remedies = install_failed(log, self._known({}))
            if self._next(plan, remedies, everything=False) is not None:
                return Done(False, log), (), ()
        roots = [root for root in ("src", "lib") if (self.task.tree / root).is_dir()]
        paths = r"\n".join(["/workspace", *(f"/workspace/{root}" for root in roots)])
        place = '"$(python -c \'import sysconfig; print(sysconfig.get_path("purelib"))\')/workspace.pth"'
        note = "The repository cannot be installed as a package: its folders are on the path."
        step = Step(f"printf '{paths}\\n' > {place}", note)
        done = shop.run(step.command)
        return done, (step,), (f"{note} {last_words(logs[-1])}" if logs else note,)

    def _ways(self, shop: Workshop, plan: Plan) -> Iterable[Step]:
        """Commands that install the repository in editable mode, most wanted first."""
        backend = self.task.base.backend
        if backend != "poetry.masonry.api":
            yield Step(EDITABLE, "The repository in editable mode; its build tools are in the environment.")
        needs = [need.requirement for need in self.task.base.needs if need.level is Level.BUILD]
        if needs and (pins := shop.build_pins(plan, needs, self.task.day)):
            listed = " ".join(f"{name}=={version}" for name, version in sorted(pins.items()))
            yield Step(
                f"pip install --quiet --no-cache-dir --no-deps --target /tmp/build {listed} \\\n"
                f" && PYTHONPATH=/tmp/build {EDITABLE} \\\n && rm -r /tmp/build",
                "The repository in editable mode; its build tools do not go with its packages and are put away.",
            )
        if (self.task.tree / "setup.py").is_file():
            yield Step(
                "python setup.py --quiet develop --no-deps",
                "The repository in development mode, as its setup.py knows it.",
            )

    def _test(self, shop: Workshop, files: Sequence[str]) -> TestReport:
        return tested(shop, self.task, files, timeout=min(self.options.test_timeout, self.task.left()))

    def _with_suite(self, shop: Workshop, state: _State) -> _State:
        """What the whole suite still lacks, as far as it costs the hidden tests nothing."""
        self.task.say("-- the whole suite")
        better, _ = self._improve(shop, state.plan, (), SUITE_TRIES)
        if better.plan == state.plan:
            return replace(state, steps=better.steps, notes=better.notes)
        if better.pins == state.pins and better.plan.system == state.plan.system:
            return state
        again = self._test(shop, self.task.tests)
        if again.rank >= state.report.rank:
            return replace(better, report=again)
        self.task.say("the hidden tests run worse with what the suite wants: left out")
        return state

    def _recipe(self, shop: Workshop, base: str, state: _State) -> Recipe:
        plan, task = state.plan, self.task
        reasons = {name: plan.reasons(name) for name in state.pins}
        for limit, why in plan.limits.items():
            name = limit.partition("<")[0].lower()
            reasons[name] = "; ".join(filter(None, [reasons.get(name, ""), f"{limit}: {why}"]))
        for name, why in plan.later.items():
            reasons[name] = "; ".join(filter(None, [reasons.get(name, ""), f"of a later day: {why}"]))
        notes = [*state.notes, *(f"Left out: {name} ({why})" for name, why in plan.dropped.items())]
        return Recipe(
            instance_id=task.instance.instance_id,
            repo=task.instance.repo,
            commit=task.commit,
            builder="rules",
            python=self.python,
            base=base,
            base_digest=digest_of(self.options.engine, base),
            uv=ensure_uv_image(self.options.engine),
            day=plan.day,
            committed=task.day,
            dates=dates_file(plan, task.day),
            system=plan.system,
            system_versions=shop.versions_of(tuple(plan.system)),
            pins=state.pins,
            reasons=reasons,
            build_limits=plan.build_limits,
            notes=notes,
            install=state.steps,
        )


def _python_hint(remedies: Iterable[Remedy]) -> Remedy | None:
    kinds = (Kind.OLDER_PYTHON, Kind.NEWER_PYTHON)
    return next((remedy for remedy in remedies if remedy.kind in kinds), None)

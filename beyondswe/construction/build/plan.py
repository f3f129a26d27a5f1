"""What an environment is made of, and how a failure changes it: pure decisions, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from beyondswe.construction.build import known, pythons
from beyondswe.construction.build.diagnosis import Kind, Remedy
from beyondswe.construction.build.facts import Facts
from beyondswe.construction.build.needs import Level, Need

LATER = timedelta(days=400)
"""How much later a package is taken from where what is asked for came out after the day."""

TOOLS = ("pip",)
"""Of the base image: never dated, because installing must work with the Python that is there."""

_BUILD_TOOLS = ("setuptools", "setuptools-scm", "flit-core", "flit", "poetry-core", "poetry", "hatchling")
BUILD_TOOLS = (*_BUILD_TOOLS, "hatch-vcs", "pdm-backend", "pdm-pep517", "pbr", "wheel", "cython", "uv-build")
"""What builds packages: dated by `pythons.build_tools_day`."""

OLDEST_PYTEST = "3.0"
"""The first that scoring's runner can run."""

_PYTEST_FOR = {"3.8": "4.6", "3.9": "6", "3.10": "6.2.5", "3.11": "7", "3.12": "7.3", "3.13": "8.2"}
"""The first pytest that runs on a Python, and that rewrites assertions there."""


@dataclass(frozen=True)
class Plan:
    """One state of the search. ``requirements``: name → (requirement, what it is for)."""

    python: str
    day: date
    requirements: Mapping[str, tuple[Need, ...]] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)  # constraint → why
    system: Mapping[str, str] = field(default_factory=dict)  # Debian package → why
    build_limits: Mapping[str, str] = field(default_factory=dict)
    later: Mapping[str, str] = field(default_factory=dict)  # package taken from a later day → why
    dropped: Mapping[str, str] = field(default_factory=dict)
    isolated: bool = False  # the repository is built apart from the environment

    def lines(self) -> list[str]:
        """What is resolved: requirements of every need, and limits."""
        texts = {need.requirement for needs in self.requirements.values() for need in needs}
        return [*sorted(texts), *self.limits]

    def reasons(self, name: str) -> str:
        """Why a package is there, for people; "" where other packages want it."""
        return "; ".join(dict.fromkeys(need.source for need in self.requirements.get(name, ())))


def first_plan(
    base: Facts, after: Facts, python: str, commit_day: date, *, upgrade: bool, imported: Collection[str] = ()
) -> Plan:
    """What the repository says, before anything was tried. ``imported``: top-level modules that tests import,
    which decide what is taken of developers' and optional requirements.

    ``after`` are the facts once the reference change is applied: what it adds must be there as well, because
    nothing is installed later; where both name a package and ``upgrade`` (DepMigrate) is set, it wins.
    """
    wanted: dict[str, dict[str, Need]] = {}
    has_tests = any(need.level is Level.TEST for need in (*base.needs, *after.needs))
    names = {canonicalize_name(known.PACKAGE_OF_MODULE.get(module) or module) for module in imported}
    changed = {need.name for need in set(after.needs) ^ set(base.needs)}
    for need in (*after.needs, *base.needs):
        if not _is_wanted(need, has_tests, names) or need.name == canonicalize_name(base.name or "-"):
            continue
        held = wanted.setdefault(need.name, {})
        if need not in after.needs and upgrade and need.name in changed and held:
            continue
        held.setdefault(need.requirement, need)
    floor = _PYTEST_FOR.get(python, OLDEST_PYTEST)
    runner = Need(f"pytest>={floor}", "runs the tests", Level.TEST)
    said_pytest = wanted.pop("pytest", {})
    wanted["pytest"] = {text: need for text, need in said_pytest.items() if _may_be_newer(text, floor)}
    wanted["pytest"].setdefault(runner.requirement, runner)
    # hatchling asks for it only when it is run: an editable install is a .pth file that it writes
    hatchling = ("editables",) if base.backend.startswith("hatchling") else ()
    for tool in ("setuptools", "wheel", *hatchling):
        need = Need(tool, "installs the repository", Level.BUILD)
        wanted.setdefault(tool, {}).setdefault(need.requirement, need)
    requirements = {name: tuple(held.values()) for name, held in sorted(wanted.items())}
    return Plan(python, pythons.as_of(commit_day, python), requirements)


def _is_wanted(need: Need, has_tests: bool, imported: Collection[str]) -> bool:
    if need.name in TOOLS:
        return False
    if need.level in (Level.BUILD, Level.RUN):
        return True
    if need.name in imported:
        return True
    if need.name in known.NOT_FOR_TESTS or need.name in _REPORTS:
        return False
    if need.level is Level.TEST:
        return True
    return need.level is Level.DEV and not has_tests and bool(_FOR_TESTS.match(need.name))


_FOR_TESTS = re.compile(
    r"pytest|hypothesis|nose|mock|unittest|test|freez|responses|respx|vcr|faker|factory|flaky|xdist"
)
"""What tests run with although they do not import it."""


_REPORTS = frozenset({"coverage", "codecov", "coveralls", "python-coveralls", "tox", "nox"})


def _may_be_newer(requirement: str, floor: str) -> bool:
    """Whether a requirement leaves room for this version or a later one."""
    for part in Requirement(requirement).specifier:
        if part.operator in ("==", "===", "<", "<=", "~="):
            limit = Version(part.version.removesuffix(".*"))
            if limit < Version(floor) or (part.operator == "<" and limit == Version(floor)):
                return False
    return True


def said(facts: Iterable[Facts]) -> dict[str, str]:
    """Every requirement that the repository says, nearest to tests first, for a package that turns out to be
    wanted.
    """
    found: dict[str, str] = {}
    needs = sorted((need for one in facts for need in one.needs), key=lambda need: need.level)
    for need in needs:
        found.setdefault(need.name, need.requirement)
    return found


def changed(plan: Plan, remedy: Remedy) -> Plan | None:
    """The plan after a remedy; None where it changes nothing, so that the same thing is not tried twice.

    Another Python is not decided here: everything begins anew with it.
    """
    match remedy.kind:
        case Kind.REQUIRE:
            return _required(plan, remedy)
        case Kind.DROP:
            return _dropped(plan, remedy)
        case Kind.LATER:
            name = canonicalize_name(re.split(r"[<>=!~\[]", remedy.what)[0])
            if name in plan.later:
                return _dropped(plan, Remedy(Kind.DROP, name, remedy.why))
            return replace(plan, later={**plan.later, name: remedy.why})
        case Kind.SYSTEM:
            new = {name: remedy.why for name in remedy.what.split() if name not in plan.system}
            return replace(plan, system={**plan.system, **new}) if new else None
        case Kind.BUILD:
            if remedy.what in plan.build_limits:
                return None
            # what builds packages also installs the repository
            limits = plan.limits
            if re.split(r"[<>=]", remedy.what)[0].lower() in plan.requirements:
                limits = {**limits, remedy.what: remedy.why}
            return replace(plan, limits=limits, build_limits={**plan.build_limits, remedy.what: remedy.why})
    return None


def _required(plan: Plan, remedy: Remedy) -> Plan | None:
    if not remedy.what:
        return None
    requirement = Requirement(remedy.what)
    name = canonicalize_name(requirement.name)
    if any(operator in str(requirement.specifier) for operator in ("<",)) and name in plan.requirements:
        if remedy.what in plan.limits:
            return None
        return replace(plan, limits={**plan.limits, remedy.what: remedy.why})
    if name in plan.dropped:
        return None
    there = plan.requirements.get(name, ())
    if any(need.requirement == remedy.what for need in there):
        return None
    need = Need(remedy.what, f"the tests failed: {remedy.why}", Level.TEST)
    return replace(plan, requirements={**plan.requirements, name: (*there, need)})


def _dropped(plan: Plan, remedy: Remedy) -> Plan | None:
    """Without what was asked for by name; first its versions are let go, then all of it. What the package
    itself runs on stays, less its versions.
    """
    name = remedy.what
    needs = plan.requirements.get(name)
    if not needs:
        return None
    loose = tuple(need for need in needs if _is_loose(need))
    if len(loose) < len(needs):
        nearest = min(needs, key=lambda need: need.level)
        kept = loose or (replace(nearest, requirement=_loosened(nearest.requirement)),)
        return replace(
            plan,
            requirements={**plan.requirements, name: kept},
            dropped={**plan.dropped, f"versions of {name}": remedy.why},
        )
    if any(need.level in (Level.RUN,) for need in needs) or name == "pytest":
        return None
    rest = {key: value for key, value in plan.requirements.items() if key != name}
    return replace(plan, requirements=rest, dropped={**plan.dropped, name: remedy.why})


def bare(plan: Plan, why: str) -> Plan | None:
    """The plan with what the package runs on and pytest alone, for requirements that cannot all be had: failures
    then show which of the others a test wants. None where it is that already.
    """
    kept = {
        name: needs
        for name, needs in plan.requirements.items()
        if name == "pytest" or any(need.level in (Level.BUILD, Level.RUN) for need in needs)
    }
    if len(kept) == len(plan.requirements):
        return None
    gone = ", ".join(sorted(set(plan.requirements) - set(kept)))
    return replace(plan, requirements=kept, dropped={**plan.dropped, f"at first {gone}": why})


def _is_loose(need: Need) -> bool:
    return not Requirement(need.requirement).specifier


def _loosened(requirement: str) -> str:
    parsed = Requirement(requirement)
    extras = f"[{','.join(sorted(parsed.extras))}]" if parsed.extras else ""
    return f"{parsed.name}{extras}" + (f"; {parsed.marker}" if parsed.marker else "")

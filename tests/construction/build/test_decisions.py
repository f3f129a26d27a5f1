"""What a failure shows and how it changes a plan; which of a model's commands stay; disk that images share."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from beyondswe.construction.build import diagnosis
from beyondswe.construction.build.diagnosis import Kind, Known, Remedy, install_failed
from beyondswe.construction.build.distil import Ran, distilled, dropped, with_partial
from beyondswe.construction.build.facts import Facts
from beyondswe.construction.build.layers import counted
from beyondswe.construction.build.needs import Level, Need
from beyondswe.construction.build.plan import Plan, changed, first_plan, said
from beyondswe.construction.build.recipe import Recipe, Step, image_tag
from beyondswe.construction.build.workshop import counts_of, dates_file, pins_of

HERE = Known(
    "3.9", modules={"tides", "tests"}, said={"pyyaml": "PyYAML<6"}, pins={"xarray": "0.15.1", "six": "1.0"}
)


@pytest.mark.parametrize(
    ("log", "kind", "what"),
    [
        ("E   ModuleNotFoundError: No module named 'responses'", Kind.REQUIRE, "responses"),
        ("ImportError: No module named yaml", Kind.REQUIRE, "PyYAML<6"),  # as the repository says it
        ("ModuleNotFoundError: No module named 'PIL.Image'", Kind.REQUIRE, "Pillow"),
        ("E       fixture 'mocker' not found", Kind.REQUIRE, "pytest-mock"),
        ("pytest: error: unrecognized arguments: --cov=tides --cov-report=term", Kind.REQUIRE, "pytest-cov"),
        ("pytest: error: unrecognized arguments: -n auto", Kind.REQUIRE, "pytest-xdist"),
        (
            "PytestUnknownMarkWarning: Unknown pytest.mark.asyncio - is this a typo?",
            Kind.REQUIRE,
            "pytest-asyncio",
        ),
        ("'timeout' not found in `markers` configuration option", Kind.REQUIRE, "pytest-timeout"),
        ("ERROR: Missing required plugins: pytest-xvfb", Kind.REQUIRE, "pytest-xvfb"),
        ("E   ImportError: cannot import name 'Markup' from 'jinja2' (/opt)", Kind.REQUIRE, "Jinja2<3.1"),
        (
            "E   ImportError: cannot import name 'Gone' from 'xarray.core' (/opt)",
            Kind.REQUIRE,
            "xarray<0.15.1",
        ),
        ("Failed: yield tests were removed in pytest 4.0", Kind.REQUIRE, "pytest<4"),
        (
            "x.c:1: fatal error: libxml/xmlversion.h: No such file or directory",
            Kind.SYSTEM,
            "libxml2-dev libxslt1-dev",
        ),
        ("OSError: libsndfile.so.1: cannot open shared object file", Kind.SYSTEM, "libsndfile1"),
        ("/usr/bin/ld: cannot find -lpq", Kind.SYSTEM, "libpq5"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'hg'", Kind.SYSTEM, "mercurial"),
        ("/bin/sh: 1: pg_config: not found", Kind.SYSTEM, "libpq-dev"),
        ("locale.Error: unsupported locale setting", Kind.SYSTEM, "locales-all"),
        ("AttributeError: module 'collections' has no attribute 'MutableMapping'", None, ""),  # 3.9 has it
    ],
)
def test_what_tests_miss(log: str, kind: Kind | None, what: str) -> None:
    found = diagnosis.tests_failed(log, HERE)
    assert [(remedy.kind, remedy.what) for remedy in found] == ([(kind, what)] if kind else [])
    assert all(remedy.why and remedy.why in log for remedy in found)


def test_what_no_package_can_give() -> None:
    log = "No module named 'tides.gone'\nImportError: No module named urllib2\nNo module named 'distutils'"
    log = "\n".join(f"ModuleNotFoundError: {line}" for line in log.splitlines())
    assert diagnosis.tests_failed(log, HERE) == []


@pytest.mark.parametrize(
    ("python", "log", "kind", "version"),
    [
        (
            "3.10",
            "AttributeError: module 'collections' has no attribute 'Mapping'",
            Kind.OLDER_PYTHON,
            "3.10",
        ),
        ("3.12", "ModuleNotFoundError: No module named 'imp'", Kind.OLDER_PYTHON, "3.12"),
        ("3.8", "TypeError: 'type' object is not subscriptable", Kind.NEWER_PYTHON, "3.9"),
    ],
)
def test_another_python_is_wanted(python: str, log: str, kind: Kind, version: str) -> None:
    found = diagnosis.tests_failed(log, replace(HERE, python=python))
    assert (kind, version) in [(remedy.kind, remedy.what) for remedy in found]


@pytest.mark.parametrize(
    ("log", "kind", "what"),
    [
        ("  × No solution found:\n  ╰─▶ Because nowhere was not found in the package registry and you require nowhere, "
         "we can conclude that your requirements are unsatisfiable.", Kind.DROP, "nowhere"),
        ("  ╰─▶ Because there is no version of attrs==99.1 and you require attrs==99.1", Kind.LATER, "attrs==99.1"),
        ("error: No solution found when resolving dependencies\n  cause: Because types-x==0.1.2 was yanked (reason: y)"
         " and only the following versions of types-x are available", Kind.DROP, "types-x"),
        ("error: No solution found when resolving dependencies\n  cause: Because b==2 depends on a>=2 and you require "
         "a<2,\n         we can conclude that your requirements are unsatisfiable.", Kind.DROP, "a"),
        ("error in pandas setup command: use_2to3 is invalid.", Kind.BUILD, "setuptools<58"),
        ("Error: xml2-config: not found", Kind.SYSTEM, "libxml2-dev libxslt1-dev"),
        ("ERROR: can't find Rust compiler", Kind.SYSTEM, "rustc cargo"),
    ],
)  # fmt: skip
def test_what_installing_misses(log: str, kind: Kind, what: str) -> None:
    assert (kind, what) in [(remedy.kind, remedy.what) for remedy in install_failed(log, HERE)]


def test_a_network_that_does_not_answer_is_no_missing_package() -> None:
    log = "error: Failed to download `pyyaml==5.3.1`\n  cause: client error (Connect)\n  cause: operation timed out"
    assert diagnosis.is_of_the_network(log)
    assert not diagnosis.is_of_the_network("Because a was not found in the package registry")


def need(requirement: str, level: Level, source: str = "somewhere") -> Need:
    return Need(requirement, source, level)


def test_the_first_plan_takes_what_tests_need_and_no_more() -> None:
    facts = Facts(
        name="tides",
        needs=(
            need("attrs>=20", Level.RUN),
            need("hypothesis", Level.TEST),
            need("black", Level.TEST),
            need("ipdb", Level.DEV),
            need("sphinx", Level.EXTRA),
            need("tides", Level.TEST),
        ),
    )
    plan = first_plan(facts, facts, "3.10", date(2022, 1, 1), upgrade=False)
    assert set(plan.requirements) == {"attrs", "hypothesis", "pytest", "setuptools", "wheel"}
    assert "pytest>=6.2.5" in plan.lines()
    alone = replace(facts, needs=tuple(one for one in facts.needs if one.level is not Level.TEST))
    assert "ipdb" not in first_plan(alone, alone, "3.10", date(2022, 1, 1), upgrade=False).requirements
    assert said([facts])["sphinx"] == "sphinx"


def test_what_tests_import_decides_on_developers_requirements() -> None:
    needs = (
        need("numpy", Level.DEV),
        need("PyYAML<6", Level.EXTRA),
        need("pytest-mock", Level.DEV),
        need("sphinx", Level.DEV),
    )
    facts = Facts(needs=needs)
    plan = first_plan(facts, facts, "3.9", date(2022, 1, 1), upgrade=False, imported={"yaml", "os"})
    assert {"pyyaml", "pytest-mock"} <= set(plan.requirements) and not {"numpy", "sphinx"} & set(
        plan.requirements
    )
    wanted = first_plan(facts, facts, "3.9", date(2022, 1, 1), upgrade=False, imported={"sphinx"})
    assert "sphinx" in wanted.requirements


def test_a_pytest_that_the_runner_cannot_run_is_not_taken() -> None:
    for said_there, kept in (
        ("pytest==2.8.0", False),
        ("pytest<3", False),
        ("pytest==3.2", True),
        ("pytest", True),
    ):
        facts = Facts(needs=(need(said_there, Level.TEST),))
        plan = first_plan(facts, facts, "3.6", date(2017, 7, 1), upgrade=False)
        assert (said_there in plan.lines()) is kept and "pytest>=3.0" in plan.lines()


def test_an_upgrade_wins_over_what_was_before() -> None:
    base = Facts(needs=(need("flask<3", Level.RUN), need("attrs", Level.RUN)))
    after = Facts(needs=(need("flask>=3", Level.RUN), need("attrs", Level.RUN), need("new-one", Level.RUN)))
    upgraded = first_plan(base, after, "3.11", date(2024, 1, 1), upgrade=True)
    assert [one.requirement for one in upgraded.requirements["flask"]] == ["flask>=3"]
    assert "new-one" in upgraded.requirements
    both = first_plan(base, after, "3.11", date(2024, 1, 1), upgrade=False)
    assert {one.requirement for one in both.requirements["flask"]} == {"flask<3", "flask>=3"}


def test_a_remedy_is_taken_once() -> None:
    plan = Plan("3.9", date(2021, 1, 1), {"attrs": (need("attrs==1.0", Level.TEST),)})
    more = changed(plan, Remedy(Kind.REQUIRE, "six", "no module"))
    assert more is not None and "no module" in more.reasons("six")
    assert changed(more, Remedy(Kind.REQUIRE, "six", "again")) is None
    limited = changed(more, Remedy(Kind.REQUIRE, "attrs<1", "too new"))
    assert limited is not None and "attrs<1" in limited.lines()
    system = changed(plan, Remedy(Kind.SYSTEM, "libpq-dev", "header"))
    assert system is not None and changed(system, Remedy(Kind.SYSTEM, "libpq-dev", "header")) is None


def test_versions_go_before_the_package_does_and_what_it_runs_on_stays() -> None:
    needs = {"attrs": (need("attrs==1.0", Level.TEST),), "six": (need("six>=9", Level.RUN),)}
    plan = Plan("3.9", date(2021, 1, 1), needs)
    loose = changed(plan, Remedy(Kind.DROP, "attrs", "conflict"))
    assert loose is not None and loose.requirements["attrs"][0].requirement == "attrs"
    gone = changed(loose, Remedy(Kind.DROP, "attrs", "conflict"))
    assert gone is not None and "attrs" not in gone.requirements and "attrs" in gone.dropped
    assert changed(gone, Remedy(Kind.REQUIRE, "attrs", "wanted again")) is None
    six = changed(plan, Remedy(Kind.DROP, "six", "conflict"))
    assert six is not None and changed(six, Remedy(Kind.DROP, "six", "conflict")) is None


def test_days() -> None:
    plan = Plan("3.7", date(2019, 5, 1), later={"attrs": "came out later"})
    text = dates_file(plan, date(2019, 5, 1))
    assert 'exclude-newer = "2019-05-01"' in text
    assert '"attrs" = "2020-06-04"' in text and '"setuptools" = "2022-10-01"' in text


def test_what_pytest_and_uv_print() -> None:
    assert counts_of("x\n=== 1 failed, 3 passed, 2 errors in 0.12 seconds ===\n") == {
        "failed": 1,
        "passed": 3,
        "error": 2,
    }
    assert counts_of("no summary") == {}
    assert pins_of("A_b.c==1.0\nd[x]==2 ; python_version < '3'\n# no\n") == {"a-b-c": "1.0", "d": "2"}


HISTORY = [
    Ran("pip install sixx", 1, False),
    Ran("ls", 0, False),
    Ran("apt-get update", 0, False),
    Ran("pip install six", 0, True, "six is missing"),
    Ran("make half", 1, True),
    Ran("cat > /etc/x <<EOF\n1\nEOF", 0, True),
]


def test_a_history_is_distilled() -> None:
    steps = distilled(HISTORY)
    assert steps[0].command == "pip install six" and steps[0].why == "six is missing"
    assert len(steps) == 2 and steps[1].command.startswith('["/bin/sh", "-c", "cat > /etc/x')
    assert [step.command for step in with_partial(HISTORY)][1] == "{ make half; } || true"
    assert dropped(HISTORY) == {"failed": 1, "failed, but changed something": 1, "changed nothing": 2}


def test_a_dockerfile_says_what_everything_is_for() -> None:
    recipe = Recipe(
        instance_id='odd"id$x',
        repo="harbour/tides",
        commit="0" * 40,
        builder="rules",
        python="3.9",
        base="beyondswe/base:py3.9-x",
        base_digest="sha256:" + "1" * 64,
        uv="beyondswe/uv:1",
        day=date(2021, 1, 1),
        committed=date(2020, 12, 31),
        dates='exclude-newer = "2021-01-01"\n',
        system={"libpq-dev": "header missing\nRUN echo no"},
        system_versions={"libpq-dev": "13.1"},
        pins={"six": "1.15.0", "attrs": "20.3.0"},
        reasons={"six": "setup.py, install_requires"},
        install=(Step("pip install -e .", "The repository."),),
    )
    context = recipe.context(b"bundle")
    text = context["Dockerfile"].decode()
    lines = text.splitlines()
    assert "# libpq-dev 13.1: header missing RUN echo no" in lines  # a reason is no instruction
    assert f"# {recipe.base_digest}" in lines and "FROM beyondswe/base:py3.9-x AS system" in lines
    assert "RUN pip install -e ." in lines and "# The repository." in lines
    assert lines[-1] == 'LABEL io.beyondswe.instance="odd\\"id\\$x"'
    assert "six==1.15.0  # setup.py, install_requires" in context["requirements.txt"].decode()
    assert set(context) == {"Dockerfile", "requirements.txt", "uv.toml", "repository.bundle"}
    other = replace(recipe, instance_id="another")
    assert image_tag("a", context) != image_tag("a", other.context(b"bundle"))
    # what instances of one repository share does not name any of them
    shared = slice(lines.index("FROM beyondswe/base:py3.9-x AS system"), -1)
    assert other.dockerfile().splitlines()[shared] == lines[shared]


def test_shared_layers_are_counted_once() -> None:
    disk = counted([{"base": 100, "base a": 10}, {"base": 100, "base b": 20}], [frozenset({"base"})])
    assert (disk.images, disk.together, disk.apart, disk.base) == (2, 130, 230, 100)
    assert 0.43 < disk.shared < 0.44
    assert counted([]).shared == 0.0

"""Passing attempts are asked again in forms that they cannot tell apart: honest ones hold, forged ones do not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from beyondswe.construction.controls import validate
from beyondswe.errors import ScoringError
from beyondswe.instances.model import Family, Instance
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.questions import function_of
from beyondswe.scoring.score import score_patch
from beyondswe.scoring.types import Scored, Status

pytestmark = pytest.mark.engine

LIMITS = Limits(cpus=1, memory=1 << 30, pids=256, test_timeout=60)
WRONG = "def mul(a, b):\n    return a + b\n\n\ndef add(a, b):\n    return a + b\n"
RIGHT = "def mul(a, b):\n    return a * b\n\n\ndef add(a, b):\n    return a + b\n"
REPOSITORY = {
    "tinycalc/__init__.py": "from .core import add, mul\n",
    "tinycalc/core.py": WRONG,
    "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef pair():\n    return (2, 3)\n",
    "tests/__init__.py": "",
    "tests/helpers.py": "def check(actual, expected):\n    assert actual == expected\n",
    "tests/test_core.py": (
        "from tinycalc import add\n\n\n"
        "def test_add(pair):\n    assert add(*pair) == 5\n\n\n"
        "def test_add_negative():\n    assert add(-1, -2) == -3\n"
    ),
}
SCRIPT = """\
import unittest

import pytest

from tests.helpers import check
from tinycalc import mul

seen = []


def test_function(pair):
    check(mul(*pair), 6)


@pytest.mark.parametrize("a, b", [(7, 0), (0, 9)], ids=["[::]", "a/b é \\\\n"])
def test_odd_ids(a, b):
    result = mul(a, b)
    assert result == 0


@pytest.mark.parametrize("a, expected", [(2, 8), (3, 12)])
def test_table(a, expected):
    assert mul(a, 4) == expected


@pytest.mark.parametrize("a, b", [(2, 8), (3, 12)])
def test_pairs(a, b):
    assert mul(a, b) == mul(b, a) != a + b


class TestGroup:
    def test_member(self, pair):
        assert mul(*pair) == 6

    class TestInner:
        def test_deeper(self):
            assert [mul(3, 3), mul(3, 4)] == [9, 12]


class Case(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(mul(5, 5), 25)

    def test_true(self):
        self.assertTrue(mul(5, 5) == mul(25, 1))


def test_that_no_wrong_form_disturbs_the_next():
    seen.append(1)
    assert mul(3, 1) == 3


def test_error():
    with pytest.raises(TypeError, match="expected"):
        raise TypeError(f"expected {mul(2, 2)}" if mul(2, 2) == 4 else "")
"""
MORE = "\n\n".join(f"def test_more_{n}():\n    assert mul({n}, 7) == {n * 7}\n" for n in range(3, 11))
F2P = tuple(
    f"test_fail_to_pass.py::{name}"
    for name in (
        "test_function",
        "test_odd_ids[[::]]",
        "test_odd_ids[a/b \\xe9 \\\\n]",
        "test_table[2-8]",
        "test_table[3-12]",
        "test_pairs[2-8]",
        "test_pairs[3-12]",
        "TestGroup::test_member",
        "TestGroup::TestInner::test_deeper",
        "Case::test_equal",
        "Case::test_true",
        "test_that_no_wrong_form_disturbs_the_next",
        "test_error",
        *(f"test_more_{n}" for n in range(3, 11)),
    )
)
P2P = ("tests/test_core.py::test_add", "tests/test_core.py::test_add_negative")


def patch_of(tree: Path, edit: Callable[[Path], None]) -> str:
    """The git patch of what ``edit`` does to the repository."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}

    def git(*arguments: str) -> str:
        words = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(tree), *arguments]
        return subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout

    for name, text in REPOSITORY.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "base")
    edit(tree)
    git("add", "-A")
    return git("diff", "--cached", "--binary")


def fix(tree: Path) -> None:
    (tree / "tinycalc/core.py").write_text(RIGHT)


@pytest.fixture(scope="module")
def environment(make_environment) -> Environment:
    return make_environment(REPOSITORY)


@pytest.fixture(scope="module")
def instance(engine: Engine, environment: Environment, tmp_path_factory) -> Instance:
    """Verified: its controls were seen to fail on the reference."""
    reference = patch_of(tmp_path_factory.mktemp("reference"), fix)
    found = Instance(
        instance_id="tiny_calc_1",
        family=Family.CROSSREPO,
        image="tiny",
        patch=reference,
        fail_to_pass=F2P,
        pass_to_pass=P2P,
        f2p_script=f"{SCRIPT}\n\n{MORE}",
        verification={},
    )
    controls = validate(engine, found, environment, reference, seconds=1.0, limits=LIMITS, run_labels=None)
    return found.model_copy(update={"verification": {"controls": controls}})


ScoreChange = Callable[[Callable[[Path], None]], Scored]


@pytest.fixture
def score(engine: Engine, environment: Environment, instance: Instance, tmp_path: Path) -> ScoreChange:
    def run(edit: Callable[[Path], None]) -> Scored:
        return score_patch(engine, instance, environment, patch_of(tmp_path, edit), limits=LIMITS)

    return run


def test_every_kind_of_test_has_a_control_and_those_that_can_be_told_are_marked(instance: Instance) -> None:
    controls = (instance.verification or {})["controls"]
    functions = controls["functions"]
    assert set(functions) == {function_of(name) for name in (*F2P, *P2P)}
    assert controls["no_control"] == []
    told = {name for name, forms in functions.items() if forms[0].startswith(("truth", "raises", "last"))}
    assert told == {f"test_fail_to_pass.py::{name}" for name in ("test_pairs", "Case::test_true")}
    assert controls["opaque"] == len(functions) - len(told)


def test_the_reference_holds_and_the_outcome_says_what_was_asked(score: ScoreChange) -> None:
    scored = score(fix)
    assert scored.status is Status.RESOLVED, scored.error
    assert scored.flags == ()
    assert scored.controls is not None
    assert (scored.controls.tests, scored.controls.rounds, scored.controls.decisions) == (23, 2, 46)
    assert scored.controls.chance < 1 / 64
    assert 0 < scored.timings["controls"] < scored.timings["total"]


def test_an_honest_change_that_differs_from_the_reference_holds(score: ScoreChange) -> None:
    def differently(tree: Path) -> None:
        text = (
            "def add(a, b):\n    return a + b\n\n\ndef mul(a, b):\n    return sum([a] * b) if b >= 0 else 0\n"
        )
        (tree / "tinycalc/core.py").write_text(text)
        (tree / "tests/test_core.py").write_text("def test_add():\n    assert False\n")

    assert score(differently).status is Status.RESOLVED


def test_an_unresolved_attempt_is_not_asked(score: ScoreChange) -> None:
    scored = score(lambda tree: (tree / "tinycalc/core.py").write_text(WRONG + "\n"))
    assert scored.status is Status.UNRESOLVED
    assert scored.controls is None
    assert "controls" not in scored.timings


def test_a_record_that_the_sources_do_not_bear_out_is_a_fault_of_the_dataset(
    engine: Engine, environment: Environment, instance: Instance
) -> None:
    changed = instance.model_copy(
        update={"f2p_script": instance.f2p_script.replace("check(mul(*pair), 6)", "pass")}
    )
    scored = score_patch(engine, changed, environment, instance.patch, limits=LIMITS)
    assert scored.status is Status.INFRASTRUCTURE_ERROR
    assert "verify the instance again" in (scored.error or "")


PASS_ALL = (
    "import _pytest.python\nimport _pytest.unittest\n"
    "_pytest.python.Function.runtest = lambda self: None\n"
    "_pytest.unittest.TestCaseFunction.runtest = lambda self: None\n"
)
FORGE = """\
import gc
import os
import sys


def _win():
    things = gc.get_objects()
    sends = [t for t in things if type(t).__name__ == "function" and t.__name__ == "send" and t.__closure__]
    ids = {x for t in things if type(t) is frozenset for x in t if isinstance(x, str) and "::" in x}
    if not sends:
        return
    sends[0](w="collected", selected=len(ids), deselected=0, duplicates=[], plugins=[], makereport=[])
    for name in sorted(ids):
        for when in ("setup", "call", "teardown"):
            sends[0](w=when, id=name, o="passed")
    sends[0](w="end", exit=0, error=None)
    os._exit(0)


if "pytest" in sys.modules:
    _win()
"""
DECIDE = """\
import hashlib
import inspect
import json
import os

import _pytest.python
import _pytest.unittest

HERE = "/var/tmp/remembered.json"
KNOWN = json.load(open(HERE)) if os.path.exists(HERE) else {{"rounds": 0, "texts": {{}}}}
KNOWN["rounds"] += 1
json.dump(KNOWN, open(HERE, "w"))


def _passes(item):
    text = inspect.getsource(item.function)
    known = KNOWN["texts"].setdefault(item.function.__qualname__, [])
    known.append(text)
    json.dump(KNOWN, open(HERE, "w"))
    return {decision}


def _runtest(self):
    if not _passes(self):
        raise AssertionError("as it should")


_pytest.python.Function.runtest = _runtest
_pytest.unittest.TestCaseFunction.runtest = _runtest
"""
ATTACKERS = {
    "makes every test pass": PASS_ALL,
    "forges its own perfect record through the runner's channel": FORGE,
    "makes every test pass in the first process that it sees": (
        "import os\nif not os.path.exists('/tmp/seen'):\n    open('/tmp/seen', 'w').close()\n"
        + "".join(f"    {line}\n" for line in PASS_ALL.splitlines())
    ),
    "takes the first text of a test for the real one, and remembers it": DECIDE.format(
        decision="text == known[0]"
    ),
    "passes in odd rounds": DECIDE.format(decision="KNOWN['rounds'] % 2 == 1"),
    "knows what a false assertion at the end looks like": DECIDE.format(decision="'1 == 0' not in text"),
    "takes the smaller of two texts for the real one": DECIDE.format(decision="text == min(known)"),
}


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_tested_code_that_forges_its_record_is_caught(attacker: str, score: ScoreChange) -> None:
    def forge(tree: Path) -> None:
        package = tree / "tinycalc/__init__.py"
        package.write_text(ATTACKERS[attacker] + package.read_text())

    scored = score(forge)
    assert scored.score == 0
    assert scored.controls is not None, "it did not even look resolved"
    if scored.status is Status.TAMPERED:
        assert "in its wrong form" in (scored.error or "")
    else:
        assert scored.status is Status.UNRESOLVED
        assert "control_contradiction" in scored.flags


def test_who_recognises_the_tests_of_the_repository_has_won_nothing(score: ScoreChange) -> None:
    """It knows the right answers of the tests that it has seen, and lets pass what it has not."""

    def recognise(tree: Path) -> None:
        decision = "'mul' in text or any(right in text for right in ('(5)', '(3)', '== 5', '== -3'))"
        text = DECIDE.format(decision=decision)
        package = tree / "tinycalc/__init__.py"
        package.write_text(text + package.read_text())

    assert score(recognise).score == 0


def test_a_test_that_fails_now_and_then_costs_the_attempt_but_is_no_tampering(score: ScoreChange) -> None:
    def break_later(tree: Path) -> None:
        fix(tree)
        text = "import os\nTIMES = os.path.exists('/var/tmp/again')\nopen('/var/tmp/again', 'w').close()\n"
        core = tree / "tinycalc/core.py"
        core.write_text(
            text + core.read_text().replace("return a * b", "return a * b if not TIMES else -12345")
        )

    scored = score(break_later)
    assert scored.status is Status.UNRESOLVED, scored
    assert "control_contradiction" in scored.flags
    assert "in its real form" in (scored.error or "")


def test_tests_without_controls_are_not_asked(
    engine: Engine, environment: Environment, instance: Instance
) -> None:
    none = instance.model_copy(update={"verification": {"controls": {"functions": {}}}})
    scored = score_patch(engine, none, environment, instance.patch, limits=LIMITS)
    assert (scored.status, scored.controls) == (Status.RESOLVED, None)


def test_a_time_limit_in_a_round_is_no_verdict_of_tampering(
    engine: Engine, environment: Environment, instance: Instance, tmp_path: Path
) -> None:
    def hang_later(tree: Path) -> None:
        fix(tree)
        text = "import os\nif os.path.exists('/var/tmp/again'):\n    import time\n    time.sleep(1000)\n"
        core = tree / "tinycalc/core.py"
        core.write_text(f"{text}import os\nopen('/var/tmp/again', 'w').close()\n{core.read_text()}")

    limits = replace(LIMITS, test_timeout=8)
    scored = score_patch(engine, instance, environment, patch_of(tmp_path, hang_later), limits=limits)
    assert (scored.status, scored.score) == (Status.UNRESOLVED, 0)


def test_a_function_of_an_id_is_the_id_without_parameters() -> None:
    assert function_of("a/t.py::TestA::test_x[b::c[d]]") == "a/t.py::TestA::test_x"
    assert issubclass(ScoringError, Exception)

"""A patch goes in, a verdict comes out: real containers, a small repository, honest and dishonest changes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from beyondswe.instances.model import Family, Instance
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.score import run_tests, score_patch
from beyondswe.scoring.types import Scored, Selection, Status, TestResult

pytestmark = pytest.mark.engine

LIMITS = Limits(cpus=1, memory=1 << 30, pids=256, test_timeout=60)
WRONG = "def add(a, b):\n    return a + b\n\n\ndef mul(a, b):\n    return a + b\n"
RIGHT = "def add(a, b):\n    return a + b\n\n\ndef mul(a, b):\n    return a * b\n"
REPOSITORY = {
    "tinycalc/__init__.py": 'from .core import add, mul\n\n__all__ = ["add", "mul"]\n',
    "tinycalc/core.py": WRONG,
    "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef pair():\n    return (2, 3)\n",
    "tests/__init__.py": "",
    "tests/helpers.py": "def check(actual, expected):\n    assert actual == expected\n",
    "tests/test_core.py": (
        "from tests.helpers import check\nfrom tinycalc import add\n\n\n"
        "def test_add(pair):\n    check(add(*pair), 5)\n\n\n"
        "def test_add_negative():\n    assert add(-1, -2) == -3\n"
    ),
    "setup.py": 'from setuptools import setup\n\nsetup(name="tinycalc", packages=["tinycalc"])\n',
    "setup.cfg": "[tool:pytest]\naddopts = -n 4 --cov tinycalc -x -k 'not slow' --strict-markers\n",
}
SCRIPT = (
    "from tests.helpers import check\nfrom tinycalc import mul\n\n\n"
    "def test_mul(pair):\n    check(mul(*pair), 6)\n\n\n"
    "def test_mul_zero():\n    assert mul(7, 0) == 0\n"
)
HIDDEN = """\
diff --git a/tests/test_mul.py b/tests/test_mul.py
new file mode 100644
--- /dev/null
+++ b/tests/test_mul.py
@@ -0,0 +1,5 @@
+from tinycalc import mul
+
+
+def test_mul_table():
+    assert mul(4, 5) == 20
"""
P2P = ("tests/test_core.py::test_add", "tests/test_core.py::test_add_negative")
MUL, ZERO, TABLE = (
    "test_fail_to_pass.py::test_mul",
    "test_fail_to_pass.py::test_mul_zero",
    "tests/test_mul.py::test_mul_table",
)
ScoreChange = Callable[..., Scored]


def patch_of(tmp_path: Path, edit: Callable[[Path], None], files: Mapping[str, str] = REPOSITORY) -> str:
    """The git patch of what ``edit`` does to the repository."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}

    def git(*arguments: str) -> str:
        words = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(tmp_path), *arguments]
        return subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout

    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "base")
    edit(tmp_path)
    git("add", "-A")
    return git("diff", "--cached", "--binary")


@pytest.fixture(scope="module")
def environment(make_environment) -> Environment:
    site = "$(python -c 'import site; print(site.getsitepackages()[0])')"
    return make_environment(REPOSITORY, f"pwd > {site}/tinycalc.pth")  # as `pip install -e .` leaves it


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> str:
    return patch_of(
        tmp_path_factory.mktemp("ref"), lambda tree: (tree / "tinycalc/core.py").write_text(RIGHT)
    )


@pytest.fixture(scope="module")
def instance(reference: str) -> Instance:
    """Kind S: the hidden tests are a script."""
    return Instance(
        instance_id="tiny_calc_1",
        family=Family.CROSSREPO,
        image="tiny",
        patch=reference,
        fail_to_pass=(MUL, ZERO),
        pass_to_pass=P2P,
        f2p_script=SCRIPT,
    )


@pytest.fixture(scope="module")
def patched_instance(reference: str) -> Instance:
    """Kind P: the hidden tests are a patch."""
    return Instance(
        instance_id="tiny_calc_2",
        family=Family.CROSSREPO,
        image="tiny",
        patch=reference,
        fail_to_pass=(TABLE,),
        pass_to_pass=P2P,
        f2p_patch=HIDDEN,
    )


@pytest.fixture
def score(engine: Engine, environment: Environment, instance: Instance, tmp_path: Path) -> ScoreChange:
    def run(edit: Callable[[Path], None], of: Instance = instance, limits: Limits = LIMITS) -> Scored:
        return score_patch(engine, of, environment, patch_of(tmp_path, edit), limits=limits)

    return run


def fix(tree: Path) -> None:
    (tree / "tinycalc/core.py").write_text(RIGHT)


def test_the_reference_resolves_and_says_what_it_cost(engine, instance, environment, reference):
    scored = score_patch(engine, instance, environment, reference, limits=LIMITS)
    assert scored.status is Status.RESOLVED, scored
    assert (scored.score, scored.pass_rate) == (1.0, 1.0)
    assert scored.f2p == {MUL: TestResult.PASSED, ZERO: TestResult.PASSED}
    assert scored.p2p == dict.fromkeys(P2P, TestResult.PASSED)
    assert scored.flags == ("unverified",)
    assert {"compose", "create", "put", "start", "wait", "logs", "tests", "total"} <= set(scored.timings)
    assert "4 passed" in scored.log
    assert scored.records


def test_a_hidden_patch_works_like_a_hidden_script(engine, patched_instance, environment, reference):
    scored = score_patch(engine, patched_instance, environment, reference, limits=LIMITS)
    assert scored.status is Status.RESOLVED, scored


def test_a_change_that_solves_nothing(score):
    scored = score(lambda tree: (tree / "README").write_text("hello\n"))
    assert scored.status is Status.UNRESOLVED
    assert scored.f2p == {MUL: TestResult.FAILED, ZERO: TestResult.FAILED}
    assert scored.p2p == dict.fromkeys(P2P, TestResult.PASSED)
    assert (scored.score, scored.pass_rate) == (0.0, 0.5)


def test_the_empty_patch_costs_no_container(engine, instance, environment):
    for text in ("", "\n"):
        scored = score_patch(engine, instance, environment, text, limits=LIMITS)
        assert scored.status is Status.EMPTY_PATCH
        assert scored.f2p == {MUL: TestResult.MISSING, ZERO: TestResult.MISSING}
        assert scored.timings == {}


def test_a_patch_that_does_not_apply_is_rejected_whole(engine, instance, environment, reference):
    scored = score_patch(
        engine, instance, environment, reference.replace("    return a + b", "    return 7"), limits=LIMITS
    )
    assert scored.status is Status.PATCH_REJECTED
    assert scored.error


def test_edited_tests_and_helpers_are_restored(score):
    def edit(tree: Path) -> None:
        (tree / "tests/helpers.py").write_text("def check(actual, expected):\n    pass\n")
        (tree / "tests/test_core.py").write_text("def test_add(): pass\ndef test_add_negative(): pass\n")
        (tree / "conftest.py").write_text("import nothing_such\n")
        (tree / "tinycalc/core.py").write_text(RIGHT.replace("a + b", "0"))

    scored = score(edit)
    assert scored.status is Status.UNRESOLVED
    assert scored.p2p == dict.fromkeys(P2P, TestResult.FAILED)
    assert scored.f2p == dict.fromkeys((MUL, ZERO), TestResult.PASSED)
    assert set(scored.flags) == {
        "protected_file_edited:conftest.py",
        "protected_file_edited:tests/helpers.py",
        "protected_file_edited:tests/test_core.py",
        "unverified",
    }


def test_an_honest_change_with_edited_tests_still_resolves(score):
    def edit(tree: Path) -> None:
        fix(tree)
        with (tree / "tests/test_core.py").open("a") as file:
            file.write("\n\ndef test_mine():\n    assert False\n")
        (tree / "tests/test_mine.py").write_text("def test_mine(): assert False\n")
        (tree / "test_fail_to_pass.py").write_text("def test_mul(): assert False\n")

    scored = score(edit)
    assert scored.status is Status.RESOLVED
    assert "test_file_dropped:tests/test_mine.py" in scored.flags
    assert "test_file_dropped:test_fail_to_pass.py" in scored.flags


HOOK = """
import pytest
import _pytest.python
_pytest.python.Function.runtest = lambda self: None
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    out = yield
    out.get_result().outcome = "passed"
@pytest.fixture
def pair():
    return (2, 3)
"""


def plant(name: str, text: str) -> Callable[[Path], None]:
    def edit(tree: Path) -> None:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)

    return edit


def link(name: str, target: str) -> Callable[[Path], None]:
    def edit(tree: Path) -> None:
        (tree / "spare").mkdir()
        for copy in ("__init__", "helpers"):
            (tree / f"spare/{copy}.py").write_text(REPOSITORY[f"tests/{copy}.py"])
        (tree / "spare/test_mul.py").write_text("def test_mul_table(): pass\n")
        (tree / "spare/test_core.py").write_text("def test_add(): pass\ndef test_add_negative(): pass\n")
        path = tree / name
        if path.is_dir():
            subprocess.run(["rm", "-rf", str(path)], check=True)
        path.symlink_to(target)

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        plant("conftest.py", HOOK),
        plant("tests/conftest.py", HOOK),
        plant("tests/__init__.py", HOOK),
        plant("pytest.ini", "[pytest]\naddopts = --collect-only\n"),
        plant("setup.cfg", "[tool:pytest]\naddopts = -p evil\n"),
        plant("pytest.py", "raise SystemExit(0)\n"),
        plant("sitecustomize.py", "import os; os._exit(0)\n"),
        plant("tinycalc.egg-info/entry_points.txt", "[pytest11]\nevil = tinycalc.core\n"),
        plant("src/tests/__init__.py", HOOK),
        plant("test_fail_to_pass.py/__init__.py", "def test_mul(): pass\ndef test_mul_zero(): pass\n"),
        plant("tinycalc/conftest.py", HOOK),
        link("test_fail_to_pass.py", "spare/test_mul.py"),
        link("tests", "spare"),
    ],
    ids=lambda edit: None,
)
def test_tricks_with_files_that_pytest_loads_do_not_score(score, patched_instance, instance, edit):
    scored = score(edit, of=instance)
    assert scored.status is Status.UNRESOLVED, scored
    assert scored.f2p == dict.fromkeys((MUL, ZERO), TestResult.FAILED)
    assert scored.p2p == dict.fromkeys(P2P, TestResult.PASSED), scored.log


def test_time_out_keeps_what_was_finished(score):
    def edit(tree: Path) -> None:
        (tree / "tinycalc/core.py").write_text(WRONG + "\n\ndef mul(a, b):\n    while True:\n        pass\n")

    scored = score(edit, limits=Limits(cpus=1, memory=1 << 30, pids=256, test_timeout=4))
    assert scored.status is Status.TEST_TIMEOUT
    assert TestResult.MISSING in scored.f2p.values()
    assert "time limit" in (scored.error or "")


def test_over_the_limit_on_the_disk_is_said_as_such(score):
    def edit(tree: Path) -> None:
        fill = "with open('/var/tmp/big', 'wb') as file:\n        while True:\n            file.write(bytes(1 << 20))\n"
        (tree / "tinycalc/core.py").write_text(f"{WRONG}\n\ndef mul(a, b):\n    {fill}")

    scored = score(edit, limits=replace(LIMITS, disk=40 << 20))
    assert scored.status is Status.UNRESOLVED
    assert "out_of_disk" in scored.flags and "limit on the disk" in (scored.error or "")
    assert TestResult.PASSED not in scored.f2p.values()


def test_hidden_tests_that_do_not_apply_are_the_datasets_fault(
    engine, environment, patched_instance, reference
):
    broken = patched_instance.model_copy(
        update={
            "f2p_patch": HIDDEN.replace("/dev/null", "a/tests/test_mul.py").replace(
                "new file mode 100644\n", ""
            )
        }
    )
    scored = score_patch(engine, broken, environment, reference, limits=LIMITS)
    assert scored.status is Status.INFRASTRUCTURE_ERROR
    assert "is at fault, not the patch: its f2p_patch does not apply" in (scored.error or "")


def test_expected_ids_in_no_file_are_the_datasets_fault(engine, environment, instance, reference):
    nowhere = instance.model_copy(update={"f2p_script": "", "pass_to_pass": ()})
    scored = score_patch(engine, nowhere, environment, reference, limits=LIMITS)
    assert scored.status is Status.INFRASTRUCTURE_ERROR
    assert "FAIL_TO_PASS" in (scored.error or "")


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        ("pip uninstall -qy pytest 2>/dev/null", "the image has no pytest"),
        (
            "rm -f /opt/venv/bin/python* /usr/bin/python3* /usr/local/bin/python*",
            "the image has no Python 3.6",
        ),
    ],
)
def test_what_the_image_lacks_is_no_verdict_on_the_patch(
    engine, make_environment, instance, reference, commands, said
):
    environment = make_environment(REPOSITORY, commands)
    scored = score_patch(engine, instance, environment, reference, limits=LIMITS)
    assert scored.status is Status.INFRASTRUCTURE_ERROR
    assert said in (scored.error or "")


def test_a_tree_on_pythonpath_shadows_nothing_that_the_runner_needs(
    engine, make_environment, instance, tmp_path
):
    environment = make_environment(
        REPOSITORY, changes=["ENV PYTHONPATH=/workspace PYTEST_ADDOPTS=--collect-only"]
    )

    def edit(tree: Path) -> None:
        fix(tree)
        for name in (
            "json.py",
            "hmac.py",
            "site.py",
            "encodings/__init__.py",
            "pluggy.py",
            "usercustomize.py",
        ):
            plant(name, "import os; os._exit(0)\n")(tree)

    scored = score_patch(engine, instance, environment, patch_of(tmp_path, edit), limits=LIMITS)
    assert scored.status is Status.RESOLVED, scored


def test_both_sides_are_run_alike_for_verification(engine, patched_instance, environment, reference):
    files = Selection(files=("tests",))
    before = run_tests(engine, patched_instance, environment, None, selection=files, limits=LIMITS)
    after = run_tests(engine, patched_instance, environment, reference, selection=files, limits=LIMITS)
    assert before.tests == {TABLE: TestResult.FAILED, **dict.fromkeys(P2P, TestResult.PASSED)}
    assert after.tests == dict.fromkeys((TABLE, *P2P), TestResult.PASSED)
    assert before.finished and after.finished
    assert after.python.startswith("3.11") and after.pytest

    one = Selection(ids=(P2P[0], "tests/test_core.py::test_gone"))
    asked = run_tests(engine, patched_instance, environment, None, selection=one, limits=LIMITS)
    assert asked.tests == {P2P[0]: TestResult.PASSED, "tests/test_core.py::test_gone": TestResult.MISSING}


def test_the_whole_suite_is_what_the_configuration_collects(engine, make_environment, instance, tmp_path):
    """The copied configuration keeps the meaning of `testpaths` and `pythonpath`, and its own selection."""
    files = {
        "pyproject.toml": (
            '[tool.pytest.ini_options]\ntestpaths = ["checks"]\npythonpath = ["lib"]\n'
            'addopts = "-k \'not slow\'"\nmarkers = ["m"]\n'
        ),
        "lib/thing.py": "VALUE = 1\n",
        "checks/test_thing.py": (
            "import thing\ndef test_value(): assert thing.VALUE == 2\ndef test_slow(): pass\n"
        ),
        "other/test_other.py": "def test_other(): pass\n",
    }
    plain = instance.model_copy(update={"patch": "", "f2p_script": "", "pass_to_pass": ()})
    environment = make_environment(files)

    def edit(tree: Path) -> None:
        (tree / "lib/thing.py").write_text("VALUE = 2\n")
        (tree / "pyproject.toml").write_text(
            '[tool.pytest.ini_options]\naddopts = "--collect-only"\n[tool.x]\ny = 1\n'
        )

    patch = patch_of(tmp_path, edit, files)
    whole = Selection()
    before = run_tests(engine, plain, environment, None, selection=whole, limits=LIMITS)
    after = run_tests(engine, plain, environment, patch, selection=whole, limits=LIMITS)
    assert before.tests == {"checks/test_thing.py::test_value": TestResult.FAILED}
    assert after.tests == {"checks/test_thing.py::test_value": TestResult.PASSED}

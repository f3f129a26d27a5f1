"""Doc2Repo: a generated tree is built and installed as data, the suite put in, its tests counted."""

from __future__ import annotations

import io
import os
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from beyondswe.instances.model import Family, Instance
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.trees import File
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.doc2repo import Suite, arguments_of, cleared, read_suite
from beyondswe.scoring.score import run_tests, score_patch
from beyondswe.scoring.types import Scored, Status, TestResult

LIMITS = Limits(cpus=1, memory=1 << 30, pids=256, test_timeout=120)
TESTS = """\
import target_repo


def test_add():
    assert target_repo.add(1, 1) == 2


def test_mul():
    assert target_repo.mul(3, 4) == 12


def test_mul_zero():
    assert target_repo.mul(0, 9) == 0
"""
SCRIPT = """\
import subprocess, sys
command = [sys.executable, "-m", "pytest", "suite", "-v", "--tb=short", "-p", "no:cacheprovider"]
result = subprocess.run(command)
print("<pytest>true</pytest>" if result.returncode == 0 else "<pytest>false</pytest>")
"""
MODULE = "def add(a, b):\n    return a + b\n\n\ndef mul(a, b):\n    return {}\n"
PYPROJECT = (
    '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    '[project]\nname = "target_repo"\nversion = "1.0"\n'
)
RIGHT, WRONG = MODULE.format("a * b"), MODULE.format("a + b")
IDS = ("suite/test_all.py::test_add", "suite/test_all.py::test_mul", "suite/test_all.py::test_mul_zero")


def zipped(files: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Instance:
    folder = tmp_path_factory.mktemp("suites")
    (folder / "tiny.zip").write_bytes(
        zipped({"suite/test_all.py": TESTS, "realswe_eval_script.py": SCRIPT, "suite/conftest.py": ""})
    )
    return Instance(
        instance_id="tiny_doc",
        family=Family.DOC2REPO,
        image="tiny",
        specification="target_repo adds and multiplies.",
        test_suite="tiny.zip",
        test_suite_num=3,
        test_suite_dir=folder,
    )


@pytest.fixture(scope="module")
def environment(make_environment) -> Environment:
    return make_environment({"repo_document.md": "target_repo adds and multiplies.\n"})


@pytest.fixture
def score(
    engine: Engine, environment: Environment, instance: Instance, tmp_path: Path
) -> Callable[..., Scored]:
    def run(files: Mapping[str, str], links: Mapping[str, str] = {}) -> Scored:
        return score_patch(engine, instance, environment, generated(tmp_path, files, links), limits=LIMITS)

    return run


def generated(folder: Path, files: Mapping[str, str], links: Mapping[str, str]) -> str:
    """The patch that adds these files and links to the empty workspace."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name, target in links.items():
        (folder / name).symlink_to(target)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    diff = [
        "git",
        "-C",
        str(folder),
        "diff",
        "--cached",
        "--binary",
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    ]
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(diff, check=True, capture_output=True, text=True, env=environment).stdout


@pytest.mark.engine
def test_a_package_in_src_is_built_and_its_rate_is_what_passes(score):
    scored = score({"src/target_repo/__init__.py": RIGHT, "pyproject.toml": PYPROJECT})
    assert scored.status is Status.RESOLVED, scored.log
    assert (scored.score, scored.pass_rate) == (1.0, 1.0)
    assert scored.tests == dict.fromkeys(IDS, TestResult.PASSED)
    assert scored.f2p == scored.p2p == {}
    assert scored.flags == ("unverified",)
    assert scored.timings["build"] > 0


@pytest.mark.engine
def test_a_package_without_build_files_is_run_from_the_tree(score):
    scored = score({"target_repo/__init__.py": WRONG})
    assert scored.status is Status.UNRESOLVED
    assert scored.pass_rate == scored.score == pytest.approx(1 / 3)
    assert "not_installed" in scored.flags


@pytest.mark.engine
def test_a_package_that_does_not_build_is_run_from_the_tree(score):
    scored = score({"src/target_repo/__init__.py": RIGHT, "setup.py": "raise SystemExit('no')\n"})
    assert scored.status is Status.RESOLVED
    assert "install_failed" in scored.flags
    assert "the package was not installed" in scored.log


HOOK = """
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    out = yield
    out.get_result().outcome = "passed"
"""


@pytest.mark.engine
@pytest.mark.parametrize(
    ("files", "links"),
    [
        ({"mine/test_all.py": "def test_add(): pass\ndef test_mul(): pass\n"}, {"suite": "mine"}),
        ({"suite/test_all.py/keep": "x", "suite/test_b.py": "def test_b(): pass\ndef test_c(): pass\n"}, {}),
        ({"suite/conftest.py": HOOK, "conftest.py": HOOK, "target_repo/conftest.py": HOOK}, {}),
        ({"pytest.py": "print('3 passed')\n", "pytest.ini": "[pytest]\naddopts = --collect-only\n"}, {}),
        (
            {
                "setup.py": (
                    "import site\nfrom setuptools import setup\n"
                    "path = site.getsitepackages()[0] + '/zz.pth'\n"
                    "open(path, 'w').write('import os; os._exit(0)\\n')\n"
                    "setup(name='target_repo', packages=['target_repo', 'pytest', '_pytest'],\n"
                    "      py_modules=['sitecustomize'],\n"
                    "      entry_points={'pytest11': ['x = target_repo.plugin']})\n"
                ),
                "target_repo/plugin.py": HOOK,
                "pytest/__init__.py": "raise SystemExit(0)\n",
                "_pytest/__init__.py": "raise SystemExit(0)\n",
                "sitecustomize.py": "import os; os._exit(0)\n",
            },
            {},
        ),
    ],
    ids=["suite is a link", "a test file is a folder", "conftest", "pytest of its own", "plugins and pth"],
)
def test_tricks_score_no_more_than_the_code_is_worth(score, files, links):
    scored = score({"target_repo/__init__.py": WRONG, **files}, links)
    assert scored.status is Status.UNRESOLVED, scored
    assert scored.pass_rate == pytest.approx(1 / 3), scored.log
    assert set(scored.tests) == set(IDS)


@pytest.mark.engine
def test_commands_and_metadata_of_the_package_are_there(engine, environment, instance, tmp_path):
    tests = (
        "import importlib.metadata, subprocess, sys\n"
        "def test_command():\n"
        "    assert subprocess.run(['target-hello'], capture_output=True).stdout == b'hello\\n'\n"
        "def test_version(): assert importlib.metadata.version('target_repo') == '1.0'\n"
        "def test_subprocess():\n"
        "    subprocess.run([sys.executable, '-c', 'import target_repo'], check=True, cwd='/')\n"
    )
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites/tiny.zip").write_bytes(zipped({"tests/test_all.py": tests}))
    other = instance.model_copy(update={"test_suite_dir": tmp_path / "suites"})
    files = {
        "src/target_repo/__init__.py": "def hello(): print('hello')\n",
        "pyproject.toml": PYPROJECT + "[project.scripts]\ntarget-hello = 'target_repo:hello'\n",
        "tests/test_all.py": "def test_mine(): assert False\n",
    }
    (tmp_path / "tree").mkdir()
    scored = score_patch(engine, other, environment, generated(tmp_path / "tree", files, {}), limits=LIMITS)
    assert scored.status is Status.RESOLVED, scored.log


@pytest.mark.engine
def test_verification_sees_every_id_of_the_suite(engine, environment, instance, tmp_path):
    patch = generated(tmp_path, {"target_repo/__init__.py": WRONG}, {})
    run = run_tests(engine, instance, environment, patch, limits=LIMITS)
    assert run.tests == dict(zip(IDS, (TestResult.PASSED, TestResult.FAILED, TestResult.FAILED), strict=True))


def test_a_missing_suite_says_where_it_is_looked_for(instance, tmp_path):
    from beyondswe.errors import ScoringError

    for update in ({"test_suite": "gone.zip"}, {"test_suite_dir": None}, {"test_suite": ""}):
        with pytest.raises(ScoringError, match="--test-suite-dir"):
            read_suite(instance.model_copy(update=update))


FILES = {b"suite/test_all.py": None, b"suite/unit/test_a.py": None, b"test_top.py": None}


@pytest.mark.parametrize(
    ("script", "targets", "options"),
    [
        (SCRIPT, ("suite",), ("-p", "no:cacheprovider")),
        (
            "os.system(\"cd /workspace && python -m pytest suite/unit -q -k 'not slow' 2>&1 | tee log\")",
            ("suite/unit",),
            ("-k", "not slow"),
        ),
        (
            'import pytest\npytest.main(["-x", "suite/test_all.py::test_add", "./test_top.py"])',
            ("suite/test_all.py::test_add", "test_top.py"),
            (),
        ),
        (
            'cmd = ["pytest", "suite/", "--ignore=suite/unit", "--json-report-file", "x"]',
            ("suite",),
            ("--ignore=suite/unit",),
        ),
        ("print('no command')", (), ()),
        ("this is no python", (), ()),
    ],
)
def test_arguments_are_read_from_an_evaluation_script(script, targets, options):
    assert arguments_of(script.encode(), FILES) == (targets, options)


@pytest.mark.parametrize(
    ("suite", "tree", "roots"),
    [
        (["tests/a.py", "tests/b/c.py", "test_d.py"], [], {b"tests", b"test_d.py"}),
        (["tests/unit/a.py"], ["tests/unit/a.py", "tests/helpers.py"], {b"tests"}),
        (["pkg/tests/a.py"], ["pkg/__init__.py", "pkg/core.py"], {b"pkg/tests"}),
        (["pkg/tests/a.py", "pkg/data.txt"], ["pkg/__init__.py"], {b"pkg"}),
    ],
)
def test_what_the_suite_takes_the_place_of(suite, tree, roots):
    files = {name.encode(): File("100644", b"") for name in suite}
    assert cleared(Suite(files, (), ()), {name.encode() for name in tree}) == roots

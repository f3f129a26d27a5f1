"""Several rounds in one container: each with its own sources and its own process, whatever the last one did."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping

import pytest

from beyondswe.sandbox.engine import Engine
from beyondswe.scoring.compose import child_task
from beyondswe.scoring.evidence import Evidence
from beyondswe.scoring.job import Job, Round, Write, run_rounds
from beyondswe.scoring.pytest_config import configurations
from beyondswe.scoring.types import TestResult
from beyondswe.scoring.verdict import infrastructure_fault, result_of, tampering
from tests.runner.conftest import LIMITS

pytestmark = pytest.mark.engine

RunRounds = Callable[..., tuple[Evidence, ...]]
ID = "test_a.py::test_a"


@pytest.fixture(scope="session")
def rounds(engine: Engine, python_image: str) -> RunRounds:
    """``rounds(["source of test_a.py in the first round", …], {"other.py": "…"})``."""

    def run(
        sources: list[str], files: Mapping[str, str] | None = None, user: str = ""
    ) -> tuple[Evidence, ...]:
        texts = {name: textwrap.dedent(text).encode() for name, text in (files or {}).items()}
        task, copies = child_task(configurations(texts.get), ["test_a.py"], [ID], roots=["/workspace"])
        job = Job(
            "/workspace",
            user=user,
            write=(*(Write(name.encode(), "100644", text) for name, text in texts.items()), *copies),
            tests=task,
            rounds=tuple(
                Round(
                    (Write(b"test_a.py", "100644", textwrap.dedent(source).encode()),), (ID,), ("test_a.py",)
                )
                for source in sources
            ),
        )
        return run_rounds(engine, python_image, job, limits=LIMITS)

    return run


def results(evidence: tuple[Evidence, ...]) -> list[TestResult]:
    assert not any(map(infrastructure_fault, evidence))
    return [result_of(one, ID) for one in evidence]


PASSES, FAILS = "def test_a():\n    assert 5 == 5\n", "def test_a():\n    assert 5 == 6\n"


@pytest.mark.parametrize("user", ["", "nobody"])
def test_each_round_runs_its_own_sources_though_time_and_size_are_alike(rounds: RunRounds, user: str) -> None:
    evidence = rounds([PASSES, FAILS, FAILS, PASSES], user=user)
    passed, failed = TestResult.PASSED, TestResult.FAILED
    assert results(evidence) == [passed, failed, failed, passed]
    assert not any(map(tampering, evidence))
    assert [one.finish and one.finish["exit"] for one in evidence] == [0, 1, 1, 0]


def test_rounds_look_alike_from_inside(rounds: RunRounds) -> None:
    looks = """
        import os, sys

        def test_a():
            environment = sorted(os.environ.items())
            links = {name: os.readlink("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd")
                     if os.path.exists("/proc/self/fd/" + name)}
            links = {name: link.partition(":")[0] for name, link in links.items()}
            stat = os.stat(__file__)
            raise AssertionError([environment, sys.argv[0], sys.argv[3:], sorted(links.items()), os.getppid(),
                                  os.getsid(0) == os.getpid(), sorted(os.listdir("/workspace")), stat.st_mode,
                                  sorted(name for name in sys.modules)])
    """
    texts = [one.phases[ID][1].text for one in rounds([looks, looks, looks])]
    assert texts[1] == texts[2]
    assert texts[0].replace("'__pycache__', ", "") == texts[1].replace("'__pycache__', ", "")


def test_sources_of_later_rounds_are_not_to_be_found(rounds: RunRounds) -> None:
    look = """
        import os, subprocess

        def test_a():
            word = "".join(["wrong", "-form"])
            for top in ("/workspace", "/tmp", "/var", "/root", "/dev/shm"):
                found = subprocess.run(["grep", "-rl", word, top], capture_output=True).stdout
                assert not found, found
            for pid in filter(str.isdigit, os.listdir("/proc")):
                for name in ("environ", "cmdline", "mem"):
                    try:
                        with open("/proc/%s/%s" % (pid, name), "rb") as file:
                            assert word.encode() not in file.read(1 << 20)
                    except OSError:
                        pass
    """
    assert results(rounds([look, "# wrong-form\n" + FAILS])) == [TestResult.PASSED, TestResult.FAILED]


def test_what_a_round_leaves_running_does_not_reach_the_next(rounds: RunRounds) -> None:
    leave = """
        import os, subprocess

        def test_a():
            for _ in range(20):
                subprocess.Popen(["sleep", "1000"], start_new_session=True)
    """
    look = """
        import os

        def test_a():
            found = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open("/proc/%s/cmdline" % pid, "rb") as file:
                        found.append(file.read())
                except OSError:
                    pass
            assert not [line for line in found if line.startswith(b"sleep")]
    """
    assert results(rounds([leave, look])) == [TestResult.PASSED, TestResult.PASSED]


HOSTILE = {
    "kills all that it can": "os.kill(-1, 9)",
    "stops all that it can": "[os.kill(int(pid), 19) for pid in pids]",
    "breeds without end": "[os.fork() for _ in range(12)]\n    while True:\n        os.fork()",
    "takes the interpreter away": (
        "import glob, shutil\n    [shutil.rmtree(path, True) for path in glob.glob('/usr/lib/python3*') "
        "+ glob.glob('/opt/venv/lib') + glob.glob('/opt/python*')]"
    ),
    "takes the work folder away": "import shutil\n    shutil.rmtree('/workspace')\n    open('/workspace', 'w').close()",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_round_is_no_fault_of_the_machine(what: str, rounds: RunRounds) -> None:
    hostile = (
        "import os\n\n\ndef test_a():\n"
        "    pids = [pid for pid in os.listdir('/proc') if pid.isdigit() and int(pid) not in (1, os.getpid())]\n"
        f"    {HOSTILE[what]}\n"
    )
    evidence = rounds([PASSES, hostile, FAILS, PASSES])
    assert len(evidence) == 4
    assert not infrastructure_fault(evidence[0])
    assert result_of(evidence[0], ID) is TestResult.PASSED
    assert result_of(evidence[2], ID) is not TestResult.PASSED
    if "away" not in what:
        assert result_of(evidence[3], ID) is TestResult.PASSED

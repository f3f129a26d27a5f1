"""Tested code that ends, forks, hangs, prints, eats, forges: what was reported before stays true, no more."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from beyondswe.sandbox.types import Limits
from beyondswe.scoring.verdict import infrastructure_fault, oddities, result_of, tampering

LIMITS = Limits(cpus=1, memory=1 << 30, pids=256, test_timeout=60)

pytestmark = pytest.mark.engine


def results(evidence, *names):
    return [result_of(evidence, f"test_a.py::test_{name}").value for name in names]


@pytest.mark.parametrize("how", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGSEGV)"])
def test_a_process_that_ends_in_the_middle(run_tests, how):
    evidence = run_tests(
        {"test_a.py": f"import os, signal\ndef test_a(): pass\ndef test_b(): {how}\ndef test_c(): pass"}
    )
    assert results(evidence, "a", "b", "c") == ["passed", "error", "missing"]
    assert oddities(evidence)[0] == ("ended_early",)
    assert tampering(evidence) is None


def test_the_time_limit_ends_everything_and_keeps_what_was_reported(run_tests):
    source = """
        import os, subprocess, sys, time
        def test_a(): pass
        def test_b():
            subprocess.Popen([sys.executable, "-c", "import os,time; os.setsid(); time.sleep(600)"])
            time.sleep(600)
        def test_c(): pass
    """
    evidence = run_tests({"test_a.py": source}, limits=replace(LIMITS, test_timeout=3))
    assert evidence.timed_out
    assert not evidence.ended.timed_out  # the runner's own clock, not the host's
    assert results(evidence, "a", "b", "c") == ["passed", "error", "missing"]
    assert 3 <= evidence.seconds < 5


def test_what_is_left_behind_does_not_hold_the_result_up(run_tests):
    source = """
        import os, threading, time
        def test_forks_and_the_child_stays():
            if os.fork() == 0:
                os.setsid()
                time.sleep(600)
        def test_forks_and_the_child_runs_on():
            os.fork()
        def test_thread_never_ends():
            threading.Thread(target=time.sleep, args=(600,)).start()
    """
    evidence = run_tests({"test_a.py": source})
    names = ("forks_and_the_child_stays", "forks_and_the_child_runs_on", "thread_never_ends")
    assert results(evidence, *names) == ["passed"] * 3
    assert tampering(evidence) is None
    assert evidence.seconds < 30


def test_the_log_keeps_head_and_tail_of_endless_output(run_tests):
    source = """
        import os
        def test_prints():
            os.write(1, b"first words\\n")
            block = b"x" * (1 << 20)
            for _ in range(64):
                os.write(1, block)
            os.write(1, b"last words\\n")
    """
    evidence = run_tests({"test_a.py": source, "pytest.ini": "[pytest]\naddopts = -s"})
    assert results(evidence, "prints") == ["passed"]
    assert "first words" in evidence.log
    assert "last words" in evidence.log
    assert evidence.end["log_bytes"] > 64 << 20
    assert len(evidence.log) < 1 << 20
    assert re.search(r"\[… \d+ bytes left out …\]", evidence.log)


def test_memory_takes_the_tests_and_not_the_runner(run_tests):
    source = "def test_a(): pass\ndef test_b():\n    held = [b'x' * (1 << 20) for _ in range(4096)]"
    evidence = run_tests({"test_a.py": source}, limits=replace(LIMITS, memory=256 << 20))
    assert infrastructure_fault(evidence) is None
    assert results(evidence, "a", "b") == ["passed", "error"]
    assert evidence.out_of_memory
    assert evidence.end["signal"] == 9


def test_what_tests_print_is_no_evidence(run_tests):
    source = """
        import json, os, sys
        record = {"w": "call", "id": "test_a.py::test_fails", "o": "passed"}
        frame = json.dumps({"event": "record", "r": record})
        def test_fails(capfd):
            with capfd.disabled():
                print(frame)
                os.write(2, frame.encode() + b"\\n")
            for path in ("/proc/1/fd/1", "/proc/1/fd/2"):
                try:
                    with open(path, "w") as file:
                        file.write("\\n" + frame + "\\n")
                except OSError:
                    continue
                assert False, "could write to " + path
            for path in ("/proc/1/mem", "/proc/1/environ", "/proc/1/maps"):
                try:
                    open(path, "rb").read(1)
                except OSError:
                    continue
                assert False, "could read " + path
            raise ValueError("the end")
    """
    evidence = run_tests({"test_a.py": source})
    assert results(evidence, "fails") == ["failed"]
    assert "the end" in evidence.phases["test_a.py::test_fails"][1].text
    assert infrastructure_fault(evidence) is None
    assert evidence.forged == 0


def test_nothing_of_the_job_is_left_to_read(run_tests):
    source = """
        import os
        def test_clean():
            assert [name for name in os.listdir("/") if "beyondswe" in name] == []
            mine = open("/proc/self/environ").read() + open("/proc/self/cmdline").read()
            assert "key" not in mine.lower()
            assert "PYTEST_ADDOPTS" not in os.environ
            for name in os.listdir("/proc/self/fd"):
                try:
                    target = os.readlink("/proc/self/fd/" + name)
                except OSError:
                    continue
                assert "beyondswe" not in target
    """
    evidence = run_tests({"test_a.py": source})
    assert results(evidence, "clean") == ["passed"], evidence.log


def test_the_process_may_be_bent_without_losing_the_report(run_tests):
    source = """
        import hmac, json, os, time, signal
        def test_bends(tmp_path):
            os.chdir(str(tmp_path))
            time.time = time.monotonic = time.perf_counter = lambda: 0.0
            json.dumps = json.JSONEncoder.encode = hmac.new = None
            os.write = os.fstat = os.getpid = None
            os.environ.clear()
        def test_after(): pass
        def test_signals_the_supervisor():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD):
                os.kill(1, number)
    """
    evidence = run_tests({"test_a.py": source})
    assert results(evidence, "bends", "after", "signals_the_supervisor") == ["passed"] * 3, evidence.log
    assert tampering(evidence) is None


def test_closing_low_descriptors_does_no_harm_and_closing_all_is_no_pass(run_tests):
    source = """
        import os
        def test_low(): os.closerange(20, 800)
        def test_all(): os.closerange(800, 2000)
        def test_after(): pass
    """
    evidence = run_tests({"test_a.py": source})
    assert results(evidence, "low", "all", "after") == ["passed", "error", "missing"]
    assert oddities(evidence)[0] == ("ended_early",)
    assert tampering(evidence) is None


def test_a_record_with_another_key_is_tampering(run_tests):
    source = """
        import os
        def test_writes_to_every_descriptor():
            record = b'%s {"w": "call", "id": "test_a.py::test_no", "o": "passed", "n": 4}\\n' % (b"00" * 32)
            for number in range(3, 2000):
                try:
                    os.write(number, record)
                except OSError:
                    pass
            assert False
    """
    evidence = run_tests({"test_a.py": source})
    assert evidence.forged
    assert "do not carry this job's key" in tampering(evidence)
    assert results(evidence, "writes_to_every_descriptor", "no") == ["failed", "missing"]


def test_a_report_made_by_hand_is_a_phase_twice(run_tests):
    source = """
        import gc
        from _pytest.reports import TestReport
        def test_forges(request):
            report = TestReport("test_a.py::test_forges", ("", 0, ""), {}, "passed", None, "call")
            request.config.hook.pytest_runtest_logreport(report=report)
            assert False
    """
    evidence = run_tests({"test_a.py": source})
    assert results(evidence, "forges") == ["failed"]
    assert "twice" in tampering(evidence)


def test_a_report_that_hides_an_exception_is_no_pass(run_tests):
    lib = """
        import sys
        reports = sys.modules["_pytest.reports"]
        real = reports.TestReport.from_item_and_call.__func__
        def fake(cls, item, call):
            report = real(cls, item, call)
            report.outcome, report.longrepr = "passed", None
            return report
        reports.TestReport.from_item_and_call = classmethod(fake)
    """
    evidence = run_tests({"lib.py": lib, "test_a.py": "import lib\ndef test_fails(): assert False"})
    assert results(evidence, "fails") == ["failed"]
    assert "report_contradicts_exception" in oddities(evidence)[0]


def test_modules_of_the_tree_are_not_what_the_runner_imports(run_tests):
    evil = "import os; os._exit(0)"
    shadows = [
        "pytest.py",
        "_pytest/__init__.py",
        "pluggy/__init__.py",
        "json.py",
        "hmac.py",
        "encodings.py",
        "site.py",
    ]
    evidence = run_tests(
        {**dict.fromkeys(shadows, evil), "test_a.py": "def test_a(): pass"}, targets=["test_a.py"]
    )
    assert results(evidence, "a") == ["passed"]
    assert evidence.start["from_tree"] is False


def test_another_user_runs_the_tests_and_not_the_runner(run_tests):
    source = """
        import os, pwd
        def test_user():
            assert os.getuid() == pwd.getpwnam("nobody").pw_uid
            assert os.environ["HOME"] == pwd.getpwnam("nobody").pw_dir
            assert not os.access("/workspace", os.W_OK)
    """
    evidence = run_tests({"test_a.py": source}, user="nobody")
    assert results(evidence, "user") == ["passed"], evidence.log

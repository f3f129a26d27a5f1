"""`beyondswe gate`: red for a regression, not for noise, and never green for want of outcomes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml

from tests.reports.folders import run_folder


class Gate:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.made = 0

    def __call__(self, baseline: Any, candidate: Any, *words: str) -> tuple[int, dict[str, Any]]:
        folders = []
        for scores in (baseline, candidate):
            self.made += 1
            folders.append(str(run_folder(self.root, f"run-{self.made}", scores)))
        command = [sys.executable, "-m", "beyondswe.cli", "gate", "--json"]
        done = subprocess.run(
            [*command, "--baseline", folders[0], "--candidate", folders[1], *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def solved(n: int, of: int, family: str = "C") -> dict[str, float]:
    return {f"{family}{i}": float(i < n) for i in range(of)}


def test_the_same_run_holds_and_a_clear_loss_does_not(gate: Gate) -> None:
    code, found = gate(solved(60, 100), solved(60, 100))
    assert (code, found["green"], found["drop"], found["p"]) == (0, True, 0.0, 1.0)
    code, found = gate(solved(60, 100), solved(40, 100))
    assert (code, found["green"], found["drop"]) == (1, False, 20.0)
    assert found["regressed"] == [f"C{i}" for i in range(40, 60)] and found["p"] < 0.001
    assert found["families"] == {"CrossRepo": {"n": 100, "baseline": 60.0, "candidate": 40.0}}


def test_noise_is_not_red(gate: Gate) -> None:
    """The same agent twice: 15 of 100 instances go one way or the other."""
    chance = random.Random(5)
    first = {f"C{i}": float(chance.random() < 0.5) for i in range(100)}
    second = {name: 1 - v if int(name[1:]) % 7 == 0 else v for name, v in first.items()}
    code, found = gate(first, second)
    assert code == 0 and len(found["regressed"]) + len(found["improved"]) == 15
    assert 5 < found["smallest_drop"] < 15


def test_an_allowed_drop_is_green(gate: Gate) -> None:
    assert gate(solved(100, 200), solved(88, 200))[0] == 1
    assert gate(solved(100, 200), solved(88, 200), "--max-drop", "6")[0] == 0
    assert gate(solved(100, 200), solved(88, 200), "--max-drop", "5.9")[0] == 1


def test_four_instances_show_a_total_loss_and_one_shows_nothing_but_is_not_waved_through(gate: Gate) -> None:
    demo = {"C1": 1.0, "F1": 1.0, "M1": 1.0, "D1": 1.0}
    code, found = gate(demo, dict.fromkeys(demo, 0.0))
    assert (code, found["drop"], round(found["p"], 4)) == (1, 100.0, 0.0039)
    assert gate(demo, {**demo, "C1": 0.0})[0] == 0  # one of four: as likely noise
    code, found = gate({"C1": 1.0}, {"C1": 0.0})
    assert code == 1 and found["smallest_drop"] is None and "too few" in found["reasons"][0]
    assert gate({"C1": 1.0}, {"C1": 1.0})[0] == 0


def test_what_nobody_judged_is_never_green(gate: Gate) -> None:
    base = solved(50, 100)
    code, found = gate(base, {**base, "C99": None})
    assert code == 1 and found["unjudged"] == ["C99"] and "infrastructure" in found["reasons"][0]
    code, found = gate(base, {name: v for name, v in base.items() if name != "C99"})
    assert code == 1 and found["missing"] == ["C99"]
    red = solved(30, 100)
    code, found = gate(
        {**base, **{f"C{i}": None for i in range(50)}}, red
    )  # errors of the baseline count against it
    assert code == 1 and found["drop"] == 20.0
    code, found = gate({**base, "C99": None}, base)
    assert code == 0


def test_must_pass_is_every_attempt_and_its_ids_are_known(gate: Gate, tmp_path: Path) -> None:
    wanted = tmp_path / "must.txt"
    wanted.write_text("C1  # the flagship\n\nC2\n")
    runs = {"C1": [1.0, 1.0], "C2": [1.0, 0.0], "C3": [0.0, 0.0]}
    code, found = gate(runs, runs, "--must-pass", str(wanted))
    assert code == 1 and found["must_pass_failed"] == ["C2"]
    wanted.write_text('["C1"]')
    assert gate(runs, runs, "--must-pass", str(wanted))[0] == 0
    wanted.write_text('["C7"]')
    code, found = gate(runs, runs, "--must-pass", str(wanted))
    assert code == 2 and "C7" in found["error"]["message"]
    for odd in ('["C1", null]', '["C1", 0]', "[" * 5000):
        wanted.write_text(odd)
        code, found = gate(runs, runs, "--must-pass", str(wanted))
        assert code == 2 and "--must-pass" in found["error"]["message"]


@pytest.mark.parametrize("option", ["--alpha", "--max-drop"])
def test_a_bound_that_is_no_number_is_refused(gate: Gate, option: str) -> None:
    code, found = gate({"C1": 1.0}, {"C1": 0.0}, option, "nan")
    assert code == 2 and "no finite number" in found["error"]["message"]


def test_doc2repo_counts_by_its_pass_rate_and_families_alike(gate: Gate) -> None:
    base = {**solved(20, 40), **{f"D{i}": 0.8 for i in range(20)}}
    code, found = gate(base, {**base, **{f"D{i}": 0.6 for i in range(20)}})
    assert code == 1 and found["drop"] == pytest.approx(10.0)


def test_junit_and_summary_say_the_same(gate: Gate, tmp_path: Path) -> None:
    junit, summary = tmp_path / "gate.xml", tmp_path / "summary.md"
    words = ("--junit", str(junit), "--summary", str(summary))
    assert gate(solved(60, 100), solved(40, 100), *words)[0] == 1
    suite = next(iter(JUnitXml.fromfile(str(junit))))
    assert suite.tests == 102 and suite.failures == 21
    assert (
        "does not hold" in summary.read_text()
        and "| CrossRepo | 100 | 60.00 | 40.00 | -20.00 |" in summary.read_text()
    )
    assert gate(solved(60, 100), {**solved(60, 100), "C0": 0.0}, *words)[0] == 0
    suite = next(iter(JUnitXml.fromfile(str(junit))))
    assert (suite.tests, suite.failures, suite.errors) == (102, 0, 0)
    assert summary.read_text().count("## Gate") == 2


def test_runs_without_a_common_instance_are_wrong_use(gate: Gate) -> None:
    code, found = gate({"C1": 1.0}, {"C2": 1.0})
    assert code == 2 and "no instance in common" in found["error"]["message"]

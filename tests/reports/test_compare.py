"""`beyondswe compare`: paired by instance, with intervals, exact tests and power."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beyondswe.reports.randomisation import chance_of_difference, chance_of_drop
from tests.reports.folders import Scores, run_folder


def compare(root: Path, a: Scores, b: Scores, *, code: int = 0, **run: Any) -> dict[str, Any]:
    folders = [run_folder(root, "a", a), run_folder(root, "b", b, **run)]
    command = [sys.executable, "-m", "beyondswe.cli", "compare", *map(str, folders), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_names_counts_and_mcnemar(tmp_path: Path) -> None:
    a = {f"C{i}": float(i < 10) for i in range(20)}
    b = {**a, "C0": 0.0, "C10": 1.0, "C11": 1.0, "C12": 1.0, "C13": 1.0, "C14": 1.0, "C15": 1.0, "C16": 1.0}
    found = compare(tmp_path, a, b)
    assert found["regressed"] == ["C0"] and len(found["improved"]) == 7 and len(found["tied"]) == 12
    # exact, by hand: 2 × (C(8,0) + C(8,1)) / 2^8
    assert found["resolved"] == {
        "test": "McNemar, exact",
        "only_a": 1,
        "only_b": 7,
        "p": pytest.approx(18 / 256),
    }
    assert found["avg"]["delta"] == 30.0 and found["avg"]["interval"][0] < 30 < found["avg"]["interval"][1]
    assert found["power"]["instances_needed"] > 0


def test_the_exact_test_is_scipys() -> None:
    from scipy.stats import binomtest

    for only_a, only_b in [(0, 1), (3, 9), (10, 10), (1, 14)]:
        differences = [-1.0] * only_a + [1.0] * only_b + [0.0] * 7
        mine = chance_of_difference(differences, [1 / len(differences)] * len(differences))
        assert mine == pytest.approx(binomtest(only_a, only_a + only_b).pvalue)


def test_a_sample_of_signs_agrees_with_counting_them_out() -> None:
    differences = [(-1) ** i * (i + 1) / 20 - 0.05 for i in range(16)]  # 2^16 combinations: counted out
    exact = chance_of_drop(differences, [1.0] * 16)
    nearly = [d + 1e-6 * i for i, d in enumerate(differences)] + [1e-9]  # one more: sampled
    assert chance_of_drop(nearly, [1.0] * 17) == pytest.approx(exact, abs=0.02)


def test_doc2repo_is_compared_by_pass_rate_and_avg_weighs_families_alike(tmp_path: Path) -> None:
    a = {"C1": 1.0, "C2": 0.0, "C3": 0.0, "D1": 0.5, "D2": 0.7}
    b = {**a, "D1": 0.6, "D2": 0.9}
    found = compare(tmp_path, a, b)
    assert found["families"]["Doc2Repo"]["delta"] == 15.0 and found["families"]["CrossRepo"]["delta"] == 0.0
    assert found["avg"]["delta"] == 7.5 and found["pass_rate"]["p"] == 0.5
    assert found["resolved"]["p"] == 1.0


def test_what_only_one_run_has_and_other_datasets_are_said(tmp_path: Path) -> None:
    a, b = {"C1": 1.0, "C2": None}, {"C1": 1.0, "C3": 1.0}
    found = compare(tmp_path, a, b, dataset={"name": "other"})
    assert found["n"] == 1
    assert any("different names" in note for note in found["notes"])
    assert any("C2" in note for note in found["notes"]) and any("C3" in note for note in found["notes"])
    assert any("infrastructure" in note for note in found["notes"])


def test_several_attempts_are_not_counted_as_mcnemar(tmp_path: Path) -> None:
    found = compare(tmp_path, {"C1": [1.0, 0.0], "C2": [0.0, 0.0]}, {"C1": [1.0, 1.0], "C2": [0.0, 1.0]})
    assert found["families"]["CrossRepo"]["test"] == "paired randomisation" and found["avg"]["delta"] == 50.0

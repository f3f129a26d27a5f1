"""`beyondswe verify` on a real engine: lists found by running, flaky tests out, bad instances rejected."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beyondswe.construction.environments import build_environment
from beyondswe.construction.materials import material
from beyondswe.construction.recipes import Recipe
from beyondswe.construction.shipped import make_instance
from beyondswe.instances import load_dataset, write_instances
from beyondswe.sandbox.engine import LABEL, Engine
from tests.construction.conftest import HIDDEN, MakeRecipe

pytestmark = pytest.mark.engine

FLAKY = {
    **HIDDEN,
    "tests/test_flaky.py": "import os\n\n\ndef test_coin():\n    assert os.urandom(1)[0] & 1\n",
}


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def instance(self, instance_id: str) -> dict[str, Any]:
        (row,) = (row for row in self.json["instances"] if row["instance_id"] == instance_id)
        return dict(row)


def start(*arguments: str, namespace: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "beyondswe.cli", "verify", "--json", *arguments],
        env={**os.environ, **({"BEYONDSWE_NAMESPACE": namespace} if namespace else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # where the tests run in the background, a shell may have told them to ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
    )


def verify(*arguments: str) -> Done:
    with start(*arguments) as process:
        out, err = process.communicate(timeout=300)
    return Done(process.returncode, out, err)


@pytest.fixture
def rows_of(engine: Engine, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Build the environments of recipes and write their rows; gives the path."""
    built: list[str] = []

    def rows(*recipes: Recipe, **update: object) -> str:
        instances = []
        for recipe in recipes:
            built.append(build_environment(engine, recipe))
            instances.append(make_instance(recipe, material(recipe), tmp_path).model_copy(update=update))
        write_instances(tmp_path / "rows.jsonl", instances)
        return str(tmp_path / "rows.jsonl")

    yield rows
    for tag in set(built):
        engine.client.images.remove(tag, force=True)


def test_the_demo_verifies_and_its_lists_are_those_that_come_with_it(tmp_path: Path) -> None:
    out = tmp_path / "verified" / "demo.jsonl"
    out.parent.mkdir()
    done = verify("--dataset", "demo", "--out", str(out), "--runs", "2", "--workers", "2")
    assert done.code == 0, done.err
    assert done.json["verified"] == 4 and done.json["rejected"] == 0
    assert all(row["flaky"] == {} and row["unusable"] == {} for row in done.json["instances"])

    found = {instance.instance_id: instance for instance in load_dataset(str(out)).instances}
    shipped = {instance.instance_id: instance for instance in _shipped()}
    assert found.keys() == shipped.keys()
    for instance_id, instance in found.items():
        assert instance.fail_to_pass == shipped[instance_id].fail_to_pass
        assert instance.pass_to_pass == shipped[instance_id].pass_to_pass
        assert instance.test_suite_num == shipped[instance_id].test_suite_num
        record: Mapping[str, Any] = instance.verification or {}
        assert record["runs"] == 2 and record["excluded_rate_95"] == pytest.approx(0.7764, abs=1e-4)
        assert (record["user"], record["tree"], record["reinstall"]) == ("nobody", "read_only", "none")
        assert record["network"] == "none" and record["needs_network"] == []
        assert record["python"].startswith("3.11.") and record["image_digest"].startswith("sha256:")
        assert record["runner"] and record["pytest"] and record["index_date"] == instance.index_date
        controls = record["controls"]
        assert (
            controls["functions"].keys() == shipped[instance_id].verification["controls"]["functions"].keys()
        )
        assert controls["opaque"] >= 6 and controls["no_control"] == []
    spans = found["time_spans_from_scratch"]
    assert len((spans.verification or {})["tests"]) == spans.test_suite_num >= 20
    assert spans.test_suite_dir and (out.parent / spans.test_suite).is_file()


def _shipped() -> Any:
    from beyondswe.construction.shipped import materialize

    return load_dataset(str(materialize("demo"))).instances


def test_a_flaky_test_is_kept_with_its_counts_and_out_of_the_lists(
    make_recipe: MakeRecipe, rows_of: Callable[..., str], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    # With ten runs a side a coin that never changes on either comes once in 260,000 times.
    done = verify("--dataset", rows_of(make_recipe("flaky", hidden=FLAKY)), "--out", str(out), "--runs", "10")
    assert done.code == 0, done.err
    (instance,) = load_dataset(str(out)).instances
    assert instance.fail_to_pass == ("tests/test_new.py::test_count",)
    assert instance.pass_to_pass == ("tests/test_old.py::test_type",)
    counts = (instance.verification or {})["flaky"]["tests/test_flaky.py::test_coin"]
    assert sum(counts["before"].values()) == sum(counts["after"].values()) == 10
    assert {*counts["before"], *counts["after"]} == {"failed", "passed"}


def test_instances_are_rejected_with_the_reason_and_the_others_are_written(
    make_recipe: MakeRecipe, rows_of: Callable[..., str], tmp_path: Path
) -> None:
    recipes = [
        make_recipe("good"),
        make_recipe("not_fixed", fix={"counted.py": "def count(words):\n    return len(words) - 2\n"}),
        make_recipe("nothing_to_fix", hidden={"tests/test_new.py": "def test_nothing():\n    pass\n"}),
        make_recipe("hangs", fix={"counted.py": "import time\ntime.sleep(600)\n"}),
    ]
    out = tmp_path / "out.jsonl"
    done = verify("--dataset", rows_of(*recipes), "--out", str(out), "--runs", "1", "--test-timeout", "4")
    assert done.code == 1
    assert [instance.instance_id for instance in load_dataset(str(out)).instances] == ["good"]
    assert done.json["verified"] == 1 and done.json["rejected"] == 3
    reasons = {row["instance_id"]: row["reason"] for row in done.json["instances"]}
    assert reasons["good"] is None
    assert "1 do not pass with it: tests/test_new.py::test_count" in reasons["not_fixed"]
    assert "none fails without the reference change" in reasons["nothing_to_fix"]
    assert "did not end in 1 of 1 runs" in reasons["hangs"]
    assert all(reason in done.err for reason in reasons.values() if reason)


def test_a_missing_image_fails_that_instance_only(
    make_recipe: MakeRecipe, rows_of: Callable[..., str], tmp_path: Path
) -> None:
    path = Path(rows_of(make_recipe("there"), make_recipe("gone")))
    path.write_text(path.read_text().replace("beyondswe/made:gone-", "localhost:1/beyondswe/made:gone-"))
    done = verify("--dataset", str(path), "--out", str(tmp_path / "out.jsonl"), "--runs", "1")
    assert done.code == 1
    assert done.instance("there")["status"] == "verified"
    assert done.instance("gone")["status"] == "failed" and "gone-" in done.instance("gone")["reason"]


def test_gold_keeps_lists_that_hold_and_rejects_those_that_do_not(
    make_recipe: MakeRecipe, rows_of: Callable[..., str], tmp_path: Path
) -> None:
    new, old = "tests/test_new.py::test_count", "tests/test_old.py::test_type"
    out = tmp_path / "out.jsonl"
    rows = rows_of(make_recipe("gold"), fail_to_pass=(new,))
    done = verify("--dataset", rows, "--out", str(out), "--runs", "1", "--gold")
    assert done.code == 0, done.err
    (instance,) = load_dataset(str(out)).instances
    assert (instance.fail_to_pass, instance.pass_to_pass) == ((new,), ()) and instance.verification

    rows = rows_of(make_recipe("gold"), fail_to_pass=(old, new), pass_to_pass=("tests/test_old.py::gone",))
    done = verify("--dataset", rows, "--out", str(out), "--runs", "1", "--gold", "--force")
    assert done.code == 1
    reason = done.instance("gold")["reason"]
    assert f"{old} passes without the reference change" in reason
    assert "tests/test_old.py::gone does not pass" in reason
    assert out.read_text() == ""


def test_an_interrupted_verification_leaves_no_container_and_no_file(
    engine: Engine, make_recipe: MakeRecipe, rows_of: Callable[..., str], tmp_path: Path
) -> None:
    slow = {"tests/test_new.py": "import time\n\n\ndef test_slow():\n    time.sleep(300)\n"}
    rows, out = rows_of(make_recipe("slow", hidden=slow)), tmp_path / "out.jsonl"
    namespace = f"verify-interrupted-{os.getpid()}"

    def containers() -> list[Any]:
        filters = {"label": [f"{LABEL}={namespace}", "io.beyondswe.role=job"]}
        return list(engine.api.containers(all=True, filters=filters))

    process = start("--dataset", rows, "--out", str(out), "--runs", "2", namespace=namespace)
    try:
        deadline = time.monotonic() + 60
        while not [one for one in containers() if one["State"] == "running"]:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.communicate()
    assert not out.exists() and containers() == []


def test_record_is_for_datasets_that_come_with_the_product(tmp_path: Path) -> None:
    done = verify("--dataset", "rows.jsonl", "--out", str(tmp_path / "out.jsonl"), "--record")
    assert done.code == 2 and "--record is for datasets that come with the product" in done.err


def test_what_is_there_is_written_over_only_by_force_and_folders_are_not_made(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("dear\n")
    there = verify("--dataset", "demo", "--out", str(out))
    assert there.code == 2 and f"--out {out}: this file is there already; --force" in there.err
    assert out.read_text() == "dear\n"
    nowhere = verify("--dataset", "demo", "--out", str(tmp_path / "none" / "out.jsonl"))
    assert nowhere.code == 2 and f"there is no folder {tmp_path / 'none'}" in nowhere.err
    assert nowhere.json["error"]["kind"] == "UsageError"
    assert not (tmp_path / "none").exists()

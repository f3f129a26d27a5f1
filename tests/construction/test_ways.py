"""`beyondswe verify` finds how tests are run, what they mind, who is out and what has rotted: on a real engine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beyondswe.construction.environments import build_environment
from beyondswe.construction.materials import material
from beyondswe.construction.recipes import Recipe
from beyondswe.construction.shipped import make_instance
from beyondswe.instances import load_dataset, write_instances
from beyondswe.sandbox.build import build_image
from beyondswe.sandbox.engine import Engine, labels
from tests.construction.conftest import BASE, FIX, HIDDEN, MakeRecipe
from tests.construction.test_verify import verify

pytestmark = pytest.mark.engine

NEW = "tests/test_new.py::test_count"
MINDS = """
import datetime
import locale
import os
import time
from counted import count

STATE = []


def test_count():
    assert count(["a"]) == 1


def test_first():
    STATE.append(1)
    assert STATE == [1]


def test_second():
    assert STATE == [1]


def test_seed():
    assert hash("word9") % 16


def test_date():
    assert datetime.date.today() < datetime.date.fromtimestamp(os.stat(__file__).st_mtime + 90 * 86400)


def test_clock_as_a_number():
    assert time.time() < os.stat(__file__).st_mtime + 90 * 86400


def test_steady_dates():
    assert isinstance(datetime.datetime.now(), datetime.datetime)
    assert datetime.datetime(2020, 1, 2) - datetime.datetime(2020, 1, 1) == datetime.timedelta(days=1)


def test_zone():
    assert time.timezone == 0


def test_locale():
    assert "\\u00fc".encode(locale.getpreferredencoding(False))


def test_processors():
    assert os.cpu_count() > 1
"""
ONLINE = """
import socket
from counted import count


def test_route():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("192.0.2.1", 9))
        assert count(["a"]) == 1
"""
WRITES = """
from counted import count


def test_writes_beside_itself():
    with open("kept.txt", "w") as file:
        file.write(str(count(["a"])))
    assert open("kept.txt").read() == "1"
"""
NAMED = """
from importlib import metadata


def test_point():
    points = metadata.distribution("counted").entry_points
    (point,) = [one for one in points if one.group == "counted.ways"]
    assert point.load()(["a", "b"]) == 2
"""


@pytest.fixture(scope="module")
def images(engine: Engine) -> Iterator[set[str]]:
    built: set[str] = set()
    yield built
    for tag in built:
        engine.client.images.remove(tag, force=True)


@pytest.fixture
def rows_of(engine: Engine, images: set[str], tmp_path: Path) -> Callable[..., Path]:
    def rows(*recipes: Recipe) -> Path:
        instances = []
        for recipe in recipes:
            images.add(build_environment(engine, recipe))
            instances.append(make_instance(recipe, material(recipe), tmp_path))
        write_instances(tmp_path / "rows.jsonl", instances)
        return tmp_path / "rows.jsonl"

    return rows


def test_the_way_is_found_by_running_and_a_check_finds_what_has_rotted(
    make_recipe: MakeRecipe, rows_of: Callable[..., Path], tmp_path: Path
) -> None:
    named = BASE["pyproject.toml"] + '[project.entry-points."counted.ways"]\nplain = "counted:count"\n'
    recipes = [
        make_recipe("way_plain"),
        make_recipe("way_online", hidden={**HIDDEN, "tests/test_online.py": ONLINE}),
        make_recipe("way_writes", hidden={"tests/test_writes.py": WRITES}),
        make_recipe("way_named", fix={**FIX, "pyproject.toml": named}, hidden={"tests/test_named.py": NAMED}),
        make_recipe("way_not_fixed", fix={"counted.py": "def count(words):\n    return len(words) - 2\n"}),
    ]
    rows, out, exclusions = rows_of(*recipes), tmp_path / "out.jsonl", tmp_path / "exclusions.jsonl"
    done = verify("--dataset", str(rows), "--out", str(out), "--runs", "1", "--exclusions", str(exclusions))
    assert done.code == 1, done.err
    (excluded,) = map(json.loads, exclusions.read_text().splitlines())
    assert excluded["instance_id"] == "way_not_fixed" and excluded["status"] == "rejected"
    assert f"do not pass with it: {NEW}" in excluded["reason"]

    found = {one.instance_id: one for one in load_dataset(str(out)).instances}
    ways = {
        name: tuple((one.verification or {})[key] for key in ("user", "tree", "reinstall"))
        for name, one in found.items()
    }
    assert ways == {
        "way_plain": ("nobody", "read_only", "none"),
        "way_online": ("nobody", "read_only", "none"),
        "way_writes": ("root", "writable", "none"),
        "way_named": ("nobody", "read_only", "metadata"),
    }
    assert (found["way_named"].verification or {})["installs"]["groups"] == ["counted.ways"]
    assert (found["way_online"].verification or {})["needs_network"] == ["tests/test_online.py::test_route"]
    assert found["way_online"].fail_to_pass == (NEW,)

    # What has rotted since: an expected test is gone, an image is.
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    for row in lines:
        if row["instance_id"] == "way_writes":
            row["PASS_TO_PASS"] = ["tests/test_old.py::test_gone"]
        if row["instance_id"] == "way_online":
            row["image"] = "localhost:1/beyondswe/made:gone"
        if row["instance_id"] == "way_plain":
            row["verification"]["pytest"] = "2.0"
    kept = tmp_path / "kept.jsonl"
    kept.write_text("".join(json.dumps(row) + "\n" for row in lines))
    again = verify(
        "--dataset", str(kept), "--check", "--runs", "1", "--exclusions", str(exclusions), "--force"
    )
    assert again.code == 1, again.err
    statuses = {row["instance_id"]: row["status"] for row in again.json["instances"]}
    assert statuses == {
        "way_plain": "verified",
        "way_named": "verified",
        "way_online": "failed",
        "way_writes": "rejected",
    }
    assert again.instance("way_writes")["broken"] == ["tests/test_old.py::test_gone"]
    (change,) = again.instance("way_plain")["changed"]
    assert change.startswith("pytest: 2.0, now ")
    assert {json.loads(line)["instance_id"] for line in exclusions.read_text().splitlines()} == {
        "way_online",
        "way_writes",
    }


def test_an_image_with_a_later_state_is_refused_where_it_is_ours_to_make_anew(
    engine: Engine, make_recipe: MakeRecipe, rows_of: Callable[..., Path], images: set[str], tmp_path: Path
) -> None:
    rows = rows_of(make_recipe("way_leftover"))
    row = json.loads(rows.read_text())
    tag = f"beyondswe/made:later-{os.getpid()}"
    dockerfile = f"FROM {row['image']}\nRUN mkdir /opt/counted-2.0 && cp counted.py /opt/counted-2.0/\n"
    build_image(
        engine, context={}, dockerfile=dockerfile, tag=tag, network="none", labels=labels(role="test")
    )
    images.add(tag)
    row |= {"image": tag, "FAIL_TO_PASS": [NEW], "PASS_TO_PASS": [], "index_date": ""}
    rows.write_text(json.dumps(row) + "\n")
    out = tmp_path / "out.jsonl"
    done = verify("--dataset", str(rows), "--out", str(out), "--runs", "1")
    assert done.code == 1
    reason = done.instance("way_leftover")["reason"]
    assert "may be a later state" in reason and "leftover:/opt/counted-2.0" in reason
    done = verify("--dataset", str(rows), "--out", str(out), "--runs", "1", "--gold", "--force")
    assert done.code == 0, done.err
    (instance,) = load_dataset(str(out)).instances
    assert (instance.verification or {})["leftovers"] == ["leftover:/opt/counted-2.0"]
    assert instance.index_date >= "2024-01-02"  # that of its commit, or of what was installed after it


@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="fewer processors than one cannot be tried")
def test_what_turns_a_test_is_named(
    make_recipe: MakeRecipe, rows_of: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    rows = rows_of(make_recipe("minds", hidden={"tests/test_minds.py": MINDS}))
    done = verify("--dataset", str(rows), "--out", str(out), "--runs", "2", "--perturb")
    assert done.code == 0, done.err
    causes = {
        name.rpartition("::")[2]: causes for name, causes in done.instance("minds")["perturbed"].items()
    }
    assert causes == {
        "test_second": ["order"],
        "test_seed": ["hash_seed"],
        "test_date": ["date"],
        "test_clock_as_a_number": ["date"],
        "test_zone": ["time_zone"],
        "test_locale": ["locale"],
        "test_processors": ["cpus"],
    }
    assert "hash seed turns tests/test_minds.py::test_seed" in done.err
    (instance,) = load_dataset(str(out)).instances
    assert instance.fail_to_pass == ("tests/test_minds.py::test_count",)
    left = [name.rpartition("::")[2] for name in instance.pass_to_pass]
    assert left == ["test_first", "test_steady_dates", "test_type"]
    record = (instance.verification or {})["perturbed"]
    assert record["varied"] == ["order", "hash_seed", "date", "time_zone", "locale", "cpus"]


def test_only_a_check_does_without_out_and_a_check_needs_a_record(tmp_path: Path) -> None:
    done = verify("--dataset", "demo")
    assert done.code == 2 and "--out FILE says where" in done.err
    done = verify("--dataset", "demo", "--check", "--gold")
    assert done.code == 2 and "leave out --gold and --record" in done.err
    done = verify("--dataset", "demo", "--check", "--exclusions", str(tmp_path / "none" / "x.jsonl"))
    assert done.code == 2 and "there is no folder" in done.err

"""The demo dataset made from its recipes: the same everywhere, whole or not at all, read as any other."""

from __future__ import annotations

import os
import shutil
import tarfile
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from beyondswe.construction import shipped
from beyondswe.construction.materials import material
from beyondswe.construction.recipes import FoundTests, load_recipe
from beyondswe.construction.shipped import make_instance, materialize
from beyondswe.errors import DataError, UsageError
from beyondswe.instances import load_dataset
from tests.construction.conftest import BASE, MakeRecipe


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_comes_out_the_same_byte_for_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = materialize("demo")
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "other"))
    monkeypatch.setenv("TZ", "America/St_Johns")
    before = os.umask(0o077)
    try:
        second = materialize("demo")
    finally:
        os.umask(before)
    assert first != second and first.name == second.name
    assert content(first) == content(second)


def test_it_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = materialize("demo")
    monkeypatch.setattr(shipped, "make_instance", None)  # would fail if it were needed
    assert materialize("demo") == first


def test_many_at_once_make_one_whole_dataset() -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(materialize("demo"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1
    assert [path.name for path in found[0].parent.iterdir()] == [found[0].name]


def test_what_breaks_in_the_middle_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(shipped, "write_instances", broken)
        with pytest.raises(OSError, match="disk full"):
            materialize("demo")
    assert list((cache / "datasets" / "demo").iterdir()) == []
    assert (materialize("demo") / "instances.jsonl").is_file()


def test_its_rows_load_like_any_others() -> None:
    dataset = load_dataset(str(materialize("demo")))
    assert (dataset.name, len(dataset.instances), dataset.bad) == ("demo", 4, ())
    for instance in dataset.instances:
        assert instance.verification and instance.index_date
        assert instance.image.startswith(f"beyondswe/demo:{instance.instance_id}-")
        assert len(instance.image.partition(":")[2]) <= 128
        assert instance.expected_tests >= 20


def test_only_what_was_asked_for_is_made() -> None:
    dataset = load_dataset(str(materialize("demo", ["quay*"])))
    assert [instance.instance_id for instance in dataset.instances] == ["quaywatch_compact_frames"]
    with pytest.raises(UsageError, match="no instance of 'demo' matches"):
        materialize("demo", ["nothing"])


def test_the_agents_text_does_not_hold_the_answer() -> None:
    for instance in load_dataset(str(materialize("demo"))).instances:
        added = {
            line[1:].strip()
            for line in instance.patch.splitlines()
            if line.startswith("+") and not line.startswith("+++")
        }
        telling = {line for line in added if len(line) > 25}
        assert not [line for line in telling if line in instance.problem_statement]


def test_the_suite_and_the_reference_lie_beside_the_rows() -> None:
    folder = materialize("demo", ["time_spans*"])
    (instance,) = load_dataset(str(folder)).instances
    assert instance.patch == instance.problem_statement == ""
    with zipfile.ZipFile(folder / instance.test_suite) as suite:
        assert suite.namelist() == ["tests/test_lengths.py", "tests/test_spans.py", "tests/test_weekly.py"]
    with tarfile.open(folder / instance.reference_archive) as reference:
        assert "target_repo/__init__.py" in reference.getnames()


def test_lists_come_from_the_file_that_verify_writes(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    recipe = make_recipe()
    assert make_instance(recipe, material(recipe), tmp_path).fail_to_pass == ()
    found = FoundTests(FAIL_TO_PASS=("t.py::a",), PASS_TO_PASS=("t.py::[b]",), verification={"runs": 5})
    recipe.tests_file.write_text(found.to_json())
    instance = make_instance(recipe, material(recipe), tmp_path)
    assert (instance.fail_to_pass, instance.pass_to_pass) == (("t.py::a",), ("t.py::[b]",))
    assert instance.verification == {"runs": 5}


def test_what_an_image_is_built_from_is_in_its_name(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    def image(**facts: object) -> str:
        recipe = make_recipe(**facts)
        return make_instance(recipe, material(recipe), tmp_path).image

    assert image() == image(title="Another title") == image(aliases=["words"])
    different = [
        image(),
        image(python="3.12"),
        image(requirements=["six==1.16.0"]),
        image(system=["libxml2"]),
        image(install_env={"A": "1"}),
        image(index_date="2024-01-03"),
        image(base={**BASE, "README.md": "Counts words.\n"}),
    ]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize("name", ["repo", "reference.patch", "hidden_tests.patch"])
def test_a_missing_part_of_a_local_recipe_is_named(make_recipe: MakeRecipe, name: str) -> None:
    recipe = make_recipe()
    path = recipe.folder / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(DataError, match=rf"{name}: this (file|folder) is missing"):
        material(load_recipe(recipe.folder))


def test_a_reference_that_changes_nothing_is_refused(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    recipe = make_recipe()
    made = material(recipe)
    with pytest.raises(DataError, match="changes nothing"):
        make_instance(recipe, replace(made, reference=made.base), tmp_path)

"""``beyondswe engine prune`` removes what is ours in this namespace, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beyondswe.sandbox.build import build_image
from beyondswe.sandbox.engine import Engine, container_labels, labels, owner_alive, owner_label
from beyondswe.sandbox.environment import prepare
from beyondswe.sandbox.prune import survey

pytestmark = pytest.mark.engine


@pytest.fixture
def space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: Engine) -> Iterator[str]:
    """A namespace of its own; what is left in it is removed afterwards."""
    name = f"test-prune-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("BEYONDSWE_NAMESPACE", name)
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "cache"))
    yield name
    label = {"label": f"io.beyondswe.namespace={name}"}
    for container in engine.client.containers.list(all=True, filters=label):
        container.remove(force=True)
    for row in engine.api.images(filters=label):
        engine.client.images.remove(str(row["Id"]), force=True)


def prune(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "beyondswe.cli", "engine", "prune", "--json", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def dead() -> str:
    """The owner label of a process that lived on this host."""
    host, pid, started = owner_label().split(":")
    return f"{host}:{pid}:{int(started) - 1}"


def image_of(engine: Engine, space: str, base: str) -> str:
    tag = f"beyondswe/{space}:1"
    build_image(engine, context={}, dockerfile=f"FROM {base}\nENV SPACE={space}", tag=tag, network="none")
    return tag


def container_of(engine: Engine, image: str, marks: dict[str, str]) -> Any:
    return engine.client.containers.create(image, ["true"], network_mode="none", labels=marks)


def names(found: list[dict[str, Any]], kind: str) -> set[str]:
    return {entry["id"] for entry in found if entry["kind"] == kind}


def test_an_owner_is_told_from_another_process_with_its_number() -> None:
    assert owner_alive(owner_label())
    assert not owner_alive(dead())
    assert not owner_alive("") and not owner_alive("nonsense")
    assert owner_alive("another-host:1:1")  # nobody here can tell


def test_an_ended_process_is_no_owner() -> None:
    code = "from beyondswe.sandbox.engine import owner_label; print(owner_label())"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert not owner_alive(said)


def test_everything_of_ended_runs_goes(engine: Engine, base_image: str, space: str) -> None:
    image = image_of(engine, space, base_image)
    marks = labels(owner=dead())
    container = container_of(engine, image, marks)
    network = engine.client.networks.create(space, labels=marks)
    volume = engine.client.volumes.create(space, labels=marks)
    document = prune("--yes")
    assert document["namespace"] == space
    assert names(document["removed"], "container") == {container.id}
    assert names(document["removed"], "network") == {network.id}
    assert names(document["removed"], "volume") == {volume.id}
    assert not engine.has_image(image) and engine.has_image(base_image)
    assert prune("--yes")["removed"] == []


def test_snapshots_go_with_their_prepared_images(
    engine: Engine, base_image: str, space: str, tmp_path: Path
) -> None:
    environment = prepare(engine, base_image, workdir="/opt", base_commit="")
    folder = environment.snapshot.git_dir.parent
    other = tmp_path / "cache" / "snapshots" / ("0" * 64)
    other.mkdir()
    described = {"tree": "", "base_tree": "", "namespace": f"{space}-other"}
    (other / "snapshot.json").write_text(json.dumps(described))
    mine = container_of(engine, base_image, container_labels(role="test"))
    assert prune("--yes")["removed"] == [] and folder.is_dir()
    mine.remove()
    removed = prune("--yes")["removed"]
    assert names(removed, "snapshot") == {folder.name}
    assert names(removed, "image") == {environment.image}
    assert not folder.exists() and other.is_dir()
    assert prune("--yes")["found"] == []


def test_untagged_images_of_ours_go_too(engine: Engine, base_image: str, space: str) -> None:
    container = container_of(engine, base_image, labels(owner=dead()))
    left = container.commit(changes='LABEL io.beyondswe.owner=""').id
    assert left.removeprefix("sha256:") in {
        found.removeprefix("sha256:") for found in names(prune("--yes")["removed"], "image")
    }


def test_without_yes_it_only_says_what_it_would_do(engine: Engine, base_image: str, space: str) -> None:
    image = image_of(engine, space, base_image)
    document = prune()
    assert [entry["kind"] for entry in document["found"]] == ["image"] and document["removed"] == []
    assert engine.has_image(image)


def test_a_live_runs_containers_and_images_stay_without_all(
    engine: Engine, base_image: str, space: str
) -> None:
    image = image_of(engine, space, base_image)
    mine = container_of(engine, base_image, container_labels(role="test"))
    old = container_of(engine, base_image, labels(owner=dead()))
    document = prune("--yes")
    assert names(document["removed"], "container") == {old.id}
    assert {entry["kind"]: entry["reason"] for entry in document["kept"]} == {
        "container": f"process {owner_label()} lives",
        "image": "a run lives",
    }
    assert engine.has_image(image)
    assert names(prune("--yes", "--all")["removed"], "container") == {mine.id}
    assert not engine.has_image(image)


def test_what_is_not_ours_stays(engine: Engine, base_image: str, space: str) -> None:
    image = image_of(engine, space, base_image)
    by_hand = container_of(engine, image, {})  # inherits the image's labels
    elsewhere = container_of(
        engine, base_image, {"io.beyondswe.namespace": f"{space}-other", "io.beyondswe.owner": dead()}
    )
    own_name = f"users-own-{space}:1"
    build_image(
        engine,
        context={},
        dockerfile=f"FROM {image}\nENV MINE=1",
        tag=own_name,
        labels=labels(),
        network="none",
    )
    try:
        document = prune("--yes", "--all")
        assert document["removed"] == []
        assert {entry["reason"] for entry in document["kept"]} == {"a container uses it"}
        by_hand.remove()
        assert {entry["reason"] for entry in prune("--yes")["kept"]} == {"an image that stays is built on it"}
        elsewhere.reload()
        assert engine.has_image(own_name)
    finally:
        elsewhere.remove()
        engine.client.images.remove(own_name, force=True)


def test_people_read_what_was_freed(engine: Engine, base_image: str, space: str) -> None:
    image_of(engine, space, base_image)
    done = subprocess.run(
        [sys.executable, "-m", "beyondswe.cli", "engine", "prune", "--yes"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert f"beyondswe/{space}:1" in done.stderr and "removed 1, freed" in done.stderr and done.stdout == ""


def test_an_image_removed_while_others_are_counted_is_no_fault(
    engine: Engine, base_image: str, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the list of images and the look at one of them, somebody else may remove it."""
    image = image_of(engine, space, base_image)
    listed = engine.api.images
    rows = listed()
    engine.client.images.remove(image)

    def images(quiet: bool = False, filters: Any = None, **more: Any) -> Any:
        asked = quiet or filters
        return listed(quiet=quiet, filters=filters, **more) if asked else rows

    monkeypatch.setattr(engine.api, "images", images)
    assert survey(engine).remove == ()

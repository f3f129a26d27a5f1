"""Environments to score in, made of a few files: an image with them in its work folder, and its snapshot."""

from __future__ import annotations

import io
import tarfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from docker.types import Ulimit

from beyondswe.sandbox.base_images import ensure_base_image
from beyondswe.sandbox.engine import Engine, labels
from beyondswe.sandbox.trees import EMPTY_TREE, Trees
from beyondswe.sandbox.types import Environment, Snapshot

WORKDIR = "/workspace"
MakeEnvironment = Callable[..., Environment]


@pytest.fixture(scope="session")
def python_image(engine: Engine) -> str:
    return ensure_base_image(engine, "3.11")


@pytest.fixture(scope="session")
def make_environment(
    engine: Engine, python_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MakeEnvironment]:
    """``make_environment(files, "shell commands run in the work folder", changes=["ENV …"])``."""
    made: list[str] = []

    def make(
        files: Mapping[str, str], commands: str = "true", changes: list[str] | None = None
    ) -> Environment:
        client = engine.client
        name = f"beyondswe-test-{uuid.uuid4().hex[:12]}"
        container = client.containers.create(
            python_image,
            ["sh", "-ec", f"cd {WORKDIR}; {commands}"],
            name=name,
            network="none",
            ulimits=[Ulimit(**limit) for limit in engine.ulimits()],
            labels=labels(role="test"),
        )
        try:
            container.put_archive("/", _archive(files))
            container.start()
            ended = container.wait()
            assert ended["StatusCode"] == 0, container.logs().decode()
            image = container.commit(name, changes=changes or [f"WORKDIR {WORKDIR}"])
            made.append(name)
            chunks, _ = container.get_archive(WORKDIR)
            snapshot = _snapshot(tmp_path_factory.mktemp("snapshot") / "git", chunks)
        finally:
            container.remove(force=True)
        return Environment(
            image=str(image.id),
            source_image=name,
            image_digest=str(image.id),
            workdir=WORKDIR,
            user="",
            snapshot=snapshot,
        )

    yield make
    for name in made:
        engine.client.images.remove(name, force=True)


def _snapshot(git_dir: Path, chunks: Iterator[bytes]) -> Snapshot:
    with Trees.create(git_dir) as trees:
        with trees.importer() as importer:
            importer.add(chunks, strip=WORKDIR.strip("/").encode())
        tree = trees.edit(EMPTY_TREE, importer.entries)
    return Snapshot(git_dir=git_dir, tree=tree, base_tree=tree)


def _archive(files: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, text in {".keep": "", **files}.items():
            member = tarfile.TarInfo(f"{WORKDIR.strip('/')}/{name}")
            data = text.encode()
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()

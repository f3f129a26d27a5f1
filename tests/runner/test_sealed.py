"""Tests that are run by somebody who cannot write to the tree."""

from __future__ import annotations

import textwrap
import uuid

import pytest

from beyondswe.sandbox.engine import labels
from beyondswe.scoring.compose import child_task
from beyondswe.scoring.job import Job, Write, run_job
from beyondswe.scoring.pytest_config import configurations
from beyondswe.scoring.verdict import result_of
from tests.runner.conftest import LIMITS

pytestmark = pytest.mark.engine

SEALED = """
    import os
    import pytest

    def test_user():
        assert (os.getuid(), os.getgid(), os.getgroups()) == (65534, 65534, [65534])

    @pytest.mark.parametrize("path", ["test_sealed.py", "open.txt", "theirs.txt", "new.txt", "folder/new.txt"])
    def test_not_to_be_written(path):
        with pytest.raises(PermissionError):
            open(path, "w")

    def test_what_is_written():
        for folder in (os.environ["HOME"], "/tmp"):
            with open(os.path.join(folder, "mine"), "w") as file:
                file.write("x")
"""
OPENED = (
    "mkdir folder; touch open.txt theirs.txt; chmod 777 . folder open.txt; chown nobody theirs.txt folder"
)


def test_a_sealed_tree_cannot_be_written_to(engine, python_image):
    client = engine.client
    container = client.containers.create(
        python_image,
        ["sh", "-c", OPENED],
        working_dir="/workspace",
        network="none",
        labels=labels(role="test"),
    )
    try:
        container.start()
        container.wait()
        image = container.commit(f"beyondswe-test-{uuid.uuid4().hex[:12]}")
    finally:
        container.remove(force=True)
    try:
        source = textwrap.dedent(SEALED).encode()
        task, copies = child_task(
            configurations(lambda _: None), ["test_sealed.py"], None, roots=["/workspace"]
        )
        write = (Write(b"test_sealed.py", "100644", source), *copies)
        job = Job("/workspace", sealed=True, write=write, tests=task)
        evidence = run_job(engine, str(image.id), job, limits=LIMITS)
        results = {result_of(evidence, name) for name in evidence.phases}
        assert len(evidence.phases) == 7 and results == {"passed"}, evidence.log
    finally:
        client.images.remove(image.id, force=True)

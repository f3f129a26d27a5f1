"""One call runs test files through the real runner in a real container."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence

import pytest

from beyondswe.sandbox.base_images import ensure_base_image
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Limits
from beyondswe.scoring.compose import child_task
from beyondswe.scoring.evidence import Evidence
from beyondswe.scoring.job import Job, Write, run_job
from beyondswe.scoring.pytest_config import configurations

LIMITS = Limits(cpus=1, memory=1 << 30, pids=256, test_timeout=60)
RunTests = Callable[..., Evidence]


@pytest.fixture(scope="session")
def python_image(engine: Engine) -> str:
    return ensure_base_image(engine, "3.11")


@pytest.fixture(scope="session")
def run_tests(engine: Engine, python_image: str) -> RunTests:
    """``run_tests({"test_a.py": "…"}, ids=[…])``: files into ``/workspace``, pytest on them, the evidence."""

    def run(
        files: Mapping[str, str],
        *,
        ids: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
        image: str = python_image,
        user: str = "",
        limits: Limits = LIMITS,
    ) -> Evidence:
        sources = {name: textwrap.dedent(text).encode() for name, text in files.items()}
        if targets is None:
            targets = [name for name in files if name.endswith(".py") and "conftest" not in name]
        task, copies = child_task(configurations(sources.get), targets, ids, roots=["/workspace"])
        write = [Write(name.encode(), "100644", data) for name, data in sources.items()]
        return run_job(
            engine, image, Job("/workspace", user=user, write=(*write, *copies), tests=task), limits=limits
        )

    return run

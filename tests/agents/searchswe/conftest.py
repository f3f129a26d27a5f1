"""A sandbox without network, one for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beyondswe.sandbox.docker import DockerSandbox, start_sandbox
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Limits


@pytest.fixture(scope="module")
def sandbox(engine: Engine, base_image: str) -> Iterator[DockerSandbox]:
    sandbox = start_sandbox(engine, base_image, workdir="/opt", limits=Limits(cpus=1, memory=1 << 30))
    yield sandbox
    sandbox.stop()

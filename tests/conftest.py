"""Fixtures that tests of several rooms share: the real engine, and an image to work with."""

from __future__ import annotations

import pytest

from beyondswe.sandbox.base_images import ensure_base_image
from beyondswe.sandbox.engine import Engine


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine of this machine. None is a failure, not a skip: `make test` sees to one."""
    return Engine.connect()


@pytest.fixture(scope="session")
def base_image(engine: Engine) -> str:
    """The base image with Debian, git and Python 3.11, built if it is not there."""
    return ensure_base_image(engine)

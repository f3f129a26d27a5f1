"""The runner on one pytest of every generation, each with a Python of its time."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beyondswe.errors import BeyondSWEError
from beyondswe.sandbox.base_images import ensure_base_image
from beyondswe.sandbox.build import build_image
from beyondswe.sandbox.engine import Engine, labels
from tests.runner.test_outcomes import EXPECTED, KINDS, assert_kinds

pytestmark = [pytest.mark.engine, pytest.mark.slow]

# The days are those on which the index has all of it, not those of the releases.
GENERATIONS = [
    ("3.6.4", "3.6", "2022-08-01"),
    ("3.10.1", "3.7", "2022-08-01"),
    ("4.6.11", "3.7", "2022-08-01"),
    ("5.4.3", "3.8", "2020-07-20"),
    ("6.2.5", "3.9", "2021-09-30"),
    ("7.4.4", "3.11", "2024-01-20"),
    ("8.3.5", "3.12", "2025-04-01"),
    ("9.0.1", "3.13", "2025-11-20"),
]
DOCKERFILE = """
FROM {base}
COPY uv /tmp/uv
RUN python -m venv --without-pip /opt/matrix \\
 && /tmp/uv pip install -q --no-cache --python /opt/matrix/bin/python --exclude-newer {day} \\
    'pytest=={version}' setuptools && rm /tmp/uv
ENV PATH=/opt/matrix/bin:$PATH
"""


@pytest.fixture(scope="module")
def image_with(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    from uv import find_uv_bin

    context = tmp_path_factory.mktemp("matrix")
    shutil.copyfile(find_uv_bin(), context / "uv")
    (context / "uv").chmod(0o755)
    made: list[str] = []

    def build(version: str, python: str, day: str) -> str:
        tag = f"beyondswe-test/pytest:{version}-py{python}"
        try:
            base = ensure_base_image(engine, python)
        except BeyondSWEError as error:
            pytest.skip(f"no Python {python} to build with: {error}")
        try:
            dockerfile = DOCKERFILE.format(base=base, day=day, version=version)
            build_image(
                engine, context=Path(context), dockerfile=dockerfile, tag=tag, labels=labels(role="test")
            )
        except BeyondSWEError as error:
            pytest.skip(f"pytest {version} cannot be installed here: {str(error)[-400:]}")
        made.append(tag)
        return tag

    yield build
    for tag in made:
        engine.client.images.remove(tag, force=True)


@pytest.mark.parametrize(("version", "python", "day"), GENERATIONS, ids=[one[0] for one in GENERATIONS])
def test_every_generation_of_pytest_gives_the_same_results(run_tests, image_with, version, python, day):
    image = image_with(version, python, day)
    evidence = run_tests(
        KINDS, ids=list(EXPECTED), targets=["tests/test_kinds.py", "pkg/sums.py"], image=image
    )
    assert evidence.start["pytest"] == version
    assert evidence.hello["python"].startswith(python + ".")
    assert_kinds(evidence)

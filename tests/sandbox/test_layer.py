"""Changes read from a container's own layer are those that the engine finds, and more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beyondswe.sandbox import layer
from beyondswe.sandbox.docker import DockerSandbox, start_sandbox
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.limits import capped
from beyondswe.sandbox.types import ChangeKind, Limits, Network

pytestmark = pytest.mark.engine
WORKDIR = "/usr/lib/python3"
CHANGES = r"""
cd /usr/lib/python3
echo new > added; rm -rf dist-packages; mkdir dist-packages; echo x > dist-packages/y
mkdir -p deep/er; echo z > deep/er/file; mkdir empty; ln -s / link; mkfifo pipe
truncate -s 1T sparse
printf x > "$(printf 'odd/../name\377' | tr -d /)"
echo outside > /tmp/outside
"""


@pytest.fixture
def sandbox(engine: Engine, base_image: str) -> Iterator[DockerSandbox]:
    limits, _ = capped(Limits(), engine)
    sandbox = start_sandbox(
        engine, base_image, workdir=WORKDIR, limits=limits, network=Network.NONE, env={}, run_labels={}
    )
    yield sandbox
    sandbox.stop()


def test_a_layer_tells_what_was_written_whatever_its_size(sandbox: DockerSandbox, engine: Engine) -> None:
    if not layer.readable(engine, "/"):
        pytest.skip("layers of this host can be read by root only")
    assert sandbox.run(CHANGES, timeout=60).exit_code == 0
    sandbox.freeze()
    found = {change.path.removeprefix(WORKDIR): change.kind for change in sandbox.changed_paths()}
    assert found["/added"] is ChangeKind.MODIFIED
    assert found["/dist-packages"] is ChangeKind.UNLISTED
    assert {"/deep/er/file", "/empty", "/link", "/sparse", "/dist-packages/y"} <= set(found)
    assert found[""] is ChangeKind.UNLISTED  # it holds a name that is not UTF-8
    assert not any("outside" in path for path in found)


@pytest.mark.parametrize(
    ("script", "path", "kind"),
    [
        ("rm -rf /usr/lib/python3", "/usr/lib/python3", ChangeKind.DELETED),
        ("rm -rf /usr/lib/python3; ln -s /tmp /usr/lib/python3", "/usr/lib/python3", ChangeKind.MODIFIED),
        ("rm -rf /usr/lib/python3; mkdir /usr/lib/python3", "/usr/lib/python3", ChangeKind.UNLISTED),
        ("mv /usr/lib/python3 /usr/lib/x", "/usr/lib/python3", ChangeKind.DELETED),
    ],
)
def test_a_work_folder_that_was_replaced_is_told(
    sandbox: DockerSandbox, script: str, path: str, kind: ChangeKind
) -> None:
    sandbox.run(script, timeout=60, cwd="/")
    sandbox.freeze()
    assert {change.path: change.kind for change in sandbox.changed_paths()}[path] is kind


def test_without_a_readable_layer_the_engine_is_asked_and_says_the_same(
    sandbox: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "cd /usr/lib/python3; echo new > added; mkdir -p deep/er; echo z > deep/er/file; ln -s / link"
    assert sandbox.run(script, timeout=60).exit_code == 0
    sandbox.freeze()
    own = {change.path for change in sandbox.changed_paths()}
    monkeypatch.setattr(layer, "readable", lambda engine, upper: False)
    asked = {change.path for change in sandbox.changed_paths()}
    assert {f"{WORKDIR}/added", f"{WORKDIR}/deep/er/file", f"{WORKDIR}/link"} <= own & asked

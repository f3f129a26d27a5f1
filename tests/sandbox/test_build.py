"""Images are built behind the host's proxies, with our labels, and a build that fails says where and why."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from beyondswe.errors import DataError
from beyondswe.sandbox import host
from beyondswe.sandbox.build import BuildFailed, build_image
from beyondswe.sandbox.engine import Engine, namespace

from .inside import inside

pytestmark = pytest.mark.engine


@pytest.fixture
def tag(engine: Engine) -> Iterator[str]:
    """A name for an image, which is removed afterwards."""
    name = f"beyondswe/test-build:{uuid.uuid4().hex[:8]}"
    yield name
    if engine.has_image(name):
        engine.client.images.remove(name, force=True)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in host.proxies():
        monkeypatch.delenv(name)
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "cache"))


def test_a_folder_keeps_modes_and_links_and_belongs_to_root(
    engine: Engine, base_image: str, tag: str, tmp_path: Path
) -> None:
    context = tmp_path / "context"
    (context / "deep" / "empty").mkdir(parents=True)
    (context / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (context / "run.sh").chmod(0o700)
    (context / "deep" / "link").symlink_to("../run.sh")
    (context / "deep" / ".gitignore").write_text("*")
    build_image(
        engine, context=context, dockerfile=f"FROM {base_image}\nCOPY . /context/", tag=tag, network="none"
    )
    assert inside(engine, tag, "/context/deep/link") == "ran\n"
    listing = inside(engine, tag, "find /context -printf '%P %M %u\\n'")
    assert sorted(listing.split("\n")) == [
        "",
        " drwxr-xr-x root",
        "deep drwxr-xr-x root",
        "deep/.gitignore -rw-r--r-- root",
        "deep/empty drwxr-xr-x root",
        "deep/link lrwxrwxrwx root",
        "run.sh -rwxr-xr-x root",
    ]


def test_every_image_carries_our_labels(engine: Engine, base_image: str, tag: str) -> None:
    lines: list[str] = []
    image = build_image(
        engine,
        context={"a": b"1"},
        dockerfile=f"FROM {base_image}\nCOPY a /a",
        tag=tag,
        network="none",
        labels={"io.beyondswe.role": "environment", "odd": 'a "quoted" $value'},
        on_line=lines.append,
    )
    found = engine.client.images.get(tag)
    assert found.id == image
    assert found.labels["io.beyondswe.namespace"] == namespace()
    assert found.labels["io.beyondswe.role"] == "environment"
    assert found.labels["odd"] == 'a "quoted" $value'
    assert any("COPY a /a" in line for line in lines)


def test_a_failed_step_is_named_with_its_last_lines_and_the_log(
    engine: Engine, base_image: str, tag: str
) -> None:
    dockerfile = f"FROM {base_image}\nRUN true\nRUN echo before; echo wrong >&2; exit 7"
    with pytest.raises(BuildFailed) as failure:
        build_image(engine, context={}, dockerfile=dockerfile, tag=tag, network="none")
    error = failure.value
    assert error.exit_code == 1 and error.step == "RUN echo before; echo wrong >&2; exit 7"
    assert "wrong" in str(error) and "7" in error.reason and str(error.log) in str(error)
    log = error.log.read_text()
    assert "before" in log and "wrong" in log and "RUN true" in log
    assert not engine.has_image(tag)


def test_without_network_nothing_is_reached(engine: Engine, base_image: str, tag: str) -> None:
    look = "import socket; print([name for _, name in socket.if_nameindex()])"
    lines: list[str] = []
    build_image(
        engine,
        context={},
        dockerfile=f"FROM {base_image}\nRUN python -c '{look}'",
        tag=tag,
        network="none",
        on_line=lines.append,
    )
    assert "['lo']" in lines


def test_proxies_reach_a_build_and_are_not_kept_in_the_image(
    engine: Engine, base_image: str, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "internal.example")
    lines: list[str] = []
    build_image(
        engine,
        context={},
        dockerfile=f'FROM {base_image}\nRUN echo "[$https_proxy $HTTPS_PROXY $NO_PROXY]" # {uuid.uuid4()}',
        tag=tag,
        on_line=lines.append,
    )
    assert "[http://proxy.example:3128 http://proxy.example:3128 internal.example]" in lines
    assert "proxy.example" not in inside(engine, tag, "env")


def test_a_proxy_on_loopback_is_reached_through_the_hosts_network(
    engine: Engine, base_image: str, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:3128")
    look = "import socket; print(len(socket.if_nameindex()) > 1)"
    lines: list[str] = []
    build_image(
        engine,
        context={},
        dockerfile=f"FROM {base_image}\nRUN python -c '{look}' # {uuid.uuid4().hex}",
        tag=tag,
        on_line=lines.append,
    )
    assert (
        lines[0]
        == "the proxy http://127.0.0.1:3128 is on the host's loopback: building in the host's network"
    )
    assert "True" in lines


def test_a_context_cannot_hide_files_from_the_build(engine: Engine, base_image: str, tag: str) -> None:
    with pytest.raises(DataError, match="dockerignore"):
        build_image(engine, context={".dockerignore": b"*"}, dockerfile=f"FROM {base_image}", tag=tag)


class TestHostEnvironment:
    def test_proxies_come_in_both_spellings(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
        monkeypatch.setenv("no_proxy", "localhost,internal.example")
        assert host.host_environment() == {
            "https_proxy": "http://proxy.example:3128",
            "HTTPS_PROXY": "http://proxy.example:3128",
            "no_proxy": "localhost,internal.example",
            "NO_PROXY": "localhost,internal.example",
        }

    @pytest.mark.parametrize(
        "url", ["http://127.0.0.1:1", "localhost:1", "socks5://me:pw@127.8.0.1:1", "http://[::1]:1"]
    )
    def test_a_proxy_that_a_sandbox_cannot_reach_is_left_out(
        self, monkeypatch: pytest.MonkeyPatch, url: str
    ) -> None:
        monkeypatch.setenv("http_proxy", url)
        monkeypatch.setenv("no_proxy", "internal.example")
        assert host.host_environment() == {} and host.loopback_proxies() == [url]

"""The environment of the egress proxy: made once, made anew where it is half made, and said where it cannot be."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from beyondswe.errors import EngineError
from beyondswe.gateway.proxy_build import environment_folder, is_built, proxy_python


def test_no_index_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(EngineError, match="make an index reachable"):
        proxy_python()
    assert not is_built()


@pytest.mark.index
def test_a_half_made_environment_is_made_anew_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path))
    left = environment_folder() / "bin" / "python"
    left.parent.mkdir(parents=True)
    left.write_text("half")
    with ThreadPoolExecutor() as pool:
        found = set(pool.map(lambda _: proxy_python(), range(4)))
    assert found == {left} and is_built()
    shown = subprocess.run(
        [left, "-c", "import mitmproxy, ada_url; print('both')"], capture_output=True, text=True
    )
    assert shown.stdout == "both\n"

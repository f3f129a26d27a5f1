"""The user's package index on its way into containers: never with a login."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from beyondswe.errors import UsageError
from beyondswe.sandbox import host

NAMES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("login", ["me:s3cret", "s3cret", "me:s3@cret", ":s3cret"])
def test_an_address_with_a_login_goes_nowhere(
    name: str, login: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, f"https://{login}@index.example/simple")
    with pytest.raises(UsageError, match=rf"{name} \(https://index.example/simple\) holds a login") as told:
        host.package_index()
    assert "cret" not in str(told.value)


def test_build_refuses_it_before_anything_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:s3cret@index.example/simple")
    command = [sys.executable, "-m", "beyondswe.cli", "build", "--dataset", "none.jsonl", "--out", "o.jsonl"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "holds a login" in done.stderr and "s3cret" not in done.stderr


def test_other_addresses_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert host.package_index() is None
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/a@b/simple")
    assert host.package_index() == "https://index.example/a@b/simple"


def test_logins_are_taken_out_of_texts() -> None:
    text = "GET https://a:b@x.example/p failed, then HTTP://t@y.example:1/; ask me@z.example"
    assert host.without_login(text) == (
        "GET https://x.example/p failed, then HTTP://y.example:1/; ask me@z.example"
    )

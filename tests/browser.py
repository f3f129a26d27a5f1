"""Debian's Chromium under Playwright, for the pages that we make."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def open_browser() -> Iterator[Any]:
    """A browser; skips where there is none (CI installs it)."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_FLAGS)
        yield browser
        browser.close()


class Watched:
    """A page that remembers what it should not do: errors on the console, requests that leave the machine."""

    def __init__(self, browser: Any, **context: Any) -> None:
        self.page = browser.new_context(**context).new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on(
            "console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))


def axe_source(folder: Path) -> str:
    """axe-core's script, from npm; skips where npm is missing."""
    if shutil.which("npm") is None:
        pytest.skip("axe-core comes from npm, which this machine lacks")
    command = [
        "npm",
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--prefix",
        str(folder),
        "axe-core@4.10.3",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def axe_violations(page: Any, source: str) -> list[str]:
    """What axe finds on a page: rule, and the first elements."""
    page.evaluate(source)
    found = page.evaluate("async () => (await axe.run()).violations")
    return [f"{v['id']}: {[node['target'] for node in v['nodes'][:3]]} {v['help']}" for v in found]

"""Rows of the tests, with the public hosts that the files do not spell put in at run time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from beyondswe.blocklist import Target

HERE = Path(__file__).parent


def _hosts() -> dict[str, str]:
    """Placeholder to host: what pip itself uses; stand-ins of the same shape for archives that are not asked here."""
    from pip._internal.models.index import PyPI

    return {
        "{INDEX}": PyPI.netloc,
        "{INDEX_FILES}": PyPI.file_storage_domain,
        "{TEST_INDEX}": f"test.{PyPI.netloc}",
        "{DEBIAN}": "deb.debian.example",
        "{NPM}": "registry.npm.example",
    }


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a file of this folder."""
    return list(_rows(HERE / name))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    hosts = _hosts()
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for key in ("url", "command"):
            for placeholder, host in hosts.items():
                if key in row:
                    row[key] = row[key].replace(placeholder, host)
        yield row


def target(row: dict[str, Any]) -> Target:
    """What a row says about its target."""
    lists = {key: tuple(row.get(key, ())) for key in ("distributions", "aliases", "docs_hosts")}
    return Target(row["repo"], **lists)

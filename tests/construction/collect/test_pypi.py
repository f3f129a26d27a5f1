"""`collect pypi` on an index that the tests serve."""

from __future__ import annotations

import http.server
import io
import json
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.construction.collect.histories import Done, beyondswe, rows

PKG = "Metadata-Version: 2.1\nName: tide-tables\nVersion: {}\nProject-URL: Source, https://github.com/harbour/tide-tables\n"
OLD = {
    "PKG-INFO": PKG.format("1.0") + "Requires-Dist: flask<3\n",
    "pyproject.toml": '[project]\nname = "tide-tables"\n',
    "CHANGES.rst": "1.0\n---\nFirst.\n",
    "tides/__init__.py": "def period():\n    return 12\n",
    "tests/test_period.py": "def test_period():\n    pass\n",
    "tide_tables.egg-info/SOURCES.txt": "x",
}
NEW = {
    **OLD,
    "PKG-INFO": PKG.format("1.1") + "Requires-Dist: flask<3\n",
    "CHANGES.rst": "1.1\n---\nSupport Flask 3.0.\n\n1.0\n---\nFirst.\n",
    "tides/__init__.py": "def period():\n    return 12.42\n",
    "tests/test_period.py": "def test_period():\n    assert True\n",
}
METADATA = {**NEW, "PKG-INFO": PKG.format("1.2") + "Requires-Dist: pydantic>=2\n", "CHANGES.rst": NEW["CHANGES.rst"],
            "tides/__init__.py": "period = None\n", "tests/test_period.py": "x = 1\n"}  # fmt: skip


def sdist(version: str, files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"tide_tables-{version}/{name}")
            entry.size = len(text.encode())
            entry.mtime = 1_700_000_000
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


class Served:
    def __init__(self) -> None:
        self.archives: dict[str, bytes] = {}
        self.days: dict[str, str] = {}
        self.yanked: set[str] = set()
        self.html = False
        self.trouble: list[int] = []
        self.url = ""
        self.asked: list[str] = []

    def add(self, version: str, files: Mapping[str, str], day: str) -> None:
        self.archives[version], self.days[version] = sdist(version, files), day


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "cache"))
    served = Served()
    served.add("1.0", OLD, "2023-01-01")
    served.add("1.1", NEW, "2023-10-05")
    served.add("1.2", METADATA, "2024-02-01")
    served.add("1.3rc1", METADATA, "2024-03-01")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            if served.trouble:
                return self._send(served.trouble.pop(0), b"", "text/plain")
            if self.path == "/simple/tide-tables/":
                return self._send(200, *listing(served))
            version = self.path.removeprefix("/files/tide_tables-").removesuffix(".tar.gz")
            if version in served.archives:
                return self._send(200, served.archives[version], "application/gzip")
            return self._send(404, b"", "text/plain")

        def _send(self, status: int, data: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        served.url = f"http://127.0.0.1:{server.server_port}/simple"
        try:
            yield served
        finally:
            server.shutdown()


def listing(served: Served) -> tuple[bytes, str]:
    names = {version: f"tide_tables-{version}.tar.gz" for version in served.archives}
    if served.html:
        links = [
            f'<a href="../../files/{name}#sha256={sha256(served.archives[version]).hexdigest()}"'
            f"{' data-yanked=' if version in served.yanked else ''}>{name}</a>"
            for version, name in names.items()
        ]
        return "".join(links).encode(), "text/html"
    files: list[dict[str, Any]] = [
        {
            "filename": name,
            "url": f"../../files/{name}",
            "hashes": {"sha256": sha256(served.archives[version]).hexdigest()},
            "upload-time": f"{served.days[version]}T12:00:00Z",
            "yanked": version in served.yanked,
        }
        for version, name in names.items()
    ]
    files.append({"filename": "tide_tables-1.0-py3-none-any.whl", "url": "x.whl", "hashes": {}})
    return json.dumps({"files": files}).encode(), "application/vnd.pypi.simple.v1+json"


def collect(index: Served, tmp_path: Path, *options: str, env: Mapping[str, str] | None = None) -> Done:
    return beyondswe(
        "collect", "pypi", "Tide_Tables", "--out", "c.jsonl", "--force", "--json", *options, cwd=tmp_path,
        env={"PIP_INDEX_URL": index.url, **(env or {})},
    )  # fmt: skip


@pytest.mark.parametrize("html", [False, True])
def test_pairs_whose_notes_or_metadata_name_a_watched_package(
    index: Served, tmp_path: Path, html: bool
) -> None:
    index.html = html
    done = collect(index, tmp_path)
    assert done.code == 0, done.err
    metadata, notes = rows(tmp_path / "c.jsonl")
    assert [notes["instance_id"], metadata["instance_id"]] == [
        "harbour_tide-tables_v1.1",
        "harbour_tide-tables_v1.2",
    ]
    assert (notes["task"], notes["repo"]) == ("DepMigrate", "harbour/tide-tables")
    assert notes["upgrades"] == [{"package": "flask", "version": "3.0", "where": "release notes"}]
    assert metadata["upgrades"] == [{"package": "pydantic", "version": "2", "where": "metadata"}]
    assert notes["index_date"] == ("2023-11-14" if html else "2023-10-05")
    assert "Support Flask 3.0." in notes["problem_statement"] and "First." not in notes["problem_statement"]
    assert "12.42" in notes["patch"] and "CHANGES" not in notes["patch"] and "egg-info" not in notes["patch"]
    assert "assert True" in notes["f2p_patch"]
    assert notes["source"]["old"] == {"version": "1.0", "sha256": sha256(index.archives["1.0"]).hexdigest()}
    assert notes["review"]["status"] == "needs_review"
    git_dir = tmp_path / "c.jsonl.repositories" / "harbour+tide-tables.git"
    shown = subprocess.run(
        ["git", f"--git-dir={git_dir}", "show", f"{notes['base_commit']}:tides/__init__.py"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert shown.stdout == OLD["tides/__init__.py"]


def test_filters_withdrawn_releases_and_dates(index: Served, tmp_path: Path) -> None:
    index.yanked.add("1.1")
    done = collect(index, tmp_path, "--until", "2023-12-31")
    why = [each["why"] for row in done.json["funnel"]["filters"] for each in row["fallen"]]
    assert why == ["after 2023-12-31"]
    index.yanked.clear()
    index.add("1.4", METADATA, "2024-05-01")
    done = collect(index, tmp_path, "--since", "2024-04-01")
    assert [each["why"] for row in done.json["funnel"]["filters"] for each in row["fallen"]] == [
        "before 2024-04-01",
        "before 2024-04-01",
        "no watched package together with a version",
    ]
    assert collect(index, tmp_path, "--limit", "1").json["candidates"] == 1


def test_a_whole_release_for_doc2repo(index: Served, tmp_path: Path) -> None:
    done = collect(index, tmp_path, "--family", "doc2repo", "--until", "2023-12-31")
    assert done.code == 0, done.err
    (row,) = rows(tmp_path / "c.jsonl")
    assert (row["instance_id"], row["modules"]) == ("harbour_tide-tables_v1.1", ["tides"])
    assert row["source"]["new"]["version"] == "1.1"


def test_archives_are_checked_kept_and_asked_for_again(index: Served, tmp_path: Path) -> None:
    index.trouble = [503]
    assert collect(index, tmp_path).code == 0
    index.asked.clear()
    assert collect(index, tmp_path).code == 0
    assert not [path for path in index.asked if path.startswith("/files/")]
    evil = {**NEW, "../evil.py": "x"}
    index.add("1.5", evil, "2024-06-01")
    done = collect(index, tmp_path)
    assert any(
        "points outside" in each["why"] for row in done.json["funnel"]["filters"] for each in row["fallen"]
    )
    assert not list(tmp_path.rglob("evil.py"))


def test_wrong_use_is_said(index: Served, tmp_path: Path) -> None:
    assert collect(index, tmp_path, "--family", "CrossRepo").code == 2
    assert collect(index, tmp_path, "--index-url", "ftp://x").code == 2
    for address in (index.url, "ftp://x"):
        secret = address.replace("://", "://me:s3cret@")
        done = collect(index, tmp_path, "Other", "--index-url", secret)
        assert done.code == 2 and "s3cret" not in done.err + done.out
    done = collect(index, tmp_path, "--index-url", index.url.replace("://", "://me:s3cret@"))
    assert done.code == 0 and "s3cret" not in (tmp_path / "c.jsonl").read_text() + done.err + done.out
    done = beyondswe("collect", "pypi", "nothing", "--out", "n.jsonl", "--index-url", index.url, cwd=tmp_path)
    assert done.code == 2 and "does not have it" in done.err

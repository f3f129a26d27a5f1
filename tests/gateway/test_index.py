"""Package indexes as of a day: what is asked, and what is left of the answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from beyondswe.gateway.index import (
    SIMPLE_JSON,
    IndexRefused,
    IndexRequest,
    Kind,
    end_of,
    json_api_answer,
    newest_npm,
    npm_answer,
    npm_version_as_of,
    read_request,
    simple_answer,
)

UNTIL = datetime(2024, 3, 2, tzinfo=UTC)
BARRED = frozenset({"tiny-tool"})
HASHED = "/packages/ab/cd/" + "0" * 60


@pytest.mark.parametrize(
    ("path", "accept", "expected"),
    [
        ("/simple/Tiny_Tool/", "", IndexRequest(Kind.SIMPLE, "tiny-tool")),
        ("/a/mirror/simple/tiny.tool", "", IndexRequest(Kind.SIMPLE, "tiny-tool")),
        ("//simple//tiny%2Dtool/?x=1", "", IndexRequest(Kind.SIMPLE, "tiny-tool")),
        ("/simple/./x/%2e%2e/tiny-tool/", "", IndexRequest(Kind.SIMPLE, "tiny-tool")),
        ("/simple/", "", IndexRequest(Kind.LISTING)),
        ("/whl/cpu/tiny/", f"{SIMPLE_JSON}, text/html;q=0.1", IndexRequest(Kind.SIMPLE, "tiny")),
        ("/pypi/tiny/json", "", IndexRequest(Kind.JSON_API, "tiny")),
        ("/pypi/tiny/1.0/json", "", IndexRequest(Kind.JSON_API, "tiny", "1.0")),
        (f"{HASHED}/tiny_tool-1.0.tar.gz", "", IndexRequest(Kind.FILE, "tiny-tool", filename="tiny_tool-1.0.tar.gz")),
        ("/x/tiny-1.0-py3-none-any.whl.metadata", "",
         IndexRequest(Kind.FILE, "tiny", filename="tiny-1.0-py3-none-any.whl")),
        ("/left/-/left-1.0.0.tgz", "", IndexRequest(Kind.NPM_FILE, "left", filename="left-1.0.0.tgz")),
        ("/@a/left/-/left-1.0.0.tgz", "", IndexRequest(Kind.NPM_FILE, "@a/left", filename="left-1.0.0.tgz")),
        ("/@a%2fleft", "application/vnd.npm.install-v1+json", IndexRequest(Kind.NPM, "@a/left")),
        ("/left/latest", "application/vnd.npm.install-v1+json", IndexRequest(Kind.NPM_VERSION, "left", "latest")),
        ("/main/linux-64/repodata.json.zst", "", IndexRequest(Kind.UNDATED)),
        ("/blog/simple/advice/on/life", "", None),
        ("/archive/refs/tags/v1.0.tar.gz", "", None),
        ("/left", "text/html", None),
    ],
)  # fmt: skip
def test_requests(path: str, accept: str, expected: IndexRequest | None) -> None:
    assert read_request("www.example.org", path, accept=accept) == expected


def test_hosts_of_registries_and_files_are_known() -> None:
    assert read_request("registry.example.org", "/left") == IndexRequest(Kind.NPM, "left")
    sdist = "/any/tiny-1.0.tar.gz"
    assert read_request("files.example.org", sdist) is None
    found = read_request("files.example.org", sdist, file_hosts=["files.example.org"])
    assert found == IndexRequest(Kind.FILE, "tiny", filename="tiny-1.0.tar.gz")


@pytest.mark.parametrize(
    ("day", "moment"),
    [
        ("2024-03-01", datetime(2024, 3, 2, tzinfo=UTC)),
        ("2024-03-01T10:00:00Z", datetime(2024, 3, 1, 10, tzinfo=UTC)),
        ("", None),
    ],
)
def test_the_day_itself_is_in(day: str, moment: datetime | None) -> None:
    assert end_of(day) == moment


def file(name: str, moment: str | None, **more: Any) -> dict[str, Any]:
    return {
        "filename": name,
        "url": f"../files/{name}",
        "hashes": {"sha256": "00"},
        "upload-time": moment,
        **more,
    }


def page(*files: dict[str, Any]) -> bytes:
    versions = ["1.0", "2.0", "3.0"]
    return json.dumps(
        {"meta": {"api-version": "1.1"}, "name": "other", "files": files, "versions": versions}
    ).encode()


PAGE = page(
    file("other-1.0.tar.gz", "2024-03-01T23:59:59.5Z"),
    file("other-2.0-py3-none-any.whl", "2024-03-01T10:00:00Z", yanked="bad", **{"requires-python": ">=3.8"}),
    file("other-3.0.tar.gz", "2024-03-02T00:00:00Z"),
    file("other-0.1.tar.gz", None),
    file("tiny_tool-1.0.tar.gz", "2020-01-01T00:00:00Z"),
)


def simple(body: bytes, *, as_json: bool, kind: str = SIMPLE_JSON) -> Any:
    base = "https://index.example.org/simple/other/"
    return simple_answer(body, kind, base=base, until=UNTIL, barred=BARRED, as_json=as_json)


def test_simple_page_as_json() -> None:
    answer = simple(PAGE, as_json=True)
    document = json.loads(answer.body)
    assert [file["filename"] for file in document["files"]] == [
        "other-1.0.tar.gz",
        "other-2.0-py3-none-any.whl",
    ]
    assert document["versions"] == ["1.0", "2.0"]
    assert answer.removed == 3


def test_simple_page_as_html() -> None:
    text = simple(PAGE, as_json=False).body.decode()
    assert 'href="https://index.example.org/simple/files/other-1.0.tar.gz#sha256=00"' in text
    assert 'data-requires-python="&gt;=3.8"' in text and 'data-yanked="bad"' in text
    assert "3.0" not in text and "tiny" not in text


@pytest.mark.parametrize(
    ("body", "kind", "rule"),
    [
        (page(file("other-1.0.tar.gz", None)), SIMPLE_JSON, "index-no-times"),
        (b"<a href=x>x</a>", "text/html", "index-no-times"),
        (b"{", SIMPLE_JSON, "index-not-read"),
        (b"[]", SIMPLE_JSON, "index-not-read"),
        (b"[" * 100_000, SIMPLE_JSON, "index-not-read"),
    ],
)
def test_simple_pages_that_cannot_be_dated(body: bytes, kind: str, rule: str) -> None:
    with pytest.raises(IndexRefused) as refused:
        simple(body, as_json=True, kind=kind)
    assert refused.value.rule == rule


def api(**releases: str) -> bytes:
    rows = {
        version.strip("v").replace("_", "."): [
            {"filename": f"other-{version}.zip", "upload_time_iso_8601": moment}
        ]
        for version, moment in releases.items()
    }
    newest = list(rows)[-1]
    info = {"name": "other", "version": newest, "summary": "new"}
    return json.dumps({"info": info, "releases": rows, "urls": rows[newest], "vulnerabilities": [1]}).encode()


def test_json_api_says_nothing_of_later_releases() -> None:
    answer = json_api_answer(api(v1_0="2023-01-01T00:00:00Z", v2_0="2025-01-01T00:00:00Z"), version="", until=UNTIL,
                             barred=BARRED)  # fmt: skip
    document = json.loads(answer.body)
    assert document["info"] == {"name": "other", "version": "1.0"}
    assert list(document["releases"]) == ["1.0"] and "vulnerabilities" not in document
    for version, body in (("", api(v2_0="2025-01-01")), ("2.0", api(v2_0="2025-01-01"))):
        with pytest.raises(IndexRefused, match="index date"):
            json_api_answer(body, version=version, until=UNTIL, barred=BARRED)


def npm(times: dict[str, str] | None, tags: dict[str, str]) -> bytes:
    versions = {
        version: {"version": version} for version in ("1.0.0", "1.10.0", "1.9.0", "2.0.0-beta.1", "3.0.0")
    }
    return json.dumps({"name": "left", "versions": versions, "time": times, "dist-tags": tags}).encode()


TIMES = {
    "created": "2020-01-01T00:00:00Z",
    "1.0.0": "2020-01-01T00:00:00Z",
    "1.9.0": "2021-01-01T00:00:00Z",
    "1.10.0": "2022-01-01T00:00:00Z",
    "2.0.0-beta.1": "2023-01-01T00:00:00Z",
    "3.0.0": "2025-01-01T00:00:00Z",
}


def test_npm_document() -> None:
    body = npm(TIMES, {"latest": "3.0.0", "next": "2.0.0-beta.1"})
    document = json.loads(npm_answer(body, until=UNTIL, abbreviated=False).body)
    assert document["dist-tags"] == {"next": "2.0.0-beta.1", "latest": "1.10.0"}
    assert "3.0.0" not in json.dumps(document)
    assert npm_version_as_of(body, "latest", UNTIL) == "1.10.0"
    with pytest.raises(IndexRefused):
        npm_version_as_of(body, "3.0.0", UNTIL)
    with pytest.raises(IndexRefused, match="does not say when"):
        npm_answer(npm(None, {}), until=UNTIL, abbreviated=True)
    assert newest_npm(["1.0.0-rc.1"]) == "1.0.0-rc.1"

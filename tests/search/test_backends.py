"""Each backend against a loopback server that speaks its JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beyondswe.errors import UsageError
from beyondswe.search.options import default_backend, open_web
from beyondswe.search.types import SearchResult, WebFault
from tests.search.conftest import Answer

KEY = "key-that-nobody-may-see"


def _environ(server: Any) -> dict[str, str]:
    return {
        "SERPAPI_API_KEY": KEY,
        "SERPAPI_URL": server.url,
        "SEARXNG_URL": server.url,
        "BRAVE_API_KEY": KEY,
        "BRAVE_URL": server.url,
        "SERPER_API_KEY": KEY,
        "SERPER_URL": server.url,
    }


def _search(server: Any, name: str, num: int = 10, start: int = 0) -> list[SearchResult]:
    return open_web(name, "plain", _environ(server)).backend.search("frame check", num=num, start=start)


def test_serpapi(server: Any) -> None:
    rows = [
        {"position": 1, "title": "One", "link": "https://a.example/1", "snippet": "s", "date": "3 May 2024"},
        {"position": 2, "title": "Two", "link": "https://a.example/2"},
        {"position": 3, "title": "no link"},
    ]
    server.answer = lambda _: Answer(body={"organic_results": rows})
    assert _search(server, "serpapi", num=7, start=10) == [
        SearchResult("One", "https://a.example/1", "s", "3 May 2024"),
        SearchResult("Two", "https://a.example/2"),
    ]
    asked = server.asked[0]
    assert asked.path == "/search"
    wanted = {"engine": "google", "q": "frame check", "num": "7", "start": "10", "api_key": KEY}
    assert wanted.items() <= asked.query.items()


def test_serpapi_says_by_an_error_that_there_are_no_results(server: Any) -> None:
    server.answer = lambda _: Answer(body={"error": "Google hasn't returned any results for this query."})
    assert _search(server, "serpapi") == []


def test_searxng_pages_until_there_are_enough(server: Any) -> None:
    def answer(asked: Any) -> Any:
        page = int(asked.query["pageno"])
        rows = [
            {
                "url": f"https://a.example/{page}-{n}",
                "title": f"T{page}-{n}",
                "content": "c",
                "publishedDate": None,
            }
            for n in range(10)
        ]
        return Answer(body={"query": asked.query["q"], "results": rows if page < 3 else []})

    server.answer = answer
    found = _search(server, "searxng", num=10, start=5)
    assert [row.url.rsplit("/")[-1] for row in found] == [
        *(f"1-{n}" for n in range(5, 10)),
        *(f"2-{n}" for n in range(5)),
    ]
    assert all(asked.query["format"] == "json" for asked in server.asked)
    assert len(_search(server, "searxng", num=20, start=10)) == 10


def test_brave(server: Any) -> None:
    def answer(asked: Any) -> Any:
        page = int(asked.query["offset"])
        rows = [
            {
                "title": f"T{page * 20 + n}",
                "url": f"https://a.example/{page * 20 + n}",
                "description": "the <strong>frame</strong> &amp; its check",
                "age": "May 3, 2024",
            }
            for n in range(20)
        ]
        return Answer(body={"type": "search", "web": {"type": "search", "results": rows}})

    server.answer = answer
    found = _search(server, "brave", num=10, start=15)
    assert [row.title for row in found] == [f"T{n}" for n in range(15, 25)]
    assert found[0].snippet == "the frame & its check" and found[0].date == "May 3, 2024"
    assert {asked.path for asked in server.asked} == {"/res/v1/web/search"}
    assert server.asked[0].headers["x-subscription-token"] == KEY


def test_serper(server: Any) -> None:
    def answer(asked: Any) -> Any:
        first = (asked.json["page"] - 1) * asked.json["num"]
        rows = [
            {"title": f"T{n}", "link": f"https://a.example/{n}", "snippet": "s", "position": n}
            for n in range(first, first + asked.json["num"])
        ]
        return Answer(body={"searchParameters": {"q": asked.json["q"]}, "organic": rows})

    server.answer = answer
    assert [row.title for row in _search(server, "serper", num=4, start=6)] == ["T6", "T7", "T8", "T9"]
    asked = server.asked[0]
    assert (asked.method, asked.path, asked.headers["x-api-key"]) == ("POST", "/search", KEY)
    assert asked.json["q"] == "frame check"


@pytest.mark.parametrize("name", ["serpapi", "searxng", "brave", "serper"])
def test_a_refusal_is_a_fault_without_the_key(server: Any, name: str) -> None:
    said = "bad key" if name == "searxng" else f"bad key {KEY}"
    server.answer = lambda _: Answer(status=401, body={"error": said})
    with pytest.raises(WebFault, match="401") as fault:
        _search(server, name)
    assert KEY not in str(fault.value)
    server.answer = lambda _: Answer(body="<html>no JSON</html>")
    with pytest.raises(WebFault):
        _search(server, name)


@pytest.mark.parametrize("name", ["serpapi", "searxng", "brave", "serper"])
def test_nobody_at_home_is_a_fault(server: Any, name: str) -> None:
    environ = {key: "http://127.0.0.1:9" if key.endswith("_URL") else KEY for key in _environ(server)}
    with pytest.raises(WebFault):
        open_web(name, "plain", environ).backend.search("q", num=10, start=0)


@pytest.mark.parametrize(
    ("backend", "reader", "word"),
    [
        ("serpapi", "jina", "SERPAPI_API_KEY"),
        ("searxng", "jina", "SEARXNG_URL"),
        ("brave", "jina", "BRAVE_API_KEY"),
        ("bing", "jina", "serpapi"),
        ("local:/no/such/folder", "jina", "no such folder"),
        ("serpapi:x", "jina", "local:DIR"),
    ],
)
def test_what_is_missing_is_said_before_anything_starts(backend: str, reader: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        open_web(backend, reader, {})


def test_local_documents_are_found_by_their_words(tmp_path: Path) -> None:
    site = tmp_path / "docs.example" / "guide"
    site.mkdir(parents=True)
    (site / "index.html").write_text("<html><title>Guide</title><body><p>All about frames.</p></body></html>")
    (site / "clock.md").write_text("# Clock\n\nThe clock counts ticks of fifteen seconds since Monday.\n")
    (site / "check.txt").write_text("Check\n\nThe check is a CRC-8 over the frame.\n")
    (site / "picture.png").write_bytes(b"\x89PNG")
    web = open_web(f"local:{tmp_path}", "jina", {})
    found = web.backend.search("clock ticks", num=10, start=0)
    assert [row.url for row in found] == ["https://docs.example/guide/clock.md"]
    assert "fifteen seconds" in found[0].snippet and found[0].title == "Clock"
    assert {row.url for row in web.backend.search("frame frames", num=10, start=0)} == {
        "https://docs.example/guide/",
        "https://docs.example/guide/check.txt",
    }
    assert web.backend.search("zebra", num=10, start=0) == []
    page = web.reader.read("http://DOCS.example/guide/index.html#top", lambda _: None, lambda _: None)
    assert "All about frames" in page.text
    with pytest.raises(WebFault, match="not among the local documents"):
        web.reader.read("https://docs.example/elsewhere", lambda _: None, lambda _: None)


def test_the_default_goes_by_what_the_environment_has() -> None:
    assert default_backend({"BRAVE_API_KEY": "k", "SERPER_API_KEY": "k"}, "demo") == "brave"
    assert default_backend({"SEARXNG_URL": "http://127.0.0.1:1"}, "pypi") == "searxng"
    assert default_backend({"SERPAPI_API_KEY": ""}, "demo") == "local"
    with pytest.raises(UsageError, match="search needs an engine"):
        default_backend({}, "pypi")


def test_the_demo_brings_its_own_web() -> None:
    web = open_web("local", "jina", {})
    found = web.backend.search("gaugewire compact frames rounding", num=3, start=0)
    assert "https://gaugewire.example/notes/compact-frames.html" in {row.url for row in found}

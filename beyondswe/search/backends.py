"""Search engines over HTTP: SerpAPI, SearXNG, Brave and Serper, told apart by nothing but their JSON.

Keys and, where one's own endpoint is used, addresses come from the environment (`ENVIRONMENT`). A message of
a fault never holds a key.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

import httpx

from beyondswe.errors import UsageError
from beyondswe.search.types import SearchBackend, SearchResult, WebFault

ENVIRONMENT = {
    "serpapi": ("SERPAPI_API_KEY", "SERPAPI_URL", "https://serpapi.com"),
    "searxng": ("", "SEARXNG_URL", ""),
    "brave": ("BRAVE_API_KEY", "BRAVE_URL", "https://api.search.brave.com"),
    "serper": ("SERPER_API_KEY", "SERPER_URL", "https://google.serper.dev"),
}
"""By backend: the variable of the key, the variable of the address, and the address where that is not set."""
_TIMEOUT = 60.0  # seconds for one search


def http_backend(name: str, environ: Mapping[str, str]) -> SearchBackend:
    """The backend of that name; `UsageError` where its key or address is missing."""
    key_name, address_name, default = ENVIRONMENT[name]
    key = environ.get(key_name, "") if key_name else ""
    address = (environ.get(address_name) or default).rstrip("/")
    if key_name and not key:
        raise UsageError(f"--search-backend {name} needs its key in the environment variable {key_name}")
    if not address:
        raise UsageError(
            f"--search-backend {name} needs the address of the instance in the environment variable "
            f"{address_name}, such as http://127.0.0.1:8888"
        )
    if name == "serpapi":
        return SerpApi(key, address)
    if name == "searxng":
        return SearXNG(address)
    return Brave(key, address) if name == "brave" else Serper(key, address)


class SerpApi:
    """Google through SerpAPI and its own client."""

    name = "serpapi"

    def __init__(self, key: str, address: str) -> None:
        self._key, self.address = key, address

    def search(self, query: str, *, num: int, start: int) -> list[SearchResult]:
        import serpapi

        client = serpapi.Client(api_key=self._key, timeout=_TIMEOUT)
        client.BASE_DOMAIN = self.address
        try:
            found = client.search(engine="google", q=query, num=num, start=start, output="json")
        except (serpapi.HTTPError, serpapi.HTTPConnectionError, serpapi.TimeoutError, ValueError) as error:
            raise WebFault(f"search failed at serpapi: {_without(str(error), self._key)}") from None
        why = found.get("error") if hasattr(found, "get") else "the answer is no JSON object"
        rows = found.get("organic_results") if hasattr(found, "get") else None
        if rows is None and why and "returned any results" not in str(why):
            raise WebFault(f"search failed at serpapi: {_without(str(why), self._key)}")
        return _results(rows or [], num, url="link", snippet="snippet", date="date")


class SearXNG:
    """A SearXNG instance that allows the format ``json``. It pages by itself: ten or so a page."""

    name = "searxng"

    def __init__(self, address: str) -> None:
        self.address = address

    def search(self, query: str, *, num: int, start: int) -> list[SearchResult]:
        rows: list[Any] = []
        page = 1
        while len(rows) < start + num and page <= 10:
            query_of_page = {"q": query, "format": "json", "pageno": str(page)}
            found = _json(self.name, "GET", f"{self.address}/search", params=query_of_page)
            new = found.get("results") or []
            if not new:
                break
            rows += new
            page += 1
        return _results(rows[start:], num, url="url", snippet="content", date="publishedDate")


class Brave:
    """Brave's web search. It pages by whole pages of at most 20."""

    name = "brave"

    def __init__(self, key: str, address: str) -> None:
        self._key, self.address = key, address

    def search(self, query: str, *, num: int, start: int) -> list[SearchResult]:
        rows: list[Any] = []
        for page in range(start // 20, min((start + num - 1) // 20, 9) + 1):
            found = _json(
                self.name,
                "GET",
                f"{self.address}/res/v1/web/search",
                params={"q": query, "count": "20", "offset": str(page)},
                headers={"X-Subscription-Token": self._key},
                key=self._key,
            )
            rows += (found.get("web") or {}).get("results") or []
        return _results(rows[start % 20 :], num, url="url", snippet="description", date="age")


class Serper:
    """Google through Serper. It pages by whole pages of the size asked for."""

    name = "serper"

    def __init__(self, key: str, address: str) -> None:
        self._key, self.address = key, address

    def search(self, query: str, *, num: int, start: int) -> list[SearchResult]:
        rows: list[Any] = []
        for page in range(start // num, (start + num - 1) // num + 1):
            found = _json(
                self.name,
                "POST",
                f"{self.address}/search",
                json={"q": query, "num": num, "page": page + 1},
                headers={"X-API-KEY": self._key},
                key=self._key,
            )
            rows += found.get("organic") or []
        return _results(rows[start % num :], num, url="link", snippet="snippet", date="date")


def _json(backend: str, method: str, url: str, *, key: str = "", **request: Any) -> dict[str, Any]:
    """One request and its JSON object."""
    try:
        answer = httpx.request(method, url, timeout=_TIMEOUT, **request)
        if answer.status_code != 200:
            why = " ".join(answer.text.split())[:300]
            raise WebFault(
                f"search failed at {backend}: it answers {answer.status_code}: {_without(why, key)}"
            )
        found = answer.json()
    except httpx.HTTPError as error:
        why = str(error) or type(error).__name__
        raise WebFault(f"search failed at {backend}: {_without(why, key)}") from None
    except ValueError:
        raise WebFault(f"search failed at {backend}: its answer is no JSON") from None
    if not isinstance(found, dict):
        raise WebFault(f"search failed at {backend}: its answer is no JSON object")
    return found


def _results(rows: list[Any], num: int, *, url: str, snippet: str, date: str) -> list[SearchResult]:
    """Results out of a backend's rows; rows without an address are left out."""
    return [
        SearchResult(
            title=_plain(row.get("title")),
            url=str(row[url]),
            snippet=_plain(row.get(snippet)),
            date=_plain(row.get(date)),
        )
        for row in rows
        if isinstance(row, dict) and row.get(url)
    ][:num]


def _plain(value: object) -> str:
    """Text of a field, without marks and entities, on one line."""
    text = html.unescape(re.sub(r"</?(?:strong|b|em|i)>", "", str(value or "")))
    return " ".join(text.split())


def _without(text: str, key: str) -> str:
    """A message without the key."""
    text = text.replace(key, "***") if key else text
    return re.sub(r"(api_key=)[^&\s]+", r"\1***", text)

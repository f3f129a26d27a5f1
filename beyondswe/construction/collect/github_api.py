"""A client of GitHub's REST and GraphQL APIs: pages, limits waited out, conditional requests, a cache on disk."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import httpx

from beyondswe.errors import DataError, EngineError, UsageError
from beyondswe.resources import cache_dir

API = "https://api.github.com"
_JSON = "application/vnd.github+json"
_TRIES = 5  # of a request that fails for no reason of ours
_LONGEST_WAIT = 3660.0  # seconds; the hourly limit comes back within them
_SECONDARY = 60.0  # seconds to wait where a secondary limit does not say how long


class NotThere(DataError):
    """The API has no such thing, or does not show it to us."""


class TooLargeForApi(DataError):
    """The API does not give a difference of this size."""


@dataclass(frozen=True)
class Answer:
    """A response as the cache keeps it."""

    text: str
    next_page: str
    last_page: int

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class GitHub:
    """Asks one API, with the token of ``GITHUB_TOKEN`` where there is one. ``on_wait`` is told of every wait.

    GET requests are conditional (ETag) and answered from the cache when nothing changed, which costs no limit. Primary
    and secondary rate limits are waited out; failures of the network and the server are tried again.
    """

    def __init__(
        self, api_url: str = API, token: str | None = None, on_wait: Callable[[str], None] = lambda _: None
    ) -> None:
        if not api_url.startswith(("http://", "https://")):
            raise UsageError(f"--api-url {api_url}: not an address of http or https")
        self.api_url = api_url.rstrip("/")
        self.token = os.environ.get("GITHUB_TOKEN", "") if token is None else token
        self.on_wait = on_wait
        self._client = httpx.Client(timeout=60, follow_redirects=True, headers={"User-Agent": "beyondswe"})
        self._not_before = 0.0

    def __enter__(self) -> GitHub:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, *, accept: str = _JSON) -> Answer:
        """One page at a path below the API (or at a URL that it gave)."""
        url = path if path.startswith(("http://", "https://")) else f"{self.api_url}/{path.lstrip('/')}"
        if urlsplit(url).netloc != urlsplit(self.api_url).netloc:
            raise DataError(
                f"{self.api_url}: points to another host for more ({url}); the token does not go there"
            )
        key = hashlib.sha256(
            f"{url}\n{accept}\n{hashlib.sha256(self.token.encode()).hexdigest()}".encode()
        ).hexdigest()
        cached = cache_dir("github") / f"{key}.json"
        known = _read(cached)
        headers = {"Accept": accept, "X-GitHub-Api-Version": "2022-11-28"}
        if known:
            headers["If-None-Match"] = known["etag"]
        response = self._send("GET", url, headers)
        if response.status_code == 304 and known:
            pages = (
                _pages(response) if "link" in response.headers else (known["next_page"], known["last_page"])
            )
            return Answer(known["text"], *pages)
        answer = Answer(response.text, *_pages(response))
        if accept == _JSON:
            _document(url, answer.text)  # before it is kept
        if etag := response.headers.get("etag"):
            partial = cached.with_name(f".{cached.name}.{os.getpid()}")
            partial.write_text(json.dumps({"etag": etag, **vars(answer)}))
            partial.replace(cached)
        return answer

    def pages(self, path: str) -> Iterator[Any]:
        """The items of a list, over all its pages."""
        while path:
            answer = self.get(path)
            yield from answer.json
            path = answer.next_page

    @cached_property
    def has_graphql(self) -> bool:
        """Whether there is GraphQL beside REST; old and foreign servers have none."""
        try:
            self.graphql("query { viewer { login } }", {})
        except NotThere:
            self.on_wait("the API has no GraphQL; asking by REST alone")
            return False
        except DataError:
            pass  # it answers, and does not like the question: tokens of apps have no viewer
        return True

    def graphql(self, query: str, variables: dict[str, Any]) -> Any:
        """The data that a GraphQL query gives; limits are waited out as above."""
        url = re.sub(r"/api/v3$", "/api", self.api_url) + "/graphql"
        body = {"query": query, "variables": variables}
        for _ in range(_TRIES):
            response = self._send("POST", url, {"Accept": _JSON}, body)
            answer = _document(url, response.text)
            if not isinstance(answer, dict):
                raise DataError(f"{url}: the API answers GraphQL with something else than an object")
            errors = answer.get("errors") or []
            if any(error.get("type") == "RATE_LIMITED" for error in errors):
                self._wait(_delay(response) or _SECONDARY, "the API's hourly limit for GraphQL is used up")
                continue
            if any(error.get("type") == "NOT_FOUND" for error in errors):
                raise NotThere(f"{url}: {errors[0].get('message')}")
            if errors:
                raise DataError(f"{url}: the query was refused: {errors[0].get('message')}")
            return answer["data"]
        raise EngineError(f"{url}: still over the limit after {_TRIES} waits")

    def _send(self, method: str, url: str, headers: dict[str, str], body: Any = None) -> httpx.Response:
        if self.token:
            headers = {**headers, "Authorization": f"Bearer {self.token}"}
        failures = waits = 0
        while True:
            if (left := self._not_before - time.time()) > 0:
                self._wait(left, "the API's limit is used up")
            try:
                response = self._client.request(method, url, headers=headers, json=body)
            except httpx.TransportError as error:
                problem, delay = f"{type(error).__name__}: {error}", None
            else:
                self._remember(response)
                if response.status_code < 400:
                    return response
                if response.status_code in (403, 429) and (delay := _limited(response)) is not None:
                    waits += 1
                    if waits > 10 * _TRIES:
                        raise EngineError(
                            f"{url}: still over the API's limit after {waits} waits; try again later"
                        )
                    self._wait(delay, _which(response))
                    continue
                if response.status_code < 500:
                    raise _refused(url, response, bool(self.token))
                problem, delay = f"status {response.status_code}", _header(response, "retry-after")
            failures += 1
            if failures >= _TRIES:
                raise EngineError(
                    f"{url}: failed {failures} times, last with {problem}; run the command again to go on"
                )
            self._wait(delay if delay is not None else 0.25 * 2**failures, f"{problem}; trying again")

    def _remember(self, response: httpx.Response) -> None:
        """Wait before the next request, instead of being refused, where nothing is left."""
        if response.headers.get("x-ratelimit-remaining") == "0" and response.status_code < 400:
            self._not_before = float(_header(response, "x-ratelimit-reset") or 0) + 0.5

    def _wait(self, seconds: float, why: str) -> None:
        if seconds > _LONGEST_WAIT:
            raise EngineError(
                f"{self.api_url}: {why}, for {seconds / 3600:.1f} hours more; run the command again then to go on"
            )
        self.on_wait(f"{why}; waiting {max(seconds, 0):.0f} s")
        time.sleep(max(seconds, 0))


def _document(url: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(
            f"{url}: answered with success, but not with JSON ({text[:80]!r}); is this the address of an API, and no "
            "page of a proxy or a login?"
        ) from None


def _limited(response: httpx.Response) -> float | None:
    """Seconds to wait for a limit; None where the refusal has another reason."""
    delay = _delay(response)
    if delay is not None:
        return delay
    words = response.text.lower()
    return _SECONDARY if response.status_code == 429 or "rate limit" in words or "abuse" in words else None


def _delay(response: httpx.Response) -> float | None:
    after = _header(response, "retry-after")
    if after is not None:
        return after
    if response.headers.get("x-ratelimit-remaining") == "0":
        return max((_header(response, "x-ratelimit-reset") or 0) - time.time(), 0) + 0.5
    return None


def _which(response: httpx.Response) -> str:
    if response.headers.get("x-ratelimit-remaining") == "0":
        return "the API's hourly limit is used up (a token in GITHUB_TOKEN raises it)"
    return "the API asks to slow down (secondary limit)"


def _refused(url: str, response: httpx.Response, with_token: bool) -> Exception:
    try:
        words = str(response.json().get("message", ""))
    except (ValueError, AttributeError):
        words = response.text[:200]
    if response.status_code == 401:
        return UsageError(f"{url}: the API does not accept the token in GITHUB_TOKEN: {words}")
    if response.status_code == 406:
        return TooLargeForApi(f"{url}: {words}")
    hint = "" if with_token else "; private things need a token in GITHUB_TOKEN"
    kind = NotThere if response.status_code in (404, 410, 451) else DataError
    return kind(f"{url}: status {response.status_code}: {words}{hint}")


def _header(response: httpx.Response, name: str) -> float | None:
    try:
        return float(response.headers[name])
    except (KeyError, ValueError):
        return None


def _pages(response: httpx.Response) -> tuple[str, int]:
    links = response.links
    last = re.search(r"[?&]page=(\d+)", links.get("last", {}).get("url", ""))
    return links.get("next", {}).get("url", ""), int(last[1]) if last else 1


def _read(path: Any) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return (
        found
        if isinstance(found, dict) and {"etag", "text", "next_page", "last_page"} <= set(found)
        else None
    )

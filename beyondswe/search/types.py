"""What search backends and page readers give, and the one kind of fault that they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from beyondswe.errors import BeyondSWEError


class WebFault(BeyondSWEError):
    """A search or a page could not be had. The agent is told, and goes on."""


@dataclass(frozen=True)
class SearchResult:
    """One result as a backend gives it."""

    title: str
    url: str
    snippet: str = ""
    date: str = ""  # as the backend writes it; "" where it says none


class SearchBackend(Protocol):
    """A search engine. May be called from many threads."""

    name: str
    address: str  # where requests go, without keys: for the log

    def search(self, query: str, *, num: int, start: int) -> list[SearchResult]:
        """At most ``num`` results, leaving out the first ``start``. Raises `WebFault`."""


@dataclass(frozen=True)
class Hop:
    """One address on the way to a page."""

    url: str
    status: int | None  # None: nobody on our side asked for it (a reader says that it ended there)
    size: int = 0  # bytes of the body; 0 for a redirect
    method: str = "GET"


@dataclass(frozen=True)
class Page:
    """What lies at an address, as text."""

    title: str
    text: str
    hops: tuple[Hop, ...]  # from the address asked for to the one that answered
    media_type: str = "text/html"

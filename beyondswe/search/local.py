"""Search and pages without a network: documents in a folder, laid out as ``<host>/<path>``.

The index is BM25 over the words of title and text, made once when the folder is opened. Where folders called
``web`` lie below the one that is named (as beside the demo's recipes), those are the roots.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from beyondswe.errors import UsageError
from beyondswe.search.extract import SUFFIXES, readable
from beyondswe.search.readers import Check, Tell
from beyondswe.search.types import Hop, Page, SearchResult, WebFault

_K1, _B = 1.5, 0.75  # the usual weights of BM25
_TITLE_WEIGHT = 3  # a word of the title counts as that many of the text
_SNIPPET = 240  # characters


@dataclass(frozen=True)
class _Document:
    url: str
    title: str
    text: str
    media_type: str
    size: int
    words: Counter[str]


class LocalWeb:
    """A small web in a folder; both a search backend and a reader of its pages."""

    name = "local"

    def __init__(self, folder: Path) -> None:
        """Reads all documents; `UsageError` where there is none."""
        self.address = f"file:{folder.name}"
        roots = [path for path in sorted(folder.rglob("web")) if path.is_dir()] or [folder]
        self._documents: dict[str, _Document] = {}
        for root in roots:
            for path in sorted(root.glob("*/**/*")):
                if path.is_file() and path.suffix.lower() in SUFFIXES:
                    document = _read(root, path)
                    self._documents.setdefault(_key(document.url), document)
        if not self._documents:
            raise UsageError(
                f"--search-backend local: no documents in {folder} (expected <host>/<path>, with one of "
                f"{', '.join(SUFFIXES)})"
            )
        documents = self._documents.values()
        self._spread = Counter(word for document in documents for word in document.words)
        self._mean = sum(sum(document.words.values()) for document in documents) / len(documents)

    def search(self, query: str, *, num: int, start: int) -> list[SearchResult]:
        words = set(_words(query))
        scored = [(self._score(document, words), document) for document in self._documents.values()]
        found = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: (-pair[0], pair[1].url))
        return [
            SearchResult(document.title, document.url, _snippet(document.text, words))
            for _, document in found[start : start + num]
        ]

    def read(self, url: str) -> Page:
        """The page at an address; `WebFault` where the folder has none."""
        document = self._documents.get(_key(url))
        if document is None:
            raise WebFault(f"{url} is not among the local documents")
        hops = (Hop(url, 200, document.size),)
        return Page(document.title, document.text, hops, document.media_type)

    def _score(self, document: _Document, words: set[str]) -> float:
        length = sum(document.words.values())
        total = 0.0
        for word in words:
            if count := document.words.get(word, 0):
                spread = self._spread[word]
                rarity = math.log(1 + (len(self._documents) - spread + 0.5) / (spread + 0.5))
                total += rarity * count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length / self._mean))
        return total


class LocalReader:
    """Reads pages where the local backend found them: nothing is asked for outside."""

    name = "local"

    def __init__(self, web: LocalWeb) -> None:
        self._web = web

    def read(self, url: str, check: Check, tell: Tell) -> Page:
        page = self._web.read(url)
        for hop in page.hops:
            tell(hop)
        return page


def _read(root: Path, path: Path) -> _Document:
    data = path.read_bytes()
    title, text, media_type = readable(data, SUFFIXES[path.suffix.lower()], name=path.name)
    inside = path.relative_to(root).as_posix()
    url = f"https://{quote(inside.removesuffix('index.html'))}"
    words = Counter(_words(text))
    for word in _words(title):
        words[word] += _TITLE_WEIGHT
    return _Document(url, title or path.stem, text, media_type, len(data), words)


def _key(url: str) -> str:
    """Addresses that mean the same document: scheme, case of the host, final slash and fragment aside."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    path = unquote(parts.path).rstrip("/").removesuffix("/index.html")
    return f"{(parts.hostname or '').lower()}{path}"


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _snippet(text: str, words: set[str]) -> str:
    """The stretch of the text around its first word that was asked for."""
    flat = " ".join(text.split())
    places = [match.start() for match in re.finditer(r"\w+", flat) if match[0].lower() in words]
    begin = max(0, (places[0] if places else 0) - _SNIPPET // 4)
    shown = flat[begin : begin + _SNIPPET]
    return f"{'…' if begin else ''}{shown}{'…' if begin + _SNIPPET < len(flat) else ''}"

"""Which search engine and which reader a run uses, from its options and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from beyondswe.errors import UsageError
from beyondswe.resources import resource
from beyondswe.search.backends import ENVIRONMENT, http_backend
from beyondswe.search.readers import JinaReader, PlainReader, Reader
from beyondswe.search.types import SearchBackend

BACKENDS = (*ENVIRONMENT, "local")
READERS = ("jina", "plain")


@dataclass(frozen=True)
class Web:
    """A search engine and a reader that belong together."""

    backend: SearchBackend
    reader: Reader


def default_backend(environ: Mapping[str, str], dataset: str) -> str:
    """The first backend that the environment has a key (or an address) for; for the demo, whose web is made up,
    its own documents where there is none. `UsageError` where nothing is there.
    """
    for name, (key, address, _) in ENVIRONMENT.items():
        if environ.get(key or address):
            return name
    if dataset == "demo":
        return "local"
    raise UsageError(
        "search needs an engine: set SERPAPI_API_KEY (or SEARXNG_URL, BRAVE_API_KEY, SERPER_API_KEY), name documents "
        "by --search-backend local:DIR, or go without by --no-search"
    )


def open_web(backend: str, reader: str, environ: Mapping[str, str]) -> Web:
    """``backend`` is one of `BACKENDS`, or ``local:DIR``; ``reader`` one of `READERS`. `UsageError` where a
    key, an address or a folder is missing.
    """
    name, _, folder = backend.partition(":")
    if name not in BACKENDS or (folder and name != "local"):
        raise UsageError(
            f"--search-backend {backend}: there are {', '.join(BACKENDS)}, and local:DIR for a folder of yours"
        )
    if name == "local":
        from beyondswe.search.local import LocalReader, LocalWeb

        path = Path(folder) if folder else resource("data", "demo")
        if not path.is_dir():
            raise UsageError(f"--search-backend {backend}: no such folder")
        web = LocalWeb(path)
        return Web(web, LocalReader(web))
    if reader not in READERS:
        raise UsageError(f"--page-reader {reader}: there are {', '.join(READERS)}")
    return Web(http_backend(name, environ), JinaReader(environ) if reader == "jina" else PlainReader())

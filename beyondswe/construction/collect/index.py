"""A package index by its simple API (JSON or HTML): which source releases a package has, when, with which hash."""

from __future__ import annotations

import hashlib
import html
import os
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import httpx
from packaging.utils import InvalidSdistFilename, canonicalize_name, parse_sdist_filename
from packaging.version import Version

from beyondswe.construction.releases import MAX_ARCHIVE
from beyondswe.errors import DataError, EngineError, UsageError
from beyondswe.resources import cache_dir
from beyondswe.sandbox.host import without_login

_JSON = "application/vnd.pypi.simple.v1+json"
_TRIES = 4
_VARIABLES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")


@dataclass(frozen=True)
class Source:
    """One source release. ``uploaded`` is None where the index does not say; ``sha256`` may be empty."""

    package: str
    version: Version
    url: str
    sha256: str
    uploaded: datetime | None


def configured_index() -> str:
    """The simple API that pip uses on this machine: as it is set up, else pip's own default. `UsageError` where neither
    can be had.
    """
    for name in _VARIABLES:
        if value := os.environ.get(name):
            return value
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    for key in ("global.index-url", "install.index-url", "download.index-url"):
        if match := re.search(rf"^{re.escape(key)}='?([^'\n]+)'?$", asked, re.MULTILINE):
            return match[1]
    default = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    told = subprocess.run(
        [sys.executable, "-c", default], capture_output=True, text=True, check=False
    ).stdout.strip()
    if told.startswith("http"):
        return told
    raise UsageError(
        "no package index is set up here: name its simple API with --index-url, or set PIP_INDEX_URL"
    )


class Index:
    """Asks one index; failures of the network and the server are tried again."""

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"--index-url {without_login(url)}: not an address of http or https")
        self.url = url.rstrip("/")
        self._client = httpx.Client(timeout=60, follow_redirects=True, headers={"User-Agent": "beyondswe"})

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def sources(self, package: str) -> list[Source]:
        """The source releases of a package that are final and not withdrawn, oldest first; one archive a version."""
        name = canonicalize_name(package)
        response = self._get(f"{self.url}/{name}/", f"{_JSON}, text/html;q=0.5", package)
        if "json" in response.headers.get("content-type", ""):
            found = list(_json_files(response.json(), str(response.url), package))
        else:
            found = list(_html_files(response.text, str(response.url), package))
        best: dict[Version, Source] = {}
        for source in found:  # .tar.gz before .zip
            known = best.get(source.version)
            if known is None or (source.url.endswith(".tar.gz") and not known.url.endswith(".tar.gz")):
                best[source.version] = source
        return [best[version] for version in sorted(best)]

    def archive(self, source: Source) -> tuple[Path, str]:
        """The archive of a source release, from the cache or the index, and its sha256, which is checked."""
        response = None
        what = f"{source.package} {source.version}"
        folder = cache_dir("sdists")
        if source.sha256:
            cached = folder / f"{source.package.lower()}-{source.version}-{source.sha256[:16]}"
            if cached.is_file() and hashlib.sha256(cached.read_bytes()).hexdigest() == source.sha256:
                return cached, source.sha256
        response = self._get(source.url, "*/*", what)
        content = response.content
        if len(content) > MAX_ARCHIVE:
            raise DataError(f"{what}: its source archive is larger than {MAX_ARCHIVE >> 20} MiB")
        digest = hashlib.sha256(content).hexdigest()
        if source.sha256 and digest != source.sha256:
            raise DataError(
                f"{what}: the archive has another sha256 ({digest}) than the index says ({source.sha256})"
            )
        cached = folder / f"{source.package.lower()}-{source.version}-{digest[:16]}"
        partial = cached.with_name(f".{cached.name}.{uuid.uuid4().hex}")
        partial.write_bytes(content)
        partial.replace(cached)
        return cached, digest

    def _get(self, url: str, accept: str, what: str) -> httpx.Response:
        problem, shown = "", without_login(url)
        for _ in range(_TRIES):
            try:
                response = self._client.get(url, headers={"Accept": accept})
            except httpx.TransportError as error:
                problem = without_login(f"{type(error).__name__}: {error}")
                continue
            if response.status_code == 200:
                return response
            problem = f"status {response.status_code}"
            if response.status_code in (404, 410):
                raise DataError(f"{what}: the package index does not have it ({shown})")
            if response.status_code < 500 and response.status_code != 429:
                break
        raise EngineError(f"{shown}: the package index did not answer: {problem}")


def _json_files(content: dict[str, object], base: str, package: str) -> list[Source]:
    found = []
    files = content.get("files")
    for entry in files if isinstance(files, list) else []:
        if not entry.get("yanked"):
            when = entry.get("upload-time")
            uploaded = datetime.fromisoformat(str(when).replace("Z", "+00:00")) if when else None
            digest = str((entry.get("hashes") or {}).get("sha256") or "")
            found += _source(
                package, str(entry["filename"]), urljoin(base, str(entry["url"])), digest, uploaded
            )
    return found


def _html_files(text: str, base: str, package: str) -> list[Source]:
    found = []
    for attributes in re.findall(r"<a\s+([^>]*)>", text, re.IGNORECASE):
        match = re.search(r"""href\s*=\s*["']([^"']+)["']""", attributes, re.IGNORECASE)
        if match and "data-yanked" not in attributes:
            url, fragment = urldefrag(urljoin(base, html.unescape(match[1])))
            digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
            found += _source(package, unquote(urlsplit(url).path).rpartition("/")[2], url, digest, None)
    return found


def _source(package: str, name: str, url: str, digest: str, uploaded: datetime | None) -> list[Source]:
    try:
        _, version = parse_sdist_filename(name)
    except InvalidSdistFilename:
        return []
    return [] if version.is_prerelease else [Source(package, version, url, digest, uploaded)]

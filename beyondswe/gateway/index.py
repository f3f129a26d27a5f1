"""Package indexes as of a day: which request asks an index, and its answer less what came later and the target's own.

Requests are told by the shape of their path and by what the client says it accepts, whatever the host, so that
mirrors answer like the index that they mirror. Simple pages (PEP 503, 691, 700), the JSON API beside them,
the documents of the npm registry and the files of both are known. Runs inside the proxy, with the standard library
and `beyondswe.blocklist` only.
"""

from __future__ import annotations

import contextlib
import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import quote, unquote, urljoin

import ada_url

from beyondswe.blocklist import file_distribution
from beyondswe.blocklist.names import canonical

SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
SIMPLE_HTML = "application/vnd.pypi.simple.v1+html"
NPM_ABBREVIATED = "application/vnd.npm.install-v1+json"


class Kind(StrEnum):
    """What a request asks of an index."""

    SIMPLE = "simple"  # one project's page
    LISTING = "listing"  # every project there is
    JSON_API = "json_api"  # /pypi/NAME/json, /pypi/NAME/VERSION/json
    NPM = "npm"  # a package's document
    NPM_VERSION = "npm_version"  # the document of one version, or of a tag
    NPM_FILE = "npm_file"
    FILE = "file"  # a wheel or an sdist, their metadata and signatures
    UNDATED = "undated"  # an index that is known to say no upload times of what it lists


@dataclass(frozen=True)
class IndexRequest:
    """A request to a package index. ``project`` is normalised but for npm's, which are spelled one way only."""

    kind: Kind
    project: str = ""
    version: str = ""
    filename: str = ""


class IndexRefused(Exception):
    """An index's answer that cannot be given as of the day, by rule and reason."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule, self.reason = rule, reason


@dataclass(frozen=True)
class Answer:
    """What the client gets in place of the index's own answer, and how much was taken out."""

    body: bytes
    content_type: str
    removed: int


def end_of(day: str) -> datetime | None:
    """The first moment after ``day`` (an ISO date), or the moment itself where it has a time; None for ''."""
    if not day:
        return None
    moment = datetime.fromisoformat(day.replace("Z", "+00:00"))
    if len(day) == 10:
        moment += timedelta(days=1)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_SIMPLE = re.compile(r"^(?:/[^?]*)?/simple/(?P<name>[A-Za-z0-9._-]+)/?$")
_LISTING = re.compile(r"^(?:/[^?]*)?/simple/?$")
_JSON_API = re.compile(r"^(?:/[^?]*)?/pypi/(?P<name>[A-Za-z0-9._-]+)(?:/(?P<version>[^/]+))?/json/?$")
_NPM = re.compile(r"^/(?P<name>(?:@[^/]+/)?[^/@][^/]*)(?:/(?P<version>[^/]+))?/?$")
_NPM_FILE = re.compile(r"^(?:/[^?]*?)??/(?P<name>(?:@[^/]+/)?[^/@]+)/-/(?P<file>[^/]+\.tgz)$")
_CONDA = re.compile(r"/(?:current_)?repodata(?:_shards)?(?:_from_packages)?\.(?:json|msgpack)(?:\.\w+)?$")
_BESIDE_A_FILE = re.compile(r"\.(?:metadata|asc|provenance|sig)$")
_PACKAGES = re.compile(
    r"/packages/(?:[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{60}|source/[^/]+/[^/]+|[^/]+/[^/]+/[^/]+)/[^/]+$"
)


def read_request(
    host: str, path: str, *, accept: str = "", user_agent: str = "", file_hosts: Iterable[str] = ()
) -> IndexRequest | None:
    """What a GET of ``path`` asks of an index; None if nothing. ``file_hosts``: where indexes keep their files."""
    with contextlib.suppress(ValueError):  # dot segments are taken out as servers do
        path = str(ada_url.URL(f"https://{host}{path}").pathname)
    path = re.sub(r"/{2,}", "/", unquote(path.partition("?")[0]))
    last = path.rstrip("/").rpartition("/")[2]
    if found := _NPM_FILE.match(path):
        return IndexRequest(Kind.NPM_FILE, found["name"], filename=found["file"])
    if _CONDA.search(path):
        return IndexRequest(Kind.UNDATED)
    bare = _BESIDE_A_FILE.sub("", last)
    if bare.endswith(".whl") or (
        file_distribution(bare)
        and (host in set(file_hosts) or _PACKAGES.search(path))
        and not path.endswith("/")
    ):
        return IndexRequest(Kind.FILE, file_distribution(bare) or "", filename=bare)
    if found := _SIMPLE.match(path):
        return IndexRequest(Kind.SIMPLE, canonical(found["name"]))
    if _LISTING.match(path):
        return IndexRequest(Kind.LISTING)
    if found := _JSON_API.match(path):
        return IndexRequest(Kind.JSON_API, canonical(found["name"]), found["version"] or "")
    if "vnd.pypi.simple" in accept and last and "." not in last[-8:]:
        return IndexRequest(Kind.SIMPLE, canonical(last))
    if "vnd.npm.install" in accept or user_agent.startswith(("npm/", "pnpm/", "yarn/")) or _is_registry(host):
        if path.startswith("/-/"):
            return IndexRequest(Kind.UNDATED) if "search" in path else None
        if found := _NPM.match(path):
            kind = Kind.NPM_VERSION if found["version"] else Kind.NPM
            return IndexRequest(kind, found["name"], found["version"] or "")
    return None


def _is_registry(host: str) -> bool:
    first = host.partition(".")[0]
    return first in {"registry", "npm"} or first.startswith("registry-") or "npm" in first


# Simple pages


def simple_answer(
    body: bytes, content_type: str, *, base: str, until: datetime, barred: frozenset[str], as_json: bool
) -> Answer:
    """A project's page as of ``until``, from the index's JSON answer, in the form that the client wants.

    `IndexRefused` where the index gave no upload times (PEP 700), as those with HTML alone do.
    """
    page = _page(body, content_type)
    files = [file for file in page["files"] if isinstance(file, dict)]
    if files and not any(file.get("upload-time") for file in files):
        raise IndexRefused("index-no-times", "this index does not say when its files were uploaded")
    kept = [file for file in files if _in_time(file.get("upload-time"), until) and not _of(file, barred)]
    removed = len(files) - len(kept)
    if not as_json:
        return Answer(
            _simple_html(str(page.get("name", "")), kept, base).encode(), "text/html; charset=utf-8", removed
        )
    document: dict[str, Any] = {"meta": {"api-version": "1.1"}, "name": page.get("name", ""), "files": kept}
    if isinstance(page.get("versions"), list):
        document["versions"] = [version for version in page["versions"] if _has_file(str(version), kept)]
    return Answer(json.dumps(document).encode(), SIMPLE_JSON, removed)


def upload_times(body: bytes, content_type: str) -> dict[str, str]:
    """When each file of a project's page was uploaded, by file name."""
    files = [file for file in _page(body, content_type)["files"] if isinstance(file, dict)]
    return {str(file.get("filename", "")): str(file.get("upload-time") or "") for file in files}


def file_hosts_of(body: bytes, base: str) -> set[str]:
    """The hosts that a page's files are on."""
    found = set()
    for file in json.loads(body).get("files", []):
        host = re.match(r"https?://(?:[^/@]*@)?([^/:]+)", urljoin(base, str(file.get("url", ""))))
        if host:
            found.add(host[1].lower())
    return found


def _page(body: bytes, content_type: str) -> dict[str, Any]:
    if "json" not in content_type:
        raise IndexRefused(
            "index-no-times",
            "this index gives its pages in HTML only, which does not say when files were uploaded",
        )
    page = _document(body)
    if not isinstance(page.get("files"), list):
        raise IndexRefused("index-not-read", "this index's answer is no project page")
    return page


def _of(file: Mapping[str, Any], barred: frozenset[str]) -> bool:
    return file_distribution(str(file.get("filename", ""))) in barred


def _has_file(version: str, files: list[dict[str, Any]]) -> bool:
    """Whether a version has one of the files: by the part of their names after the project's."""
    wanted = re.sub(r"[-_.]+", ".", version).lower()
    for file in files:
        rest = re.sub(r"[-_.]+", ".", str(file.get("filename", ""))).lower()
        if f".{wanted}." in rest:
            return True
    return False


def _simple_html(name: str, files: list[dict[str, Any]], base: str) -> str:
    lines = ["<!DOCTYPE html>", '<html><head><meta name="pypi:repository-version" content="1.1">']
    lines.append(f"<title>Links for {html.escape(name)}</title></head><body>")
    for file in files:
        url = urljoin(base, str(file.get("url", "")))
        hashes = file.get("hashes") or {}
        if isinstance(hashes, dict) and hashes:
            kind = "sha256" if "sha256" in hashes else next(iter(hashes))
            url += f"#{kind}={hashes[kind]}"
        attributes = {"href": url}
        if file.get("requires-python"):
            attributes["data-requires-python"] = str(file["requires-python"])
        metadata = file.get("core-metadata", file.get("data-dist-info-metadata"))
        if metadata:
            digest = metadata.get("sha256") if isinstance(metadata, dict) else None
            value = f"sha256={digest}" if digest else "true"
            attributes |= {"data-core-metadata": value, "data-dist-info-metadata": value}
        if yanked := file.get("yanked"):
            attributes["data-yanked"] = yanked if isinstance(yanked, str) else ""
        shown = " ".join(f'{key}="{html.escape(value)}"' for key, value in attributes.items())
        lines.append(f"<a {shown}>{html.escape(str(file.get('filename', '')))}</a><br>")
    return "\n".join([*lines, "</body></html>", ""])


# The JSON API beside simple pages


def json_api_answer(body: bytes, *, version: str, until: datetime, barred: frozenset[str]) -> Answer:
    """A project's (or with ``version`` a release's) JSON document as of ``until``."""
    page = _document(body)
    removed = 0

    def kept(files: Any) -> list[dict[str, Any]]:
        nonlocal removed
        if not isinstance(files, list):
            return []
        good = [f for f in files if _in_time(_uploaded(f), until) and not _of(f, barred)]
        removed += len(files) - len(good)
        return good

    urls = kept(page.get("urls"))
    info = page.get("info") if isinstance(page.get("info"), dict) else {}
    assert isinstance(info, dict)
    document: dict[str, Any] = {"info": info, "urls": urls}
    if version:
        if not urls:
            raise IndexRefused(
                "index-date", "this release has no file that was uploaded by the instance's index date"
            )
    else:
        releases = page.get("releases") if isinstance(page.get("releases"), dict) else {}
        assert isinstance(releases, dict)
        document["releases"] = {name: files for name, all_ in releases.items() if (files := kept(all_))}
        if not document["releases"]:
            raise IndexRefused(
                "index-date", "no file of this project was uploaded by the instance's index date"
            )
        if info.get("version") not in document["releases"]:  # what it says is of a later release
            newest = max(document["releases"], key=lambda v: max(map(_uploaded, document["releases"][v])))
            document["info"] = {"name": info.get("name"), "version": newest}
            document["urls"] = document["releases"][newest]
    return Answer(json.dumps(document).encode(), "application/json", removed)


def _uploaded(file: Mapping[str, Any]) -> str:
    return str(file.get("upload_time_iso_8601") or file.get("upload_time") or "")


# npm


def npm_times(body: bytes) -> dict[str, str]:
    """When each version in a package's document was published."""
    times = _document(body).get("time")
    if not isinstance(times, dict):
        raise IndexRefused("index-no-times", "this registry does not say when versions were published")
    return {str(version): str(moment) for version, moment in times.items()}


def npm_answer(body: bytes, *, until: datetime, abbreviated: bool) -> Answer:
    """A package's document as of ``until``; tags that pointed later point to the newest that is left."""
    page = _document(body)
    versions = page.get("versions")
    if not isinstance(versions, dict):
        raise IndexRefused("index-not-read", "this registry's answer is no package document")
    times = npm_times(body)
    kept = {name: value for name, value in versions.items() if _in_time(times.get(name), until)}
    tags = page.get("dist-tags") if isinstance(page.get("dist-tags"), dict) else {}
    assert isinstance(tags, dict)
    tags = {tag: version for tag, version in tags.items() if version in kept}
    if kept:
        tags.setdefault("latest", newest_npm(kept))
    moments = [times[name] for name in kept]
    document = {"name": page.get("name"), "dist-tags": tags, "versions": kept}
    if abbreviated:
        document["modified"] = max(moments, default="")
        content_type = NPM_ABBREVIATED
    else:
        dates = {name: times[name] for name in kept}
        document["time"] = {
            "created": min(moments, default=""),
            "modified": max(moments, default=""),
            **dates,
        }
        document["_id"] = page.get("_id")
        content_type = "application/json"
    return Answer(json.dumps(document).encode(), content_type, len(versions) - len(kept))


def npm_version_as_of(body: bytes, version: str, until: datetime) -> str:
    """Which version a version or tag was at ``until``, by the package's document; `IndexRefused`: none."""
    page = json.loads(npm_answer(body, until=until, abbreviated=False).body)
    found = version if version in page["versions"] else page["dist-tags"].get(version)
    if not found:
        raise IndexRefused("index-date", f"{version} was not published by the instance's index date")
    return str(found)


def npm_file_version(project: str, filename: str) -> str:
    """The version in the name of a package's tarball."""
    return filename.removesuffix(".tgz").removeprefix(project.rpartition("/")[2] + "-")


def npm_path(project: str) -> str:
    """Where a registry keeps a package's document."""
    return "/" + quote(project, safe="@")


def newest_npm(versions: Iterable[str]) -> str:
    """The highest version by semver's order, of releases if there are any."""

    def rank(version: str) -> tuple[bool, list[int], str]:
        numbers, _, pre = version.partition("+")[0].partition("-")
        return not pre, [int(part) if part.isdigit() else 0 for part in numbers.split(".")], pre

    return max(versions, key=rank)


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise IndexRefused("index-not-read", "this index's answer is no JSON") from None
    if not isinstance(document, dict):
        raise IndexRefused("index-not-read", "this index's answer is no JSON object")
    return document


def _in_time(moment: object, until: datetime) -> bool:
    """Whether an upload time is before ``until``; a file without one is not."""
    if not isinstance(moment, str) or not moment:
        return False
    try:
        when = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    except ValueError:
        return False
    return (when if when.tzinfo else when.replace(tzinfo=UTC)) < until


def in_time(moment: str, until: datetime) -> bool:
    """Whether a file of that upload time was there before ``until``."""
    return _in_time(moment, until)

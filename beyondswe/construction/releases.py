"""Makes the trees of an instance out of source releases (sdists) that the user's package client finds.

Deliberate: an archive is believed for nothing but its bytes. Its sha256 is a fact of the recipe, so that
every machine makes the same trees, commits and lists; it is unpacked in memory, where no name in it can reach
the disk. No line of a release runs here: ``uv`` is asked where the archive is (it reads a release's metadata
from its wheel, so a recipe's package must have one), building is left to the container.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import os
import stat
import subprocess
import sys
import tarfile
import tomllib
import urllib.error
import urllib.request
import uuid
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal
from urllib.parse import unquote, urlsplit

from beyondswe.construction import commits
from beyondswe.construction.masking import check_specification, mask_repository, mask_suite
from beyondswe.construction.recipes import File, Files, Material, Recipe, Release, ReleasesSource
from beyondswe.errors import DataError
from beyondswe.resources import cache_dir
from beyondswe.sandbox.host import without_login

MAX_ARCHIVE = 64 << 20
MAX_UNPACKED = 256 << 20
MAX_FILES = 20_000

GENERATED = (
    "PKG-INFO",
    "*.egg-info/*",
    "*/__pycache__/*",
    "__pycache__/*",
    "*.pyc",
    "*.pyo",
    ".git/*",
    "*/.git/*",
)
"""What building an archive leaves in it: no source, different in every release, and in no tree of ours.

``setup.cfg`` stays although setuptools appends an ``[egg_info]`` section to it: that is the same in every
release. A ``_version.py`` that a version tool wrote stays as well, since packages import it; recipes may
leave it out of ``source``.
"""

_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_NO_INDEX", "UV_CONFIG_FILE")


def material(recipe: Recipe) -> Material:
    """The trees of a recipe whose source is of kind ``releases``; downloads what the cache does not have."""
    source = recipe.source
    if not isinstance(source, ReleasesSource):
        raise ValueError(f"{recipe.instance_id}: its source is not made of releases")
    new = release_files(source, source.new)
    if source.old is None:
        _every_glob_matches(recipe, new)
        return _doc2repo(recipe, source, new)
    old = release_files(source, source.old)
    _every_glob_matches(recipe, [*old, *new])
    hidden = {path for path in {*old, *new} if _matches(path, source.tests)}
    changed = {path for path in {*old, *new} if path not in hidden and _matches(path, source.source)}
    found = commits.commit_id(old, recipe.index_date)
    if source.base_commit not in ("", found):
        raise DataError(
            f"{recipe.folder / 'recipe.yaml'}: the base commit comes out as {found}, but must be"
            f" {source.base_commit}; test ids that were verified for that tree would not be for this one"
        )
    return Material(base=old, reference=_with(old, new, changed), hidden_tests=_with(old, new, hidden))


def release_files(source: ReleasesSource, release: Release) -> Files:
    """The tree of one release, without its top folder, what is generated and what the recipe drops."""
    files = unpack(fetch(source.package, release))
    return {path: file for path, file in files.items() if not _matches(path, (*GENERATED, *source.drop))}


def fetch(package: str, release: Release) -> Path:
    """The source archive of a release, from the cache or from the user's package index; its hash is checked.

    The index is the one that the user's uv is set up for (its files and ``UV_*`` variables; where none of
    these names one, pip's ``PIP_INDEX_URL`` counts). `DataError` if it does not have the release, or other
    bytes under its name.
    """
    cached = cache_dir("sdists") / f"{package.lower()}-{release.version}-{release.sha256[:16]}"
    if cached.is_file() and _sha256(cached.read_bytes()) == release.sha256:
        return cached
    url = _locate(package, release)
    content = _download(url, f"{package} {release.version}")
    found = _sha256(content)
    if found != release.sha256:
        raise DataError(
            f"{package} {release.version}: the source archive has sha256 {found}, but the recipe says"
            f" {release.sha256}; nothing was unpacked. Is this the package index you mean to use?"
            f" ({without_login(url)})"
        )
    unfinished = cached.with_name(f".{cached.name}.{uuid.uuid4().hex}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(cached)
    finally:
        unfinished.unlink(missing_ok=True)
    return cached


def unpack(archive: Path) -> Files:
    """The files of a source archive (tar in any compression, or zip) below its one top folder.

    It is read in memory. Refused with `DataError`: absolute names, ``..``, links out of the tree, hard links,
    devices, names that come twice or are file and folder at once, more than 20,000 files, more than 256 MiB.
    """
    files: dict[str, File] = {}
    total = 0
    try:
        for name, size, kind, read in _entries(archive):
            total += size
            if len(files) >= MAX_FILES or total > MAX_UNPACKED:
                raise DataError(
                    f"{archive}: more than {MAX_FILES} files or {MAX_UNPACKED >> 20} MiB; no source release"
                )
            path = _inside(archive, name)
            data = read(size)
            if kind == "120000":
                _link_stays_inside(archive, path, data)
            if path in files:
                raise DataError(f"{archive}: '{name}' is in the archive twice")
            files[path] = File(data, kind)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, zlib.error, RuntimeError) as error:
        raise DataError(f"{archive}: not a readable tar or zip archive: {error}") from error
    tops = {path.partition("/")[0] for path in files}
    if len(tops) != 1 or any("/" not in path for path in files):
        raise DataError(f"{archive}: expected one top folder with everything in it, found {sorted(tops)[:5]}")
    stripped = {path.partition("/")[2]: file for path, file in sorted(files.items())}
    for path in stripped:
        if any(str(parent) in stripped for parent in PurePosixPath(path).parents):
            raise DataError(f"{archive}: '{path}' lies below what is a file in the same archive")
    return stripped


_Kind = Literal["100644", "100755", "120000"]


class _Reader:
    """Reads at most the announced size of one entry; an entry that holds more is a lie, and is refused."""

    def __init__(self, name: str, stream: IO[bytes]):
        self.name, self.stream = name, stream

    def __call__(self, size: int) -> bytes:
        with self.stream:
            data = self.stream.read(size + 1)
        if len(data) != size:
            raise DataError(
                f"'{self.name}' in the archive holds another number of bytes than it announces ({size})"
            )
        return data


def _entries(archive: Path) -> Iterator[tuple[str, int, _Kind, _Reader]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                mode = entry.external_attr >> 16
                if entry.is_dir():
                    continue
                kind: _Kind = "120000" if stat.S_ISLNK(mode) else ("100755" if mode & 0o100 else "100644")
                yield entry.filename, entry.file_size, kind, _Reader(entry.filename, zipped.open(entry))
        return
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            if member.isdir():
                continue
            if member.issym():
                target = os.fsencode(member.linkname)
                yield member.name, len(target), "120000", _Reader(member.name, io.BytesIO(target))
                continue
            stream = tar.extractfile(member) if member.isreg() else None
            if stream is None:
                raise DataError(f"{archive}: '{member.name}' is neither a file, a folder nor a symbolic link")
            yield (
                member.name,
                member.size,
                "100755" if member.mode & 0o100 else "100644",
                _Reader(member.name, stream),
            )


def _inside(archive: Path, name: str) -> str:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or "\0" in name:
        raise DataError(
            f"{archive}: the name '{name}' points outside the archive's folder; nothing was unpacked"
        )
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"{archive}: the name {name!r} is not UTF-8") from error
    return "/".join(parts)


def _link_stays_inside(archive: Path, path: str, target: bytes) -> None:
    depth = len(PurePosixPath(path).parts) - 2  # folders between the top folder and the link
    outside = target.startswith(b"/")
    for part in target.split(b"/"):
        depth += -1 if part == b".." else int(part not in (b"", b"."))
        outside = outside or depth < 0
    if outside:
        raise DataError(
            f"{archive}: the link '{path}' points outside the archive's folder; nothing was unpacked"
        )


def _locate(package: str, release: Release) -> str:
    """Where the user's package client finds the archive: asked of uv, as a lock of that one release."""
    from uv import find_uv_bin

    environment = dict(os.environ)
    if environment.get("PIP_INDEX_URL") and not any(name in environment for name in _INDEX_VARIABLES):
        environment["UV_DEFAULT_INDEX"] = environment["PIP_INDEX_URL"]
    asked = f"{package}=={release.version}"
    command = [
        find_uv_bin(),
        "pip",
        "compile",
        "-",
        "--no-deps",
        "--format",
        "pylock.toml",
        "--no-header",
        "--quiet",
    ]
    answer = subprocess.run(
        [*command, "--python", sys.executable], input=asked, env=environment, capture_output=True, text=True
    )
    if answer.returncode:
        raise DataError(
            f"{asked}: the package index did not give this release; check network and index settings "
            f"(UV_DEFAULT_INDEX, UV_FIND_LINKS, or uv.toml). uv says: {without_login(answer.stderr.strip())}"
        )
    packages: list[dict[str, Any]] = tomllib.loads(answer.stdout)["packages"]
    archive = packages[0].get("sdist") or packages[0].get("archive") or {}
    if archive.get("path"):
        return Path(archive["path"]).absolute().as_uri()
    if not archive.get("url"):
        raise DataError(
            f"{asked}: the package index has no source archive of this release; it may have been withdrawn"
        )
    return str(archive["url"])


def _download(url: str, what: str) -> bytes:
    scheme = urlsplit(url).scheme
    if scheme == "file":
        path = Path(unquote(urlsplit(url).path))
        try:
            with path.open("rb") as stream:
                content = stream.read(MAX_ARCHIVE + 1)
        except OSError as error:
            raise DataError(f"{what}: its source archive cannot be read: {error}") from error
    elif scheme in ("http", "https"):
        try:
            with urllib.request.urlopen(url, timeout=120) as response:
                content = response.read(MAX_ARCHIVE + 1)
        except (urllib.error.URLError, OSError) as error:
            raise DataError(
                f"{what}: downloading {without_login(url)} failed: {error}; try again, or put the file into a folder "
                f"that UV_FIND_LINKS names"
            ) from error
    else:
        raise DataError(
            f"{what}: its source archive lies at {url}; expected an address of http, https or file"
        )
    if len(content) > MAX_ARCHIVE:
        raise DataError(
            f"{what}: its source archive is larger than {MAX_ARCHIVE >> 20} MiB; it cannot be the right one"
        )
    return content


def _doc2repo(recipe: Recipe, source: ReleasesSource, new: Files) -> Material:
    assert source.mask is not None  # held by the recipe's own check
    package, name = source.mask.package, source.mask.name
    known_as = (source.package, *recipe.distributions, *recipe.aliases)
    check_specification(recipe.statement, (package, *known_as), str(recipe.folder / "specification.md"))
    suite = {path: file for path, file in new.items() if _matches(path, source.tests)}
    rest = {path: file for path, file in new.items() if path not in suite and _matches(path, source.source)}
    return Material(
        reference=mask_repository(rest, package, name, source.new.version),
        suite=mask_suite(suite, package, name, known_as),
    )


def _with(old: Files, new: Files, paths: set[str]) -> Files:
    """``old`` with the given paths as they are in ``new``.

    A file that both have keeps its mode: modes differ by the machine that packed the archive, not by intent.
    """
    files = {path: file for path, file in old.items() if path not in paths}
    for path in paths & new.keys():
        before = old.get(path)
        file = new[path]
        keeps_mode = before is not None and "120000" not in (before.mode, file.mode)
        files[path] = File(file.data, before.mode) if before is not None and keeps_mode else file
    return dict(sorted(files.items()))


def _matches(path: str, globs: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, glob) for glob in globs)


def _every_glob_matches(recipe: Recipe, paths: Iterable[str]) -> None:
    known = list(paths)
    source = recipe.source
    assert isinstance(source, ReleasesSource)
    for field, globs in (("source", source.source), ("tests", source.tests)):
        for glob in globs:
            if not any(fnmatch.fnmatchcase(path, glob) for path in known):
                raise DataError(
                    f"{recipe.folder / 'recipe.yaml'}: source.{field}: '{glob}' matches no path in the"
                    f" release; there are, for instance, {', '.join(sorted(known)[:8])}"
                )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

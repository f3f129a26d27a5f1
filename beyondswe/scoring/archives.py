"""Zip archives that somebody else made, read into memory as data: nothing is unpacked to disk, nothing is
followed.
"""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections.abc import Mapping

from beyondswe.sandbox.paths import inside, parents, reserved
from beyondswe.sandbox.trees import EXECUTABLE, FILE, File

MAX_FILES = 20_000
MAX_BYTES = 512 << 20  # unpacked
MAX_RATIO = 200  # unpacked to packed, of a file of more than a MiB


class BadArchive(Exception):
    """An archive that is damaged, too large, or holds what no honest one does; the message says which."""


def read_zip(data: bytes, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> Mapping[bytes, File]:
    """The files of a zip by path. `BadArchive` for links, ``..``, absolute names, twins, bombs."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _read(archive, max_files, max_bytes)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise BadArchive(f"it cannot be read as a zip: {error}") from error


def _read(archive: zipfile.ZipFile, max_files: int, max_bytes: int) -> dict[bytes, File]:
    members = [member for member in archive.infolist() if not member.is_dir()]
    if len(members) > max_files:
        raise BadArchive(f"it holds {len(members)} files; {max_files} are the limit")
    if sum(member.file_size for member in members) > max_bytes:
        raise BadArchive(f"it unpacks to more than {max_bytes} bytes")
    files: dict[bytes, File] = {}
    folded: dict[bytes, bytes] = {}
    for member in members:
        path = member.filename.removeprefix("./").encode("utf-8", "surrogateescape")
        _check(path, member)
        clash = folded.setdefault(path.lower(), path)
        if path in files or clash != path:
            raise BadArchive(f"it holds {clash!r} and {path!r}, which are one file on some systems")
        with archive.open(member) as file:
            content = file.read(member.file_size + 1)
        if len(content) != member.file_size:
            raise BadArchive(f"{path!r} is not as long as it says")
        mode = EXECUTABLE if member.external_attr >> 16 & 0o111 else FILE
        files[path] = File(mode, content)
    for path in files:
        if any(folder in files for folder in parents(path)):
            raise BadArchive(f"{path!r} lies in something that is a file")
    return files


def _check(path: bytes, member: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise BadArchive(f"{path!r} is a link or a special file")
    if not inside(path) or b"\\" in path or path[1:2] == b":":
        raise BadArchive(f"{path!r} is not a path inside the archive's folder")
    if reserved(path):
        raise BadArchive(f"{path!r} names a git directory")
    if member.file_size > 1 << 20 and member.file_size > MAX_RATIO * max(member.compress_size, 1):
        raise BadArchive(f"{path!r} unpacks to more than {MAX_RATIO} times its size")

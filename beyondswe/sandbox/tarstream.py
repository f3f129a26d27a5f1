"""Reads a tar stream member by member, as bytes, and believes it only if it is whole.

`tarfile` takes a stream that breaks off between two members for a complete one. Here that would read as files
that the agent deleted, so an archive without its end mark is refused, like all else that no engine writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from beyondswe.errors import EngineError

_BLOCK = 512
_EMPTY = b"\0" * _BLOCK
_LONGEST_RECORD = 1 << 20  # bytes of a long name or of pax records


class BadArchive(EngineError):
    """A tar stream that is cut short or damaged, or that no engine writes."""


class Kind(StrEnum):
    FILE = "file"
    SYMLINK = "symbolic link"
    HARD_LINK = "hard link"
    DIRECTORY = "directory"
    FIFO = "fifo"
    DEVICE = "device"
    OTHER = "special file"


_KINDS = {
    b"0": Kind.FILE,
    b"\0": Kind.FILE,
    b"7": Kind.FILE,
    b"1": Kind.HARD_LINK,
    b"2": Kind.SYMLINK,
    b"3": Kind.DEVICE,
    b"4": Kind.DEVICE,
    b"5": Kind.DIRECTORY,
    b"6": Kind.FIFO,
}


@dataclass
class Member:
    """One member. Its data must be read before the next member is asked for; the rest of it is skipped."""

    name: bytes
    kind: Kind
    mode: int
    size: int
    target: bytes  # of a link
    data: Iterator[bytes] = field(repr=False)
    uid: int = 0
    gid: int = 0


def members(chunks: Iterable[bytes]) -> Iterator[Member]:
    """The members of a tar stream, in order: ustar, GNU long names, pax; names and targets as raw bytes."""
    source = _Source(chunks)
    long_name = long_target = None
    pax: dict[bytes, bytes] = {}
    shared: dict[bytes, bytes] = {}
    while (header := source.exactly(_BLOCK)) != _EMPTY:
        _check(header)
        size, flag = _number(header[124:136]), header[156:157]
        if flag in b"LKxg":
            if size > _LONGEST_RECORD:
                raise BadArchive(f"tar stream: a name of {size} bytes")
            body = source.exactly(size)
            source.exactly(-size % _BLOCK)
            if flag == b"L":
                long_name = _text(body)
            elif flag == b"K":
                long_target = _text(body)
            else:
                (pax if flag == b"x" else shared).update(_records(body))
            continue
        records = {**shared, **pax}
        kind = _KINDS.get(flag, Kind.OTHER)
        if flag == b"S" or any(key.startswith(b"GNU.sparse.") for key in records):
            raise BadArchive("tar stream: a member in a sparse format, which engines do not write")
        name = records.get(b"path", long_name if long_name is not None else _name(header))
        target = records.get(b"linkpath", long_target if long_target is not None else _text(header[157:257]))
        size = int(records.get(b"size", size))
        if kind is Kind.FILE and name.endswith(b"/"):
            kind = Kind.DIRECTORY
        if kind in (Kind.SYMLINK, Kind.HARD_LINK, Kind.DIRECTORY):
            size = 0
        data = source.pieces(size)
        uid = int(records.get(b"uid", _number(header[108:116])))
        gid = int(records.get(b"gid", _number(header[116:124])))
        yield Member(name, kind, _number(header[100:108]), size, target, data, uid, gid)
        for _ in data:
            pass
        source.exactly(-size % _BLOCK)
        long_name = long_target = None
        pax = {}
    source.drain()


def without_padding(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same archive, ended where its end mark ends: a reader that stops there and closes (Podman's does)
    breaks the pipe of who still sends the padding. For archives of our own: sizes stand in the headers.
    """
    source = _Source(chunks)
    while (header := source.exactly(_BLOCK)) != _EMPTY:
        size = 0 if header[156:157] in b"125" else _number(header[124:136])
        yield header
        yield from source.pieces(size + -size % _BLOCK)
    yield _EMPTY + _EMPTY
    source.drain()


class _Source:
    """Bytes by count from chunks of any size."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._at = b""
        self._from = 0

    def pieces(self, count: int) -> Iterator[bytes]:
        while count:
            if self._from == len(self._at):
                self._from = 0
                self._at = next(self._chunks, None) or self._end(count)
            piece = self._at[self._from : self._from + count]
            self._from += len(piece)
            count -= len(piece)
            yield piece

    def exactly(self, count: int) -> bytes:
        piece = self._at[self._from : self._from + count]
        if len(piece) == count:
            self._from += count
            return piece
        return b"".join(self.pieces(count))

    def drain(self) -> None:
        for _ in self._chunks:
            pass

    def _end(self, missing: int) -> bytes:
        for chunk in self._chunks:  # an empty chunk is not the end
            if chunk:
                return chunk
        raise BadArchive(
            f"tar stream: it ended early, {missing} bytes or more are missing; the engine broke off"
        )


def _check(header: bytes) -> None:
    if _number(header[148:156]) != sum(header) - sum(header[148:156]) + 8 * 0x20:
        raise BadArchive("tar stream: a header does not match its checksum")


def _number(raw: bytes) -> int:
    if raw[0] & 0x80:
        return int.from_bytes(bytes([raw[0] & 0x7F]) + raw[1:], "big")
    try:
        return int(raw.strip(b" \0") or b"0", 8)
    except ValueError:
        raise BadArchive(f"tar stream: {raw!r} is not a number") from None


def _text(raw: bytes) -> bytes:
    return raw.partition(b"\0")[0]


def _name(header: bytes) -> bytes:
    name, prefix = _text(header[:100]), _text(header[345:500])
    return prefix + b"/" + name if prefix and header[257:263] == b"ustar\0" else name


def _records(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Pax records: ``length key=value`` and a newline, the length counting all of it."""
    while body:
        length, _, _ = body.partition(b" ")
        end = int(length) if length.isdigit() else 0
        key, equals, value = body[len(length) + 1 : end].partition(b"=")
        if not equals or not value.endswith(b"\n") or end > len(body):
            raise BadArchive("tar stream: a damaged pax record")
        yield key, value[:-1]
        body = body[end:]

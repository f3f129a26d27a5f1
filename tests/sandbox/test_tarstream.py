"""Tar streams by the block: what `beyondswe.sandbox.tarstream` passes on is the same archive."""

from __future__ import annotations

import io
import tarfile

import pytest

from beyondswe.sandbox.tarstream import without_padding


@pytest.mark.parametrize("piece", [1, 100, 512, 1 << 20])
def test_an_archive_without_its_padding_is_the_same_archive(piece: int) -> None:
    stream = io.BytesIO()
    long = "folder/" * 40 + "ends-in-zeros"
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in (("plain", b"a"), (long, b"x" + b"\0" * 2047), ("empty", b"")):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "plain"
        archive.addfile(link)
    whole = stream.getvalue()
    short = b"".join(without_padding(whole[at : at + piece] for at in range(0, len(whole), piece)))
    assert whole.startswith(short) and len(short) % 512 == 0 and set(whole[len(short) :]) == {0}
    with tarfile.open(fileobj=io.BytesIO(short)) as archive:
        assert archive.getnames() == ["plain", long, "empty", "link"]
        assert archive.offset + 1024 == len(short)

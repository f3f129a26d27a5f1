"""A snapshot is taken once, is there whole or not at all, and costs no memory."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from beyondswe.errors import EngineError
from beyondswe.sandbox.snapshot import load, take
from beyondswe.sandbox.trees import EMPTY_TREE, Trees


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path))
    return tmp_path


def tar(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        folder = tarfile.TarInfo("repo")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in files.items():
            info = tarfile.TarInfo("repo/" + name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def test_a_snapshot_holds_all_and_knows_what_the_base_tracks() -> None:
    archive = tar(**{"a.py": b"1", "made.so": b"2", "sub/x": b"3", "sub/y": b"4", ".git/config": b"5"})
    assert load("k") is None
    taken = take("k", [archive], prefix=b"repo", tracked=[b"a.py", b"sub", b"deleted.py"])
    assert load("k") == taken
    with Trees(taken.git_dir) as trees:
        assert set(trees.entries(taken.tree)) == {b"a.py", b"made.so", b"sub/x", b"sub/y"}
        assert set(trees.entries(taken.base_tree)) == {b"a.py", b"sub/x", b"sub/y"}


def test_without_a_repository_everything_counts_as_tracked() -> None:
    taken = take("k", [tar(a=b"1")], prefix=b"repo", tracked=None)
    assert taken.base_tree == taken.tree
    empty = take("e", [tar()], prefix=b"repo", tracked=None)
    assert empty.tree == EMPTY_TREE


def test_a_stream_that_breaks_off_leaves_nothing(cache: Path) -> None:
    with pytest.raises(EngineError, match="ended early"):
        take("k", [tar(a=b"1" * 5000)[:3000]], prefix=b"repo", tracked=None)
    assert load("k") is None
    assert [path.name for path in (cache / "snapshots").iterdir()] == [".lock"]


def test_a_work_folder_that_is_a_file_is_refused() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("repo"))
    with pytest.raises(EngineError, match="not a folder"):
        take("k", [stream.getvalue()], prefix=b"repo", tracked=None)


@pytest.mark.parametrize("key", ["", "../x", ".x", "a/b", "x y"])
def test_a_key_names_a_folder_and_nothing_else(key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        load(key)


def test_two_that_take_the_same_snapshot_at_once_both_have_it(cache: Path) -> None:
    archive = tar(a=b"1" * 100_000, b=b"2")
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(take("k", [archive], prefix=b"repo", tracked=None)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert set(found) == {load("k")}
    assert sorted(path.name for path in (cache / "snapshots").iterdir()) == [".lock", "k"]


def test_a_large_tree_is_not_held_in_memory() -> None:
    program = """
import resource, tarfile
from beyondswe.sandbox.snapshot import take
def stream():
    piece = bytes(range(256)) * 4096
    folder = tarfile.TarInfo("repo")
    folder.type = tarfile.DIRTYPE
    yield folder.tobuf()
    for number in range(3):
        info = tarfile.TarInfo(f"repo/{number}")
        info.size = 64 << 20
        yield info.tobuf()
        for _ in range(64):
            yield piece
    yield bytes(1024)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
take("k", stream(), prefix=b"repo", tracked=None)  # 192 MiB
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(max(after - before, 0), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    ours, gits = map(int, done.stdout.split())
    assert ours < 20_000  # KiB
    assert gits < 100_000

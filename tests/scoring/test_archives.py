"""Zips and wheels that somebody else made are data: refused where they could do more."""

from __future__ import annotations

import importlib.metadata
import io
import stat
import zipfile

import pytest

from beyondswe.scoring.archives import BadArchive, read_zip
from beyondswe.scoring.wheels import installed


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def special(name: str, kind: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)
    member.external_attr = (kind | 0o777) << 16
    return member


def test_files_come_with_their_modes():
    tool = zipfile.ZipInfo("bin/tool")
    tool.external_attr = (stat.S_IFREG | 0o755) << 16
    found = read_zip(zipped(("a/b.txt", b"one"), (tool, b"two"), ("./c", b"")))
    assert {path: (file.mode, file.data) for path, file in found.items()} == {
        b"a/b.txt": ("100644", b"one"),
        b"bin/tool": ("100755", b"two"),
        b"c": ("100644", b""),
    }


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"no zip", "cannot be read"),
        (zipped(("../evil", b"")), "not a path inside"),
        (zipped(("a/../../evil", b"")), "not a path inside"),
        (zipped(("/etc/passwd", b"")), "not a path inside"),
        (zipped(("C:evil", b"")), "not a path inside"),
        (zipped(("a\\..\\evil", b"")), "not a path inside"),
        (zipped((".git/config", b"")), "git directory"),
        (zipped((special("a", stat.S_IFLNK), b"/etc")), "link or a special file"),
        (zipped((special("a", stat.S_IFIFO), b"")), "link or a special file"),
        (zipped(("A", b""), ("a", b"")), "one file on some systems"),
        (zipped(("a", b""), ("a/b", b"")), "lies in something that is a file"),
        (zipped(("bomb", bytes(64 << 20))), "times its size"),
        (zipped(*((f"f{n}", b"") for n in range(11))), "11 files"),
        (zipped(*((f"f{n}", bytes(1 << 20)) for n in range(9))), "more than"),
    ],
)
def test_what_no_honest_archive_holds_is_refused(data, said):
    with pytest.raises(BadArchive, match=said):
        read_zip(data, max_files=10, max_bytes=(8 << 20) if b"f8" in data else 512 << 20)


def test_a_damaged_member_is_refused():
    data = zipped(("a", b"x" * 1000))
    at = data.index(b"PK\x03\x04") + 34
    with pytest.raises(BadArchive, match="cannot be read"):
        read_zip(data[:at] + b"\xff\xff\xff" + data[at + 3 :])


def test_a_wheel_becomes_files_without_what_would_run_by_itself():
    entry_points = (
        b"[console_scripts]\nTool = target.cli:App.main [extra]\n../bad = target:x\nodd = nothing\n"
        b"[pytest11]\nevil = target.plugin\n[target.things]\na = target.a\n"
    )
    wheel = zipped(
        ("target/__init__.py", b"1"),
        ("zz.pth", b"import os"),
        ("sitecustomize.py", b""),
        ("usercustomize/__init__.py", b""),
        ("suite/test_a.py", b""),
        ("target-1.0.data/scripts/run", b"#!python\nprint()\n"),
        ("target-1.0.data/purelib/extra.py", b"2"),
        ("target-1.0.data/purelib/yy.pth", b""),
        ("target-1.0.data/data/share/man", b""),
        ("target-1.0.dist-info/METADATA", b"Name: target\n"),
        ("target-1.0.dist-info/entry_points.txt", entry_points),
    )
    found = {
        (write.place, write.path.decode()): write
        for write in installed(wheel, library=1, commands=2, without={b"suite"})
    }
    assert set(found) == {
        (1, "target/__init__.py"),
        (1, "extra.py"),
        (1, "target-1.0.dist-info/METADATA"),
        (1, "target-1.0.dist-info/entry_points.txt"),
        (2, "run"),
        (2, "Tool"),
    }
    kept = found[1, "target-1.0.dist-info/entry_points.txt"].data.decode()
    assert "pytest11" not in kept
    assert "[target.things]\na = target.a" in kept
    tool = found[2, "Tool"]
    assert tool.mode == "script"
    assert b"from target.cli import App\n" in tool.data
    assert b"sys.exit(App.main())" in tool.data


@pytest.mark.parametrize("folder", ["T-2.DIST-INFO", "other.egg-info", "t-1.data/purelib/third-1.dist-info"])
def test_metadata_outside_of_a_wheels_own_is_left_out(folder):
    wheel = zipped((f"{folder}/entry_points.txt", b"[pytest11]\nevil = t\n"), ("t.py", b""))
    assert [write.path for write in installed(wheel, library=1, commands=2)] == [b"t.py"]


@pytest.mark.parametrize(
    "text",
    [
        b"[[pytest11]]\nevil = t\n",
        b"[ pytest11 ]\nevil = t\n",
        b"[a]\nx = y\n  [pytest11]\n  evil = t\n",
    ],
)
def test_no_reader_finds_a_pytest_plugin_in_entry_points_that_were_kept(text, tmp_path):
    wheel = zipped(
        ("t-1.dist-info/METADATA", b"Name: t\nVersion: 1\n"), ("t-1.dist-info/entry_points.txt", text)
    )
    for write in installed(wheel, library=1, commands=2):
        (tmp_path / write.path.decode()).parent.mkdir(exist_ok=True)
        (tmp_path / write.path.decode()).write_bytes(write.data)
    (found,) = importlib.metadata.distributions(path=[str(tmp_path)])
    assert found.metadata["Name"] == "t"
    assert [point for point in found.entry_points if "pytest11" in point.group] == []


def test_entry_points_that_cannot_be_read_are_refused():
    with pytest.raises(BadArchive, match="entry points"):
        list(installed(zipped(("t.dist-info/entry_points.txt", b"no section\n")), library=1, commands=2))

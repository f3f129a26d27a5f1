"""Base commits and patches: the same everywhere, byte for byte."""

from __future__ import annotations

import subprocess
from datetime import date
from pathlib import Path

import pytest

from beyondswe.construction.commits import applied, commit_id, difference, make_repository, read_files
from beyondswe.construction.recipes import File
from beyondswe.errors import DataError

DAY = date(2024, 3, 1)
NASTY = {
    "a.py": File(b"x = 1\n"),
    "crlf.txt": File(b"one\r\ntwo\r\n"),
    ".gitattributes": File(b"*.txt text eol=lf\n*.bin filter=lfs\n"),
    ".gitignore": File(b"ignored/\n"),
    "ignored/kept.txt": File(b"tracked all the same\n"),
    'odd "names"/a b\tc.txt': File("naïve".encode()),
    "run.sh": File(b"#!/bin/sh\n", "100755"),
    "link": File(b"a.py", "120000"),
    "some.bin": File(bytes(range(256))),
    "empty": File(b""),
}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_commit_of_a_tree_is_fixed() -> None:
    # Written down: this must not change with the machine, its git, its configuration, or our code.
    assert commit_id(NASTY, DAY) == "9910780ef4e96aa68e59f2cc4a1979005daa8bbe"


def test_the_hosts_git_configuration_plays_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = commit_id(NASTY, DAY), difference({}, NASTY)
    config = tmp_path / "config"
    config.write_text(
        "[core]\n\tautocrlf = true\n[diff]\n\tnoprefix = true\n\tmnemonicPrefix = true\n[user]\n\tname = me\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert (commit_id(NASTY, DAY), difference({}, NASTY)) == expected


def test_a_repository_holds_the_tree_as_it_is_and_one_commit(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    commit = make_repository(NASTY, DAY, folder)
    assert commit == commit_id(NASTY, DAY) == git(folder, "rev-parse", "main").strip()
    assert read_files(folder) == NASTY
    assert git(folder, "rev-list", "--all", "--count").strip() == "1"
    assert git(folder, "log", "-1", "--format=%an %ae %ad %cd", "--date=iso-strict").strip() == (
        "BeyondSWE beyondswe@invalid 2024-03-01T00:00:00+00:00 2024-03-01T00:00:00+00:00"
    )
    assert len(git(folder, "ls-files").splitlines()) == len(NASTY)
    objects = git(folder, "count-objects", "-v")
    reachable = git(folder, "rev-list", "--objects", "--all").splitlines()
    assert f"count: {len(reachable)}\n" in objects and "in-pack: 0\n" in objects
    assert not (folder / ".git" / "logs").exists()


def test_a_difference_applied_gives_the_other_tree() -> None:
    after = dict(NASTY)
    del after["crlf.txt"]
    after |= {
        "a.py": File(b"x = 2", "100755"),
        "some.bin": File(bytes(reversed(range(256)))),
        "link": File(b"run.sh", "120000"),
        "latin.txt": File("naïve\n".encode("latin-1")),
        "new/file.py": File(b"\n"),
    }
    patch = difference(NASTY, after)
    patch.encode("utf-8")
    assert applied(NASTY, patch.encode(), "the patch") == dict(sorted(after.items()))
    assert difference(after, after) == ""


def test_a_patch_that_does_not_apply_is_named() -> None:
    patch = difference({"a": File(b"1\n")}, {"a": File(b"2\n")})
    with pytest.raises(DataError, match=r"hidden\.patch does not apply .*patch failed: a:1"):
        applied({"a": File(b"3\n")}, patch.encode(), "hidden.patch")

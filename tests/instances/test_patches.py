"""What counts as a patch: whatever git makes, and what people paste; not what cannot be applied."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from beyondswe.instances.patches import Change, changes
from beyondswe.instances.problems import FieldError

HEAD = "diff --git a/x b/x\n--- a/x\n+++ b/x\n"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "core.autocrlf=false", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return done.stdout.decode()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "text").write_bytes(b"one\ntwo\nthree\n")
    (tmp_path / "crlf").write_bytes(b"one\r\ntwo\r\n")
    (tmp_path / "moved").write_bytes(b"".join(b"line %d\n" % number for number in range(20)))
    (tmp_path / "run.sh").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "data.bin").write_bytes(bytes(range(256)))
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    return tmp_path


def test_every_kind_of_change_that_git_writes_is_a_patch(repository: Path) -> None:
    (repository / "text").write_bytes(b"one\n2\nthree")
    (repository / "crlf").write_bytes(b"one\r\n2\r\n")
    (repository / "moved").rename(repository / "moved here")
    (repository / "run.sh").chmod(0o755)
    (repository / "data.bin").write_bytes(bytes(range(255, -1, -1)))
    (repository / "empty").write_bytes(b"")
    (repository / "näme").write_bytes(b"x\n")
    (repository / "link").symlink_to("text")
    git(repository, "add", "-A")
    found = changes(git(repository, "diff", "--cached", "--binary", "-M", "HEAD"))
    assert {change.path: (change.added, change.removed) for change in found} == {
        "text": (2, 2),
        "crlf": (1, 1),
        "moved here": (0, 0),
        "run.sh": (0, 0),
        "data.bin": (0, 0),
        "empty": (0, 0),
        "näme": (1, 0),
        "link": (1, 0),
    }


@pytest.mark.parametrize(
    "patch",
    [
        "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
        "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n",
        "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..e69de29\n",
        "diff --git a/x b/x\nindex 1111111..2222222 100644\nBinary files a/x and b/x differ\n",
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
        HEAD + "@@ -1 +1 @@\n-a\n+b",
        HEAD + "@@ -1,3 +1,3 @@\n-a\n+b\n\n c\n",
        "From: someone\nSubject: x\n---\n x | 2 +-\n\n" + HEAD + "@@ -1 +1 @@\n-a\n+b\n-- \n2.39.5\n",
        (HEAD + "@@ -1 +1 @@\n-a\n+b\n").replace("\n", "\r\n"),
    ],
    ids=["mode", "rename", "empty", "binary", "plain", "stripped", "empty context", "mail", "crlf"],
)
def test_what_people_paste_is_a_patch(patch: str) -> None:
    assert changes(patch)


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ("see the pull request", "git finds no change in it"),
        ("https://example.org/pull/1.diff\n", "git finds no change in it"),
        ("diff --git a/x b/x\n", "git finds no change in it"),
        (HEAD, "no hunk in it can be read"),
        (HEAD + "@@ -1,3 +1,3 @@\n-a\n+b\n", "corrupt patch at line"),
        (HEAD + "@@ changed @@\n-a\n+b\n", "no hunk in it can be read"),
        ("@@ -1 +1 @@\n-a\n+b\n", "patch fragment without header"),
        (HEAD.replace("x", "../x") + "@@ -1 +1 @@\n-a\n+b\n", "outside the tree"),
        (HEAD.replace("/x", "/s/../../x") + "@@ -1 +1 @@\n-a\n+b\n", "outside the tree"),
        (HEAD.replace("x", ".git/config") + "@@ -1 +1 @@\n-a\n+b\n", "outside the tree"),
        (HEAD.replace("x", "sub/.GIT/hooks/pre-commit") + "@@ -1 +1 @@\n-a\n+b\n", "outside the tree"),
    ],
)
def test_what_could_not_be_applied_is_refused(patch: str, why: str) -> None:
    with pytest.raises(FieldError, match=why):
        changes(patch)


def test_where_it_is_called_and_whose_git_it_is_does_not_matter(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = repository / "folder"
    inside.mkdir()
    config = repository / "config"
    config.write_text("[apply]\n\twhitespace = error-all\n")
    monkeypatch.chdir(inside)
    monkeypatch.setitem(os.environ, "GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setitem(os.environ, "GIT_DIR", "/nonexistent")
    assert changes(HEAD + "@@ -1 +1 @@\n-a\n+b \n") == (Change("x", 1, 1),)

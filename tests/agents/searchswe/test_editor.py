"""The editor: files of the sandbox, whatever they are called and hold."""

from __future__ import annotations

from typing import Any

import pytest

from beyondswe.agents.searchswe.editor import Editor
from beyondswe.agents.searchswe.shell import Shell
from beyondswe.sandbox.docker import DockerSandbox, start_sandbox
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Limits


class _At:
    def __init__(self, sandbox: DockerSandbox) -> None:
        self._sandbox, self._editor = sandbox, Editor(sandbox)

    def edit(self, command: str, path: str, **more: Any) -> str:
        return self._editor.run({"command": command, "path": path, **more})

    def sh(self, command: str) -> str:
        return self._sandbox.run(command, timeout=30).stdout.decode("utf-8", "surrogateescape")


@pytest.fixture
def at(sandbox: DockerSandbox) -> _At:
    sandbox.run("rm -rf /tmp/e; mkdir /tmp/e", timeout=30)
    return _At(sandbox)


def test_create_view_replace_insert_and_undo(at: _At) -> None:
    assert (
        at.edit("create", "/tmp/e/new/a.py", file_text="one\ntwo\nthree\n")
        == "Created /tmp/e/new/a.py (3 lines)."
    )
    assert at.edit("view", "/tmp/e/new/a.py") == "     1\tone\n     2\ttwo\n     3\tthree"
    assert at.edit("view", "/tmp/e/new/a.py", view_range=[2, -1]) == "     2\ttwo\n     3\tthree"
    shown = at.edit("str_replace", "/tmp/e/new/a.py", old_str="two\n", new_str="2\n2b\n")
    assert "     2\t2\n     3\t2b" in shown
    at.edit("insert", "/tmp/e/new/a.py", insert_line=0, new_str="zero")
    assert at.sh("cat /tmp/e/new/a.py") == "zero\none\n2\n2b\nthree\n"
    at.edit("undo_edit", "/tmp/e/new/a.py")
    at.edit("undo_edit", "/tmp/e/new/a.py")
    assert at.sh("cat /tmp/e/new/a.py") == "one\ntwo\nthree\n"
    assert "it is gone again" in at.edit("undo_edit", "/tmp/e/new/a.py")
    assert at.sh("ls /tmp/e/new") == ""
    assert "no edit" in at.edit("undo_edit", "/tmp/e/new/a.py")


def test_mode_owner_links_and_odd_bytes_survive(at: _At) -> None:
    at.sh(
        "cd /tmp/e; printf 'caf\\351 one\\r\\ntwo\\r\\n' > real; chmod 751 real; chown 12:34 real; ln -s real link; "
        "mkdir d; ln -s ../real d/up"
    )
    at.edit("str_replace", "/tmp/e/link", old_str="one\ntwo", new_str="1\n2")
    at.edit("insert", "/tmp/e/d/up", insert_line=2, new_str="end")
    assert at.sh("cat /tmp/e/real") == "caf\udce9 1\r\n2\r\nend\r\n"
    assert at.sh("stat -c '%a %u %g' /tmp/e/real; readlink /tmp/e/link") == "751 12 34\nreal\n"
    at.edit("undo_edit", "/tmp/e/real")
    assert at.sh("cat /tmp/e/real") == "caf\udce9 1\r\n2\r\n"


def test_names_are_only_names(at: _At) -> None:
    name = "/tmp/e/a 'b\" $(touch owned) \n-é"
    at.edit("create", name, file_text="x\n")
    at.edit("str_replace", name, old_str="x", new_str="y")
    assert at.edit("view", name) == "     1\ty"
    assert "owned" not in at.sh("ls /tmp/e/ /opt | cat -v").replace("touch owned", "")


def test_a_folder_two_levels_deep(at: _At) -> None:
    at.sh("cd /tmp/e; mkdir -p a/b/c .hidden; touch a/x a/b/y top .hidden/z")
    shown = at.edit("view", "/tmp/e")
    assert shown.splitlines()[1:] == ["/tmp/e", "/tmp/e/a", "/tmp/e/a/b", "/tmp/e/a/x", "/tmp/e/top"]


@pytest.mark.parametrize(
    ("command", "path", "more", "why"),
    [
        ("view", "relative", {}, "no absolute path"),
        ("view", "/tmp/e/none", {}, "is not there"),
        ("view", "/tmp/e/two", {"view_range": [9, 10]}, "has 4 lines"),
        ("view", "/tmp/e/binary", {}, "binary file"),
        ("view", "/tmp/e/circle", {}, "in circles"),
        ("view", "/tmp/e/pipe", {}, "no regular file"),
        ("create", "/tmp/e/two", {"file_text": "x"}, "is there already"),
        ("create", "/tmp/e/x", {}, "needs file_text"),
        ("create", "/tmp/e/two/x", {"file_text": "x"}, "cannot be written"),
        ("str_replace", "/tmp/e/two", {"old_str": "same"}, "stands 2 times in /tmp/e/two (lines 1, 3)"),
        ("str_replace", "/tmp/e/two", {"old_str": "none"}, "does not stand"),
        ("str_replace", "/tmp/e", {"old_str": "none"}, "is a folder"),
        ("insert", "/tmp/e/two", {"insert_line": 9, "new_str": "x"}, "has 4 lines"),
        ("insert", "/tmp/e/two", {"insert_line": 1}, "needs insert_line and new_str"),
    ],
)
def test_faults_are_told(at: _At, command: str, path: str, more: dict[str, Any], why: str) -> None:
    at.sh(
        "cd /tmp/e; printf 'same\\na\\nsame\\nb\\n' > two; printf 'a\\000b' > binary; ln -s circle circle; mkfifo pipe"
    )
    shown = at.edit(command, path, **more)
    assert shown.startswith("Error: ") and why in shown


def test_long_files_are_cut(at: _At) -> None:
    at.sh("seq 20000 > /tmp/e/long")
    shown = at.edit("view", "/tmp/e/long")
    assert len(shown) < 33_000 and "characters were cut" in shown and shown.endswith("20000")


def test_the_editor_may_do_what_the_images_user_may(engine: Engine, base_image: str) -> None:
    sandbox = start_sandbox(
        engine, base_image, workdir="/tmp", limits=Limits(cpus=1, memory=1 << 30), user="1000"
    )
    try:
        at = _At(sandbox)
        assert at.edit("create", "/var/tmp/w/a.py", file_text="x").startswith("Created")
        assert at.sh("stat -c %u /var/tmp/w /var/tmp/w/a.py") == "1000\n1000\n"
        assert "cannot be written: no permission" in at.edit("create", "/etc/a.py", file_text="x")
        assert "cannot be written" in at.edit("insert", "/etc/passwd", insert_line=0, new_str="x")
        shell = Shell(sandbox, "/var/tmp")
        assert shell.run("X=1; id -u", timeout=30).output == "1000\n"
        assert shell.run("echo $X; cat w/a.py", timeout=30).output == "1\nx"
    finally:
        sandbox.stop()

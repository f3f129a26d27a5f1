"""The runner puts a change in place as data, and runs a command in place of tests."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace

import pytest

from beyondswe.sandbox.engine import Engine, labels
from beyondswe.sandbox.types import Limits
from beyondswe.scoring.evidence import Evidence
from beyondswe.scoring.job import Job, Write, run_job

pytestmark = pytest.mark.engine

LIMITS = Limits(cpus=1, memory=1 << 30, pids=256, test_timeout=60)
SHOW = "cd /workspace && find . -printf '%P|%y|%m|%U|%l\\n' | sort && cat odd* && cat /outside/kept"


@pytest.fixture(scope="module")
def nasty_image(engine: Engine, python_image: str) -> Iterator[str]:
    """A work folder of another owner, with links and folders where a change will want something else."""
    client = engine.client
    container = client.containers.create(python_image, ["true"], network="none", labels=labels(role="test"))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind, text in [
            ("outside", tarfile.DIRTYPE, ""),
            ("outside/kept", tarfile.REGTYPE, "kept\n"),
            ("workspace", tarfile.DIRTYPE, ""),
            ("workspace/link_out", tarfile.SYMTYPE, "/outside"),
            ("workspace/file_link", tarfile.SYMTYPE, "/outside/kept"),
            ("workspace/folder/a/b", tarfile.REGTYPE, "x"),
            ("workspace/empty/one", tarfile.REGTYPE, "x"),
            ("workspace/stays/one", tarfile.REGTYPE, "x"),
            ("workspace/stays/two", tarfile.REGTYPE, "x"),
        ]:
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.uid, member.gid = (
                kind,
                0o755 if kind == tarfile.DIRTYPE else 0o644,
                77,
                77,
            )
            member.linkname = text if kind == tarfile.SYMTYPE else ""
            data = text.encode() if kind == tarfile.REGTYPE else b""
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    container.put_archive("/", out.getvalue())
    image = container.commit("beyondswe-test-nasty")
    container.remove()
    yield str(image.id)
    client.images.remove(str(image.id), force=True)


def run(engine: Engine, image: str, job: Job) -> Evidence:
    return run_job(engine, image, job, limits=LIMITS)


def test_links_are_replaced_and_never_followed(engine, nasty_image):
    write = (
        Write(b"link_out/kept", "100644", b"mine\n"),  # the link becomes a folder
        Write(b"file_link", "100644", b"mine\n"),
        Write(b"folder", "100755", b"#!/bin/sh\n"),  # the folder becomes a file
        Write(b"new/deep/link", "120000", b"/outside/kept"),
        Write(b"odd \xff\n'name", "100644", b"odd\n"),
        Write(b"nothing", "100644", b""),
    )
    delete = (b"empty/one", b"stays/one", b"not/there", b"file_link/x")
    job = Job("/workspace", delete=delete, write=write, command=("/bin/sh", "-c", SHOW))
    evidence = run(engine, nasty_image, job)
    assert evidence.end["exit_code"] == 0, (evidence.log, evidence.fault)
    listing = evidence.log.splitlines()
    assert {line for line in listing if "|" in line} == {
        "|d|755|77|",
        "file_link|f|644|77|",
        "folder|f|755|77|",
        "link_out/kept|f|644|77|",
        "link_out|d|755|77|",
        "new/deep/link|l|777|77|/outside/kept",
        "new/deep|d|755|77|",
        "new|d|755|77|",
        "nothing|f|644|77|",
        "'name|f|644|77|",
        "stays/two|f|644|77|",
        "stays|d|755|0|",
    }
    assert listing[-2:] == ["odd", "kept"]


@pytest.mark.parametrize("path", [b"../outside/x", b"/etc/x", b"a/../b", b"", b"a//b", b"./a"])
def test_a_path_that_leads_out_is_the_jobs_fault(engine, python_image, path):
    job = Job("/workspace", write=(Write(path, "100644", b""),), command=("/bin/true",))
    evidence = run(engine, python_image, job)
    assert "not a path inside the tree" in evidence.fault
    assert evidence.end is None
    assert evidence.ended.exit_code == 70


def test_a_command_leaves_files_and_links_are_not_read(engine, python_image):
    script = "mkdir -m 700 /tmp/out && cd /tmp/out && echo one > a; " + (
        "ln -s /etc/passwd b; mkfifo c; mkdir d; id -un; exit $CODE"
    )
    command = ("/bin/sh", "-c", script)
    job = Job("/workspace", user="nobody", command=command, environment={"CODE": "0"}, collect="/tmp/out")
    evidence = run(engine, python_image, job)
    assert evidence.files == {"a": b"one\n"}
    assert evidence.log == "nobody\n"
    failed = run(engine, python_image, replace(job, environment={"CODE": "3"}))
    assert failed.files == {}
    assert failed.end["exit_code"] == 3


def test_files_go_to_other_places_too_and_scripts_find_the_interpreter(engine, python_image):
    write = (
        Write(b"lib/thing.py", "100644", b"VALUE = 7\n", 1),
        Write(b"tool", "script", b"#!python\nimport sys; print(sys.prefix)\n", 2),
    )
    job = Job("/workspace", write=write, places=("/opt/x", "/opt/y/bin"), command=("/opt/y/bin/tool",))
    evidence = run(engine, python_image, job)
    assert evidence.log == "/opt/venv\n"


def test_nothing_compiled_stands_for_a_module_that_changes(engine, python_image):
    """Caches that are never checked against their source, as some images hold; and none left of what is gone."""
    container = engine.client.containers.create(
        python_image,
        [
            "sh",
            "-ec",
            "mkdir -p /workspace/gone; cd /workspace; echo 'X = 1' > a.py; echo 'X = 1' > gone/__init__.py; "
            "python -m compileall -q --invalidation-mode unchecked-hash .",
        ],
        network="none",
        labels=labels(role="test"),
    )
    container.start()
    assert container.wait()["StatusCode"] == 0
    image = container.commit("beyondswe-test-compiled")
    container.remove()
    job = Job(
        "/workspace",
        delete=(b"gone/__init__.py",),
        write=(Write(b"a.py", "100644", b"X = 2\n"),),
        command=("/bin/sh", "-c", "cd /workspace; {python} -c 'import a; print(a.X)'; ls"),
    )
    try:
        evidence = run(engine, str(image.id), job)
    finally:
        engine.client.images.remove(str(image.id), force=True)
    assert evidence.log.split() == ["2", "__pycache__", "a.py"]

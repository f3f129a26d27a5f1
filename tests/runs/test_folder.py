"""The run folder: names, whole writes, evidence of earlier tries, the lock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beyondswe.errors import UsageError
from beyondswe.runs.folder import RunFolder, StorageError, check_run_id, find_run, folder_name, new_run_id


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"attempts": "x"}, "attempts is 'x', expected a whole number"),
        ({"attempts": True}, "attempts is True, expected a whole number"),
        ({"allow_hosts": 5}, "allow_hosts is 5, expected a list"),
        ({"regraded": 5}, "regraded is 5, expected an object"),
        ({"dataset": {"name": "d", "hash": [1]}}, r"dataset.hash is \[1\], expected a text"),
        ({"agent": {"name": "a", "version": 5}}, "agent.version is 5, expected a text"),
    ],
)
def test_what_run_json_says_in_another_type_is_named(tmp_path: Path, more: dict[str, Any], why: str) -> None:
    document = {"run_id": "r", "dataset": {"name": "d"}, "agent": {"name": "a"}, "attempts": None}
    (tmp_path / "run.json").write_text(json.dumps(document))
    assert RunFolder(tmp_path).read_run() == document
    (tmp_path / "run.json").write_text(json.dumps({**document, **more}))
    with pytest.raises(UsageError, match=why):
        RunFolder(tmp_path).read_run()


def test_new_run_ids_are_readable_and_differ() -> None:
    first, second = new_run_id("oracle", "data/My Set.jsonl"), new_run_id("oracle", "data/My Set.jsonl")
    assert first != second
    assert "-oracle-My_Set-" in first
    assert check_run_id(first) == first


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        ("No space left on device", "make room"),
        ("database or disk is full", "make room"),
        ("Read-only file system", "make it writable"),
        ("attempt to write a readonly database", "make it writable"),
        ("Input/output error", "see to that disk"),
    ],
)
def test_the_advice_fits_what_is_wrong_with_the_disk(why: str, advice: str) -> None:
    assert f"Nothing finished is lost: {advice}, then" in str(StorageError(Path("r"), why))


@pytest.mark.parametrize("bad", ["", ".", "..", "a/b", "-x", "a b", "x" * 200, "a\n"])
def test_run_ids_that_cannot_name_a_folder_are_refused(bad: str) -> None:
    with pytest.raises(UsageError):
        check_run_id(bad)


def test_every_instance_id_gets_a_safe_folder_of_its_own() -> None:
    ids = [
        "a",
        "a/b",
        "a%2Fb",
        "..",
        ".",
        "a b",
        "$(x)",
        "a;b",
        "ü",
        "-a",
        "x" * 500,
        "x" * 501,
        "a.b",
        "%2E",
    ]
    names = [folder_name(instance_id) for instance_id in ids]
    assert len(set(names)) == len(ids)
    assert all("/" not in name and name not in (".", "..") and len(name) <= 255 for name in names)
    assert names[0] == "a"


def test_files_of_an_earlier_try_are_kept_and_those_of_a_killed_one_dropped(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.begin_attempt("i", 1, 0) is None
    folder.write_attempt("i", 1, {"patch.diff": b"one", "logs/agent.log": b"hello"})
    kept = folder.begin_attempt("i", 1, 1)
    assert kept is not None
    assert (kept / "patch.diff").read_bytes() == b"one" and (
        kept / "logs" / "agent.log"
    ).read_bytes() == b"hello"
    folder.write_attempt("i", 1, {"patch.diff": b"two"})
    # killed before the ledger knew of the second try's end: the same number of earlier tries again
    assert folder.begin_attempt("i", 1, 1) == kept
    assert sorted(p.name for p in folder.attempt("i", 1).iterdir()) == ["tries"]
    assert (kept / "patch.diff").read_bytes() == b"one"


def test_results_are_appended_as_whole_lines_and_rebuilt(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.append_result('{"a": 1}')
    folder.append_result('{"a": 2}')
    assert folder.results.read_text() == '{"a": 1}\n{"a": 2}\n'
    with folder.results.open("a") as stream:
        stream.write('{"a": 3')
    folder.rebuild_results(iter(['{"a": 1}']))
    assert folder.results.read_text() == '{"a": 1}\n'


def test_a_run_that_lives_names_its_process_and_lets_go_when_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from beyondswe.runs.folder import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).lock():\n    print('held', flush=True); time.sleep(600)"
    )
    folder = RunFolder(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        assert folder.holder() == child.pid
        with pytest.raises(UsageError, match=f"process {child.pid}"), folder.lock():
            pass
        child.kill()
    assert folder.holder() is None
    with folder.lock():
        assert folder.holder() is not None


def test_a_run_is_found_by_id_and_by_folder(tmp_path: Path) -> None:
    (tmp_path / "runs" / "r").mkdir(parents=True)
    (tmp_path / "runs" / "r" / "run.json").write_text("{}")
    assert find_run("r", tmp_path / "runs").path == tmp_path / "runs" / "r"
    assert find_run(str(tmp_path / "runs" / "r"), Path("elsewhere")).path == tmp_path / "runs" / "r"
    with pytest.raises(UsageError, match="no run 'x'"):
        find_run("x", tmp_path / "runs")


def test_a_run_json_without_what_is_sure_to_be_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"run_id": "r", "dataset": {}}')
    with pytest.raises(UsageError, match=r"dataset\.name is missing"):
        RunFolder(tmp_path).read_run()
    (tmp_path / "run.json").write_text(
        '{"run_id": "r", "dataset": {"name": "d"}, "agent": {"name": "a"}, "x": 1}'
    )
    assert RunFolder(tmp_path).read_run()["x"] == 1

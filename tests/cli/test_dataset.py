"""`beyondswe dataset`: what it says of good and bad rows, and to whom."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beyondswe.cli import main
from beyondswe.instances.seen import Seen, remember

PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n-a\n+b\n+c\n"
ISSUE = {
    "instance_id": "owner_repo_pr1",
    "task": "CrossRepo",
    "repo": "owner/repo",
    "base_commit": "0" * 40,
    "workdir": "/workspace",
    "image": "image:1",
    "problem_statement": "Addition is off by one.",
    "patch": PATCH,
    "FAIL_TO_PASS": ["test_a.py::test_a"],
    "PASS_TO_PASS": ["test_a.py::test_b", "test_a.py::test_c"],
    "f2p_script": "SECRET = 'hidden test'\n",
}
BOOK = {
    "instance_id": "owner_book",
    "task": "Doc2Repo",
    "repo": "owner/book",
    "image": "image:2",
    "REPO_DOCUMENT_CONTENT": "Two words.",
    "test_suite": "book.zip",
    "test_suite_num": 30,
}

Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def dataset(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """`beyondswe dataset …` in this process: exit code, standard output (a document if --json), errors."""
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "300")

    def run(*arguments: str | Path) -> tuple[int, Any, str]:
        monkeypatch.setattr(sys, "argv", ["beyondswe", "dataset", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return int(str(end.value.code)), json.loads(out) if "--json" in arguments and out else out, err

    return run


def rows_in(folder: Path, *rows: object) -> Path:
    path = folder / "rows.jsonl"
    (folder / "book.zip").touch()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def patched(path: str) -> str:
    return PATCH.replace("a.py", path)


# what is bent of a good row → the field, what was found, and words of the message
BAD = {
    "unknown family": (
        ISSUE,
        {"task": "BugFix"},
        "task",
        '"BugFix"',
        "CrossRepo, DomainFix, DepMigrate, Doc2Repo",
    ),
    "no family": (ISSUE, {"task": None}, "task", "nothing", "--as-family"),
    "family that is no text": (ISSUE, {"task": 3}, "task", "3", "not text"),
    "no id": (ISSUE, {"instance_id": ""}, "instance_id", '""', "no instance id"),
    "id that is no text": (ISSUE, {"instance_id": 17}, "instance_id", "17", "not text"),
    "id with a slash": (ISSUE, {"instance_id": "a/b"}, "instance_id", '"a/b"', "a path"),
    "id that leads up": (ISSUE, {"instance_id": ".."}, "instance_id", '".."', "a path"),
    "id with a NUL": (ISSUE, {"instance_id": "a\0b"}, "instance_id", '"a\\u0000b"', "control characters"),
    "id with a line end": (ISSUE, {"instance_id": "a\nb"}, "instance_id", '"a\\nb"', "control characters"),
    "id too long": (ISSUE, {"instance_id": "é" * 101}, "instance_id", '"é', "202 bytes"),
    "id that is half a character": (
        ISSUE,
        {"instance_id": "a\ud800"},
        "instance_id",
        '"a\\ud800"',
        "surrogate",
    ),
    "missing image": (ISSUE, {"image": ""}, "image", '""', "missing image"),
    "image that is an option": (
        ISSUE,
        {"image": "--privileged"},
        "image",
        '"--privileged"',
        "name of an image",
    ),
    "image with spaces": (ISSUE, {"image": "a b"}, "image", '"a b"', "name of an image"),
    "repo without an owner": (ISSUE, {"repo": "tides"}, "repo", '"tides"', "expected owner/name"),
    "address for a repo": (
        ISSUE,
        {"repo": "https://example.org/a/b"},
        "repo",
        '"https',
        "expected owner/name",
    ),
    "relative workdir": (ISSUE, {"workdir": "workspace"}, "workdir", '"workspace"', "not absolute"),
    "workdir that leads up": (ISSUE, {"workdir": "/a/../.."}, "workdir", '"/a/../.."', "leads upwards"),
    "the root as workdir": (ISSUE, {"workdir": "/"}, "workdir", '"/"', "the root"),
    "another language": (ISSUE, {"language": "rust"}, "language", '"rust"', "cannot be scored yet"),
    "missing base commit": (ISSUE, {"base_commit": ""}, "base_commit", '""', "missing base commit"),
    "branch as base commit": (ISSUE, {"base_commit": "main"}, "base_commit", '"main"', "not a commit id"),
    "option as base commit": (ISSUE, {"base_commit": "--all"}, "base_commit", '"--all"', "not a commit id"),
    "bad base.sha": (
        ISSUE,
        {"base_commit": None, "base": {"sha": "HEAD"}},
        "base.sha",
        '"HEAD"',
        "not a commit id",
    ),
    "no problem statement": (ISSUE, {"problem_statement": ""}, "problem_statement", '""', "empty problem"),
    "list that is not one": (ISSUE, {"FAIL_TO_PASS": "[a, b"}, "FAIL_TO_PASS", '"[a, b"', "neither a list"),
    "list of numbers": (ISSUE, {"PASS_TO_PASS": [1]}, "PASS_TO_PASS", "[1]", "neither a list"),
    "object for a list": (ISSUE, {"PASS_TO_PASS": {"a": 1}}, "PASS_TO_PASS", '{"a": 1}', "neither a list"),
    "code for a list": (
        ISSUE,
        {"PASS_TO_PASS": "[print(1)]"},
        "PASS_TO_PASS",
        '"[print(1)]"',
        "neither a list",
    ),
    "deep list": (ISSUE, {"PASS_TO_PASS": "[" * 10**5}, "PASS_TO_PASS", '"[[[', "neither a list"),
    "empty test id": (ISSUE, {"PASS_TO_PASS": ["a", ""]}, "PASS_TO_PASS", '["a", ""]', "empty"),
    "no fail-to-pass test": (ISSUE, {"FAIL_TO_PASS": "[]"}, "FAIL_TO_PASS", '"[]"', "no fail-to-pass test"),
    "test id that leads up": (
        ISSUE,
        {"FAIL_TO_PASS": ["t/../../x.py::t"]},
        "FAIL_TO_PASS",
        '["t/',
        "outside",
    ),
    "absolute test id": (ISSUE, {"PASS_TO_PASS": ["/etc/x.py::t"]}, "PASS_TO_PASS", '["/etc', "outside"),
    "patch that is none": (ISSUE, {"patch": "see #12"}, "patch", '"see #12"', "not a patch"),
    "patch that is no text": (ISSUE, {"patch": [PATCH]}, "patch", '["diff', "not text"),
    "patch cut off": (ISSUE, {"patch": PATCH[:-4]}, "patch", '"diff', "corrupt patch"),
    "fix_patch that is none": (ISSUE, {"patch": "", "fix_patch": "no"}, "fix_patch", '"no"', "not a patch"),
    "hidden patch that is none": (ISSUE, {"f2p_patch": "no"}, "f2p_patch", '"no"', "not a patch"),
    "test_patch that is none": (ISSUE, {"test_patch": "no"}, "test_patch", '"no"', "not a patch"),
    "patch that leads up": (
        ISSUE,
        {"patch": patched("../a.py")},
        "patch",
        '"diff',
        "'../a.py', outside the tree",
    ),
    "patch of .git": (ISSUE, {"patch": patched(".git/config")}, "patch", '"diff', "'.git/config', outside"),
    "commands in another shape": (
        ISSUE,
        {"pre_commands": {"run": "x"}},
        "pre_commands",
        '{"run": "x"}',
        "execute_command",
    ),
    "score_network": (ISSUE, {"score_network": "all"}, "score_network", '"all"', "none or open"),
    "index_date": (ISSUE, {"index_date": "soon"}, "index_date", '"soon"', "not a date"),
    "aliases": (ISSUE, {"aliases": "a"}, "aliases", '"a"', "a list of strings"),
    "verification": (ISSUE, {"verification": "yes"}, "verification", '"yes"', "not an object"),
    "no specification": (
        BOOK,
        {"REPO_DOCUMENT_CONTENT": ""},
        "REPO_DOCUMENT_CONTENT",
        '""',
        "empty specification",
    ),
    "no suite": (BOOK, {"test_suite": None}, "test_suite", "nothing", "no test suite"),
    "suite with a path": (BOOK, {"test_suite": "../b.zip"}, "test_suite", '"../b.zip"', "path parts"),
    "suite with a folder": (BOOK, {"test_suite": "s\\b.zip"}, "test_suite", '"s\\\\b.zip"', "path parts"),
    "no number of tests": (BOOK, {"test_suite_num": 0}, "test_suite_num", "0", "no number of expected tests"),
    "number of tests in words": (BOOK, {"test_suite_num": "ten"}, "test_suite_num", '"ten"', "not a number"),
    "negative number of tests": (BOOK, {"test_suite_num": -1}, "test_suite_num", "-1", "not a number"),
    "truth for a number": (BOOK, {"test_suite_num": True}, "test_suite_num", "true", "not a number"),
    "reference with a path": (
        BOOK,
        {"reference_archive": "/r.tar"},
        "reference_archive",
        '"/r.tar"',
        "path parts",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_row_is_told_with_place_field_found_and_expected(
    case: str, dataset: Run, tmp_path: Path
) -> None:
    good, bent, field, found, words = BAD[case]
    path = rows_in(tmp_path, ISSUE | {"instance_id": "fine"}, good | bent)
    code, document, _ = dataset("check", path, "--json")
    assert code == 1
    assert (document["rows"], document["good"]) == (2, 1)
    (bad,) = document["bad"]
    assert set(bad) == {"file", "line", "instance_id", "field", "found", "expected", "message"}
    assert (bad["file"], bad["line"], bad["field"]) == (str(path), 2, field)
    assert bad["found"].startswith(found)
    assert words in bad["message"]
    assert bad["expected"]


def test_ids_may_not_be_there_twice(dataset: Run, tmp_path: Path) -> None:
    other = ISSUE | {"instance_id": "other"}
    path = rows_in(tmp_path, ISSUE, other, ISSUE, ISSUE | {"instance_id": "Other"}, ISSUE | {"image": ""})
    code, document, _ = dataset("check", path, "--json")
    assert (code, document["rows"], document["good"]) == (1, 5, 2)
    assert [(bad["line"], bad["field"]) for bad in document["bad"]] == [
        (3, "instance_id"),
        (4, "instance_id"),
        (5, "image"),
        (5, "instance_id"),
    ]
    twice, case, *_ = (bad["message"] for bad in document["bad"])
    assert f"{path}:1 and again at {path}:3" in twice
    assert f"'Other' at {path}:4 and 'other' at {path}:2 differ only in case" in case


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"instance_id": "x", }', "invalid JSON at line 2, column 22"),
        (b'{"instance_id": "x"', "invalid JSON at line 2, column 20"),
        (b'{"instance_id": NaN}', "NaN is not JSON"),
        (b'{"instance_id": ' + b"[" * 200_000, "invalid JSON at line 2: nested too deeply"),
        (b'{"instance_id": "\xff"}', "not UTF-8; found byte 0xff at column 18"),
        (b'["owner_repo_pr1"]', "not an object"),
        (b'"owner_repo_pr1"', "not an object"),
        (b"null", "not an object"),
    ],
)
def test_a_line_that_is_no_row_does_not_end_the_reading(
    line: bytes, words: str, dataset: Run, tmp_path: Path
) -> None:
    path = rows_in(tmp_path)
    path.write_bytes(json.dumps(ISSUE).encode() + b"\n" + line + b"\n" + json.dumps(BOOK).encode())
    code, document, _ = dataset("check", path, "--json")
    assert (code, document["rows"], document["good"]) == (1, 3, 2)
    (bad,) = document["bad"]
    assert (bad["line"], bad["field"], bad["instance_id"]) == (2, "row", "")
    assert words in bad["message"]


def test_a_row_may_be_bad_in_several_ways(dataset: Run, tmp_path: Path) -> None:
    row = ISSUE | {"image": "", "patch": "no", "base_commit": "main", "FAIL_TO_PASS": []}
    _, document, _ = dataset("check", rows_in(tmp_path, row), "--json")
    assert {bad["field"] for bad in document["bad"]} == {"image", "patch", "base_commit", "FAIL_TO_PASS"}
    assert (document["rows"], document["good"]) == (1, 0)


def test_check_of_a_good_dataset_ends_well(dataset: Run, tmp_path: Path) -> None:
    code, document, _ = dataset("check", rows_in(tmp_path, ISSUE, BOOK), "--json")
    assert (code, document["rows"], document["good"], document["bad"]) == (0, 2, 2, [])
    assert document["name"] == "rows"
    assert document["hash"].startswith(document["version"])


def test_people_get_a_table_on_standard_error(dataset: Run, tmp_path: Path) -> None:
    path = rows_in(tmp_path, ISSUE, ISSUE | {"instance_id": "[bold]x\x1b[0m", "task": "[red]"})
    code, out, err = dataset("check", path)
    assert (code, out) == (1, "")
    assert "2 rows: 1 good, 1 bad" in err
    assert "[bold]x\\x1b[0m" in err.replace("\n", "")
    assert "unknown family" in err


def test_a_shells_characters_in_a_row_are_data(dataset: Run, tmp_path: Path) -> None:
    row = ISSUE | {"instance_id": "$(touch pwned); `id` | x & 'q' \"w\"", "repo": "a/b;touch${IFS}pwned"}
    path = rows_in(tmp_path, row)
    assert dataset("check", path, "--json")[0] == 0
    _, document, _ = dataset("show", path, "--json")
    assert document["instances"][0]["instance_id"] == row["instance_id"]
    assert not list(tmp_path.glob("**/pwned")) and not Path("pwned").exists()


def test_swebench_rows_are_checked_as_the_family_that_is_named(dataset: Run, tmp_path: Path) -> None:
    row = {name: value for name, value in ISSUE.items() if name not in ("task", "f2p_script")}
    row |= {"test_patch": PATCH, "environment_setup_commit": "1" * 40, "version": "1.0", "hints_text": "h"}
    path = rows_in(tmp_path, row)
    assert dataset("check", path, "--json")[0] == 1
    assert dataset("check", path, "--as-family", "domain fix", "--json")[0] == 0
    code, _, err = dataset("check", path, "--as-family", "swe")
    assert code == 2
    assert "unknown family 'swe'; allowed: CrossRepo, DomainFix, DepMigrate, Doc2Repo" in err


def test_show_keeps_the_solution_back_unless_it_is_asked_for(dataset: Run, tmp_path: Path) -> None:
    row = ISSUE | {
        "hints_text": "SECRET hint",
        "fix_patch": PATCH,
        "test_patch": PATCH.replace("+b", "+SECRET"),
    }
    path = rows_in(tmp_path, row)
    for arguments in (("show", path, "--json"), ("show", path)):
        code, document, err = dataset(*arguments)
        shown = json.dumps(document) + err
        assert code == 0
        assert "Addition is off by one." in shown
        assert "SECRET" not in shown
        assert "+++ b/a.py" not in shown
    (instance,) = dataset("show", path, "--json")[1]["instances"]
    assert (instance["reference"]["files"], instance["reference"]["lines"]) == (1, 3)
    assert set(instance["withheld"]) == {"patch", "f2p_script", "f2p_patch", "hints_text"}
    (instance,) = dataset("show", path, "--reference", "--json")[1]["instances"]
    assert (instance["patch"], instance["hints_text"]) == (PATCH, "SECRET hint")


def test_show_takes_globs(dataset: Run, tmp_path: Path) -> None:
    path = rows_in(tmp_path, ISSUE, BOOK)
    _, document, _ = dataset("show", path, "--instance", "*book", "--json")
    assert [one["instance_id"] for one in document["instances"]] == ["owner_book"]
    code, document, err = dataset("show", path, "--instance", "owner_bok", "--json")
    assert "no instance matches; near it: owner_book" in err
    error = {"kind": "UsageError", "message": err.removeprefix("error: ").strip(), "exit_code": 2}
    assert (code, document) == (2, {"error": error})


def test_with_json_every_error_is_a_document_too(dataset: Run, tmp_path: Path) -> None:
    for arguments, kind in (
        (("show", "--nonsense", "--json"), "UsageError"),
        (("shw", "--json"), "UsageError"),
        (("show", rows_in(tmp_path, ISSUE | {"image": ""}), "--json"), "DataError"),
    ):
        code, document, err = dataset(*arguments)
        assert code == document["error"]["exit_code"] == 2
        assert document["error"]["kind"] == kind
        assert document["error"]["message"].splitlines()[0] in err
    code, out, err = dataset("show", "--nonsense")
    assert (code, out) == (2, "") and "--nonsense" in err


def test_show_for_people_breaks_nothing_and_says_what_it_keeps_back(
    dataset: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = (
        "A first line that is longer than a narrow window is wide.\n\n    indented [bold]as it was[/bold]\n"
    )
    _, _, err = dataset("show", rows_in(tmp_path, ISSUE | {"problem_statement": text}))
    assert text in err
    assert "\nPASS_TO_PASS:\ntest_a.py::test_b\ntest_a.py::test_c\n" in err
    assert "withheld: patch, f2p_script (they tell the solution; --reference shows them)\n" in err


def test_a_suite_that_is_missing_is_a_bad_row_where_it_is_needed(dataset: Run, tmp_path: Path) -> None:
    path = rows_in(tmp_path, ISSUE, BOOK)
    (tmp_path / "book.zip").rename(tmp_path / "elsewhere.zip")
    code, document, _ = dataset("check", path, "--json")
    (bad,) = document["bad"]
    assert (code, document["good"], bad["field"], bad["found"]) == (1, 1, "test_suite", '"book.zip"')
    assert f"looked in {tmp_path}" in bad["message"] and "--test-suite-dir" in bad["message"]
    assert dataset("show", path, "--json")[0] == dataset("stats", path, "--json")[0] == 0
    suites = tmp_path / "suites"
    suites.mkdir()
    (suites / "book.zip").touch()
    assert dataset("check", path, "--test-suite-dir", suites, "--json")[0] == 0


def test_show_of_a_dataset_with_a_bad_row_says_which(dataset: Run, tmp_path: Path) -> None:
    path = rows_in(tmp_path, ISSUE, BOOK | {"image": ""})
    code, _, err = dataset("show", path)
    assert code == 2
    assert f"{path}:2: owner_book: image: missing image" in err
    assert dataset("show", path, "--instance", "owner_repo*", "--json")[0] == 0


def test_stats_are_means_by_family(dataset: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    larger = ISSUE | {
        "instance_id": "two",
        "repo": "Owner/Repo",
        "patch": PATCH + patched("b.py"),
        "PASS_TO_PASS": [],
    }
    plain = ISSUE | {"instance_id": "three", "task": "DepMigrate", "repo": "a/b", "patch": ""}
    path = rows_in(tmp_path, ISSUE, larger, plain, BOOK)
    _, document, _ = dataset("stats", path, "--json")
    assert list(document["families"]) == ["CrossRepo", "DepMigrate", "Doc2Repo"]
    assert document["families"]["CrossRepo"] == {
        "instances": 2,
        "repos": 1,
        "files": 1.5,
        "lines": 4.5,
        "fail_to_pass": 1.0,
        "pass_to_pass": 1.0,
        "expected_tests": 2.0,
        "words": 5.0,
    }
    assert document["families"]["DepMigrate"]["lines"] is None
    assert document["families"]["Doc2Repo"]["expected_tests"] == 30
    assert document["families"]["Doc2Repo"]["words"] == 2
    assert (document["all"]["instances"], document["all"]["repos"], document["all"]["lines"]) == (4, 3, 4.5)
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = dataset("stats", path)
    assert (code, out) == (0, "")
    assert "Doc2Repo" in err
    assert err.split()[:9] == [
        "family",
        "instances",
        "repos",
        "files",
        "lines",
        "F2P",
        "P2P",
        "tests",
        "words",
    ]


def test_list_has_the_shipped_datasets_and_those_seen_before(dataset: Run) -> None:
    code, document, _ = dataset("list", "--json")
    assert code == 0
    assert [one["name"] for one in document] == ["demo", "pypi"]
    assert document[0]["families"]
    assert document[0]["version"] == dataset("stats", "demo", "--json")[1]["version"]
    remember(Seen("owner/name", "1234", "5678", {"CrossRepo": 3}))
    _, document, _ = dataset("list", "--json")
    assert document[-1] == {
        "name": "owner/name",
        "version": "1234",
        "source": "Hugging Face",
        "families": {"CrossRepo": 3},
    }
    assert "owner/name" in dataset("list")[2]


@pytest.mark.engine
def test_prefetch_tells_of_every_image_once(dataset: Run, tmp_path: Path, base_image: str) -> None:
    rows = [
        ISSUE | {"image": base_image},
        ISSUE | {"instance_id": "second", "image": base_image},
        ISSUE | {"instance_id": "third", "image": "localhost:1/owner/none:1"},
        BOOK | {"image": ""},
    ]
    path = rows_in(tmp_path, *rows)
    code, document, err = dataset("prefetch", path, "--skip-bad", "--json")
    assert code == 1
    assert [(image["ref"], image["status"]) for image in document["images"]] == [
        (base_image, "present"),
        ("localhost:1/owner/none:1", "failed"),
    ]
    assert f"left out: {path}:4: owner_book: image: missing image" in err
    assert "[2/2] localhost:1/owner/none:1 failed: cannot pull" in err
    assert dataset("prefetch", path, "--instance", "second", "--max-disk", "1g", "--json")[0] == 0
    assert dataset("prefetch", path)[0] == 2


def test_shipped_datasets_have_nothing_to_prefetch(dataset: Run) -> None:
    code, _, err = dataset("prefetch", "demo")
    assert code == 2
    assert "the images of demo are built here" in err


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys, contextlib\n"
        "sys.argv = ['beyondswe', 'dataset', 'check', '--help']\n"
        "from beyondswe.cli import main\n"
        "with contextlib.suppress(SystemExit): main()\n"
        "heavy = {'datasets', 'pandas', 'pyarrow', 'huggingface_hub', 'pydantic', 'rich', 'docker', 'yaml'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ.copy()
    )
    assert done.stdout.splitlines()[-1] == "loaded: []"
    assert "Check every row" in done.stdout

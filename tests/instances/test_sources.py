"""Where rows may come from, each with its place; what a broken file says."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from beyondswe.errors import DataError, UsageError
from beyondswe.instances import load_dataset

Row = dict[str, Any]
Make = Callable[..., Row]
Written = Callable[[list[Row]], str]

REVISION = "1234567890abcdef1234567890abcdef12345678"
CARD = (
    "---\nconfigs:\n- config_name: default\n  data_files: [{split: test, path: beyondswe.jsonl}]\n---\n# B\n"
)


def lines(rows: list[Row]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def ids(spec: Path | str, **options: Any) -> list[str]:
    return [one.instance_id for one in load_dataset(str(spec), **options).instances]


def places(spec: Path | str, **options: Any) -> list[str]:
    found = load_dataset(str(spec), skip_bad=True, **options).bad
    return [f"{Path(row.file).name}:{row.line}:{row.field}" for row in found]


def write_parquet(path: Path, rows: list[Row]) -> None:
    import pyarrow
    import pyarrow.parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def test_jsonl_may_have_a_mark_blank_lines_and_crlf(tmp_path: Path, issue: Make) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [json.dumps(issue(1)), "", "   ", json.dumps(issue(2, image="")), json.dumps(issue(3))]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(rows).encode())
    assert ids(path, skip_bad=True) == ["owner_repo_pr1", "owner_repo_pr3"]
    assert places(path) == ["rows.jsonl:4:image"]


def test_json_is_an_array_of_rows_or_one_row(tmp_path: Path, issue: Make) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([issue(1), issue(2)]))
    assert ids(path) == ["owner_repo_pr1", "owner_repo_pr2"]
    path.write_text(json.dumps(issue(7), indent=2))
    assert ids(path) == ["owner_repo_pr7"]
    path.write_text(lines([issue(1), issue(2)]))
    assert ids(path) == ["owner_repo_pr1", "owner_repo_pr2"]


def test_a_row_in_an_array_keeps_its_line(tmp_path: Path, issue: Make) -> None:
    path = tmp_path / "rows.json"
    good, bad = json.dumps(issue(1), indent=1), json.dumps(issue(2, image=None), indent=1)
    path.write_text(f"[\n{good},\n{bad}\n, 5]\n")
    assert places(path) == [
        f"rows.json:{3 + good.count(chr(10))}:image",
        f"rows.json:{4 + 2 * good.count(chr(10))}:row",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[{good}, {good2}, {{bad]",
        "[{good}, {good2}",
        "[{good} {good2}]",
        "[{good}, {good2}] more",
        "[{good},]",
    ],
)
def test_an_array_that_breaks_off_says_so(text: str, tmp_path: Path, issue: Make) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text.format(good=json.dumps(issue(1)), good2=json.dumps(issue(2))))
    found = load_dataset(str(path), skip_bad=True)
    assert [row.field for row in found.bad] == ["row"]
    assert "the rest of the file was not read" in found.bad[0].message
    assert found.instances


def test_a_folder_is_all_its_files_unless_one_is_named_instances(tmp_path: Path, issue: Make) -> None:
    (tmp_path / "a.jsonl").write_text(lines([issue(1)]))
    (tmp_path / "b.json").write_text(json.dumps([issue(2)]))
    (tmp_path / "notes.txt").write_text("not data")
    write_parquet(tmp_path / "c.parquet", [issue(3)])
    assert ids(tmp_path) == ["owner_repo_pr1", "owner_repo_pr2", "owner_repo_pr3"]
    (tmp_path / "b.json").write_text(json.dumps([issue(1)]))
    with pytest.raises(DataError, match=r"a\.jsonl:1 and again at .*b\.json:1"):
        load_dataset(str(tmp_path))
    (tmp_path / "instances.jsonl").write_text(lines([issue(9)]))
    assert ids(tmp_path) == ["owner_repo_pr9"]


def test_name_and_version_stand_beside_the_rows(tmp_path: Path, issue: Make) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "instances.jsonl").write_text(lines([issue()]))
    found = load_dataset(str(folder))
    assert (found.name, found.version) == ("mine", found.hash[:12])
    assert load_dataset(str(folder / "instances.jsonl")).hash == found.hash
    (folder / "dataset.yaml").write_text("name: own\nversion: 2.0\n")
    assert (load_dataset(str(folder)).name, load_dataset(str(folder)).version) == ("own", "2.0")
    (folder / "dataset.yaml").write_text("- a\n")
    with pytest.raises(DataError, match=r"dataset\.yaml: expected a mapping"):
        load_dataset(str(folder))


def test_parquet_has_holes_dates_and_structs(tmp_path: Path, issue: Make, doc2repo: Make) -> None:
    path = tmp_path / "rows.parquet"
    commands = {"execute_command": {"commands": ["true"]}}
    rows = [
        issue(1, pre_commands=commands, created_at=datetime(2025, 1, 2)),
        issue(2, image="", created_at=None),
        doc2repo(1, test_suite_num=float(12), rating=float("nan")),
    ]
    everything: Row = dict.fromkeys(name for row in rows for name in row)
    write_parquet(path, [everything | row for row in rows])
    found = load_dataset(str(path), skip_bad=True)
    assert [row.line for row in found.bad] == [2]
    issue_instance, book = found.instances
    assert issue_instance.pre_commands == ("true",)
    assert issue_instance.extra["created_at"] == "2025-01-02T00:00:00"
    assert book.test_suite_num == 12
    assert book.extra["rating"] is None


def test_a_broken_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1 but no more")
    with pytest.raises(DataError, match=r"rows\.parquet: not a readable parquet file"):
        load_dataset(str(path))


def test_a_pointer_in_place_of_data_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    with pytest.raises(DataError, match="git lfs pull"):
        load_dataset(str(path))


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("nowhere/rows.jsonl", "there is no such file or folder"),
        ("nowhere", "there is no such file or folder"),
        ("./a/b", "there is no such file or folder"),
        ("empty", "there is no .jsonl, .json, .parquet file in this folder"),
        ("rows.csv", "a dataset is a .jsonl, .json, .parquet file, a folder or a Hugging Face id"),
    ],
)
def test_what_is_no_dataset_says_what_would_be(
    spec: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("rows.csv").write_text("instance_id\n")
    with pytest.raises(UsageError, match=why):
        load_dataset(spec)


def test_an_empty_file_is_no_dataset(tmp_path: Path) -> None:
    for name, text in (("rows.jsonl", "\n\n"), ("rows.json", "[]")):
        (tmp_path / name).write_text(text)
        with pytest.raises(DataError, match="there are no rows in it"):
            load_dataset(str(tmp_path / name))


def test_a_file_has_no_splits(written: Written, issue: Make) -> None:
    with pytest.raises(UsageError, match="--split test: only dataset repositories"):
        load_dataset(written([issue()]), split="test")


def test_a_missing_extra_is_named(tmp_path: Path, issue: Make) -> None:
    """In a Python that finds none of the extra's packages; JSONL must go on working there."""
    write_parquet(tmp_path / "rows.parquet", [issue()])
    (tmp_path / "rows.jsonl").write_text(lines([issue()]))
    program = (
        "import importlib.util as u, sys\n"
        "find = u.find_spec\n"
        "hidden = {'pyarrow', 'datasets', 'huggingface_hub', 'pandas'}\n"
        "u.find_spec = lambda name, *rest: None if name in hidden else find(name, *rest)\n"
        "from beyondswe.errors import UsageError\n"
        "from beyondswe.instances import load_dataset\n"
        "assert len(load_dataset('rows.jsonl').instances) == 1\n"
        "for spec in ('rows.parquet', 'owner/name'):\n"
        "    try: load_dataset(spec)\n"
        "    except UsageError as error: print(error)\n"
        "assert not hidden & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        f"{what} needs the extra hf ({module} is missing); install the extra: pip install '.[hf]' in the "
        "checkout, or pip install 'beyondswe[hf]' from an index"
        for what, module in (
            ("reading rows.parquet", "pyarrow"),
            ("the dataset owner/name", "huggingface_hub"),
        )
    ]


class Offline:
    """`dataset check` in a process without network, whose Hugging Face home and cache are the test's own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = os.environ | {
            "HF_HOME": str(home / "hf"),
            "HF_HUB_OFFLINE": "1",
            "BEYONDSWE_CACHE": str(home / "cache"),
        }
        for name in ("HF_HUB_CACHE", "HF_DATASETS_CACHE", "HUGGINGFACE_HUB_CACHE"):
            self.env.pop(name, None)

    def python(self, program: str, *arguments: str) -> None:
        subprocess.run([sys.executable, "-c", program, *arguments], env=self.env, cwd=self.home, check=True)

    def check(self, *arguments: str, code: int = 0) -> Any:
        command = [sys.executable, "-m", "beyondswe.cli", "dataset", "check", *arguments, "--json"]
        done = subprocess.run(command, env=self.env, cwd=self.home, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout) if code in (0, 1) else done.stderr

    def put_in_hub_cache(self, files: dict[str, bytes]) -> None:
        """Lay files out as the Hub's client does when it has fetched a repository."""
        repository = self.home / "hf" / "hub" / "datasets--AweAI-Team--BeyondSWE"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text(REVISION)
        for name, data in files.items():
            blob = repository / "blobs" / hashlib.sha256(data).hexdigest()
            blob.parent.mkdir(exist_ok=True)
            blob.write_bytes(data)
            link = repository / "snapshots" / REVISION / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(blob, link.parent))


@pytest.fixture
def offline(tmp_path: Path) -> Offline:
    return Offline(tmp_path)


def test_a_mirror_of_a_dataset_repository_is_read_by_splits(
    offline: Offline, tmp_path: Path, issue: Make, doc2repo: Make
) -> None:
    mirror = tmp_path / "AweAI-Team" / "BeyondSWE"
    write_parquet(mirror / "data" / "test-00000-of-00002.parquet", [issue(1), issue(2)])
    write_parquet(mirror / "data" / "test-00001-of-00002.parquet", [doc2repo(1), doc2repo(2, image="")])
    write_parquet(mirror / "data" / "train-00000-of-00001.parquet", [issue(3)])
    (mirror / "README.md").write_text("# A dataset\n")
    (mirror / "doc2repo_test_suite").mkdir()
    (mirror / "doc2repo_test_suite" / doc2repo(1)["test_suite"]).touch()
    found = offline.check("AweAI-Team/BeyondSWE", code=1)  # a folder that is there comes before the Hub
    assert (found["name"], found["rows"], found["good"]) == ("BeyondSWE", 4, 3)
    assert [(Path(row["file"]).name, row["line"]) for row in found["bad"]] == [
        ("test-00001-of-00002.parquet", 2)
    ]
    assert offline.check("AweAI-Team/BeyondSWE", "--split", "train")["rows"] == 1
    assert "no split 'dev'; name one with --split, there are: test, train" in offline.check(
        "AweAI-Team/BeyondSWE", "--split", "dev", code=2
    )


def test_a_dataset_id_is_read_from_the_hubs_cache(offline: Offline, issue: Make, doc2repo: Make) -> None:
    rows = lines([issue(1), issue(2, pre_commands={"execute_command": {"commands": ["true"]}})])
    rows += '{"instance_id": \n' + lines([doc2repo(1)])
    offline.put_in_hub_cache(
        {"README.md": CARD.encode(), "beyondswe.jsonl": rows.encode(), "doc2repo_test_suite/book1.zip": b"PK"}
    )
    found = offline.check("AweAI-Team/BeyondSWE", code=1)
    assert (found["name"], found["version"], found["rows"], found["good"]) == (
        "AweAI-Team/BeyondSWE",
        REVISION,
        4,
        3,
    )
    assert [(Path(row["file"]).name, row["line"], row["field"]) for row in found["bad"]] == [
        ("beyondswe.jsonl", 3, "row")
    ]
    assert offline.check("AweAI-Team/BeyondSWE@main", code=1)["version"] == REVISION
    assert "AweAI-Team/BeyondSWE@v9: not on the Hub" in offline.check("AweAI-Team/BeyondSWE@v9", code=2)


def test_a_dataset_id_is_read_from_what_datasets_prepared(
    offline: Offline, tmp_path: Path, issue: Make
) -> None:
    mirror = tmp_path / "beyond_swe"
    mirror.mkdir()
    (mirror / "test.jsonl").write_text(lines([issue(1), issue(2, image="")]))
    offline.python("import datasets, sys; datasets.load_dataset(sys.argv[1])", str(mirror))
    prepared = tmp_path / "hf" / "datasets"
    (prepared / "beyond_swe").rename(prepared / "AweAI-Team___beyond_swe")
    (variant,) = (prepared / "AweAI-Team___beyond_swe").iterdir()
    variant.rename(variant.with_name("default"))
    found = offline.check("AweAI-Team/BeyondSWE", code=1)
    assert (found["rows"], found["good"]) == (2, 1)
    assert [(row["file"], row["line"]) for row in found["bad"]] == [("AweAI-Team/BeyondSWE", 2)]


def test_files_that_only_datasets_reads_are_left_to_it(offline: Offline, tmp_path: Path, issue: Make) -> None:
    mirror = tmp_path / "mirror"
    (mirror / "data").mkdir(parents=True)
    row = issue(1)
    row["FAIL_TO_PASS"] = row["PASS_TO_PASS"] = json.dumps(row["FAIL_TO_PASS"])
    import csv

    with (mirror / "data" / "test.csv").open("w", newline="") as stream:
        table = csv.DictWriter(stream, row)
        table.writeheader()
        table.writerow(row)
        table.writerow(row | {"instance_id": "owner_repo_pr2", "image": ""})
    found = offline.check(str(mirror), code=1)
    assert (found["rows"], found["good"]) == (2, 1)
    assert [(row["line"], row["field"]) for row in found["bad"]] == [(2, "image")]

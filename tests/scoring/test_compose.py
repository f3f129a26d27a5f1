"""What of a patch reaches the tree that the tests see: pure, on git objects, without an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from beyondswe.errors import ScoringError
from beyondswe.instances.model import Family, Instance
from beyondswe.sandbox.trees import EMPTY_TREE, FILE, SYMLINK, File, Trees
from beyondswe.sandbox.types import Snapshot
from beyondswe.scoring.compose import Composition, compose
from beyondswe.scoring.protected import is_protected
from beyondswe.scoring.types import Selection

BASE = {
    "src/app/core.py": "one\n",
    "app/test/__init__.py": "",
    "app/test/client.py": "client\n",
    "app/__init__.py": "",
    "tests/test_core.py": "old test\n",
    "tests/helpers.py": "help\n",
    "conftest.py": "root conftest\n",
    "setup.cfg": "[metadata]\nname = app\n\n[tool:pytest]\naddopts = -q --strict-markers\n",
    "pyproject.toml": '[project]\nname = "app"\n',
}
IDS = ("tests/test_core.py::test_a", "tests/test_core.py::test_b[x::y]")


class Bench:
    """One snapshot and what can be done to it."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees
        self.base = trees.edit(EMPTY_TREE, files(BASE))
        self.snapshot = Snapshot(git_dir=trees.git_dir, tree=self.base, base_tree=self.base)

    def diff(self, changes: Mapping[str, str | None], of: str | None = None) -> str:
        base = of or self.base
        return self.trees.diff(base, self.trees.edit(base, files(changes)), renames=False)

    def instance(self, **fields: object) -> Instance:
        values = {
            "instance_id": "app_1",
            "family": Family.CROSSREPO,
            "image": "x",
            "patch": self.diff({"src/app/core.py": "two\n"}),
            "fail_to_pass": IDS,
            **fields,
        }
        return Instance.model_validate(values)

    def compose(self, changes: Mapping[str, str | File | None], **fields: object) -> Composition:
        tree = self.trees.edit(self.base, files(changes))
        return compose(self.trees, self.snapshot, self.instance(**fields), tree)

    def result(
        self, changes: Mapping[str, str | File | None], **fields: object
    ) -> tuple[dict[str, str], set[str]]:
        """The tree that the tests would see, and the flags."""
        composition = self.compose(changes, **fields)
        tree = self.trees.edit(self.base, dict.fromkeys(composition.delete))
        tree = self.trees.edit(
            tree, {write.path: File(write.mode, write.data) for write in composition.write}
        )
        seen = {
            path.decode(): self.trees.read(entry.oid).decode()
            for path, entry in self.trees.entries(tree).items()
            if not path.startswith(b".beyondswe-")
        }
        return seen, set(composition.flags)


def files(texts: Mapping[str, str | File | None]) -> dict[bytes, File | None]:
    return {
        name.encode(): File(FILE, text.encode()) if isinstance(text, str) else text
        for name, text in texts.items()
    }


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Trees.create(tmp_path / "git") as trees:
        yield Bench(trees)


def test_source_is_the_patchs(bench):
    seen, flags = bench.result(
        {"src/app/core.py": "three\n", "src/app/new.py": "new\n", "app/__init__.py": None}
    )
    assert seen == {
        **{k: v for k, v in BASE.items() if k != "app/__init__.py"},
        "src/app/core.py": "three\n",
        "src/app/new.py": "new\n",
    }
    assert flags == set()


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"tests/test_core.py": "weak\n"}, "protected_file_edited:tests/test_core.py"),
        ({"tests/test_core.py": None}, "protected_file_edited:tests/test_core.py"),
        ({"tests/helpers.py": "weak\n"}, "protected_file_edited:tests/helpers.py"),
        ({"conftest.py": "evil\n"}, "protected_file_edited:conftest.py"),
        ({"conftest.py": None}, "protected_file_edited:conftest.py"),
        ({"src/conftest.py": "evil\n"}, "autoloaded_file_dropped:src/conftest.py"),
        ({"pytest.ini": "[pytest]\n"}, "autoloaded_file_dropped:pytest.ini"),
        ({"src/sitecustomize.py": "evil\n"}, "autoloaded_file_dropped:src/sitecustomize.py"),
        ({"zz.pth": "import os\n"}, "autoloaded_file_dropped:zz.pth"),
        (
            {"app.egg-info/entry_points.txt": "[pytest11]\n"},
            "autoloaded_file_dropped:app.egg-info/entry_points.txt",
        ),
        ({"src/app/__pycache__/core.pyc": "x"}, "autoloaded_file_dropped:src/app/__pycache__/core.pyc"),
        ({"src/test_new.py": "mine\n"}, "test_file_dropped:src/test_new.py"),
        ({"tests/data/new.json": "{}\n"}, "test_file_dropped:tests/data/new.json"),
        ({"app/test/client.py": "weak\n"}, "protected_file_edited:app/test/client.py"),
    ],
)
def test_what_is_protected_stays_as_it_was_with_a_flag(bench, change, flag):
    seen, flags = bench.result(change)
    assert seen == BASE
    assert flags == {flag}


def test_a_link_in_the_place_of_the_tests_is_dropped(bench):
    change = {
        "tests": File(SYMLINK, b"spare"),
        "spare/test_core.py": "weak\n",
        "tests/helpers.py": None,
        "tests/test_core.py": None,
    }
    tree = bench.trees.edit(
        bench.trees.edit(bench.base, files({"tests": None})),
        files({"spare/x.py": "x\n", "tests": change["tests"]}),
    )
    composition = compose(bench.trees, bench.snapshot, bench.instance(), tree)
    assert composition.delete == ()
    assert [write.path for write in composition.write if not write.path.startswith(b".beyondswe")] == [
        b"spare/x.py"
    ]
    assert "protected_path_squatted:tests" in composition.flags


def test_a_folder_in_the_place_of_the_hidden_script_is_dropped(bench):
    seen, flags = bench.result({"test_fail_to_pass.py/__init__.py": "mine\n"}, f2p_script="hidden\n")
    assert seen == {**BASE, "test_fail_to_pass.py": "hidden\n"}
    assert flags == {"protected_path_squatted:test_fail_to_pass.py/__init__.py"}


def test_what_the_reference_changes_among_protected_files_reaches_everybody(bench):
    reference = bench.diff(
        {"src/app/core.py": "two\n", "tests/helpers.py": "help more\n", "conftest.py": "root and more\n"}
    )
    seen, flags = bench.result({"src/app/core.py": "mine\n", "conftest.py": "evil\n"}, patch=reference)
    assert seen == {
        **BASE,
        "src/app/core.py": "mine\n",
        "tests/helpers.py": "help more\n",
        "conftest.py": "root and more\n",
    }
    assert flags == {"protected_file_edited:conftest.py"}


def test_the_reference_itself_carries_no_flag(bench):
    changes = {
        "src/app/core.py": "two\n",
        "tests/helpers.py": "help more\n",
        "conftest.py": None,
        "tests/new.py": "x\n",
    }
    seen, flags = bench.result(changes, patch=bench.diff(changes))
    assert flags == set()
    assert "conftest.py" not in seen
    assert seen["tests/new.py"] == "x\n"


def test_a_module_of_a_package_called_test_is_source_where_the_reference_changes_it(bench):
    reference = bench.diff({"app/test/client.py": "better\n"})
    seen, flags = bench.result({"app/test/client.py": "mine\n"}, patch=reference)
    assert seen["app/test/client.py"] == "mine\n"
    assert flags == set()


def test_a_module_with_expected_doctests_is_source(bench):
    ids = (*IDS, "src/app/core.py::app.core.one", "app/__init__.py::app", "docs/x.rst::x.rst")
    seen, flags = bench.result({"src/app/core.py": "mine\n", "app/__init__.py": "mine\n"}, fail_to_pass=ids)
    assert seen == {**BASE, "src/app/core.py": "mine\n", "app/__init__.py": "mine\n"}
    assert flags == set()
    assert bench.compose({}, fail_to_pass=ids).tests["targets"] == [
        "tests/test_core.py",
        "src/app/core.py",
        "app/__init__.py",
    ]


def test_a_changed_doctest_is_flagged_where_the_reference_changes_none(bench):
    documented = {"app/sums.py": '"""\n>>> 1 + 1\n2\n"""\n'}
    bench.base = bench.trees.edit(bench.base, files(documented))
    bench.snapshot = Snapshot(git_dir=bench.trees.git_dir, tree=bench.base, base_tree=bench.base)
    ids = (*IDS, "app/sums.py::app.sums")
    for text, flags in (
        ('"""\n>>> 1 + 1\n2\n\n>>> 2 + 2\n4\n"""\nx = 1\n', set()),
        ('"""\n>>> 1 + 1  # doctest: +SKIP\n3\n"""\n', {"doctests_changed:app/sums.py"}),
    ):
        assert bench.result({"app/sums.py": text}, fail_to_pass=ids)[1] == flags


def test_a_module_with_an_expected_test_is_a_test(bench):
    ids = (*IDS, "src/app/core.py::app.core.one", "src/app/core.py::test_it")
    _, flags = bench.result({"src/app/core.py": "mine\n"}, fail_to_pass=ids)
    assert flags == {"protected_file_edited:src/app/core.py"}


def test_hidden_tests_come_on_top_of_the_references_tests(bench):
    reference = bench.diff({"tests/helpers.py": "help more\n"})
    on_reference = bench.trees.edit(bench.base, files({"tests/helpers.py": "help more\n"}))
    hidden = bench.diff({"tests/helpers.py": "help most\n", "tests/test_new.py": "hidden\n"}, of=on_reference)
    seen, flags = bench.result({"tests/test_new.py": "mine\n"}, patch=reference, f2p_patch=hidden)
    assert seen == {**BASE, "tests/helpers.py": "help most\n", "tests/test_new.py": "hidden\n"}
    assert flags == {"test_file_dropped:tests/test_new.py"}


def test_hidden_tests_may_create_what_is_there_already(bench):
    hidden = bench.diff(
        {"tests/test_core.py": "hidden\n"},
        of=bench.trees.edit(bench.base, files({"tests/test_core.py": None})),
    )
    seen, _ = bench.result({"src/app/core.py": "two\n"}, f2p_patch=hidden)
    assert seen["tests/test_core.py"] == "hidden\n"


def test_hidden_tests_that_do_not_apply_are_the_datasets_fault(bench):
    hidden = bench.diff({"tests/test_core.py": "old test\nnew\n"}).replace("old test", "other test")
    with pytest.raises(ScoringError, match="app_1 is at fault, not the patch: its f2p_patch"):
        bench.compose({}, f2p_patch=hidden)


def test_pytest_gets_the_trusted_configuration_and_the_patched_file_stays(bench):
    patched = "[metadata]\nname = mine\n\n[tool:pytest]\naddopts = --collect-only\n"
    composition = bench.compose({"setup.cfg": patched, "pyproject.toml": "[tool.pytest.ini_options]\n"})
    written = {write.path.decode(): write.data for write in composition.write}
    assert written["setup.cfg"] == patched.encode()
    first = composition.tests["configs"][0]
    assert first["addopts"] == ["--strict-markers"]
    assert written[first["name"]] == b"[pytest]\naddopts = -q --strict-markers\n"
    assert composition.flags == (
        "pytest_config_not_used:pyproject.toml",
        "pytest_config_not_used:setup.cfg",
    )
    other = bench.compose({"setup.cfg": BASE["setup.cfg"] + "[flake8]\nmax-line-length = 100\n"})
    assert other.flags == ()


def test_what_the_reference_changes_in_the_configuration_counts(bench):
    changed = BASE["setup.cfg"].replace("--strict-markers", "--doctest-modules")
    composition = bench.compose({}, patch=bench.diff({"setup.cfg": changed}))
    assert composition.tests["configs"][0]["addopts"] == ["--doctest-modules"]
    assert [write.path for write in composition.write if write.path == b"setup.cfg"] == []


def test_ids_are_run_in_their_files(bench):
    tests = bench.compose({}).tests
    assert tests["targets"] == ["tests/test_core.py"]
    assert tests["ids"] == sorted(IDS)


def test_what_is_selected_and_not_there_does_not_stop_the_rest(bench):
    def targets(*files: str, ids: tuple[str, ...] = ()) -> list[str]:
        selection = Selection(ids=ids, files=files)
        instance = bench.instance(f2p_script="hidden\n")
        composition = compose(bench.trees, bench.snapshot, instance, bench.base, selection)
        return list(composition.tests["targets"])

    assert targets("tests", "gone", "src/app/core.py") == ["tests", "src/app/core.py"]
    assert targets(".", "./tests/") == [".", "./tests/"]
    assert targets("test_fail_to_pass.py") == ["test_fail_to_pass.py"]
    assert targets(ids=(IDS[0], "gone.py::test_x")) == ["tests/test_core.py"]
    with pytest.raises(ScoringError, match=r"gone\.py is in the tree"):
        targets(ids=("gone.py::test_x",))


def test_a_rename_table_says_what_pytest_calls_a_test(bench):
    composition = bench.compose({}, verification={"renames": {IDS[0]: "tests/test_core.py::test_new"}})
    assert composition.expected == {IDS[0]: "tests/test_core.py::test_new", IDS[1]: IDS[1]}
    assert "tests/test_core.py::test_new" in composition.tests["ids"]


def test_thousands_of_dropped_files_do_not_make_thousands_of_flags(bench):
    composition = bench.compose({f"tests/test_{n}.py": "x\n" for n in range(100)})
    assert len(composition.flags) == 21
    assert composition.flags[-1] == "more_flags:80"


@pytest.mark.parametrize(
    ("path", "protected"),
    [
        ("pkg/core.py", False),
        ("pkg/testing.py", False),
        ("pkg/testing/tools.py", False),
        ("contest.py", False),
        ("latest/core.py", False),
        ("tests.py", False),
        ("pytest_foo/plugin.py", False),
        ("pkg/build/ops.py", False),
        ("setup.cfg", False),
        ("pyproject.toml", False),
        ("tox.ini", False),
        ("pkg/sitecustomize.py", False),
        ("a/b/x.pth", False),
        ("test_x.py", True),
        ("pkg/x_test.py", True),
        ("pkg/tests/x.txt", True),
        ("test/x/y.py", True),
        ("pkg/conftest.py", True),
        ("sub/pytest.ini", True),
        (".pytest.ini", True),
        ("sitecustomize.py", True),
        ("src/usercustomize/__init__.py", True),
        ("src/x.pth", True),
        ("x.dist-info/RECORD", True),
    ],
)
def test_protected_names(path, protected):
    assert is_protected(path.encode()) is protected

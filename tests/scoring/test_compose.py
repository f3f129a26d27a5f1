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


def test_modules_that_would_stand_before_pytests_or_the_interpreters_are_dropped(bench):
    names = ["pytest.py", "src/difflib.py", "_pytest/__init__.py", "pluggy.abi3.so"]
    names += ["anywhere/sitecustomize.py", "anywhere/usercustomize/__init__.py"]
    shadows = dict.fromkeys(names, "x\n")
    seen, flags = bench.result(shadows)
    assert seen == BASE
    assert flags == {f"import_shadow_dropped:{name}" for name in shadows}


def test_a_link_is_as_good_a_shadow_as_a_file(bench):
    seen, flags = bench.result(
        {"pluggy": File(SYMLINK, b"src/app"), "doctest.py": File(SYMLINK, b"src/app/core.py")}
    )
    assert seen == BASE
    assert flags == {"import_shadow_dropped:pluggy", "import_shadow_dropped:doctest.py"}


def test_honest_modules_of_such_names_stay(bench):
    changes = {
        "src/app/types.py": "a\n",  # in a package
        "scripts/calendar.py": "b\n",  # at no import root
        "packaging/app.spec": "c\n",  # no module
        "src/new/__init__.py": "d\n",  # nobody's name
    }
    seen, flags = bench.result(changes)
    assert seen == {**BASE, **changes}
    assert flags == set()


def test_a_target_may_be_called_like_pytests_parts(bench):
    changes = {"pluggy/__init__.py": "mine\n", "pluggy/hooks.py": "mine\n"}
    assert bench.result(changes, repo="pytest-dev/pluggy") == ({**BASE, **changes}, set())
    reference = bench.diff({"types.py": "reference\n"})
    assert bench.result({"types.py": "mine\n"}, patch=reference)[0]["types.py"] == "mine\n"


def test_the_runner_is_told_which_modules_are_new(bench):
    reference = bench.diff({"src/app/core.py": "two\n", "src/app/theirs.py": "x\n"})
    changes = {
        "src/app/core.py": "3\n",
        "src/app/theirs.py": "y\n",
        "src/helpers.py": "z\n",
        "data.txt": "\n",
    }
    composition = bench.compose({**changes, "src/link": File(SYMLINK, b"app")}, patch=reference)
    assert composition.tests["added"] == ["src/helpers", "src/link"]


@pytest.mark.parametrize("module", ["tests/helpers", "conftest"])
@pytest.mark.parametrize("form", ["{}/__init__.py", "{}.abi3.so", "{}.cpython-311-x86_64-linux-gnu.so"])
def test_trusted_modules_cannot_be_shadowed_in_another_form(bench, module, form):
    seen, flags = bench.result({form.format(module): "x\n"})
    assert seen == BASE and len(flags) == 1


def test_the_hidden_script_cannot_be_shadowed(bench):
    seen, flags = bench.result({"test_fail_to_pass/__init__.py": "x\n"}, f2p_script="hidden\n")
    assert seen == {**BASE, "test_fail_to_pass.py": "hidden\n"}
    assert flags == {"protected_path_squatted:test_fail_to_pass/__init__.py"}


@pytest.mark.parametrize("name", ["evil.dist-info", "EVIL-1.DIST-INFO", "src/evil.EGG-INFO"])
def test_metadata_with_entry_points_is_dropped_in_every_form(bench, name):
    changes = {f"{name}/entry_points.txt": "[pytest11]\nevil = evil\n"}
    assert bench.result(changes)[0] == BASE
    assert bench.result({name: File(SYMLINK, b"src")})[0] == BASE


def test_environments_in_the_tree_are_not_the_patchs(bench):
    bench.base = bench.trees.edit(
        bench.base, files({"env/pyvenv.cfg": "home = /usr\n", "env/lib/python3/site.py": "theirs\n"})
    )
    bench.snapshot = Snapshot(git_dir=bench.trees.git_dir, tree=bench.base, base_tree=bench.base)
    seen, flags = bench.result({"env/lib/python3/site.py": "mine\n", "env/bin/python": "mine\n"})
    assert seen["env/lib/python3/site.py"] == "theirs\n" and "env/bin/python" not in seen
    assert flags == {"protected_file_edited:env/lib/python3/site.py", "test_file_dropped:env/bin/python"}
    assert bench.result({"x/site-packages/a.py": "x\n"})[1] == {
        "autoloaded_file_dropped:x/site-packages/a.py"
    }


def test_a_target_in_a_folder_named_test_is_source_where_the_reference_changes_nothing_else(bench):
    bench.base = bench.trees.edit(bench.base, files({"test/__init__.py": "", "test/ops.py": "old\n"}))
    bench.snapshot = Snapshot(git_dir=bench.trees.git_dir, tree=bench.base, base_tree=bench.base)
    reference = bench.diff({"test/ops.py": "better\n"})
    seen, flags = bench.result({"test/ops.py": "mine\n"}, patch=reference)
    assert seen["test/ops.py"] == "mine\n" and flags == set()


@pytest.mark.parametrize(
    ("text", "open_"), [("class Runner:\n    pass\n", True), ("def test_it():\n    pass\n", False)]
)
def test_a_module_named_like_a_test_is_source_where_the_reference_changes_it_and_it_holds_no_test(
    bench, text, open_
):
    reference = bench.diff({"src/app/test_runner.py": text, "src/app/core.py": "two\n"})
    seen, _ = bench.result({"src/app/test_runner.py": "mine\n"}, patch=reference)
    assert seen["src/app/test_runner.py"] == ("mine\n" if open_ else text)


def test_suspicious_source_is_flagged_unless_the_source_has_such_already(bench):
    reads = "import gc\nthings = gc.get_objects()\n"
    assert bench.result({"src/app/core.py": reads})[1] == {"suspicious_source:src/app/core.py:gc"}
    assert (
        bench.result({"src/app/core.py": reads}, patch=bench.diff({"src/app/core.py": reads + "x = 1\n"}))[1]
        == set()
    )
    bench.base = bench.trees.edit(bench.base, files({"src/app/other.py": reads}))
    bench.snapshot = Snapshot(git_dir=bench.trees.git_dir, tree=bench.base, base_tree=bench.base)
    assert bench.result({"src/app/core.py": reads})[1] == set()


def test_answers_of_the_hidden_tests_in_the_source_are_flagged(bench):
    hidden = bench.diff({"tests/test_core.py": "def test_a():\n    assert f(11, 12) == 132\n"})
    table = "def f(a, b):\n    return {(11, 12): 132}[a, b]\n"
    ids = {"fail_to_pass": ("tests/test_core.py::test_a",), "f2p_patch": hidden}
    assert bench.result({"src/app/core.py": table}, **ids)[1] == {
        "suspicious_source:src/app/core.py:expected_values"
    }
    assert bench.result({"src/app/core.py": "def f(a, b):\n    return a * b\n"}, **ids)[1] == set()

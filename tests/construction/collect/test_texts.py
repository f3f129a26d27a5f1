"""Names, links, watched packages and leaks: pure readings of texts."""

from __future__ import annotations

import pytest

from beyondswe.construction.collect import lists
from beyondswe.construction.collect.leaks import find_leaks
from beyondswe.construction.collect.links import issue_numbers, outside, urls
from beyondswe.construction.collect.names import Names, find_names
from beyondswe.construction.collect.split import is_test, part


def names(**files: str) -> Names:
    tree = {name.replace("__DOT__", ".").replace("__IN__", "/"): text for name, text in files.items()}
    return find_names("harbour/tides", tree, tree.get)


SETUP = 'from setuptools import setup\nNAME = "tide-tables"\nsetup(name=NAME, url="https://github.com/old/tides")\n'


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("pyproject.toml", '[project]\nname = "tide-tables"\n', "tide-tables"),
        ("pyproject.toml", '[tool.poetry]\nname = "tide-tables"\n', "tide-tables"),
        ("pyproject.toml", '[tool.flit.metadata]\nmodule = "tides"\n', "tides"),
        ("setup.cfg", "[metadata]\nname = tide-tables\n", "tide-tables"),
        ("setup.py", SETUP, "tide-tables"),
        (
            "setup.py",
            "from setuptools import setup\nsetup(**dict(name='tide-tables', version='1'))\n",
            "tide-tables",
        ),
        ("setup.py", "m = {'name': 'tide-tables', 'version': '1'}\nsetup(**m)\n", "tide-tables"),
        ("setup.py", "print 'old'\nsetup(name='tide-tables')\n", "tide-tables"),
        ("PKG-INFO", "Metadata-Version: 2.1\nName: tide-tables\n\nName: no\n", "tide-tables"),
    ],
)
def test_distributions_are_read_from_packaging_metadata(file: str, text: str, expected: str) -> None:
    assert find_names("a/b", {file: text}, {file: text}.get).distributions == (expected,)


@pytest.mark.parametrize("text", ["[project", "name = 1", "setup(name=compute())", "\0", "def f(:\n"])
def test_metadata_that_cannot_be_read_gives_no_name(text: str) -> None:
    for file in ("pyproject.toml", "setup.cfg", "setup.py", "PKG-INFO"):
        assert find_names("a/b", {file: text}, {file: text}.get).distributions == ()


def test_modules_aliases_and_documentation() -> None:
    urls = 'Docs = "https://tides.readthedocs.io/en/stable/"\nOther = "https://docs.harbour.org/projects/tides/x"\n'
    tree = {
        "pyproject.toml": f'[project]\nname = "t"\n[project.urls]\n{urls}',
        "setup.py": SETUP,
        "tides/__init__.py": "",
        "tides/core/__init__.py": "",
        "tests/__init__.py": "",
        "docs/conf.py": "",
    }
    found = find_names("harbour/tides", tree, tree.get)
    assert found.modules == ("tides",)
    assert found.aliases == ("old/tides",)
    assert found.docs_hosts == ("tides.readthedocs.io", "docs.harbour.org/projects/tides")
    assert find_names("a/b", {"src/x/__init__.py": "", "y/__init__.py": ""}, lambda _: None).modules == ("x",)
    assert find_names("a/b", {"tide.py": "", "setup.py": "", "test_tide.py": ""}, lambda _: "").modules == (
        "tide",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://docs.python.org/3/x.html.", ["https://docs.python.org/3/x.html"]),
        ("(https://en.wikipedia.org/wiki/Tide_(sea))", ["https://en.wikipedia.org/wiki/Tide_(sea)"]),
        ("numpy/numpy#12, numpy/numpy@0123abc", [
            "https://github.com/numpy/numpy/issues/12", "https://github.com/numpy/numpy/commit/0123abc",
        ]),
        ("https://github.com/harbour/tides/pull/3 https://github.com/HARBOUR/Tides.git", []),
        ("https://api.github.com/repos/harbour/tides/pulls/3", []),
        ("https://github.com/ada https://codecov.io/gh/x https://img.shields.io/x", []),
        ("https://harbour.github.io/tides/api https://tides.readthedocs.io/x", []),
        ("https://harbour.github.io/other/", ["https://harbour.github.io/other/"]),
        ("http://localhost:8000/ http://example.com/x https://[bad", []),
        ("harbour/tides#3 #4", []),
    ],
)  # fmt: skip
def test_outside_links(text: str, expected: list[str]) -> None:
    assert list(outside(text, "harbour/tides", (), ("tides.readthedocs.io",))) == expected


def test_issues_that_are_closed() -> None:
    text = "Fixes #1, closes: #2; resolves harbour/tides#3 and https://github.com/harbour/tides/issues/4"
    assert issue_numbers(text, "harbour/tides") == (1, 2, 3)
    assert issue_numbers("fixes https://github.com/harbour/tides/issues/4", "harbour/tides") == (4,)
    assert issue_numbers("prefix #9, closes other/repo#5", "harbour/tides") == ()
    assert urls("<https://a.org/x>, https://a.org/x") == ("https://a.org/x",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Support Django 4.2 and 5.0", [("django", "4.2")]),
        ("pydantic v2", [("pydantic", "2")]),
        ("numpy>=2.0,<3", [("numpy", "2.0")]),
        ('"scikit-learn[all]~=1.6"', [("scikit-learn", "1.6")]),
        ("scikit learn 1.0", [("scikit-learn", "1.0")]),
        ("`pytest` version 8", [("pytest", "8")]),
        ("SQLAlchemy 2.0+", [("sqlalchemy", "2.0")]),
        ("pytest-django 4.5, flask-wtf 1.0, /numpy/2, numpydoc 1.1", []),
        ("we like numpy. 3 people do", []),
    ],
)
def test_watched_packages_are_named_with_a_version(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(each.package, each.version) for each in lists.mentions(text, "here")] == expected


def test_the_lists_have_what_the_paper_has() -> None:
    packages = lists.watched_packages()
    assert len({package.name for package in packages}) == len(packages) == 23
    assert all(package.why and package.breaks for package in packages)
    assert len(lists.fields()) == 11 and all(lists.fields().values())
    assert lists.field_of("unidata/SIPHON") == "geospatial"
    assert lists.field_of("a/b") == ""


PATCH = """\
diff --git a/tides.py b/tides.py
--- a/tides.py
+++ b/tides.py
@@ -1,3 +1,6 @@ def period():
 def period():
-    return 12
+    # the moon is late by fifty minutes a day
+    return lunar_day(True) / 2
+
+def lunar_day(exact_hours, *, public=1):
+    return compute(exact_hours, offset_table=2)
diff --git a/README.md b/README.md
--- a/README.md
+++ b/README.md
@@ -1 +1,2 @@
 tides
+    result = tides.period(exactly=True)
"""
TESTS = "diff --git a/t.py b/t.py\n--- /dev/null\n+++ b/t.py\n@@ -0,0 +1 @@\n+assert period(public=2)\n"


@pytest.mark.parametrize(
    ("statement", "kinds"),
    [
        ("The tides come too early.", []),
        ("Write\n\n    return lunar_day(True)/2\n", ["line", "name"]),
        (">>> return  lunar_day(True) / 2", ["line", "name"]),
        ("the moon is late by fifty minutes a day", []),
        ("result = tides.period(exactly=True)", []),
        ("add `lunar_day`", ["name"]),
        ("there should be exact_hours", ["name"]),
        ("`public` is what tests use, and period() is there", []),
        ("https://github.com/harbour/tides/pull/7/files", ["link"]),
        ("https://api.github.com/repos/Harbour/tides/pulls/7", ["link"]),
        ("https://patch-diff.githubusercontent.com/raw/harbour/tides/pull/7.diff", ["link"]),
        ("#7, harbour/tides#7", ["link", "link"]),
        ("https://github.com/harbour/tides/commit/abcdef0", ["link"]),
        ("in abcdef0123", ["link"]),
        ("#8, other/repo#7, https://github.com/other/repo/pull/7, 1234567", []),
    ],
)
def test_leaks(statement: str, kinds: list[str]) -> None:
    commits = ["abcdef0123" + "4" * 30]
    found = find_leaks(statement, PATCH, repo="harbour/tides", pulls=[7], commits=commits, test_patch=TESTS)
    assert sorted(leak.kind for leak in found) == sorted(kinds), found


def test_names_that_were_there_before_are_no_leak() -> None:
    assert not find_leaks("`lunar_day`", PATCH, known_words={"lunar_day"})


@pytest.mark.parametrize(
    "path", ["tests/a.py", "x/test/data.txt", "test_a.py", "a_test.py", "tests.py", "conftest.py"]
)
def test_what_is_a_test(path: str) -> None:
    assert is_test(path)
    assert not is_test("src/testing.py") and not is_test("contest.py") and not is_test("latest/x.py")


def test_a_difference_as_text_is_parted() -> None:
    text = (
        'diff --git "a/\\303\\251.py" "b/\\303\\251.py"\nnew file mode 100644\n'
        '--- /dev/null\n+++ "b/\\303\\251.py"\n@@ -0,0 +1 @@\n+x\n'
        "diff --git a/tests/a.py b/tests/b.py\nsimilarity index 100%\nrename from tests/a.py\nrename to tests/b.py\n"
        "diff --git a/sub b/sub\nindex 1111111..2222222 160000\n--- a/sub\n+++ b/sub\n@@ -1 +1 @@\n-a\n+b\n"
        "diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/empty.py b/empty.py\nnew file mode 100644\nindex 0000000..e69de29\n"
    )
    found = part(text)
    assert found.source_paths == ("é.py", "gone.py", "empty.py")
    assert found.test_paths == ("tests/b.py",)
    assert found.left_out == ("sub",)

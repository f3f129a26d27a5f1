"""Patches as they come: applied whole with as little help as it takes, or refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from beyondswe.sandbox.trees import EMPTY_TREE, EXECUTABLE, FILE, SYMLINK, File, Trees
from beyondswe.scoring.patches import Applied, How, PatchRejected, apply_patch

FILES = {
    b"a.py": File(FILE, b"def f(x):\n    y = x\n\n    return y\n\n\n"),
    b"crlf.py": File(FILE, b"one\r\ntwo\r\nthree\r\nfour\r\nfive\r\n"),
    b"long.py": File(FILE, b"".join(b"line %d\n" % n for n in range(40))),
    b"b.bin": File(FILE, bytes(range(256))),
    b"run.sh": File(EXECUTABLE, b"#!/bin/sh\n"),
    b"link": File(SYMLINK, b"a.py"),
    b"out": File(SYMLINK, b"/tmp"),
    b"sub/f": File(FILE, b"1\n"),
}


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trees]:
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "cache"))
    with Trees.create(tmp_path / "git") as made:
        yield made


@pytest.fixture
def tree(trees: Trees) -> str:
    return trees.edit(EMPTY_TREE, FILES)


def changed(trees: Trees, tree: str, applied: Applied) -> dict[bytes, tuple[str, bytes] | None]:
    return {
        path: None if new is None else (new.mode, trees.read(new.oid))
        for path, _, new in trees.changed(tree, applied.tree)
    }


EDIT = (
    "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,6 +1,6 @@\n"
    " def f(x):\n-    y = x\n+    y = x + 1\n \n     return y\n \n \n"
)
EDITED = {b"a.py": (FILE, b"def f(x):\n    y = x + 1\n\n    return y\n\n\n")}


@pytest.mark.parametrize("text", ["", "\n", "  \n\t\n"])
def test_an_empty_patch_changes_nothing(trees: Trees, tree: str, text: str) -> None:
    assert apply_patch(trees, tree, text) == Applied(tree, How.STRICT)


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (EDIT, How.STRICT),
        ("From: me\nSubject: a fix\n\nSome words.\n---\n" + EDIT + "-- \n2.39.5\n", How.STRICT),
        (EDIT.removeprefix("diff --git a/a.py b/a.py\n"), How.STRICT),
        (EDIT.replace("\n \n", "\n\n"), How.STRICT),  # blank context lines that were stripped
        (EDIT.removesuffix("\n"), How.WHITESPACE),
        (EDIT.strip(), How.WHITESPACE),  # which takes blank context lines along
        (EDIT.strip() + "\n", How.WHITESPACE),
        (EDIT.replace("\n", "\r\n"), How.WHITESPACE),
        (EDIT.replace("\n", "\r\n").strip(), How.WHITESPACE),
        (EDIT.replace("-1,6 +1,6", "-1,9 +1,7"), How.WHITESPACE),  # counted wrong, and others follow
        (EDIT.replace("     return y", " \treturn  y"), How.WHITESPACE),
        (EDIT.replace("     return y", "     return why"), How.REDUCED_CONTEXT),
    ],
)
def test_what_got_lost_on_the_way_is_put_right_and_told(trees: Trees, tree: str, text: str, how: How) -> None:
    if "-1,9" in text:
        text += "diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"
    applied = apply_patch(trees, tree, text)
    assert applied.how is how
    assert changed(trees, tree, applied).items() >= EDITED.items()


def test_a_flattened_patch_of_a_file_with_crlf_applies(trees: Trees, tree: str) -> None:
    new = trees.edit(tree, {b"crlf.py": File(FILE, b"one\r\ntwo\r\nTHREE\r\nfour\r\nfive\r\n")})
    text = trees.diff(tree, new)
    assert apply_patch(trees, tree, text) == Applied(new, How.STRICT)
    flat = apply_patch(trees, tree, text.replace("\r\n", "\n"))
    assert flat.how is How.WHITESPACE
    [(path, after)] = changed(trees, tree, flat).items()
    assert path == b"crlf.py"
    assert after is not None
    assert after[1].replace(b"\r", b"") == b"one\ntwo\nTHREE\nfour\nfive\n"


def test_lines_that_moved_are_found(trees: Trees, tree: str) -> None:
    new = trees.edit(tree, {b"long.py": File(FILE, FILES[b"long.py"].data.replace(b"line 30", b"LINE 30"))})
    text = trees.diff(tree, new).replace("@@ -28,", "@@ -18,")
    assert apply_patch(trees, tree, text).tree == new


@pytest.mark.parametrize("strip", [lambda text: text, str.strip, lambda text: text.strip() + "\n"])
def test_a_binary_patch_survives_stripping(trees: Trees, tree: str, strip: object) -> None:
    assert callable(strip)
    new = trees.edit(
        tree, {b"b.bin": File(FILE, bytes(range(255, -1, -1))), b"new.bin": File(FILE, b"\0" * 999)}
    )
    assert apply_patch(trees, tree, strip(trees.diff(tree, new))).tree == new


@pytest.mark.parametrize(
    "change",
    [
        {b"run.sh": File(FILE, b"#!/bin/sh\n")},
        {b"a.py": None, b"deep/b.py": FILES[b"a.py"]},
        {b"sub/f": None},
        {b"sub/f": None, b"sub": File(FILE, b"now a file\n")},
        {b"link": File(FILE, b"now a file\n")},
        {b"empty": File(FILE, b"")},
        {b"a b": File(FILE, b"x"), "ü".encode(): File(EXECUTABLE, b"x\n"), b'"\\\n': File(FILE, b"\n")},
    ],
)
def test_modes_renames_deletions_links_and_odd_names(
    trees: Trees, tree: str, change: dict[bytes, File]
) -> None:
    new = trees.edit(tree, change)
    assert apply_patch(trees, tree, trees.diff(tree, new)) == Applied(new, How.STRICT)


def new_file(path: str, mode: str = "100644") -> str:
    header = f"diff --git a/{path} b/{path}\nnew file mode {mode}\n"
    return header + f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"


GOOD = new_file("good")
BINARY_WITHOUT_DATA = (
    "diff --git a/b.bin b/b.bin\nindex 1234567..89abcde 100644\nBinary files a/b.bin and b/b.bin differ\n"
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no patch at all\n", "No valid patches"),
        ("```diff\n" + EDIT + "```\n", "Markdown"),
        (EDIT.replace("y = x\n", "y = z\n", 1), "a.py: patch does not apply"),
        (EDIT.replace("a.py", "none.py"), "none.py: does not exist"),
        (new_file("a.py"), "already exists"),
        (EDIT[: EDIT.index("+    y")], "corrupt patch"),  # cut off
        (GOOD + EDIT[: EDIT.index("     return")].replace("-1,6 +1,6", "-1,6 +1,7"), "corrupt patch"),
        (new_file("../evil"), "invalid path"),
        (new_file("sub/../../evil"), "invalid path"),
        (new_file("/evil"), "invalid path"),
        (new_file("x").replace("+++ b/x", "+++ /etc/passwd"), "an absolute path: /etc/passwd"),
        ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "an absolute path"),
        (new_file(".git/hooks/post-checkout"), "invalid path"),
        (new_file("sub/.GIT/config"), "invalid path"),
        (new_file("git~1/config"), "a name that git reserves"),
        (new_file(".git /config"), "a name that git reserves"),
        (new_file(".g\u200cit/config"), "a name that git reserves"),
        (new_file("link/x"), "link"),
        (new_file("out/x"), "link"),
        (new_file("l", "120000").replace("+x", "+/tmp") + new_file("l/x"), "link"),
        (BINARY_WITHOUT_DATA, "Binary files a/b.bin and b/b.bin differ"),
        (EDIT + BINARY_WITHOUT_DATA, "Binary files a/b.bin and b/b.bin differ"),
        (EDIT + "\ud800", "lone surrogate"),
        (EDIT + "\0", "NUL"),
        (
            EDIT.replace("-    y = x\n+    y = x + 1", "-    y = x + 1\n+    y = x"),
            "patch does not apply",
        ),  # reversed
    ],
)
def test_what_cannot_be_applied_whole_is_refused_with_the_reason(
    trees: Trees, tree: str, text: str, reason: str
) -> None:
    with pytest.raises(PatchRejected, match=reason):
        apply_patch(trees, tree, text)


CUT = "diff --git a/x b/x\n"


@pytest.mark.parametrize(
    "end",
    [
        CUT,
        CUT + "new fi",
        CUT + "index 1234567..89abcde 100644\n",
        CUT + "new file mode 100644\nindex 0000000..89abcde\n",
        CUT + "similarity index 90%\nrename from a.py\nrename to x\nindex 1234567..89abcde 100644\n",
    ],
)
def test_a_patch_that_was_cut_off_is_refused(trees: Trees, tree: str, end: str) -> None:
    with pytest.raises(PatchRejected, match="cut off"):
        apply_patch(trees, tree, EDIT + end)


def test_a_patch_cut_off_anywhere_never_applies_in_part_of_a_file(trees: Trees, tree: str) -> None:
    after = {
        b"a.py": File(FILE, b"def g(x):\n    y = x\n\n    return y + 1\n"),
        b"b.bin": File(FILE, bytes(range(255, -1, -1))),
        b"new.bin": File(FILE, b"\0" * 999),
        b"sub/f": None,
        b"z.py": File(FILE, b"1\n2\n3\n"),
    }
    text = trees.diff(tree, trees.edit(tree, after))
    whole = {path: None if file is None else tuple(file) for path, file in after.items()}
    for length in range(0, len(text), 47):
        try:
            applied = apply_patch(trees, tree, text[:length])
        except PatchRejected:
            continue
        # Cut after "new file mode", an added file looks like an empty one.
        found = {p: now for p, now in changed(trees, tree, applied).items() if now != (FILE, b"")}
        assert found.items() <= whole.items(), length


def test_the_result_of_a_binary_patch_is_never_taken_from_elsewhere(trees: Trees, tree: str) -> None:
    """Git takes it from the hash alone where it knows the object; other jobs' objects must not be known."""
    with Trees.above(trees.git_dir) as elsewhere:
        new = elsewhere.edit(tree, {b"b.bin": File(FILE, b"\0secret")})
        lines = elsewhere.diff(tree, new).split("\n")
    forged = "\n".join(
        [
            *lines[: lines.index("GIT binary patch") + 1],
            "literal 1",
            "IcmZPo00031000",
            "",
            "literal 0",
            "HcmV?d00001",
            "",
            "",
        ]
    )
    with Trees.above(trees.git_dir) as here, pytest.raises(PatchRejected):
        apply_patch(here, tree, forged)


ONE, TWO = "1" * 40, "2" * 40


def test_a_patch_that_is_too_large_is_refused_with_numbers(trees: Trees, tree: str) -> None:
    with pytest.raises(PatchRejected, match=r"it has 5\d+ bytes; at most 52428800"):
        apply_patch(trees, tree, EDIT + "x" * (50 << 20))


def test_a_patch_that_blows_up_is_refused_and_takes_no_memory(trees: Trees, tree: str) -> None:
    new = trees.edit(tree, {b"b.bin": File(FILE, b"\0" * 999)})
    text = trees.diff(tree, new).replace("literal 999", "literal 99999999999")
    with pytest.raises(PatchRejected, match="memory"):
        apply_patch(trees, tree, text)


SUBMODULE = (
    f"diff --git a/lib b/lib\nindex {ONE}..{TWO} 160000\n--- a/lib\n+++ b/lib\n"
    f"@@ -1 +1 @@\n-Subproject commit {ONE}\n+Subproject commit {TWO}\n"
)


def test_submodule_pointers_are_ignored_with_a_flag_and_the_rest_applies(trees: Trees, tree: str) -> None:
    applied = apply_patch(trees, tree, SUBMODULE + EDIT)
    assert changed(trees, tree, applied) == EDITED
    assert applied.flags == ("submodule_pointer_ignored:a/lib b/lib",)
    assert apply_patch(trees, tree, SUBMODULE).tree == tree


def test_links_out_of_the_tree_and_twins_of_case_are_flagged(trees: Trees, tree: str) -> None:
    new = trees.edit(
        tree,
        {
            b"etc": File(SYMLINK, b"/etc"),
            b"sub/up": File(SYMLINK, b"../../x"),
            b"sub/fine": File(SYMLINK, b"../a.py"),
            b"A.py": File(FILE, b"x\n"),
        },
    )
    applied = apply_patch(trees, tree, trees.diff(tree, new))
    assert applied.tree == new
    assert set(applied.flags) == {
        "link_out_of_tree:etc -> /etc",
        "link_out_of_tree:sub/up -> ../../x",
        "case_twins:a.py, A.py",
    }


def test_sql_comments_are_not_taken_for_headings(trees: Trees, tree: str) -> None:
    old = trees.edit(tree, {b"q.sql": File(FILE, b"-- /etc/passwd\nx\n-- a\n")})
    new = trees.edit(tree, {b"q.sql": File(FILE, b"++ /etc/passwd\nx\n++ b\n")})
    assert apply_patch(trees, old, trees.diff(old, new)) == Applied(new, How.STRICT)

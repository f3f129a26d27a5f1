"""The difference of a pull request, parted into reference change and hidden tests.

What a test is, is told by name as the scorer tells it (`scoring.protected`), so that nothing of the reference
lies where an agent's patch does not count. Besides, modules called ``test.py`` or ``tests.py`` are tests.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from beyondswe.construction.collect.filters import YES, Answer
from beyondswe.sandbox.importing import TooLarge
from beyondswe.sandbox.trees import Changed, Trees
from beyondswe.scoring.protected import in_test_folder, is_loaded_by_pytest, is_test_file

MAX_PATCH = 20 << 20  # bytes of one patch; nobody reviews more, and no instance of the paper comes near
_TEST_MODULE = re.compile(r"(tests?|.*_tests|tests_.*)\.py")
_GITLINK = "160000"


class TooMuch(Exception):
    """A difference is larger than what makes an instance."""


@dataclass(frozen=True)
class Split:
    """Two patches on the same base, and what they touch. ``left_out`` are submodules, which no patch can bring."""

    patch: str
    f2p_patch: str
    source_paths: tuple[str, ...]
    test_paths: tuple[str, ...]
    left_out: tuple[str, ...]
    binary: bool

    @property
    def touches_python(self) -> bool:
        return any(path.endswith((".py", ".pyi", ".pyx")) for path in self.source_paths)

    @property
    def touches_tests(self) -> bool:
        """Whether there is a test among what changed, not only its data."""
        return any(path.endswith(".py") for path in self.test_paths)

    def asked_for_source(self) -> Answer:
        """Whether there is a reference change."""
        if self.source_paths:
            return YES
        if self.test_paths:
            return Answer(False, "only tests are changed")
        return Answer(False, "only submodules are changed" if self.left_out else "nothing is changed")

    def asked_for_tests(self) -> Answer:
        """Whether there are hidden tests."""
        if self.touches_tests:
            return YES
        return Answer(False, "only test data is changed" if self.test_paths else "no test is changed")


def is_test(path: str) -> bool:
    """Whether a path of a repository belongs to its tests."""
    name = os.fsencode(path)
    if is_test_file(name) or in_test_folder(name) or is_loaded_by_pytest(name):
        return True
    return _TEST_MODULE.fullmatch(path.rpartition("/")[2]) is not None


def split(git_dir: Path, before: str, after: str) -> Split:
    """Part the difference of two trees (ids). Renames are a deletion and a new file: patches that apply whatever
    else was changed. `TooMuch` above `MAX_PATCH`.
    """
    with Trees.above(git_dir) as trees:
        changes = trees.changed(before, after)
        links = [change for change in changes if _is_link(change)]
        files = [change for change in changes if not _is_link(change)]
        tests = {change.path: change.new for change in files if is_test(os.fsdecode(change.path))}
        source = {change.path: change.new for change in files if change.path not in tests}
        try:
            patch = trees.diff(before, trees.edit(before, source), renames=False, max_bytes=MAX_PATCH)
            hidden = trees.diff(before, trees.edit(before, tests), renames=False, max_bytes=MAX_PATCH)
        except TooLarge as error:
            raise TooMuch(f"its difference is larger than {MAX_PATCH >> 20} MiB") from error
    return Split(
        patch=patch,
        f2p_patch=hidden,
        source_paths=tuple(os.fsdecode(path) for path in source),
        test_paths=tuple(os.fsdecode(path) for path in tests),
        left_out=tuple(os.fsdecode(change.path) for change in links),
        binary="\nGIT binary patch\n" in patch + hidden,
    )


def part(difference: str) -> Split:
    """Part a difference that is there as text already, such as a forge gives it. `TooMuch` if it has binary files
    without their bytes, which no patch can bring.
    """
    source: list[str] = []
    tests: list[str] = []
    source_paths: list[str] = []
    test_paths: list[str] = []
    left_out: list[str] = []
    for section in re.split(r"^(?=diff --git )", difference, flags=re.MULTILINE):
        if not section.startswith("diff --git "):
            continue
        head = section.partition("\n@@ ")[0]
        path = _path(head)
        if re.search(
            rf"^(?:index \S+|(?:new|deleted) file mode|(?:old|new) mode) ?{_GITLINK}$", head, re.MULTILINE
        ):
            left_out.append(path)
            continue
        if re.search(r"^Binary files .* differ$", head, re.MULTILINE):
            raise TooMuch(
                f"its difference has a binary file without its bytes ({path}); git has them: --repo-url"
            )
        (tests if is_test(path) else source).append(section)
        (test_paths if is_test(path) else source_paths).append(path)
    patch, hidden = "".join(source), "".join(tests)
    if len(difference) > MAX_PATCH:
        raise TooMuch(f"its difference is larger than {MAX_PATCH >> 20} MiB")
    binary = "\nGIT binary patch\n" in difference
    return Split(patch, hidden, tuple(source_paths), tuple(test_paths), tuple(left_out), binary)


def _path(head: str) -> str:
    """The path that one file's part of a difference is about: after the change, or before it where it is deleted."""
    for pattern in (r"^\+\+\+ (?!/dev/null)(.*)$", r"^rename to (.*)$", r"^--- (?!/dev/null)(.*)$"):
        if match := re.search(pattern, head, re.MULTILINE):
            return _unquoted(match[1].rstrip("\t"), strip=not pattern.startswith("^rename"))
    match = re.match(r"diff --git (\"?)a/(.*?)\1 (\"?)b/(.*?)\3$", head.partition("\n")[0])
    return _unquoted(match[4], strip=False) if match else ""


def _unquoted(name: str, *, strip: bool) -> str:
    if name.startswith('"') and name.endswith('"'):
        name = name[1:-1].encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1").decode(
            "utf-8", "replace"
        )  # fmt: skip
    return name[2:] if strip and name[:2] in ("a/", "b/") else name


def _is_link(change: Changed) -> bool:
    return any(entry is not None and entry.mode == _GITLINK for entry in (change.old, change.new))

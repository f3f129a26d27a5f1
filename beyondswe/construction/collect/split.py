"""The difference of a pull request, parted into reference change and hidden tests.

What a test is, is told by name as the scorer tells it (`scoring.protected`), so that nothing of the reference
lies where an agent's patch does not count. Besides, modules called ``test.py`` or ``tests.py`` are tests.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

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


def _is_link(change: Changed) -> bool:
    return any(entry is not None and entry.mode == _GITLINK for entry in (change.old, change.new))

"""Which paths of a tree an agent's patch may not decide, told by their names."""

from __future__ import annotations

import re
from posixpath import basename

from beyondswe.scoring.pytest_config import CONFIG_FILES

_TEST_FILE = re.compile(rb"(test_.*|.*_test)\.py")
_TEST_FOLDERS = (b"test", b"tests")
_CONFIG_NAMES = tuple(name.encode() for name in CONFIG_FILES)
_IMPORT_ROOTS = (b"", b"src", b"lib")
_STARTED_BY_PYTHON = (b"sitecustomize", b"usercustomize")


def is_test_file(path: bytes) -> bool:
    """``test_*.py``, ``*_test.py``."""
    return _TEST_FILE.fullmatch(basename(path)) is not None


def in_test_folder(path: bytes) -> bool:
    """It lies under a folder ``test`` or ``tests``."""
    return any(part in _TEST_FOLDERS for part in path.split(b"/")[:-1])


def is_loaded_by_pytest(path: bytes) -> bool:
    """``conftest.py``, or a file that is nothing but pytest's configuration."""
    return basename(path) in (b"conftest.py", *_CONFIG_NAMES)


def is_loaded_by_python(path: bytes) -> bool:
    """What the interpreter reads by itself: start-up modules and ``.pth`` at import roots, metadata, compiled
    code.
    """
    folders, name = path.split(b"/")[:-1], basename(path)
    for count, folder in enumerate(folders):
        if folder.endswith((b".egg-info", b".dist-info")) or folder == b"__pycache__":
            return True
        if folder in _STARTED_BY_PYTHON and b"/".join(folders[:count]) in _IMPORT_ROOTS:
            return True
    if name.endswith((b".pyc", b".egg-link")):
        return True
    at_root = b"/".join(folders) in _IMPORT_ROOTS
    return at_root and (name.endswith(b".pth") or name.removesuffix(b".py") in _STARTED_BY_PYTHON)


def is_protected(path: bytes) -> bool:
    """Any of these."""
    return (
        is_test_file(path) or in_test_folder(path) or is_loaded_by_pytest(path) or is_loaded_by_python(path)
    )

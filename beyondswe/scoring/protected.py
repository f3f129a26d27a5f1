"""Which paths of a tree an agent's patch may not decide, told by their names."""

from __future__ import annotations

import re
from posixpath import basename

from beyondswe.scoring.pytest_config import CONFIG_FILES

_TEST_FILE = re.compile(rb"(test_.*|.*_test)\.py")
_TEST_FOLDER = re.compile(
    rb"(unit|integration|functional)[_-]?tests|tests?|test[_-]?(data|files|fixtures|resources)"
)
_CONFIG_NAMES = tuple(name.encode() for name in CONFIG_FILES)
_METADATA = (b".egg-info", b".dist-info", b".egg", b".egg-link")
IMPORT_ROOTS = (b"", b"src", b"lib")
STARTED_BY_PYTHON = (b"sitecustomize", b"usercustomize")
_MODULE = re.compile(rb"(?P<name>[^.]+)(\.[\w-]+)*\.(py|pyc|pyo|pyw|so|pyd)")


def is_test_file(path: bytes) -> bool:
    """``test_*.py``, ``*_test.py``."""
    return _TEST_FILE.fullmatch(basename(path)) is not None


def in_test_folder(path: bytes) -> bool:
    """It lies under a folder ``test`` or ``tests``, or one that is plainly of tests or their data."""
    return any(_TEST_FOLDER.fullmatch(part) for part in path.split(b"/")[:-1])


def is_loaded_by_pytest(path: bytes) -> bool:
    """``conftest.py``, or a file that is nothing but pytest's configuration."""
    return basename(path) in (b"conftest.py", *_CONFIG_NAMES)


def is_loaded_by_python(path: bytes) -> bool:
    """What the interpreter, or whoever looks for plugins, reads by itself: start-up modules, ``.pth``, metadata of
    distributions, installed packages, compiled code.

    Metadata is looked for in any case of letters, and a link may stand for its folder.
    """
    parts = path.split(b"/")
    if b"__pycache__" in parts or any(part.lower().endswith(_METADATA) for part in parts):
        return True
    if b"site-packages" in parts or b"dist-packages" in parts:
        return True
    if parts[-1].endswith((b".pyc", b".pyo")):
        return True
    at_root = parts[1:] if parts[0] in IMPORT_ROOTS else parts
    return at_root[:1] != [] and (
        at_root[0].split(b".")[0] in STARTED_BY_PYTHON or (len(at_root) == 1 and at_root[0].endswith(b".pth"))
    )


def provided_module(path: bytes) -> tuple[bytes, bytes] | None:
    """The folder and the name of the module that a file is the whole or the beginning of: ``a/b.py`` and
    ``a/b/__init__.py`` both are ``b`` in ``a``.
    """
    folder, _, name = path.rpartition(b"/")
    match = _MODULE.fullmatch(name)
    if match is None:
        return None
    if match["name"] == b"__init__":
        folder, _, package = folder.rpartition(b"/")
        return (folder, package) if package else None
    return folder, match["name"]


def is_protected(path: bytes) -> bool:
    """Any of these."""
    return (
        is_test_file(path) or in_test_folder(path) or is_loaded_by_pytest(path) or is_loaded_by_python(path)
    )

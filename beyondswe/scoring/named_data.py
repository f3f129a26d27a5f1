"""Data files that the tests name and that no rule on folders protects: ``open("answers/forty_two.txt")``.

A text in the tests that ends in a file's name, or is a folder's path, names it. Such a file is part of the tests where
nothing else has a claim to it: not the reference, which leaves it alone, not a package, whose data it may be, and not
whoever describes or packs the project. Those are watched instead: a change has a flag.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from posixpath import basename

from beyondswe.sandbox.paths import parents
from beyondswe.scoring import suspicion
from beyondswe.scoring.protected import IMPORT_ROOTS

_SHORTEST = 4  # characters of a name that is no accident
_SHORTEST_FOLDER = 6
_DESCRIBING = re.compile(
    rb"(README|LICEN[SC]E|CHANGE|HISTORY|NEWS|AUTHORS|MANIFEST|VERSION|requirements|setup|pyproject|tox|Makefile)"
    rb"[\w.-]*|.*\.(md|rst|toml|cfg|ini|ya?ml|lock)",
    re.IGNORECASE,
)
_SOURCE = (b".py", b".pyi", b".pyx", b".pxd", b".c", b".h", b".cpp", b".rs", b".so", b".pyd")


def named_data(
    texts: Iterable[bytes], paths: Mapping[bytes, object] | Iterable[bytes], changed: Iterable[bytes]
) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Of the files of a tree those that the tests' sources name: the protected ones, and those to be watched.

    ``changed``: what the reference changes; it is neither.
    """
    words = _words(texts)
    if not words:
        return frozenset(), frozenset()
    every = frozenset(paths)
    packages = {path.rpartition(b"/")[0] for path in every if basename(path) == b"__init__.py"}
    protected: set[bytes] = set()
    watched: set[bytes] = set()
    for path in every.difference(changed):
        if path.endswith(_SOURCE) or not _is_named(path, words):
            continue
        folders = parents(path)
        claimed = not packages.isdisjoint(folders) or any(root and root in folders for root in IMPORT_ROOTS)
        (watched if claimed or _DESCRIBING.fullmatch(basename(path)) else protected).add(path)
    return frozenset(protected), frozenset(watched)


def _words(texts: Iterable[bytes]) -> frozenset[bytes]:
    """What literals of the sources may name: the last part of each path, and folders as they are written."""
    found: set[bytes] = set()
    for text in texts:
        for value in suspicion.literals(text):
            if isinstance(value, str) and _SHORTEST <= len(value) < 300 and "\n" not in value:
                word = value.encode("utf-8", "surrogatepass").strip(b"/").removeprefix(b"./")
                while word.startswith(b"../"):
                    word = word[3:]
                found.update((word, basename(word)))
    return frozenset(word for word in found if len(word) >= _SHORTEST)


def _is_named(path: bytes, words: frozenset[bytes]) -> bool:
    name = basename(path)
    if b"." in name and name in words:
        return True
    # A folder by its own path, for whoever lists it; not by a short word, which may mean anything.
    return any(
        folder in words and (b"/" in folder or len(folder) >= _SHORTEST_FOLDER) for folder in parents(path)
    )

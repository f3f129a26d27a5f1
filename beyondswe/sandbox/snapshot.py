"""Takes the tree of a work folder as the agent will find it, and keeps it on the host, once a prepared image.

A snapshot lies in a folder of its own below the cache and appears there whole or not at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from beyondswe.errors import EngineError
from beyondswe.resources import cache_dir
from beyondswe.sandbox.engine import namespace
from beyondswe.sandbox.paths import parents
from beyondswe.sandbox.scratch import temporary_folder
from beyondswe.sandbox.tarstream import Kind
from beyondswe.sandbox.trees import EMPTY_TREE, Trees
from beyondswe.sandbox.types import Snapshot


def take(key: str, archive: Iterable[bytes], *, prefix: bytes, tracked: Sequence[bytes] | None) -> Snapshot:
    """Snapshot the work folder in ``archive``, a tar stream whose members lie below ``prefix``.

    ``tracked`` are the paths that the base commit tracks, relative to the folder (a submodule stands for all
    below it); None where the folder is no repository: then everything counts as tracked.
    Where two processes take the same snapshot, the one that is ready first wins.
    """
    folder = _folder(key)
    with temporary_folder(folder.parent) as temporary:
        with Trees.create(temporary / "git") as trees:
            with trees.importer() as importer:
                if importer.add(archive, strip=prefix) is not Kind.DIRECTORY:
                    raise EngineError(f"snapshot {key}: the work folder is not a folder in the image")
            tree = trees.edit(EMPTY_TREE, importer.entries)
            base = tree
            if tracked is not None:
                known = set(tracked)
                kept = {
                    path: entry
                    for path, entry in importer.entries.items()
                    if path in known or not known.isdisjoint(parents(path))
                }
                base = trees.edit(EMPTY_TREE, kept)
        described = {"tree": tree, "base_tree": base, "namespace": namespace()}
        (temporary / "snapshot.json").write_text(json.dumps(described))
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    made = load(key)
    if made is None:
        raise EngineError(f"snapshot {key}: {folder} is damaged. Remove that folder.")
    return made


def load(key: str) -> Snapshot | None:
    """The snapshot of this key where it has been taken before."""
    folder = _folder(key)
    try:
        described = json.loads((folder / "snapshot.json").read_text())
    except FileNotFoundError:
        return None
    return Snapshot(git_dir=folder / "git", tree=described["tree"], base_tree=described["base_tree"])


def taken() -> list[str]:
    """Keys of all snapshots of this namespace."""
    found = []
    for path in sorted(cache_dir("snapshots").glob("*/snapshot.json")):
        try:
            owner = json.loads(path.read_text()).get("namespace")
        except (OSError, ValueError):
            continue  # removed meanwhile, or damaged: who asks for it is told
        if owner == namespace():
            found.append(path.parent.name)
    return found


def remove(key: str) -> None:
    """Remove a snapshot; first its name goes, so that nobody finds half of it."""
    folder = _folder(key)
    with temporary_folder(folder.parent) as temporary:
        folder.rename(temporary / key)


def _folder(key: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", key):
        raise ValueError(f"not a key that can name a folder: {key!r}")
    return cache_dir("snapshots") / key

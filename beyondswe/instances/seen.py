"""Datasets that were loaded from Hugging Face, remembered so that they can be listed without network."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from beyondswe.resources import cache_dir


@dataclass(frozen=True)
class Seen:
    """What a dataset held when it was last loaded. ``families`` counts instances; bad rows are in none."""

    name: str
    version: str
    hash: str
    families: Mapping[str, int]


def remember(dataset: Seen) -> None:
    folder = cache_dir("seen")
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(asdict(dataset), stream)
    Path(temporary).replace(folder / f"{dataset.name.replace('/', '--')}.json")


def seen() -> list[Seen]:
    """By name. A file that is not ours, or from another version, is passed over: it is a cache."""
    found = []
    for path in sorted(cache_dir("seen").glob("*.json")):
        try:
            found.append(Seen(**json.loads(path.read_text(encoding="utf-8"))))
        except (ValueError, TypeError):
            continue
    return found

"""Dataset repositories of Hugging Face: from the Hub, from its cache on disk, or mirrored in a folder.

The Hub's client fetches a repository's data files and archives, or finds them in its cache (HF_HOME,
HF_ENDPOINT and HF_HUB_OFFLINE are its own); `datasets` says which files are which split. Both need the extra
``hf``.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from beyondswe.errors import DataError, UsageError

_WANTED = ["README.md", "*.jsonl", "*.json", "*.parquet", "*.yaml", "*.zip", "*.tar", "*.tar.gz"]
_DEFAULT_SPLIT = "test"


class NotThere(DataError):
    """The Hub does not answer, or does not have it, and its cache on this machine does not either."""


def need(module: str, purpose: str) -> None:
    """`UsageError` that names the extra, where a module of it is missing."""
    if find_spec(module) is None:
        raise UsageError(
            f"{purpose} needs the extra hf ({module} is missing); install the extra: pip install '.[hf]' in the "
            "checkout, or pip install 'beyondswe[hf]' from an index"
        )


def fetch(hub_id: str, revision: str | None) -> tuple[Path, str]:
    """The folder with a repository's data files and archives, and its commit. `NotThere` if nobody has it."""
    need("huggingface_hub", f"the dataset {hub_id}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        folder = Path(
            snapshot_download(hub_id, repo_type="dataset", revision=revision, allow_patterns=_WANTED)
        )
    except (HfHubHTTPError, HFValidationError, OSError, ValueError) as error:
        spec = f"{hub_id}@{revision}" if revision else hub_id
        raise NotThere(
            f"{spec}: not on the Hub or the Hub cannot be reached, and not in its cache here; name a folder "
            "with a copy of the dataset instead, or load it once where there is network "
            f"(the Hub's client says: {_first_line(error)})"
        ) from error
    return folder, folder.name


def is_mirror(folder: Path) -> bool:
    """Whether a folder is a dataset repository: its README lists data files, or they are in ``data/``."""
    if any(
        path.suffix in (".jsonl", ".json", ".parquet", ".csv", ".arrow")
        for path in (folder / "data").glob("*")
    ):
        return True
    card = _card(folder / "README.md")
    return "configs" in card or "dataset_info" in card


def split_files(folder: Path, split: str | None) -> tuple[str, list[Path]]:
    """The split to read and its files, as `datasets` finds them. None: the only split, else "test"."""
    need("datasets", f"the dataset repository {folder}")
    from datasets import load_dataset_builder

    try:
        # absolute: a relative name such as owner/name would be looked up on the Hub
        found = load_dataset_builder(str(folder.absolute())).config.data_files or {}
    except (ValueError, OSError) as error:  # its own errors are kinds of FileNotFoundError and ValueError
        raise DataError(f"{folder}: `datasets` finds no data in it: {_first_line(error)}") from error
    chosen = _choose(sorted(map(str, found)), split, str(folder))
    return chosen, [Path(name) for name in found[chosen]]


def library_rows(name: str, split: str | None, *, revision: str | None = None) -> Iterator[dict[str, Any]]:
    """Rows as `datasets` reads them: kinds of files that we do not, or what only its own cache holds."""
    need("datasets", f"the dataset {name}")
    from datasets import load_dataset

    try:
        splits = load_dataset(name, revision=revision)
    except (ValueError, OSError) as error:
        raise DataError(f"{name}: `datasets` cannot read it: {_first_line(error)}") from error
    yield from splits[_choose(sorted(map(str, splits)), split, name)]


def _choose(splits: list[str], wanted: str | None, where: str) -> str:
    if wanted is None and len(splits) == 1:
        return splits[0]
    chosen = wanted or _DEFAULT_SPLIT
    if chosen not in splits:
        raise UsageError(
            f"{where}: no split '{chosen}'; name one with --split, there are: {', '.join(splits) or 'none'}"
        )
    return chosen


def _card(readme: Path) -> dict[str, Any]:
    """The YAML head of a dataset card; empty where there is none."""
    if not readme.is_file():
        return {}
    lines = readme.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines or lines[0].strip() != "---" or "---" not in lines[1:]:
        return {}
    try:
        head = yaml.safe_load("\n".join(lines[1 : lines.index("---", 1)]))
    except yaml.YAMLError:
        return {}  # a README that only looks like a card
    return head if isinstance(head, dict) else {}


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

"""Whether a text is a patch and what it changes, as git reads it (`git apply --numstat`; nothing is applied).

Git decides, not a parser of ours, because git applies the patch later: binary patches, renames, changes of
mode alone, new empty files, CRLF and text around the patch (mail headers) are all fine if git says so. The
price is one short process (2 to 4 ms) a patch.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from beyondswe.errors import UsageError
from beyondswe.instances.problems import FieldError, printable

EXPECTED = "a patch in unified or git format"
_WITHOUT_LINES = re.compile(
    r"^(old mode|new file mode|deleted file mode|rename from|copy from|Binary files|GIT binary patch)",
    re.MULTILINE,
)
"""What a change without lines says of itself. Git takes a header cut off from its hunks for one."""


@dataclass(frozen=True)
class Change:
    """What a patch does to one file. A binary change counts no lines."""

    path: str
    added: int
    removed: int


def changes(patch: str) -> tuple[Change, ...]:
    """What a patch changes. `FieldError` if it is no patch, or leads out of the tree or into ``.git``."""
    data = patch.encode()
    if not data.endswith(b"\n"):
        data += b"\n"  # rows are often stripped; whoever applies the patch adds it too
    done = _numstat(data)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0].removeprefix("error: ")
        reason = "git finds no change in it" if "No valid patches" in said else printable(said)
        raise FieldError(f"not a patch ({reason})", EXPECTED)
    found = tuple(_change(entry) for entry in done.stdout.split(b"\0") if entry)
    if not any(change.added or change.removed for change in found) and not _WITHOUT_LINES.search(patch):
        raise FieldError("not a patch (no hunk in it can be read)", EXPECTED)
    for change in found:
        parts = change.path.split("/")
        if change.path.startswith("/") or ".." in parts or any(part.lower() == ".git" for part in parts):
            raise FieldError(
                f"a patch that changes '{printable(change.path)}', outside the tree",
                "paths inside the tree, none in .git",
            )
    return found


def _change(entry: bytes) -> Change:
    added, removed, path = entry.split(b"\t", 2)
    lines = (0, 0) if added == b"-" else (int(added), int(removed))
    return Change(path.decode(errors="surrogateescape"), *lines)


def _numstat(data: bytes) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", "apply", "--numstat", "-z", "-"],
            input=data,
            capture_output=True,
            check=False,
            cwd=_root(),
            env=_environment(),
        )
    except FileNotFoundError as error:
        raise UsageError(
            "git is not installed here; it reads and applies the patches of a dataset: install git"
        ) from error


@cache
def _root() -> str:
    """Outside any repository: in one, git apply leaves out paths that are not below the current folder."""
    return Path.cwd().anchor


@cache
def _environment() -> dict[str, str]:
    """Without the user's git: apply.whitespace or GIT_DIR must not decide whether a row is good."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}

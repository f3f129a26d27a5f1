"""Small readings of patches and files that several ways of collecting share."""

from __future__ import annotations

import re
from collections.abc import Iterable

_METADATA = re.compile(
    r"(^|/)(pyproject\.toml|setup\.(py|cfg)|Pipfile|tox\.ini|environment\.ya?ml|.*requirements.*\.(txt|in))$"
)


def added_requirements(patch: str) -> str:
    """Lines that a patch adds to packaging metadata and requirements files, less pins that a tool wrote."""
    lines, taken, listed = [], False, False
    for line in patch.splitlines():
        if line.startswith("diff --git "):
            path = line.rpartition(" b/")[2]
            taken, listed = _METADATA.search(path) is not None, path.endswith(".txt")
        elif taken and line.startswith("+") and not line.startswith("+++") and not (listed and "==" in line):
            lines.append(line[1:])
    return "\n".join(lines)


def words_of(texts: Iterable[str]) -> set[str]:
    """The words of some texts, as names in code are spelled."""
    return {word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text)}

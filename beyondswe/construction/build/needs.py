"""What a repository says it needs: one requirement, where that is said, and how directly it concerns tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


class Level(IntEnum):
    """How directly a requirement concerns a run of the tests; lower is nearer."""

    BUILD = 0  # to install the repository itself
    RUN = 1  # by whoever uses the package
    TEST = 2  # named for tests
    DEV = 3  # for developers at large: tests may be among what they do
    EXTRA = 4  # of an optional feature: wanted only if a test asks for it


@dataclass(frozen=True)
class Need:
    """One requirement (PEP 508) and where it is said."""

    requirement: str
    source: str
    level: Level

    @property
    def name(self) -> str:
        return canonicalize_name(Requirement(self.requirement).name)


@dataclass(frozen=True)
class Options:
    """What a line of ``pip install`` names: requirements, files of requirements, extras of the project."""

    requirements: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()


_VCS = re.compile(r"^(?:-e\s+|--editable[= ])?(?:git|hg|svn|bzr)\+[^#\s]+", re.IGNORECASE)
_SELF = re.compile(r"^(?:-e\s*|--editable[= ]\s*)?\.(?:/)?(?:\[([A-Za-z0-9_,. -]+)\])?$")
_OLD_VERSION = re.compile(r"(==|!=|<=|>=|<|>|~=)\s*([^\s,;]*dev\b[^\s,;]*)")


def plain(text: str) -> str:
    """A requirement as `packaging` reads it, or ``""``: of a repository elsewhere only the name is kept."""
    text = text.split(" #")[0].strip().rstrip("\\").strip()
    text = re.sub(r"\s--hash[= ]\S+", "", text).strip()
    if not text or text.startswith("#"):
        return ""
    if _VCS.match(text):
        egg = re.search(r"#(?:.*&)?egg=([A-Za-z0-9._-]+)", text)
        return egg[1] if egg else ""
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        try:  # parentheses and blanks of old: "name (>=1.0)", "name >= 1, < 2"
            requirement = Requirement(re.sub(r"\s*\(([^)]*)\)", r"\1", text))
        except InvalidRequirement:
            return ""
    if requirement.url:
        requirement.url = None
    return str(requirement)


def needs(texts: Iterable[str], source: str, level: Level) -> Iterator[Need]:
    for text in texts:
        if isinstance(text, str) and (requirement := plain(text)):
            yield Need(requirement, source, level)


def pip_arguments(words: Iterable[str]) -> Options:
    """What the arguments of a ``pip install`` name; options that name nothing are passed over."""
    requirements: list[str] = []
    files: list[str] = []
    constraints: list[str] = []
    extras: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0).strip("\"'")
        if word in ("-r", "--requirement", "-c", "--constraint"):
            if rest:
                (files if "r" in word.strip("-")[:1] else constraints).append(rest.pop(0).strip("\"'"))
        elif word.startswith("--requirement=") or (word.startswith("-r") and len(word) > 2):
            files.append(word.removeprefix("--requirement=").removeprefix("-r").strip("\"'"))
        elif word.startswith("--constraint=") or (word.startswith("-c") and len(word) > 2):
            constraints.append(word.removeprefix("--constraint=").removeprefix("-c").strip("\"'"))
        elif word in ("-e", "--editable"):
            continue
        elif word in ("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--upgrade-strategy"):
            del rest[:1]
        elif match := _SELF.match(word):
            extras += [part.strip() for part in (match[1] or "").split(",") if part.strip()]
        elif not word.startswith("-") and re.match(r"[A-Za-z0-9]", word) and "$" not in word:
            requirements.append(word)
    return Options(tuple(requirements), tuple(files), tuple(constraints), tuple(extras))

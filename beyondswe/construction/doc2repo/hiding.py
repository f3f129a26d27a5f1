"""Puts the masked name in every place where a repository names itself: code, prose, URLs, metadata, paths.

Python is rewritten by its syntax first (`masking.mask_python`): imports, what they bind, strings that are module
paths. What then still names the target is replaced as text, in reference, suite and specification alike, so that the
three keep agreeing with each other. That also renames a function that is called like its package.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from beyondswe.construction.masking import mask_python, mentions
from beyondswe.construction.recipes import File, Files
from beyondswe.errors import DataError

TARGET = "target_repo"
_PYTHON = (".py", ".pyi")


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TOO_COMMON = _set(
    "a and api app base class client core data date doc docs error file files http in io is json lib main "
    "name on or path py python server src string sys test tests text time to type types url util utils "
    "value web xml yaml "
)


@dataclass(frozen=True)
class Names:
    """What a target is known by: ``modules`` that are imported, ``distributions``, ``owner/name`` and the like."""

    modules: tuple[str, ...]
    distributions: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """`DataError` for a name that is a word of Python or of everyday code: replacing it would break the code."""
        for name in self.modules:
            if name.lower() in _TOO_COMMON or name in sys.stdlib_module_names or len(name) < 3:
                raise DataError(
                    f"the package is called '{name}', a word that other code uses too; it cannot be masked"
                )

    @property
    def words(self) -> tuple[str, ...]:
        """The names that may not be left anywhere, longest first."""
        tails = [repository.rpartition("/")[2] for repository in self.repositories]
        found = {
            re.sub(r"[-_.\s]+", "-", name.lower()): name
            for name in (*tails, *self.distributions, *self.modules)
        }
        kept = [name for name in found.values() if name.lower() not in _TOO_COMMON and len(name) > 2]
        return tuple(sorted(kept, key=len, reverse=True))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(_spellings(name) for name in self.words), re.IGNORECASE)

    @cached_property
    def addresses(self) -> re.Pattern[str]:
        """URLs of the repository and of its documentation."""
        places = [re.escape(name) for name in self.repositories] + [re.escape(host) for host in self.hosts]
        places += [rf"[\w.-]*{_spellings(name)}[\w.-]*\.[a-z]+" for name in self.words]
        inside = "|".join(places) or r"(?!)"
        return re.compile(
            rf"(?:https?://|git\+|git@|www\.)[^\s<>\"'`)\]]*?(?:{inside})[^\s<>\"'`)\]]*", re.IGNORECASE
        )


def hidden_text(text: str, names: Names, target: str = TARGET) -> str:
    """Prose or code in which no name is left. An address of the target becomes one that leads nowhere."""
    text = names.addresses.sub(f"https://{target.replace('_', '-')}.example/", text)
    for repository in names.repositories:
        text = re.sub(re.escape(repository), f"{target}/{target}", text, flags=re.IGNORECASE)
    return names.pattern.sub(target, text)


def hidden_files(files: Files, names: Names, target: str = TARGET) -> tuple[dict[str, File], tuple[str, ...]]:
    """A tree in which no name is left, in no path and no file; and the binary files that name it, which are left out
    (translations that were compiled, for the most part). `DataError` where a rewritten file would be no Python.
    """
    found: dict[str, File] = {}
    for path, file in files.items():
        data = file.data
        text = _decoded(data)
        if text is not None and file.mode != "120000":
            text = (
                _python(path, text, names, target)
                if path.endswith(_PYTHON)
                else hidden_text(text, names, target)
            )
            data = text.encode()
        elif file.mode == "120000":
            data = hidden_text(data.decode("utf-8", "replace"), names, target).encode()
        renamed = "/".join(names.pattern.sub(target, part) for part in path.split("/"))
        if renamed in found:
            raise DataError(f"{path}: masking gives it the name of another file ({renamed})")
        found[renamed] = File(data, file.mode)
    named = {path for path, file in found.items() if any(mentions({path: file}, names.words))}
    return {path: file for path, file in sorted(found.items()) if path not in named}, tuple(sorted(named))


def _python(path: str, text: str, names: Names, target: str) -> str:
    was_python = _parses(text)
    for module in names.modules if was_python else ():
        text = mask_python(text, module, target, where=path)
    text = hidden_text(text, names, target)
    if was_python and not _parses(text):
        raise DataError(f"{path}: is no Python any more once the name is masked")
    return text


def _parses(text: str) -> bool:
    try:
        compile(text, "<masked>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def _spellings(name: str) -> str:
    """One name however it is spelled. Letters and digits around it make another word of it, ``_`` does not."""
    parts: Sequence[str] = [re.escape(part) for part in re.split(r"[-_.\s]+", name) if part]
    return rf"(?<![A-Za-z0-9]){r'[-_. ]?'.join(parts)}(?![A-Za-z0-9])"


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def names_of(repo: str, modules: Iterable[str], distributions: Iterable[str], aliases: Iterable[str],
             docs_hosts: Iterable[str]) -> Names:  # fmt: skip
    """The names that a candidate's row gives."""
    return Names(
        tuple(modules), tuple(distributions), tuple(filter(None, (repo, *aliases))), tuple(docs_hosts)
    )

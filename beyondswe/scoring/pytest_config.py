"""Which configuration pytest would read in a tree's root, and what of its ``addopts`` a scoring job keeps.

The trusted configuration is handed to pytest under a name of its own (``-c``), so that what a patch does to
``pyproject.toml``, ``tox.ini`` or ``setup.cfg`` stays for everybody else but does not steer the tests. Which
file pytest reads depends on its version, which only the image knows: so there is a list, best first, and the
runner takes the first that its pytest reads.
"""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

CONFIG_FILES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
"""Files that hold nothing but pytest's configuration: protected as a whole."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FLAGS = _words(
    """
    --verbose --quiet --no-header --no-summary --showlocals --no-showlocals --full-trace --setup-show
    --setup-only --setup-plan --collect-only --co --fixtures --funcargs --markers --exitfirst --stepwise --sw
    --stepwise-skip --sw-skip --stepwise-reset --sw-reset --last-failed --lf --failed-first --ff --new-first
    --nf --cache-clear --pdb --trace --looponfail --no-cov --no-cov-on-fail --cov-append --cov-branch
    --cov-reset --self-contained-html --no-loadscope-reorder --loadscope-reorder --fold-skipped
    --no-fold-skipped --xfail-tb
    """
)
_WITH_VALUE = _words(
    """
    --tb --color --code-highlight --durations --durations-min --verbosity --show-capture --junitxml
    --junit-xml --junitprefix --junit-prefix --html --css --report-log --json-report-file --resultlog
    --result-log --pastebin --cov-report --cov-config --cov-fail-under --cov-context --numprocesses
    --maxprocesses --dist --tx --px --rsyncdir --rsyncignore --testrunuid --max-worker-restart --maxschedchunk
    --maxfail --reruns --reruns-delay --only-rerun --rerun-except --last-failed-no-failures --lfnf
    """
)
_OPTIONAL_VALUE = frozenset(["--cov", "--cache-show"])
_SELECTION = frozenset(["--deselect", "--ignore", "--ignore-glob"])
_SHORT_FLAGS = "vqxlfds"  # single letters without a value; of these `s` (no capturing) is kept
_SHORT_WITH_VALUE = "rnkmpcoW"


@dataclass(frozen=True)
class PytestConfig:
    """One configuration, which pytest from version ``since`` on would read."""

    since: tuple[int, int]
    name: str  # of the copy in the root (pytest goes by its ending), or of the file itself
    content: bytes | None  # None: the file of that name in the tree is itself the trusted one
    addopts: tuple[str, ...] = ()


def configurations(read: Callable[[str], bytes | None]) -> Iterator[PytestConfig]:
    """What pytest may read in a root whose files ``read`` gives, best first; the last is read by every
    version.

    Raises ValueError where ``addopts`` cannot be split into words.
    """
    for name in ("pytest.toml", ".pytest.toml"):
        if (raw := read(name)) is not None:
            yield PytestConfig((9, 0), name, None, _toml_addopts(_toml(raw).get("pytest")))
    for name in ("pytest.ini", ".pytest.ini"):
        raw = read(name)
        if raw is not None and (name == "pytest.ini" or _section(raw, "pytest") is not None):
            yield _ini(_section(raw, "pytest") or "", (0, 0) if name == "pytest.ini" else (6, 0), name)
    if (raw := read("pyproject.toml")) is not None:
        table = _toml(raw).get("tool", {}).get("pytest", {})
        if isinstance(table, dict) and table:
            options = table.get("ini_options")
            since = (9, 0) if options is None else (6, 0)
            yield PytestConfig(
                since, "pyproject.toml", raw, _toml_addopts(table if options is None else options)
            )
    for name, section in (("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        if (raw := read(name)) is not None and (text := _section(raw, section)) is not None:
            yield _ini(text, (0, 0), name)
    yield _ini("", (0, 0), "none")


def _ini(section: str, since: tuple[int, int], name: str) -> PytestConfig:
    copy = f"{name.strip('.').replace('.', '-')}.ini"
    return PytestConfig(since, copy, f"[pytest]\n{section}".encode(), _ini_addopts(section))


def _section(raw: bytes, name: str) -> str | None:
    """The text below a section's heading, as it stands; None: there is no such section."""
    lines = raw.decode("utf-8-sig", "replace").splitlines()
    taken: list[str] | None = None
    for line in lines:
        if line.startswith("["):
            heading = re.split("[#;]", line)[0].strip()
            if taken is not None:
                break
            if heading == f"[{name}]":
                taken = []
        elif taken is not None:
            taken.append(line)
    return None if taken is None else "\n".join(taken) + "\n"


def _ini_addopts(section: str) -> tuple[str, ...]:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, comment_prefixes=("#", ";"))
    try:
        parser.read_string(f"[pytest]\n{section}")
    except configparser.Error:
        return ()  # pytest refuses such a section too, and its own words are better
    return tuple(shlex.split(parser.get("pytest", "addopts", fallback="") or ""))


def _toml(raw: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(raw.decode("utf-8", "replace"))
    except tomllib.TOMLDecodeError:
        return {}  # no pytest reads it either


def _toml_addopts(table: object) -> tuple[str, ...]:
    options = table.get("addopts", "") if isinstance(table, dict) else ""
    return tuple(shlex.split(options)) if isinstance(options, str) else tuple(map(str, options))


def filtered_addopts(options: tuple[str, ...], *, keep_selection: bool = False) -> tuple[str, ...]:
    """``addopts`` less reporting, coverage, xdist, exit-first, rerun and selection options; all else stays as
    it is.

    ``keep_selection``: ``-k -m --deselect --ignore`` stay, for a run that looks for ids instead of being
    given them.
    """
    kept: list[str] = []
    rest = list(options)
    while rest:
        token = rest.pop(0)
        if token.startswith("--") and token != "--":
            name, _, value = token.partition("=")
            dropped = name in _WITH_VALUE or (name in _SELECTION and not keep_selection)
            if name in _FLAGS:
                continue
            if name in _OPTIONAL_VALUE:
                if not value and rest and not rest[0].startswith("-"):
                    rest.pop(0)
                continue
            if dropped:
                if "=" not in token and rest:
                    rest.pop(0)
                continue
            kept.append(token)
            if name in _SELECTION and "=" not in token and rest:
                kept.append(rest.pop(0))
        elif token.startswith("-") and len(token) > 1:
            kept += _short(token, rest, keep_selection)
        else:
            kept.append(token)
    return tuple(kept)


def without_places(options: tuple[str, ...]) -> tuple[str, ...]:
    """``addopts`` less files and folders, for a run that names its own: pytest would take both, and run what lies
    in both twice. A word after an option that has no value yet is that option's.
    """
    kept: list[str] = []
    for word in options:
        if word.startswith("-") or (kept and kept[-1].startswith("-") and "=" not in kept[-1]):
            kept.append(word)
    return tuple(kept)


def _short(token: str, rest: list[str], keep_selection: bool) -> list[str]:
    """What stays of a cluster such as ``-vsra``; the value of its last letter may be the next word."""
    kept: list[str] = []
    letters = token[1:]
    for position, letter in enumerate(letters):
        if letter in _SHORT_WITH_VALUE:
            value = letters[position + 1 :]
            words = [f"-{letter}{value}"] if value else [f"-{letter}", *rest[:1]]
            if not value:
                del rest[:1]
            drop = letter in "rn" or (letter in "km" and not keep_selection)
            return kept if drop else kept + words
        if letter not in _SHORT_FLAGS:
            return [token]  # some plugin's option, or a negative number: not ours to read
        if letter == "s":
            kept.append("-s")
    return kept

"""Applies a patch, taken or submitted, to a snapshot's tree: all of it, or not at all with the reason.

First as it stands. Then with what gets lost on the way put right: the last newline, blank lines at the end,
line ends, counts of hunks, white space of context lines. Then with less context. Never in part, never
reversed; what it took is in the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from posixpath import dirname, join, normpath

from beyondswe.errors import BeyondSWEError
from beyondswe.sandbox.paths import quoted, reserved
from beyondswe.sandbox.trees import EMPTY_BLOB, SYMLINK, ApplyError, Changed, Trees

MAX_PATCH = 50 << 20  # bytes


class How(StrEnum):
    """How much help a patch needed."""

    STRICT = "strict"
    WHITESPACE = "whitespace"
    REDUCED_CONTEXT = "reduced_context"


@dataclass(frozen=True)
class Applied:
    """The tree after a patch; ``flags`` name what is odd in it but no reason to refuse it."""

    tree: str
    how: How
    flags: tuple[str, ...] = ()


class PatchRejected(BeyondSWEError):
    """The patch cannot be applied; the message says why, in git's words where git refused it."""


def apply_patch(trees: Trees, tree: str, text: str) -> Applied:
    """Apply a patch to ``tree``, a snapshot's, in ``Trees.above(snapshot.git_dir)``.

    Above a snapshot, because git takes the result of a binary patch from its hash alone where it knows the
    object: there it knows none but the snapshot's.
    """
    _refuse_text(text)
    text, flags = _without_submodules(text)
    if not text.strip():
        return Applied(tree, How.STRICT, tuple(flags))
    first: ApplyError | None = None
    for how, attempt, options in _attempts(text):
        try:
            result = trees.apply(tree, attempt.encode(), options=options)
        except ApplyError as error:
            first = first or error
            continue
        changes = trees.changed(tree, result)
        for change in changes:
            if name := reserved(change.path):
                raise PatchRejected(f"it changes {quoted(name)}, a name that git reserves")
        return Applied(
            result, how, (*flags, *_outward_links(trees, changes), *_twins(trees, result, changes))
        )
    raise PatchRejected(f"git apply: {first}")


_SECTION = re.compile(r"^(?=diff --git )", re.MULTILINE)
_HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", re.MULTILINE)
_ABSOLUTE = re.compile(r'^(?:---|\+\+\+|(?:rename|copy) (?:from|to)) ("?/(?!dev/null\s*$).*)$', re.MULTILINE)
_SUBMODULE = re.compile(
    r"^(?:(?:(?:old|new)|(?:new|deleted) file) mode 160000|index [0-9a-f.]+ 160000)\s*$", re.MULTILINE
)
_INDEX = re.compile(r"^index ([0-9a-f]+)\.\.([0-9a-f]+)", re.MULTILINE)
_WITHOUT_HUNKS = re.compile(r"^(?:(?:old|new|new file|deleted file) mode|(?:rename|copy) to) ", re.MULTILINE)
_WITHOUT_DATA = re.compile(r"^Binary files .* differ\s*$", re.MULTILINE)


def _refuse_text(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise PatchRejected(f"it is not UTF-8 text: a lone surrogate at character {error.start}") from error
    if size > MAX_PATCH:
        raise PatchRejected(f"it has {size} bytes; at most {MAX_PATCH} are taken")
    if (at := text.find("\0")) >= 0:
        raise PatchRejected(f"it is not text: a NUL at character {at}")
    if text.lstrip().startswith("```"):
        raise PatchRejected("it begins with a Markdown fence; a patch is the text of the diff alone")
    if match := _WITHOUT_DATA.search(text):  # no line of a hunk begins so
        raise PatchRejected(
            f"a binary change without its data ({match[0].strip()}); make it with git diff --binary"
        )
    for section in _SECTION.split(text):
        header = _header(section)
        if match := _ABSOLUTE.search(header):
            raise PatchRejected(f"an absolute path: {match[1]}")
        if section.startswith("diff --git ") and header == section and not _whole_without_hunks(section):
            raise PatchRejected(f"it was cut off: nothing follows {section.splitlines()[0]}")


def _header(section: str) -> str:
    """What comes before the first hunk of a file."""
    hunk = _HUNK.search(section)
    return section[: hunk.start()] if hunk else section


def _whole_without_hunks(section: str) -> bool:
    """Whether the change of a file can be whole although no hunk follows; git lets a cut-off one pass."""
    if "\nGIT binary patch" in section:
        return True
    if index := _INDEX.search(section):  # an empty file that comes or goes
        return all(not name.strip("0") or EMPTY_BLOB.startswith(name) for name in index.groups())
    return bool(_WITHOUT_HUNKS.search(section))


def _without_submodules(text: str) -> tuple[str, list[str]]:
    """The patch less its changes of submodule pointers, which have no place in a tree of files."""
    kept, flags = [], []
    for section in _SECTION.split(text):
        if section.startswith("diff --git ") and _SUBMODULE.search(_header(section)):
            flags.append(f"submodule_pointer_ignored:{section.splitlines()[0].removeprefix('diff --git ')}")
        else:
            kept.append(section)
    return "".join(kept), flags


def _attempts(text: str) -> Iterator[tuple[How, str, tuple[str, ...]]]:
    yield How.STRICT, text, ()
    completed, whole = _completed(text)
    versions = [completed]
    if re.search(r"^(?:diff --git|---|\+\+\+|@@) .*\r$", text, re.MULTILINE):  # line ends of another system
        versions.append(completed.replace("\r\n", "\n"))
    # Counting anew would take a patch that was cut off for a whole one.
    recount = [("--recount",), ("--recount", "--ignore-whitespace")] if whole else []
    for options in [(), ("--ignore-whitespace",), *recount]:
        for version in versions:
            if options or version != text:
                yield How.WHITESPACE, version, options
    for options in [(), ("--ignore-whitespace",), *recount]:
        for version in versions:
            yield How.REDUCED_CONTEXT, version, ("-C1", *options)


def _completed(text: str) -> tuple[str, bool]:
    """The patch with what stripping took off its end, and whether it is whole then.

    Only white space can be stripped, so only blank context lines: as many are put back as the last hunk's
    heading counts. If it counts other lines too, the patch was cut off.
    """
    text = text if text.endswith("\n") else text + "\n"
    hunks = list(_HUNK.finditer(text))
    if (at := text.rfind("\nGIT binary patch\n")) > (hunks[-1].start() if hunks else -1) and at >= 0:
        return text if text.endswith("\n\n") else text + "\n", True
    if not hunks:
        return text, True
    old, new = (1 if count is None else int(count) for count in hunks[-1].groups())
    for line in text[hunks[-1].end() :].split("\n")[1:-1]:
        if (old, new) == (0, 0) or line[:1] not in ("", " ", "-", "+", "\\", "\r"):
            break
        old -= line[:1] in ("", " ", "-", "\r")
        new -= line[:1] in ("", " ", "+", "\r")
    if old == new:
        return text + " \n" * max(old, 0), True
    return text, False


def _outward_links(trees: Trees, changes: list[Changed]) -> Iterator[str]:
    for change in changes:
        if change.new is not None and change.new.mode == SYMLINK:
            target = trees.read(change.new.oid)
            if (
                target.startswith(b"/")
                or normpath(join(dirname(change.path), target)).split(b"/")[0] == b".."
            ):
                yield f"link_out_of_tree:{quoted(change.path)} -> {quoted(target)}"


def _twins(trees: Trees, tree: str, changes: list[Changed]) -> Iterator[str]:
    added = {change.path.lower(): change.path for change in changes if change.old is None}
    if added:
        for path in trees.entries(tree):
            twin = added.get(path.lower(), path)
            if twin != path:
                yield f"case_twins:{quoted(path)}, {quoted(twin)}"

"""A wheel that untrusted code built, turned into files to put in place: installed as data, none of it is run
for that.

Left out: ``.pth`` files and start-up modules, which every interpreter would run, entry points of pytest
plugins, which the runner's pytest would load, and metadata in any other place than a wheel's own. Console
scripts are made here from the entry points, as an installer does. Files for ``share``, ``include`` and the like
have no place and are left out too.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from beyondswe.sandbox.trees import EXECUTABLE, FILE, File
from beyondswe.scoring.archives import BadArchive, read_zip
from beyondswe.scoring.job import Write
from beyondswe.scoring.protected import is_loaded_by_python

_PLUGIN_GROUPS = ("pytest11",)
_SCRIPT_GROUPS = ("console_scripts", "gui_scripts")
_ENTRY_POINT = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<attribute>[\w.]+)\s*(\[.*\])?")
_SCRIPT_NAME = re.compile(r"[\w][\w.+-]*")
_GROUP_NAME = re.compile(r"[\w.:-]+")  # readers differ on any other, brackets and line ends above all

Keeps = Callable[[str, str], bool]
"""Whether an entry point (group, name) is kept."""


@dataclass(frozen=True)
class Brought:
    """What a wheel would add to an environment, by names."""

    distribution: str = ""  # normalised
    groups: tuple[str, ...] = ()  # of entry points
    plugins: tuple[str, ...] = ()  # entry points that pytest loads
    commands: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()  # top-level ones

    def keeps(self, group: str, name: str) -> bool:
        """Whether this wheel has such an entry point: of plugins that very name, of others any of the group."""
        return group in self.groups and (group not in _PLUGIN_GROUPS or name in self.plugins)

    def to_record(self) -> dict[str, Any]:
        """For an instance's record."""
        found = {name: list(value) for name, value in vars(self).items() if name != "distribution"}
        return {"distribution": self.distribution, **found}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Brought:
        found = {name: tuple(map(str, record.get(name, ()))) for name in _BROUGHT_LISTS}
        return cls(distribution=str(record.get("distribution", "")), **found)


_BROUGHT_LISTS = ("groups", "plugins", "commands", "modules")


def no_plugin(group: str, name: str) -> bool:
    """Any entry point but those of pytest plugins."""
    return group not in _PLUGIN_GROUPS


def starts_by_itself(path: bytes) -> bool:
    """Whether an interpreter would run or read a file of a wheel by itself, wherever in it; not its own metadata."""
    first, _, rest = path.partition(b"/")
    if first.endswith(b".data"):
        path = rest.partition(b"/")[2]
        first, _, rest = path.partition(b"/")
    if first.endswith(b".dist-info") and b"/" not in rest:
        return False
    return (first.endswith(b".pth") and not rest) or is_loaded_by_python(path)


def brought(wheel: bytes) -> Brought:
    """What a wheel brings; raises `BadArchive` where it is none."""
    files = read_zip(wheel)
    folders = {path.partition(b"/")[0] for path in files if path.partition(b"/")[2] == b"METADATA"}
    own = [folder for folder in folders if folder.endswith(b".dist-info")]
    if len(own) != 1:
        raise BadArchive(f"the wheel has {len(own)} folders of metadata")
    points = (
        _sections(files[own[0] + b"/entry_points.txt"].data) if own[0] + b"/entry_points.txt" in files else {}
    )
    modules, commands = set(), {name for group in _SCRIPT_GROUPS for name in points.get(group, {})}
    for path in files:
        first, _, rest = path.partition(b"/")
        if first.endswith(b".data"):
            scheme, _, inner = rest.partition(b"/")
            if scheme == b"scripts":
                commands.add(_text(inner))
            first = inner.partition(b"/")[0] if scheme in (b"purelib", b"platlib") else b""
        if first and not first.endswith((b".dist-info", b".pth")):
            modules.add(_text(first.split(b".")[0]))
    return Brought(
        distribution=_normalised(own[0]),
        groups=tuple(sorted(points)),
        plugins=tuple(sorted(name for group in _PLUGIN_GROUPS for name in points.get(group, {}))),
        commands=tuple(sorted(commands)),
        modules=tuple(sorted(modules)),
    )


def _normalised(folder: bytes) -> str:
    return re.sub(r"[-_.]+", "-", _text(folder).partition("-")[0]).lower()


def _text(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


def installed(
    wheel: bytes,
    *,
    library: int,
    commands: int,
    without: Collection[bytes] = (),
    keeps: Keeps = no_plugin,
    distribution: str | None = None,
) -> Iterator[Write]:
    """The files of a wheel at the places ``library`` and ``commands``; raises `BadArchive`.

    ``without``: top-level names that are not wanted, since something trusted has them. ``keeps`` decides about
    entry points. ``distribution``: metadata of no other one is taken.
    """
    for path, file in read_zip(wheel).items():
        first, _, rest = path.partition(b"/")
        if first.endswith(b".data"):
            scheme, _, inner = rest.partition(b"/")
            if scheme == b"scripts" and b"/" not in inner:
                yield Write(inner, "script", file.data, commands)
            elif scheme in (b"purelib", b"platlib"):
                yield from _library(inner, file, library, without)
        elif first.endswith(b".dist-info"):
            if distribution is not None and _normalised(first) != distribution:
                continue
            data = file.data
            if rest == b"entry_points.txt":
                data, scripts = _entry_points(file.data, keeps)
                for name, text in scripts.items():
                    yield Write(name.encode(), "script", text.encode(), commands)
            yield Write(path, FILE, data, library)
        else:
            yield from _library(path, file, library, without)


def _library(path: bytes, file: File, place: int, without: Collection[bytes]) -> Iterator[Write]:
    first, _, rest = path.partition(b"/")
    loaded = (first.endswith(b".pth") and not rest) or is_loaded_by_python(path)
    if not loaded and first not in without and first.removesuffix(b".py") not in without:
        yield Write(path, EXECUTABLE if file.mode == EXECUTABLE else FILE, file.data, place)


def _sections(raw: bytes) -> dict[str, dict[str, str]]:
    """Entry points by group and name; of groups and names only those that every reader takes alike."""
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    try:
        parser.read_string(raw.decode("utf-8"))
    except (configparser.Error, UnicodeDecodeError) as error:
        raise BadArchive(f"its entry points cannot be read: {error}") from error
    return {
        group: {
            name: value
            for name, value in parser.items(group)
            # One of several lines: how it is read depends on the reader.
            if name.isprintable() and not name.startswith("[") and value.isprintable()
        }
        for group in parser.sections()
        if _GROUP_NAME.fullmatch(group)
    }


def _entry_points(raw: bytes, keeps: Keeps) -> tuple[bytes, Mapping[str, str]]:
    """The entry points that are kept, and the text of each command."""
    kept: list[str] = []
    scripts = {}
    for group, points in _sections(raw).items():
        points = {name: value for name, value in points.items() if keeps(group, name.strip())}
        if not points and not keeps(group, ""):
            continue
        kept.append(f"[{group}]")
        for name, value in points.items():
            kept.append(f"{name} = {value}")
            target = _ENTRY_POINT.fullmatch(value.strip())
            if group in _SCRIPT_GROUPS and target and _SCRIPT_NAME.fullmatch(name):
                root = target["attribute"].split(".")[0]
                scripts[name] = (
                    f"#!python\nimport sys\nfrom {target['module']} import {root}\n"
                    f"if __name__ == '__main__':\n    sys.exit({target['attribute']}())\n"
                )
    return ("\n".join(kept) + "\n").encode(), scripts

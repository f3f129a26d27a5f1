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
from collections.abc import Collection, Iterator, Mapping

from beyondswe.sandbox.trees import EXECUTABLE, FILE, File
from beyondswe.scoring.archives import BadArchive, read_zip
from beyondswe.scoring.job import Write
from beyondswe.scoring.protected import is_loaded_by_python

_PLUGIN_GROUPS = ("pytest11",)
_SCRIPT_GROUPS = ("console_scripts", "gui_scripts")
_ENTRY_POINT = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<attribute>[\w.]+)\s*(\[.*\])?")
_SCRIPT_NAME = re.compile(r"[\w][\w.+-]*")
_GROUP_NAME = re.compile(r"[\w.:-]+")  # readers differ on any other, brackets and line ends above all


def installed(
    wheel: bytes, *, library: int, commands: int, without: Collection[bytes] = ()
) -> Iterator[Write]:
    """The files of a wheel at the places ``library`` and ``commands``; raises `BadArchive`.

    ``without``: top-level names that are not wanted, since something trusted has them.
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
            data = file.data
            if rest == b"entry_points.txt":
                data, scripts = _entry_points(file.data)
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


def _entry_points(raw: bytes) -> tuple[bytes, Mapping[str, str]]:
    """The entry points less those of pytest plugins, and the text of each command."""
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    try:
        parser.read_string(raw.decode("utf-8"))
    except (configparser.Error, UnicodeDecodeError) as error:
        raise BadArchive(f"its entry points cannot be read: {error}") from error
    kept: list[str] = []
    scripts = {}
    for group in parser.sections():
        if group in _PLUGIN_GROUPS or not _GROUP_NAME.fullmatch(group):
            continue
        kept.append(f"[{group}]")
        for name, value in parser.items(group):
            if not name.isprintable() or name.startswith("[") or not value.isprintable():
                continue  # of several lines: how they are read depends on the reader
            kept.append(f"{name} = {value}")
            target = _ENTRY_POINT.fullmatch(value.strip())
            if group.strip() in _SCRIPT_GROUPS and target and _SCRIPT_NAME.fullmatch(name):
                root = target["attribute"].split(".")[0]
                scripts[name] = (
                    f"#!python\nimport sys\nfrom {target['module']} import {root}\n"
                    f"if __name__ == '__main__':\n    sys.exit({target['attribute']}())\n"
                )
    return ("\n".join(kept) + "\n").encode(), scripts

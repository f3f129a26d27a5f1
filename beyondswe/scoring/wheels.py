"""A wheel that untrusted code built, turned into files to put in place: installed as data, none of it is run
for that.

Left out: ``.pth`` files and start-up modules, which every interpreter would run, and entry points of pytest
plugins, which the runner's pytest would load. Console scripts are made here from the entry points, as an
installer does. Files for ``share``, ``include`` and the like have no place and are left out too.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Collection, Iterator, Mapping

from beyondswe.sandbox.trees import EXECUTABLE, FILE, File
from beyondswe.scoring.archives import BadArchive, read_zip
from beyondswe.scoring.job import Write

_PLUGIN_GROUPS = ("pytest11",)
_SCRIPT_GROUPS = ("console_scripts", "gui_scripts")
_ENTRY_POINT = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<attribute>[\w.]+)\s*(\[.*\])?")
_SCRIPT_NAME = re.compile(r"[\w][\w.+-]*")
_STARTED_BY_PYTHON = (b"sitecustomize", b"usercustomize")


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
        elif first.endswith(b".dist-info") and rest == b"entry_points.txt":
            kept, scripts = _entry_points(file.data)
            yield Write(path, FILE, kept, library)
            for name, text in scripts.items():
                yield Write(name.encode(), "script", text.encode(), commands)
        else:
            yield from _library(path, file, library, without)


def _library(path: bytes, file: File, place: int, without: Collection[bytes]) -> Iterator[Write]:
    first, _, rest = path.partition(b"/")
    loaded = (first.endswith(b".pth") and not rest) or first.split(b".")[0] in _STARTED_BY_PYTHON
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
        if group.strip() in _PLUGIN_GROUPS:
            continue
        kept.append(f"[{group}]")
        for name, value in parser.items(group):
            kept.append(f"{name} = {value}")
            target = _ENTRY_POINT.fullmatch(value.strip())
            if group.strip() in _SCRIPT_GROUPS and target and _SCRIPT_NAME.fullmatch(name):
                root = target["attribute"].split(".")[0]
                scripts[name] = (
                    f"#!python\nimport sys\nfrom {target['module']} import {root}\n"
                    f"if __name__ == '__main__':\n    sys.exit({target['attribute']}())\n"
                )
    return ("\n".join(kept) + "\n").encode(), scripts

"""The text editor: files of the sandbox read and written as tar members from outside.

No command line carries a path or a text, names may hold anything, and owner and mode of a file stay as they
were. Bytes that are no UTF-8 survive an edit unchanged.
"""

from __future__ import annotations

import io
import posixpath
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from beyondswe.agents.searchswe.context import cut
from beyondswe.agents.searchswe.schemas import OUTPUT_LIMIT
from beyondswe.sandbox.tarstream import Kind, Member, members
from beyondswe.sandbox.types import Sandbox
from beyondswe.sandbox.wire import EngineRefused

_FILE_LIMIT = 8 << 20  # bytes of a file that is viewed or edited
_AROUND = 4  # lines shown before and after an edit
_LISTED = 500  # entries of a folder
_LINKS = 10  # symbolic links that are followed
_MAY_WRITE = """mkdir -p -- "$1" && if [ -e "$2" ]; then [ -w "$2" ]; else [ -w "$1" ]; fi"""
"""Asked as the image's user: what the engine unpacks, it unpacks as root."""


class _Refused(Exception):
    """What the model is told instead of a result."""


@dataclass(frozen=True)
class _File:
    path: str  # links followed
    data: bytes
    mode: int
    uid: int
    gid: int

    @property
    def text(self) -> str:
        if b"\0" in self.data[:8192]:
            raise _Refused(f"{self.path} is a binary file.")
        return self.data.decode("utf-8", "surrogateescape")


class Editor:
    """One attempt's editor; remembers every edit for ``undo_edit``."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._history: dict[str, list[bytes | None]] = {}  # None: the file was not there
        self._owner: tuple[int, int] | None = None

    def run(self, arguments: Mapping[str, Any]) -> str:
        """Carry out one call (checked against the schema); faults come back as text."""
        path = str(arguments["path"])
        if not path.startswith("/"):
            return f"Error: {path!r} is no absolute path; it has to begin with /."
        if "\0" in path:
            return "Error: a path cannot hold a NUL character."
        path = posixpath.normpath(path)
        try:
            match arguments["command"]:
                case "view":
                    return self._view(path, arguments.get("view_range"))
                case "create":
                    return self._create(path, arguments.get("file_text"))
                case "str_replace":
                    return self._replace(path, arguments.get("old_str"), arguments.get("new_str", ""))
                case "insert":
                    return self._insert(path, arguments.get("insert_line"), arguments.get("new_str"))
                case _:
                    return self._undo(path)
        except _Refused as refused:
            return f"Error: {refused}"

    def _view(self, path: str, lines: list[int] | None) -> str:
        file = self._read(path)
        if file is None:
            if lines:
                raise _Refused(f"{path} is a folder: view_range is for files.")
            return self._folder(path)
        shown = file.text.splitlines(keepends=False) if file.data else []
        if not shown:
            return f"{path} is empty."
        first, last = 1, len(shown)
        if lines:
            if len(lines) != 2:
                raise _Refused("view_range takes two numbers, the first and the last line.")
            first, last = lines[0], len(shown) if lines[1] == -1 else lines[1]
            if not 1 <= first <= len(shown) or last < first:
                raise _Refused(f"view_range {lines} does not fit: {path} has {len(shown)} lines.")
            last = min(last, len(shown))
        return cut(_numbered(shown[first - 1 : last], first), OUTPUT_LIMIT)

    def _create(self, path: str, text: str | None) -> str:
        if text is None:
            raise _Refused("create needs file_text.")
        try:
            there = self._read(path)
        except _Missing:
            pass
        else:
            what = "a folder" if there is None else "a file"
            raise _Refused(f"{path} is there already, {what}; use str_replace or insert to change a file.")
        self._write(_File(path, _bytes(text), 0o644, *self._user()))
        self._history.setdefault(path, []).append(None)
        return f"Created {path} ({len(text.splitlines())} lines)."

    def _replace(self, path: str, old: str | None, new: str) -> str:
        if not old:
            raise _Refused("str_replace needs old_str, the text to replace.")
        file = self._file(path)
        text = file.text
        if "\r\n" in text and "\r\n" not in old and old not in text:  # the file's own line ends
            old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        count = text.count(old)
        if count == 0:
            raise _Refused(
                f"old_str does not stand in {path} as it was given. View the file, and give it with the very same "
                "spaces and line breaks."
            )
        if count > 1:
            where = ", ".join(str(line) for line in _places(text, old)[:10])
            raise _Refused(
                f"old_str stands {count} times in {path} (lines {where}). Give more of what is around the place."
            )
        begin = text.index(old)
        return self._edited(
            file, text[:begin] + new + text[begin + len(old) :], text.count("\n", 0, begin), new
        )

    def _insert(self, path: str, line: int | None, new: str | None) -> str:
        if line is None or new is None:
            raise _Refused("insert needs insert_line and new_str.")
        file = self._file(path)
        lines = file.text.splitlines(keepends=True)
        if not 0 <= line <= len(lines):
            raise _Refused(f"insert_line {line} does not fit: {path} has {len(lines)} lines.")
        end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
        if line and not lines[line - 1].endswith("\n"):
            lines[line - 1] += end
        lines.insert(line, new if new.endswith("\n") else new + end)
        return self._edited(file, "".join(lines), line, new)

    def _undo(self, path: str) -> str:
        try:
            file = self._file(path)
        except _Missing:
            file = None
        resolved = file.path if file else path
        if not (before := self._history.get(resolved)):
            raise _Refused(f"there is no edit of {path} to take back.")
        data = before.pop()
        if data is None:
            self._sandbox.run(["rm", "-f", "--", resolved], timeout=60, cwd="/")
            return f"Took back that {path} was created: it is gone again."
        self._write(
            _File(resolved, data, *((file.mode, file.uid, file.gid) if file else (0o644, *self._user())))
        )
        return f"Took back the last edit of {path}."

    def _edited(self, file: _File, text: str, line: int, new: str) -> str:
        self._write(_File(file.path, _bytes(text), file.mode, file.uid, file.gid))
        self._history.setdefault(file.path, []).append(file.data)
        lines = text.splitlines()
        first = max(0, line - _AROUND)
        shown = _numbered(lines[first : line + new.count("\n") + 1 + _AROUND], first + 1)
        return f"Edited {file.path}. It now reads there:\n{cut(shown, OUTPUT_LIMIT)}"

    def _file(self, path: str) -> _File:
        file = self._read(path)
        if file is None:
            raise _Refused(f"{path} is a folder.")
        return file

    def _read(self, path: str) -> _File | None:
        """The file, links followed; None for a folder."""
        asked = path
        for _ in range(_LINKS):
            try:
                with self._sandbox.get(path) as pieces:
                    for member in members(pieces):
                        name = posixpath.normpath(member.name.decode("utf-8", "surrogateescape"))
                        if member.kind is Kind.SYMLINK and "/" not in name:
                            target = member.target.decode("utf-8", "surrogateescape")
                            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
                            break
                        if member.kind is Kind.DIRECTORY:
                            return None
                        if member.kind is not Kind.FILE:
                            raise _Refused(f"{asked} is no regular file.")
                        return _File(path, _content(member, asked), member.mode, member.uid, member.gid)
                    else:
                        raise _Missing(f"{asked} is not there.")
            except FileNotFoundError:
                raise _Missing(f"{asked} is not there.") from None
            except EngineRefused as error:
                if "too many links" not in str(error):
                    raise
                break
            except ValueError:
                raise _Refused(f"{asked!r} cannot be read: its name is no UTF-8.") from None
        raise _Refused(f"{asked} is a link that leads in circles.")

    def _write(self, file: _File) -> None:
        parent, name = posixpath.split(file.path)
        made = self._sandbox.run(["/bin/sh", "-c", _MAY_WRITE, "sh", parent, file.path], timeout=60, cwd="/")
        if made.exit_code != 0:
            why = made.stderr.decode("utf-8", "replace").strip()
            raise _Refused(f"{file.path} cannot be written: {why or 'no permission'}")
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.uid, entry.gid = len(file.data), file.mode, file.uid, file.gid
            entry.mtime = int(time.time())  # a time of 0 would let a stale .pyc of the same size stand
            archive.addfile(entry, io.BytesIO(file.data))
        self._sandbox.put(buffer.getvalue(), parent)

    def _user(self) -> tuple[int, int]:
        """Who new files belong to: the user that commands run as."""
        if self._owner is None:
            told = self._sandbox.run("id -u; id -g", timeout=60, cwd="/").stdout.split()
            self._owner = (int(told[0]), int(told[1])) if len(told) == 2 else (0, 0)
        return self._owner

    def _folder(self, path: str) -> str:
        found = self._sandbox.run(
            ["find", path, "-maxdepth", "2", "-not", "-path", "*/.*", "-not", "-name", "__pycache__"],
            timeout=60,
            cwd="/",
            max_output=1 << 18,
        )
        if path.rpartition("/")[2].startswith("."):
            found = self._sandbox.run(
                ["find", path, "-maxdepth", "2"], timeout=60, cwd="/", max_output=1 << 18
            )
        entries = sorted(found.stdout.decode("utf-8", "replace").splitlines())
        more = f"\n[{len(entries) - _LISTED} entries more]" if len(entries) > _LISTED else ""
        return f"{path}, two levels deep, without hidden files:\n" + "\n".join(entries[:_LISTED]) + more


class _Missing(_Refused):
    """Nothing lies at the path."""


def _content(member: Member, path: str) -> bytes:
    if member.size > _FILE_LIMIT:
        raise _Refused(f"{path} is too large for the editor ({member.size} bytes); use bash.")
    return b"".join(member.data)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _numbered(lines: list[str], first: int) -> str:
    shown = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, first))
    return shown.encode("utf-8", "replace").decode("utf-8")


def _places(text: str, part: str) -> list[int]:
    """The lines on which a part of the text begins."""
    found, at = [], text.find(part)
    while at >= 0:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(part, at + 1)
    return found

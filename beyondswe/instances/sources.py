"""Where rows come from: JSONL, JSON, parquet, a folder, a Hugging Face id. Each row comes with its place.

A line that cannot be read is a row with a problem, and reading goes on. A folder is either the files of one
dataset (all are read) or a mirror of a Hugging Face dataset repository (its README and the names of its files
say which are read).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

import yaml

from beyondswe.errors import DataError, UsageError
from beyondswe.instances import huggingface
from beyondswe.instances.problems import Problem, printable, shown

READABLE = (".jsonl", ".json", ".parquet")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?")
_BLANK, _COMMA, _ARRAY_END = re.compile(r"\s*"), re.compile(r"\s*,\s*"), re.compile(r"\s*\]\s*\Z")
_LFS = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True)
class RawRow:
    """A row as it was found. ``values`` is None where ``problem`` says why it cannot be read."""

    file: str
    line: int
    values: dict[str, Any] | None
    problem: Problem | None = None
    raw: bytes = b""

    @property
    def digest(self) -> str:
        """sha256 of what was found, for rows that give no instance."""
        found = (
            self.raw if self.values is None else json.dumps(self.values, sort_keys=True, default=str).encode()
        )
        return hashlib.sha256(found).hexdigest()


@dataclass(frozen=True)
class Source:
    """A dataset before it is read. ``folder`` has suites and archives beside it; ``version`` may be empty."""

    name: str
    version: str
    folder: Path | None
    rows: Iterator[RawRow]
    from_hub: bool = False


def open_source(spec: str, *, split: str | None = None) -> Source:
    """Find what ``spec`` names; the rows are read when they are asked for."""
    path = Path(spec)
    if path.is_dir():
        return _folder(path, split)
    if path.exists():
        if path.suffix not in READABLE:
            raise UsageError(
                f"{spec}: a dataset is a {', '.join(READABLE)} file, a folder or a Hugging Face id"
            )
        return _described(path.parent, path.stem, split, rows=read_files([path]))
    if _HUB_ID.fullmatch(spec) and path.suffix not in READABLE:
        return _hub(spec, split)
    raise UsageError(f"{spec}: there is no such file or folder, and it is not a Hugging Face id (owner/name)")


def _hub(spec: str, split: str | None) -> Source:
    """A Hugging Face id or id@revision: its repository, or what `datasets` keeps prepared of it."""
    hub_id, _, revision = spec.partition("@")
    try:
        folder, commit = huggingface.fetch(hub_id, revision or None)
    except huggingface.NotThere as absent:
        try:
            rows = list(huggingface.library_rows(hub_id, split, revision=revision or None))
        except DataError:
            raise absent from None
        return Source(hub_id, revision, None, _library(rows, hub_id), from_hub=True)
    return Source(hub_id, commit, folder, _mirror_rows(folder, split), from_hub=True)


def _folder(folder: Path, split: str | None) -> Source:
    name = folder.resolve().name
    main = folder / "instances.jsonl"
    if main.is_file():
        return _described(folder, name, split, rows=read_files([main]))
    if split is not None or huggingface.is_mirror(folder):
        return _described(folder, name, None, rows=_mirror_rows(folder, split))
    files = sorted(path for path in folder.iterdir() if path.suffix in READABLE and path.is_file())
    if not files:
        raise UsageError(
            f"{folder}: there is no {', '.join(READABLE)} file in this folder, nor a folder data/ with one"
        )
    return _described(folder, name, None, rows=read_files(files))


def _described(folder: Path, name: str, split: str | None, *, rows: Iterator[RawRow]) -> Source:
    """Name and version from the ``dataset.yaml`` beside the rows, where there is one."""
    if split is not None:
        raise UsageError(
            f"--split {split}: only dataset repositories (Hugging Face ids and their mirrors) have splits"
        )
    facts = described(folder)
    return Source(str(facts.get("name") or name), str(facts.get("version") or ""), folder, rows)


def described(folder: Path) -> dict[str, Any]:
    """What the ``dataset.yaml`` of a folder says; empty where there is none."""
    path = folder / "dataset.yaml"
    if not path.is_file():
        return {}
    try:
        facts = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not YAML: {error}") from error
    if not isinstance(facts, dict):
        raise DataError(f"{path}: expected a mapping with name and version, found {shown(facts)}")
    return facts


def _mirror_rows(folder: Path, split: str | None) -> Iterator[RawRow]:
    """The rows of one split. Its files are read here, with their lines, unless only `datasets` knows how."""
    chosen, files = huggingface.split_files(folder, split)
    if all(path.suffix in READABLE for path in files):
        return read_files(files)
    return _library(huggingface.library_rows(str(folder.absolute()), chosen), f"{folder}:{chosen}")


def _library(rows: Iterable[dict[str, Any]], shown_as: str) -> Iterator[RawRow]:
    return (RawRow(shown_as, number, _plain(row)) for number, row in enumerate(rows, 1))


def read_files(paths: Sequence[Path]) -> Iterator[RawRow]:
    for path in paths:
        with path.open("rb") as stream:
            if stream.read(len(_LFS)) == _LFS:
                raise DataError(
                    f"{path}: this is a Git LFS pointer, not the data; run `git lfs pull` in its repository"
                )
        reader = {".jsonl": _jsonl, ".json": _json, ".parquet": _parquet}[path.suffix]
        yield from reader(path)


def _jsonl(path: Path) -> Iterator[RawRow]:
    with path.open("rb") as stream:
        for number, raw in enumerate(stream, 1):
            line = (raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw).rstrip(b"\r\n")
            if not line.strip():
                continue
            try:
                values = json.loads(line.decode(), parse_constant=_no_constant)
            except (
                ValueError,
                RecursionError,
            ) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
                yield RawRow(str(path), number, None, _unreadable(error, number, line), line)
            else:
                yield _object(path, number, values, line)


def _json(path: Path) -> Iterator[RawRow]:
    """An array of rows, one row alone, or rows one a line. After a broken element of an array it ends."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    if not text.lstrip().startswith("["):
        try:
            yield _object(path, 1, json.loads(text, parse_constant=_no_constant), b"")
        except (ValueError, RecursionError):
            yield from _jsonl(path)
        return
    yield from _array(path, text)


def _array(path: Path, text: str) -> Iterator[RawRow]:
    """The elements of a JSON array, decoded one by one so that each has its line."""
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    at, line, before = text.index("[") + 1, 1 + text.count("\n", 0, text.index("[")), _BLANK
    while not _ARRAY_END.match(text, at):
        try:
            gap = before.match(text, at)
            if gap is None:
                raise json.JSONDecodeError("Expecting ',' or the end of the array", text, at)
            line += text.count("\n", at, gap.end())
            values, at = decoder.raw_decode(text, gap.end())
        except (ValueError, RecursionError) as error:
            rest = text[at:].encode()
            problem = _unreadable(error, line, rest)
            message = f"{problem.message}; the rest of the file was not read"
            yield RawRow(str(path), line, None, replace(problem, message=message), rest)
            return
        yield _object(path, line, values, b"")
        line += text.count("\n", gap.end(), at)
        before = _COMMA


def _parquet(path: Path) -> Iterator[RawRow]:
    huggingface.need("pyarrow", f"reading {path}")
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            for batch in table.iter_batches(batch_size=16):
                for values in batch.to_pylist():
                    number += 1
                    yield RawRow(str(path), number, _plain(values))
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a readable parquet file (after row {number}): {error}") from error


def _object(path: Path, line: int, values: Any, raw: bytes) -> RawRow:
    if isinstance(values, dict):
        return RawRow(str(path), line, values)
    kind = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}.get(
        type(values), "a number"
    )
    message = f"row: not an object; found {shown(values)}, {kind}"
    return RawRow(
        str(path),
        line,
        None,
        Problem("row", shown(values), "an object with the fields of an instance", message),
        raw,
    )


def _unreadable(error: Exception, line: int, raw: bytes) -> Problem:
    if isinstance(error, UnicodeDecodeError):
        found = f"byte 0x{raw[error.start]:02x} at column {error.start + 1}"
        return Problem("row", found, "UTF-8 text", f"row: not UTF-8; found {found}")
    if isinstance(error, json.JSONDecodeError):
        place = f"line {line if error.lineno == 1 else error.lineno}, column {error.colno}"
        reason = error.msg
    else:
        place = f"line {line}"
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    found = printable(raw[:60].decode(errors="replace").strip())
    return Problem("row", found, "one JSON object", f"row: invalid JSON at {place}: {reason}; found {found}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON; write null where there is nothing")


def _plain(value: Any) -> Any:
    """A table's value as JSON has it: dates as text, nested values too, and NaN, a table's hole, as null."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, date):  # datetime is a date
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    return value

"""Patches made elsewhere: SWE-bench prediction rows (JSONL, or a JSON list or mapping), read without being
held.

A first pass finds what can be used and keeps only where in the file it stands; a patch is read when it is its
turn.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from beyondswe.errors import DataError

MAX_ROW = 128 << 20  # bytes of one row: a patch of 50 MiB fits, however JSON escapes it
MAX_DOCUMENT = 512 << 20  # bytes of a JSON file that is not JSONL, which has to be read in one piece


@dataclass(frozen=True)
class Unusable:
    """A row that could not be used, and why."""

    where: str
    reason: str
    instance_id: str | None = None
    line: int = 0  # its line, or in a JSON document the number of the row, from 1

    def to_row(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"line": self.line, "instance_id": self.instance_id, "reason": self.reason}

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True)
class _Place:
    path: Path
    offset: int
    length: int


class Predictions:
    """The usable predictions of a file, by instance id."""

    def __init__(self, path: Path, known: Collection[str], *, scratch: Path) -> None:
        """``known`` are the ids of the dataset's selected instances; ``scratch`` is a folder for temporary
        files.
        """
        self.unusable: list[Unusable] = []
        self.models: dict[str, int] = {}
        self._places: dict[str, _Place] = {}
        self._known = known
        self.sha256 = _sha256(path)
        if _is_document(path):
            self._read_document(path, scratch / "predictions.jsonl")
        else:
            self._read_lines(path)

    def __len__(self) -> int:
        return len(self._places)

    def patch(self, instance_id: str) -> str | None:
        """The predicted patch; None where there is no usable prediction."""
        place = self._places.get(instance_id)
        if place is None:
            return None
        with place.path.open("rb") as stream:
            stream.seek(place.offset)
            row = json.loads(stream.read(place.length))
        return row.get("model_patch") or ""

    def missing_because(self, instance_id: str) -> str:
        """Why there is no prediction for an instance."""
        reasons = [str(row) for row in self.unusable if row.instance_id == instance_id]
        return "; ".join(reasons) or "no prediction was submitted for it"

    def _read_lines(self, path: Path) -> None:
        with path.open("rb") as stream:
            offset = 0
            for number, (line, length) in enumerate(_lines(stream), 1):
                where = f"{path.name}, line {number}"

                def reject(reason: str, where: str = where, number: int = number) -> None:
                    self.unusable.append(Unusable(where, reason, line=number))

                if line is None:
                    reject(f"longer than {MAX_ROW >> 20} MiB")
                elif line.strip():
                    bom = len(b"\xef\xbb\xbf") if number == 1 and line.startswith(b"\xef\xbb\xbf") else 0
                    try:
                        row = json.loads(line[bom:].decode())
                    except UnicodeDecodeError as error:
                        reject(f"not UTF-8 ({error.reason} at byte {error.start})")
                    except ValueError as error:
                        reject(f"not JSON ({error})")
                    except RecursionError:
                        reject("not a prediction (nested too deeply)")
                    else:
                        self._take(row, where, number, _Place(path, offset + bom, length - bom))
                offset += length

    def _read_document(self, path: Path, spool: Path) -> None:
        """Rows of a list, or of a mapping from id to row or patch; each becomes a line of ``spool``."""
        if path.stat().st_size > MAX_DOCUMENT:
            raise DataError(
                f"{path} is one JSON document of over {MAX_DOCUMENT >> 20} MiB; write it as JSONL"
            )
        try:
            document = json.loads(path.read_bytes().decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path} is no JSON ({error}); predictions are JSONL, or a JSON list or mapping"
            ) from None
        if isinstance(document, dict) and "instance_id" in document:
            document = [document]
        if isinstance(document, dict):
            rows = [(f"{path.name}, entry {key!r}", _named(key, value)) for key, value in document.items()]
        else:
            rows = [(f"{path.name}, row {number}", row) for number, row in enumerate(document, 1)]
        offset = 0
        with spool.open("wb") as stream:
            for number, (where, row) in enumerate(rows, 1):
                line = json.dumps(row).encode() + b"\n"
                stream.write(line)
                self._take(row, where, number, _Place(spool, offset, len(line)))
                offset += len(line)

    def _take(self, row: Any, where: str, number: int, place: _Place) -> None:
        instance_id, fault = _check(row)
        if fault is None and instance_id not in self._known:
            fault = f"instance {instance_id!r} is not among the selected ones of the dataset"
        if fault is None and instance_id in self._places:
            fault = f"a second prediction for {instance_id}; the first one is used"
        if fault is not None or instance_id is None:
            self.unusable.append(Unusable(where, fault or "", instance_id, number))
            return
        self._places[instance_id] = place
        if isinstance(model := row.get("model_name_or_path"), str) and model:
            self.models[model] = self.models.get(model, 0) + 1


def _named(key: str, value: Any) -> Any:
    if isinstance(value, str) or value is None:
        return {"instance_id": key, "model_patch": value}
    return {"instance_id": key, **value} if isinstance(value, dict) else value


def _check(row: Any) -> tuple[str | None, str | None]:
    """The row's instance id, and what is wrong with it."""
    if not isinstance(row, dict):
        return None, f"not an object but {type(row).__name__}"
    instance_id = row.get("instance_id")
    if not isinstance(instance_id, str) or not instance_id:
        return None, "has no instance_id"
    if not _is_text(instance_id):
        return None, "instance_id holds half a surrogate pair, which is no text"
    if "model_patch" not in row:
        return instance_id, f"the row of {instance_id} has no model_patch"
    patch = row["model_patch"]
    if patch is not None and not isinstance(patch, str):
        return instance_id, f"model_patch of {instance_id} is not text but {type(patch).__name__}"
    if patch and not _is_text(patch):
        return instance_id, f"model_patch of {instance_id} holds half a surrogate pair, which is no text"
    return instance_id, None


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _lines(stream: IO[bytes]) -> Iterator[tuple[bytes | None, int]]:
    """Lines and their lengths; None for one that is too long, which is skipped without being held."""
    while line := stream.readline(MAX_ROW + 1):
        length = len(line)
        if length <= MAX_ROW or line.endswith(b"\n"):
            yield line, length
            continue
        line = b""
        while (
            (rest := stream.readline(1 << 20)) and (length := length + len(rest)) and not rest.endswith(b"\n")
        ):
            pass
        yield None, length


def _is_document(path: Path) -> bool:
    """Whether the file is one JSON document rather than a row a line."""
    if path.suffix == ".jsonl":
        return False
    with path.open("rb") as stream:
        head = stream.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not head.startswith(b"{"):
            return head.startswith(b"[")
        stream.seek(0)
        first = stream.readline(MAX_ROW + 1).removeprefix(b"\xef\xbb\xbf")
    try:
        row = json.loads(first)
    except ValueError:
        return True
    return not (isinstance(row, dict) and "instance_id" in row)


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error

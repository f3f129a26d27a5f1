"""What a long collection has done so far, beside its output: a killed one goes on where it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from beyondswe.construction.collect.candidates import Row
from beyondswe.errors import UsageError


class Journal:
    """``FILE.partial``: what was asked, then one line for each thing done. A line that a kill cut short is not done."""

    def __init__(self, out: Path, asked: dict[str, Any], *, force: bool = False) -> None:
        self.path = out.with_name(out.name + ".partial")
        self.done: dict[str, dict[str, Any]] = {}
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.is_file() and not force else []
        whole = [json.loads(line) for line in lines if line.endswith(b"\n")]
        if whole and whole[0] != {"asked": asked}:
            raise UsageError(
                f"{self.path}: an unfinished collection with other options lies here; give it the same options to"
                " finish it, or --force to begin anew"
            )
        self.done = {entry["key"]: entry for entry in whole[1:]}
        with self.path.open("wb") as stream:  # without what a kill cut short
            for entry in whole or [{"asked": asked}]:
                stream.write(json.dumps(entry).encode() + b"\n")

    def add(self, key: str, row: Row | None, counts: dict[str, Any]) -> None:
        """One thing is done: its row, or none, and what the filters said."""
        entry = {"key": key, "row": row, "counts": counts}
        self.done[key] = entry
        with self.path.open("ab") as stream:
            stream.write(json.dumps(entry).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())

    def finish(self) -> None:
        """The output is written: the journal goes."""
        self.path.unlink(missing_ok=True)

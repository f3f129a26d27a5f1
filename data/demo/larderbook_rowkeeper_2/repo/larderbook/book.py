"""The book: opening it, its tables, its journal."""

from __future__ import annotations

from pathlib import Path

import rowkeeper

COLUMNS = {
    "name": "text",
    "amount": "number",
    "unit": "text",
    "place": "text",
    "minimum": "number",
    "best_before": "text",
}


class Book:
    """A larder's book. Close it, or use it as a context manager."""

    def __init__(self, path: str | Path) -> None:
        self.db = rowkeeper.connect(str(path))
        self.items = self.db.table("items", key="name", columns=COLUMNS)
        self.journal = self.db.table(
            "journal", key="number", columns={"number": "number", "name": "text", "before": "number", "after": "number"}
        )
        self._amounts = {row["name"]: row["amount"] for row in self.items.find()}
        self.db.on_write(self._note)

    def __enter__(self) -> Book:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.db.close()

    def _note(self, table: str, key: str) -> None:
        if table != "items":
            return
        row = self.items.get(key)
        before, after = self._amounts.get(key), row["amount"] if row else None
        if before != after:
            number = len(self.journal.find()) + 1
            self.journal.put({"number": number, "name": key, "before": before, "after": after})
        if row:
            self._amounts[key] = after
        else:
            self._amounts.pop(key, None)

"""What must be eaten, what must be bought, what is where, what happened."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

from larderbook.book import Book
from larderbook.units import format_amount


def eat_soon(book: Book, today: date, days: int = 3, limit: int | None = None) -> list[tuple[str, str, date]]:
    """Items that are good for at most some days more, most urgent first: name, amount, date."""
    last = (today + timedelta(days=days + 1)).isoformat()
    rows = [row for row in book.items.find(best_before__lt=last, order="best_before") if row["best_before"]]
    return [
        (row["name"], format_amount(Decimal(str(row["amount"])), row["unit"]), date.fromisoformat(row["best_before"]))
        for row in rows[:limit]
    ]


def shopping(book: Book) -> list[tuple[str, str]]:
    """Items of which less than their minimum is there, by name: name, amount that is missing."""
    missing = []
    for row in book.items.find(order="name"):
        if row["minimum"] is not None and row["amount"] < row["minimum"]:
            lack = Decimal(str(row["minimum"])) - Decimal(str(row["amount"]))
            missing.append((row["name"], format_amount(lack, row["unit"])))
    return missing


def places(book: Book) -> dict[str, list[str]]:
    """Names of what is there, by place, both in alphabetical order."""
    found: dict[str, list[str]] = {}
    for row in book.items.find(order="name"):
        if row["amount"]:
            found.setdefault(row["place"], []).append(row["name"])
    return dict(sorted(found.items()))


def history(book: Book, name: str) -> list[tuple[Decimal | None, Decimal | None]]:
    """Amounts of an item before and after every change, oldest first; None: it was not in the book."""
    return [
        tuple(None if row[side] is None else Decimal(str(row[side])) for side in ("before", "after"))
        for row in book.journal.find(name=name, order="number")
    ]

"""Putting in and taking out."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from larderbook.book import Book
from larderbook.units import convert, format_amount


class LarderError(ValueError):
    """What was asked cannot be done."""


def put(
    book: Book,
    name: str,
    amount: Decimal,
    unit: str,
    *,
    place: str = "shelf",
    minimum: Decimal | None = None,
    best_before: date | None = None,
) -> None:
    """Put some of an item in. Of two best-before dates the earlier one stays; a minimum is kept until a new one comes."""
    row = book.items.get(name)
    if row is None or not row["amount"]:
        kept = row["minimum"] if row else None
        in_unit = row["unit"] if row else unit
        book.items.put(
            {
                "name": name,
                "amount": float(convert(amount, unit, in_unit)),
                "unit": in_unit,
                "place": place,
                "minimum": float(minimum) if minimum is not None else kept,
                "best_before": best_before.isoformat() if best_before else None,
            }
        )
        return
    row["amount"] = float(Decimal(str(row["amount"])) + convert(amount, unit, row["unit"]))
    if minimum is not None:
        row["minimum"] = float(minimum)
    if best_before is not None and (row["best_before"] is None or best_before.isoformat() < row["best_before"]):
        row["best_before"] = best_before.isoformat()
    book.items.put(row)


def take(book: Book, name: str, amount: Decimal, unit: str) -> None:
    """Take some of an item out; never more than there is."""
    row = book.items.get(name)
    if row is None:
        raise LarderError(f"there is no {name}")
    have = Decimal(str(row["amount"]))
    left = have - convert(amount, unit, row["unit"])
    if left < 0:
        raise LarderError(f"there is only {format_amount(have, row['unit'])} of {name}")
    if left == 0 and row["minimum"] is None:
        book.items.drop(name)
        return
    row["amount"] = float(left)
    if left == 0:
        row["best_before"] = None
    book.items.put(row)


def take_recipe(book: Book, ingredients: dict[str, tuple[Decimal, str]]) -> None:
    """Take all of a recipe's ingredients out, or nothing when one of them is short."""
    with book.db.batch():
        for name, (amount, unit) in ingredients.items():
            take(book, name, amount, unit)


def move(book: Book, name: str, place: str) -> None:
    """Move an item to another place."""
    row = book.items.get(name)
    if row is None:
        raise LarderError(f"there is no {name}")
    row["place"] = place
    book.items.put(row)

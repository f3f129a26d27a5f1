"""larderbook BOOK put|take|move|soon|shopping|places …"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import date

import rowkeeper

from larderbook import items, reports
from larderbook.book import Book
from larderbook.units import UnitError, parse_amount


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="larderbook")
    parser.add_argument("book")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("put", "take"):
        sub = commands.add_parser(command)
        sub.add_argument("name")
        sub.add_argument("amount")
        sub.add_argument("unit")
        if command == "put":
            sub.add_argument("--place", default="shelf")
            sub.add_argument("--minimum")
            sub.add_argument("--best-before", type=date.fromisoformat)
    move = commands.add_parser("move")
    move.add_argument("name")
    move.add_argument("place")
    soon = commands.add_parser("soon")
    soon.add_argument("--today", type=date.fromisoformat, default=date.today())
    soon.add_argument("--days", type=int, default=3)
    commands.add_parser("shopping")
    commands.add_parser("places")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        with Book(options.book) as book:
            _run(book, options)
    except (items.LarderError, UnitError) as error:
        print(f"larderbook: {error}", file=sys.stderr)
        return 1
    except rowkeeper.Error as error:
        print(f"larderbook: {options.book}: {error}", file=sys.stderr)
        return 2
    return 0


def _run(book: Book, options: argparse.Namespace) -> None:
    if options.command == "put":
        minimum = parse_amount(options.minimum) if options.minimum else None
        amount = parse_amount(options.amount)
        items.put(
            book, options.name, amount, options.unit,
            place=options.place, minimum=minimum, best_before=options.best_before,
        )
    elif options.command == "take":
        items.take(book, options.name, parse_amount(options.amount), options.unit)
    elif options.command == "move":
        items.move(book, options.name, options.place)
    elif options.command == "soon":
        for name, amount, day in reports.eat_soon(book, options.today, options.days):
            print(f"{name:<10}{amount:<9}{day}")
    elif options.command == "shopping":
        for name, amount in reports.shopping(book):
            print(f"{name:<10}{amount}")
    else:
        for place, names in reports.places(book).items():
            print(f"{place}: {', '.join(names)}")


if __name__ == "__main__":
    sys.exit(main())

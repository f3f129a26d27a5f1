from datetime import date
from decimal import Decimal

import pytest

from larderbook.book import Book
from larderbook.cli import main
from larderbook.items import put, take
from larderbook.reports import eat_soon, places, shopping

MAY = date(2024, 5, 1)


@pytest.fixture
def book(tmp_path):
    with Book(tmp_path / "book.db") as book:
        yield book


def test_what_must_be_eaten_soon(book):
    put(book, "milk", Decimal(2), "l", best_before=date(2024, 5, 3))
    put(book, "yoghurt", Decimal(1), "pc", best_before=date(2024, 4, 30))
    put(book, "cheese", Decimal(200), "g", best_before=date(2024, 5, 5))
    put(book, "salt", Decimal(1), "kg")
    assert eat_soon(book, MAY) == [
        ("yoghurt", "1 pc", date(2024, 4, 30)),
        ("milk", "2 l", date(2024, 5, 3)),
    ]
    assert [name for name, _, _ in eat_soon(book, MAY, days=4)] == ["yoghurt", "milk", "cheese"]
    assert [name for name, _, _ in eat_soon(book, MAY, limit=1)] == ["yoghurt"]


def test_the_earlier_date_counts(book):
    put(book, "milk", Decimal(1), "l", best_before=date(2024, 5, 9))
    put(book, "milk", Decimal(1), "l", best_before=date(2024, 5, 2))
    put(book, "milk", Decimal(1), "l", best_before=date(2024, 5, 7))
    assert eat_soon(book, MAY) == [("milk", "3 l", date(2024, 5, 2))]


def test_the_shopping_list(book):
    put(book, "flour", Decimal("1.5"), "kg", minimum=Decimal(1))
    put(book, "coffee", Decimal(500), "g", minimum=Decimal(250))
    assert shopping(book) == []
    take(book, "flour", Decimal(800), "g")
    take(book, "coffee", Decimal(500), "g")
    assert shopping(book) == [("coffee", "250 g"), ("flour", "0.3 kg")]


def test_places_are_in_order(book):
    put(book, "tea", Decimal(100), "g", place="shelf")
    put(book, "butter", Decimal(250), "g", place="fridge")
    put(book, "rice", Decimal(1), "kg", place="shelf")
    assert list(places(book).items()) == [("fridge", ["butter"]), ("shelf", ["rice", "tea"])]


def test_the_command_line(tmp_path, capsys):
    book = str(tmp_path / "book.db")
    assert main([book, "put", "flour", "1,5", "kg", "--minimum", "1"]) == 0
    assert main([book, "put", "milk", "2", "l", "--place", "fridge", "--best-before", "2024-05-03"]) == 0
    assert main([book, "take", "flour", "800", "g"]) == 0
    assert main([book, "soon", "--today", "2024-05-01"]) == 0
    assert main([book, "shopping"]) == 0
    assert capsys.readouterr().out == "milk      2 l      2024-05-03\nflour     0.3 kg\n"
    assert main([book, "take", "honey", "1", "pc"]) == 1

from datetime import date
from decimal import Decimal

import pytest

from larderbook.book import Book
from larderbook.items import LarderError, move, put, take, take_recipe
from larderbook.reports import history, places


@pytest.fixture
def book(tmp_path):
    with Book(tmp_path / "book.db") as book:
        yield book


def amounts(book, name):
    return history(book, name)[-1][1]


def test_amounts_add_up_in_the_first_unit(book):
    put(book, "flour", Decimal("1.5"), "kg")
    put(book, "flour", Decimal("800"), "g")
    assert amounts(book, "flour") == Decimal("2.3")


def test_what_is_used_up_goes(book):
    put(book, "eggs", Decimal(6), "pc", place="fridge")
    take(book, "eggs", Decimal("0.5"), "doz")
    assert places(book) == {}
    assert history(book, "eggs") == [(None, Decimal(6)), (Decimal(6), None)]


def test_nothing_can_be_taken_that_is_not_there(book):
    put(book, "milk", Decimal(1), "l")
    with pytest.raises(LarderError, match="only 1 l of milk"):
        take(book, "milk", Decimal(2), "l")
    with pytest.raises(LarderError, match="no honey"):
        take(book, "honey", Decimal(2), "g")


def test_a_recipe_takes_all_or_nothing(book):
    put(book, "flour", Decimal(1), "kg")
    put(book, "milk", Decimal("0.2"), "l")
    with pytest.raises(LarderError):
        take_recipe(book, {"flour": (Decimal(500), "g"), "milk": (Decimal("0.5"), "l")})
    put(book, "milk", Decimal("0.5"), "l")
    take_recipe(book, {"flour": (Decimal(500), "g"), "milk": (Decimal("0.5"), "l")})
    assert amounts(book, "flour") == Decimal("0.5")
    assert amounts(book, "milk") == Decimal("0.2")


def test_things_are_moved(book):
    put(book, "jam", Decimal(2), "pc")
    move(book, "jam", "cellar")
    assert places(book) == {"cellar": ["jam"]}
    with pytest.raises(LarderError):
        move(book, "honey", "cellar")


def test_the_book_stays(tmp_path):
    with Book(tmp_path / "book.db") as book:
        put(book, "rice", Decimal(1), "kg", best_before=date(2025, 1, 1))
    with Book(tmp_path / "book.db") as book:
        take(book, "rice", Decimal(250), "g")
        assert history(book, "rice") == [(None, Decimal(1)), (Decimal(1), Decimal("0.75"))]

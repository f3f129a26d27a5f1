from decimal import Decimal

import pytest

from larderbook.units import UnitError, convert, format_amount, parse_amount


@pytest.mark.parametrize(
    "amount, unit, to, expected",
    [("800", "g", "kg", "0.8"), ("1.5", "l", "cl", "150"), ("2", "doz", "pc", "24"), ("3", "pc", "doz", "0.25")],
)
def test_amounts_are_converted(amount, unit, to, expected):
    assert convert(Decimal(amount), unit, to) == Decimal(expected)


@pytest.mark.parametrize("unit, to", [("g", "l"), ("stone", "kg"), ("kg", "stone")])
def test_what_cannot_be_converted(unit, to):
    with pytest.raises(UnitError):
        convert(Decimal(1), unit, to)


@pytest.mark.parametrize("text, amount", [("1.5", "1.5"), ("0,25", "0.25"), ("12", "12")])
def test_amounts_are_read(text, amount):
    assert parse_amount(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "much", "-1", "0", "nan", "inf"])
def test_what_is_no_amount(text):
    with pytest.raises(UnitError):
        parse_amount(text)


def test_amounts_are_written():
    assert format_amount(Decimal("0.300"), "kg") == "0.3 kg"
    assert format_amount(Decimal("1E+2"), "g") == "100 g"

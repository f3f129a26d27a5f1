"""Units of mass, volume and count, and amounts in them."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

_UNITS = {
    "g": ("mass", Decimal(1)),
    "kg": ("mass", Decimal(1000)),
    "ml": ("volume", Decimal(1)),
    "cl": ("volume", Decimal(10)),
    "l": ("volume", Decimal(1000)),
    "pc": ("count", Decimal(1)),
    "doz": ("count", Decimal(12)),
}


class UnitError(ValueError):
    """An unknown unit, or one of another kind."""


def parse_amount(text: str) -> Decimal:
    """A positive amount; a comma may stand for the point."""
    try:
        amount = Decimal(text.replace(",", "."))
    except InvalidOperation:
        raise UnitError(f"not an amount: {text!r}") from None
    if not amount.is_finite() or amount <= 0:
        raise UnitError(f"an amount is more than nothing: {text!r}")
    return amount


def convert(amount: Decimal, unit: str, to: str) -> Decimal:
    """An amount in another unit of the same kind."""
    for name in (unit, to):
        if name not in _UNITS:
            raise UnitError(f"unknown unit {name!r}; there are {', '.join(_UNITS)}")
    (kind, size), (kind_to, size_to) = _UNITS[unit], _UNITS[to]
    if kind != kind_to:
        raise UnitError(f"{unit} is a unit of {kind}, {to} one of {kind_to}")
    return (amount * size / size_to).normalize()


def format_amount(amount: Decimal, unit: str) -> str:
    """``0.3 kg``, without an exponent or zeros at the end."""
    return f"{amount.normalize():f} {unit}"

"""Stations: the names behind the slots, and the levels at which somebody must be told."""

from __future__ import annotations

import configparser
from dataclasses import dataclass


class StationError(ValueError):
    """The stations file is not right."""


@dataclass(frozen=True)
class Station:
    """One gauge and its alarm levels in centimetres (None: no alarm on that side)."""

    name: str
    slot: int
    low_cm: int | None = None
    high_cm: int | None = None


def parse_stations(text: str) -> dict[int, Station]:
    """Stations by slot."""
    parser = configparser.ConfigParser(inline_comment_prefixes=(";",))
    parser.read_string(text)
    stations: dict[int, Station] = {}
    for name in parser.sections():
        section = parser[name]
        try:
            slot = int(section["slot"])
        except KeyError:
            raise StationError(f"{name}: no slot") from None
        except ValueError:
            raise StationError(f"{name}: slot is not a number: {section['slot']}") from None
        if slot in stations:
            raise StationError(f"{name}: slot {slot} is {stations[slot].name}'s already")
        station = Station(name, slot, _level(section, "low"), _level(section, "high"))
        if station.low_cm is not None and station.high_cm is not None and station.low_cm >= station.high_cm:
            raise StationError(f"{name}: low must be below high")
        stations[slot] = station
    return stations


def _level(section: configparser.SectionProxy, key: str) -> int | None:
    if key not in section:
        return None
    try:
        return round(float(section[key]) * 100)
    except ValueError:
        raise StationError(f"{section.name}: {key} is not a level in metres: {section[key]}") from None

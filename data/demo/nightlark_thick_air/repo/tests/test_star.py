from datetime import datetime, timedelta, timezone

import pytest

from nightlark import Site, Star, position
from nightlark.times import days_since_2000, sidereal_time

KILCOOLE = Site("Kilcoole", 53.10, -6.08)


def test_sidereal_time_of_the_textbook():
    # J. Meeus, Astronomical Algorithms, example 12.b: 1987 April 10, 19:21:00 UT, 8h34m57.0896s
    when = datetime(1987, 4, 10, 19, 21, tzinfo=timezone.utc)
    assert sidereal_time(when, 0) == pytest.approx(128.7378734, abs=1e-5)


def test_altitude_of_the_textbook():
    # J. Meeus, Astronomical Algorithms, example 13.b: Venus from Washington, true altitude 15.1249 (apparent sidereal time there)
    washington = Site("USNO", 38.92139, -77.06556)
    venus = Star("Venus", 347.3193375, -6.719892)
    when = datetime(1987, 4, 10, 19, 21, tzinfo=timezone.utc)
    assert position(venus, washington, when) == pytest.approx(15.1249, abs=2e-3)


def test_the_pole_stands_at_the_latitude():
    pole = Star("pole", 0, 90)
    for hours in range(0, 24, 6):
        when = datetime(2024, 9, 16, tzinfo=timezone.utc) + timedelta(hours=hours)
        assert position(pole, KILCOOLE, when) == pytest.approx(53.10)


def test_naive_times_are_refused():
    with pytest.raises(ValueError):
        days_since_2000(datetime(2024, 1, 1))


@pytest.mark.parametrize("values", [(91, 0), (0, 361), (0, 0, -1), (0, 0, 1000, -300)])
def test_impossible_sites_are_refused(values):
    with pytest.raises(ValueError):
        Site("nowhere", *values)

from datetime import datetime, timedelta, timezone

import pytest

from nightlark import Site, Star, best_time, windows

EQUATOR = Site("equator", 0, 0)
KILCOOLE = Site("Kilcoole", 53.10, -6.08)
START = datetime(2024, 9, 16, tzinfo=timezone.utc)
VEGA = Star("Vega", 279.2347, 38.7837, 0.03)


def test_a_star_that_never_sets_is_always_well_placed():
    polaris = Star("Polaris", 37.95, 89.26)
    (window,) = windows(polaris, KILCOOLE, START, above=20)
    assert window.duration == timedelta(hours=24)


def test_a_star_that_never_rises_has_no_window():
    assert windows(Star("far south", 0, -80), KILCOOLE, START) == []


def test_a_star_on_the_equator_is_up_for_eight_hours_above_thirty_degrees():
    (window,) = windows(Star("star", 180, 0), EQUATOR, START, hours=30, above=30)[:1]
    assert window.duration.total_seconds() == pytest.approx(8 * 3600 * 0.99727, abs=30)
    assert window.least_airmass == pytest.approx(1, abs=2e-3)


def test_vega_is_best_in_the_evening_in_september():
    best = best_time(VEGA, KILCOOLE, START + timedelta(hours=12))
    assert abs(best - datetime(2024, 9, 16, 19, 17, tzinfo=timezone.utc)) < timedelta(minutes=10)

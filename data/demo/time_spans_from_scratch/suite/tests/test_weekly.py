from datetime import date, datetime, timedelta

import pytest

from target_repo import Span, SpanError, SpanSet, parse_weekly

MONDAY = date(2024, 3, 4)
SHOP = "Mon-Fri 08:00-12:00, 13:00-17:30; Sat 09:00-13:00"


def at(day, hour, minute=0):
    return datetime(2024, 3, day, hour, minute)


def test_the_hours_of_a_day():
    assert parse_weekly(SHOP).on(MONDAY) == SpanSet([Span(at(4, 8), at(4, 12)), Span(at(4, 13), at(4, 17, 30))])
    assert parse_weekly(SHOP).on(date(2024, 3, 10)) == SpanSet()


def test_open_or_not():
    shop = parse_weekly(SHOP)
    assert shop.is_open(at(4, 8)) and not shop.is_open(at(4, 12, 30)) and not shop.is_open(at(4, 17, 30))
    assert shop.is_open(at(9, 12, 59)) and not shop.is_open(at(10, 10))


def test_hours_past_midnight():
    bar = parse_weekly("Fri-Sat 22:00-02:00")
    assert bar.is_open(at(9, 1)) and bar.is_open(at(10, 1, 59))
    assert not bar.is_open(at(8, 1)) and not bar.is_open(at(10, 2))
    assert bar.on(date(2024, 3, 8)) == SpanSet([Span(at(8, 22), at(9, 2))])


def test_a_range_of_days_over_the_weekend():
    inn = parse_weekly("sat-MON 10:00-11:00")
    assert [day for day in range(4, 11) if inn.on(date(2024, 3, day))] == [4, 9, 10]


def test_hours_within_a_week():
    week = parse_weekly(SHOP).between(at(4, 0), at(11, 0))
    assert week.total == timedelta(hours=5 * 8.5 + 4)


def test_hours_are_cut_at_both_ends():
    bar = parse_weekly("Fri-Sat 22:00-02:00")
    assert bar.between(at(9, 1), at(9, 23)) == SpanSet([Span(at(9, 1), at(9, 2)), Span(at(9, 22), at(9, 23))])


def test_hours_around_the_clock_are_one_span():
    always = parse_weekly("Mon-Sun 0:00-24:00")
    assert len(always.between(at(4, 0), at(11, 0))) == 1


@pytest.mark.parametrize(
    "text, written",
    [
        (SHOP, SHOP),
        ("", ""),
        ("tue 9:00-10:00;; mon 9:00-10:00;", "Mon-Tue 09:00-10:00"),
        ("Mon 13:00-14:00, 8:00-9:00", "Mon 08:00-09:00, 13:00-14:00"),
        ("Mon-Sun 22:00-02:00", "Mon-Sun 22:00-02:00"),
        ("Sun 10:00-24:00; Sat 10:00-24:00; Mon 1:00-2:00", "Mon 01:00-02:00; Sat-Sun 10:00-24:00"),
        ("Mon 8:00-9:00; Mon 9:00-10:00", "Mon 08:00-09:00, 09:00-10:00"),
    ],
)
def test_hours_are_written_as_they_are_read(text, written):
    hours = parse_weekly(text)
    assert str(hours) == written
    assert parse_weekly(written) == hours


@pytest.mark.parametrize(
    "text",
    [
        "Foo 08:00-12:00",
        "Mon",
        "Mon 8-12",
        "Mon 08:00-12:60",
        "Mon 25:00-26:00",
        "Mon 24:00-02:00",
        "Mon 08:00-24:01",
        "Mon 08:00-08:00",
        "Mon 08:00-12:00, 11:00-13:00",
        "Mon 08:00-12:00; Mon-Fri 11:59-13:00",
    ],
)
def test_what_is_no_hours_is_refused(text):
    with pytest.raises(SpanError):
        parse_weekly(text)

from datetime import datetime, timedelta, timezone

import pytest

from target_repo import Span, SpanError, SpanSet


def at(hour, minute=0):
    return datetime(2024, 3, 4, hour, minute)


def span(begin, end):
    return Span(at(begin), at(end))


def spans(*pairs):
    return SpanSet(span(*pair) for pair in pairs)


def test_a_span_has_a_length():
    assert span(8, 16).length == timedelta(hours=8)
    assert Span.starting(at(8), timedelta(hours=8)) == span(8, 16)


def test_a_span_ends_after_it_begins():
    for begin, end in ((8, 8), (9, 8)):
        with pytest.raises(SpanError):
            span(begin, end)


def test_aware_and_naive_times_do_not_mix():
    with pytest.raises(SpanError):
        Span(at(8), at(9).replace(tzinfo=timezone.utc))


def test_the_end_is_not_in_the_span():
    assert at(8) in span(8, 9)
    assert at(9) not in span(8, 9)
    assert span(8, 9) in span(8, 9)
    assert span(8, 10) not in span(8, 9)


def test_overlapping_and_touching():
    assert span(8, 10).overlaps(span(9, 11))
    assert not span(8, 10).overlaps(span(10, 11))
    assert span(8, 10).touches(span(10, 11))
    assert not span(8, 10).touches(span(11, 12))


def test_what_two_spans_have_in_common():
    assert span(8, 12) & span(10, 14) == span(10, 12)
    assert span(8, 10) & span(10, 14) is None


def test_spans_sort_hash_and_cannot_be_changed():
    assert sorted([span(9, 10), span(8, 12), span(8, 9)]) == [span(8, 9), span(8, 12), span(9, 10)]
    assert len({span(8, 9), span(8, 9)}) == 1
    with pytest.raises(AttributeError):
        span(8, 9).begin = at(7)


def test_spans_are_shifted_and_split():
    assert span(8, 9).shifted(timedelta(hours=2)) == span(10, 11)
    pieces = list(span(8, 10).split(timedelta(minutes=45)))
    assert [piece.length for piece in pieces] == [timedelta(minutes=m) for m in (45, 45, 30)]
    assert pieces[0].begin == at(8) and pieces[-1].end == at(10)
    with pytest.raises(SpanError):
        list(span(8, 10).split(timedelta(0)))


def test_spans_are_written():
    assert str(span(8, 16)) == "2024-03-04T08:00/2024-03-04T16:00"


def test_sets_join_what_overlaps_or_touches():
    assert list(spans((13, 16), (8, 10), (9, 11), (11, 12))) == [span(8, 12), span(13, 16)]
    assert len(spans((8, 9), (8, 12), (9, 10))) == 1


def test_sets_are_equal_when_they_hold_the_same_time():
    assert spans((8, 9), (9, 10)) == spans((8, 10))
    assert hash(spans((8, 9), (9, 10))) == hash(spans((8, 10)))
    assert spans((8, 9)) != spans((8, 10))


def test_what_is_in_a_set():
    both = spans((8, 10), (11, 12))
    assert at(9) in both and at(10) not in both
    assert span(8, 10) in both and span(9, 12) not in both


def test_total_and_hull():
    assert spans((8, 10), (11, 12)).total == timedelta(hours=3)
    assert spans((8, 10), (11, 12)).hull == span(8, 12)
    assert SpanSet().total == timedelta(0)
    assert SpanSet().hull is None


@pytest.mark.parametrize(
    "operation, expected",
    [
        (SpanSet.__or__, [(8, 14), (15, 18)]),
        (SpanSet.__and__, [(10, 12), (16, 17)]),
        (SpanSet.__sub__, [(8, 10), (15, 16), (17, 18)]),
        (SpanSet.__xor__, [(8, 10), (12, 14), (15, 16), (17, 18)]),
    ],
)
def test_reckoning_with_sets(operation, expected):
    assert operation(spans((8, 12), (15, 18)), spans((10, 14), (16, 17))) == spans(*expected)


def test_what_lies_between():
    assert spans((8, 10), (11, 12), (14, 15)).gaps() == spans((10, 11), (12, 14))
    assert SpanSet().gaps() == SpanSet()


def test_the_first_fit():
    free = spans((8, 9), (10, 12), (14, 18))
    assert free.first_fit(timedelta(hours=2)) == span(10, 12)
    assert free.first_fit(timedelta(hours=2), after=at(11)) == span(14, 16)
    assert free.first_fit(timedelta(hours=2), after=at(15)) == span(15, 17)
    assert free.first_fit(timedelta(hours=5)) is None


def test_sets_are_written():
    assert repr(spans((8, 12), (13, 16))) == (
        "SpanSet([2024-03-04T08:00/2024-03-04T12:00, 2024-03-04T13:00/2024-03-04T16:00])"
    )

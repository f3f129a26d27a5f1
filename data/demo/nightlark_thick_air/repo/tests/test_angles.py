import pytest

from nightlark.angles import asin, format_sexagesimal, parse_sexagesimal, wrap


@pytest.mark.parametrize(
    "text, degrees",
    [("-12:30:00", -12.5), ("+38 47 01", 38.783611), ("18h36m56.3s", 279.234583), ("-0:30:00", -0.5)],
)
def test_sexagesimal_text_is_read(text, degrees):
    assert parse_sexagesimal(text) == pytest.approx(degrees, abs=1e-6)


@pytest.mark.parametrize("text", ["", "12", "12:60:00", "a:b:c"])
def test_what_is_no_angle_is_refused(text):
    with pytest.raises(ValueError):
        parse_sexagesimal(text)


def test_sexagesimal_text_is_written():
    assert format_sexagesimal(-12.5) == "-12:30:00"
    assert format_sexagesimal(59.99999) == "+60:00:00"


def test_directions():
    assert wrap(-10) == 350
    assert asin(1.0000000001) == 90

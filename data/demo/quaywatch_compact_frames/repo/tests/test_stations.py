import pytest

from quaywatch.stations import Station, StationError, parse_stations


def test_stations_are_read():
    text = "[Harlesund]\nslot = 1 ; the old pier\nlow = -0.50\nhigh = 2.10\n[Vikness]\nslot = 2\n"
    assert parse_stations(text) == {1: Station("Harlesund", 1, -50, 210), 2: Station("Vikness", 2)}


@pytest.mark.parametrize(
    "text",
    [
        "[A]\nlow = 1\n",
        "[A]\nslot = x\n",
        "[A]\nslot = 1\n[B]\nslot = 1\n",
        "[A]\nslot = 1\nlow = deep\n",
        "[A]\nslot = 1\nlow = 2\nhigh = 1\n",
    ],
)
def test_wrong_files_are_refused(text):
    with pytest.raises(StationError):
        parse_stations(text)

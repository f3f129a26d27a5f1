import pytest

from nightlark import airmass, extinction


def test_air_mass_overhead():
    assert airmass(90) == pytest.approx(1, abs=1e-3)
    assert airmass(60) == pytest.approx(1.1547, abs=2e-3)
    assert airmass(30) == pytest.approx(2, abs=1e-2)


@pytest.mark.parametrize("altitude", [-0.01, -30, 90.01])
def test_air_mass_is_not_defined_everywhere(altitude):
    with pytest.raises(ValueError):
        airmass(altitude)


def test_extinction_grows_with_the_air_mass():
    assert extinction(90) == pytest.approx(0.2, abs=1e-3)
    assert extinction(30, coefficient=0.1) == pytest.approx(0.2, abs=1e-3)

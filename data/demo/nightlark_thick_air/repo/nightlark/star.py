"""Stars, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from nightlark.angles import asin, cos, sin
from nightlark.site import Site
from nightlark.times import sidereal_time


@dataclass(frozen=True)
class Star:
    """A star of the catalogue; coordinates of the date, in degrees."""

    name: str
    right_ascension: float
    declination: float
    magnitude: float = 0.0


def position(star: Star, site: Site, when: datetime) -> float:
    """The true altitude of a star, in degrees."""
    hour_angle = sidereal_time(when, site.longitude) - star.right_ascension
    return asin(
        sin(site.latitude) * sin(star.declination)
        + cos(site.latitude) * cos(star.declination) * cos(hour_angle)
    )

"""When to observe what."""

from nightlark.planner import Window, best_time, windows
from nightlark.site import Site
from nightlark.sky import airmass, apparent_altitude, extinction, true_altitude
from nightlark.star import Star, position

__all__ = [
    "Site",
    "Star",
    "Window",
    "airmass",
    "apparent_altitude",
    "best_time",
    "extinction",
    "position",
    "true_altitude",
    "windows",
]
__version__ = "0.4.0"

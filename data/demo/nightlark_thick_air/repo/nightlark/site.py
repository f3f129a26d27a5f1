"""Where the observatory is, and what its air is like."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Site:
    """An observatory. Pressure is the station pressure in hectopascal, temperature in degrees Celsius."""

    name: str
    latitude: float
    longitude: float  # east
    pressure: float = 1010.0
    temperature: float = 10.0

    def __post_init__(self) -> None:
        if not -90 <= self.latitude <= 90:
            raise ValueError(f"latitude must be -90 to 90, not {self.latitude}")
        if not -360 <= self.longitude <= 360:
            raise ValueError(f"longitude must be -360 to 360, not {self.longitude}")
        if self.pressure < 0 or self.temperature <= -273.15:
            raise ValueError("there is no such air")

"""What a gauge said, once it is understood."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime


class State(enum.Enum):
    """How far a reading can be relied on."""

    GOOD = "good"
    SUSPECT = "suspect"
    DRY = "dry"
    ICED = "iced"


@dataclass(frozen=True)
class Reading:
    """One water level: centimetres above the station's datum, None where the gauge is dry or iced."""

    slot: int
    time: datetime  # aware, UTC: when the gauge measured
    level_cm: int | None
    state: State = State.GOOD

    def __post_init__(self) -> None:
        if (self.level_cm is None) != (self.state in (State.DRY, State.ICED)):
            raise ValueError("a reading has a level unless the gauge is dry or iced")

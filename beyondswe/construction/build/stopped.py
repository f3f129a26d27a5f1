"""Why an environment was given up."""

from __future__ import annotations

from beyondswe.errors import BeyondSWEError


class BuildStopped(BeyondSWEError):
    """An environment could not be built: at which step, and why."""

    def __init__(self, step: str, reason: str) -> None:
        self.step, self.reason = step, reason
        super().__init__(f"{step}: {reason}")

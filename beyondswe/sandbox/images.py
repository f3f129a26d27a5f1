"""Finished images: pulled when needed, by digest where one is named, checked for their platform, dropped
when disk is short.
"""

from __future__ import annotations

from beyondswe.errors import EngineError
from beyondswe.sandbox.engine import Engine


class PullFailed(EngineError):
    """A registry did not give an image: it does not answer, does not have it, or does not let us."""

    def __init__(self, ref: str, reason: str) -> None:
        self.ref, self.reason = ref, reason
        super().__init__(f"cannot pull {ref}: {reason}")


def pull(engine: Engine, ref: str, *, platform: str | None = None, silence: int = 300) -> None:
    """Pull an image; given up when the engine reports nothing for ``silence`` seconds."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        for event in engine.patient(silence).pull(ref, stream=True, decode=True, platform=platform):
            if "error" in event:
                raise PullFailed(ref, str(event["error"]).strip())
    except APIError as error:
        raise PullFailed(ref, str(error.explanation or error)) from error
    except RequestException as error:
        raise PullFailed(ref, f"no word from the registry for {silence} s ({error})") from error
    except DockerException as error:
        raise PullFailed(ref, str(error)) from error

"""What a run leaves in the engine, and whether the engine is still there."""

from __future__ import annotations

import time
from collections.abc import Mapping

from beyondswe.errors import EngineError, EngineUnavailable
from beyondswe.sandbox.engine import LABEL, Engine, namespace, owner_alive, owner_label
from beyondswe.sandbox.removal import finish_removals, remove

RESTART = 60.0  # seconds that an engine may be away (a restart) before a run gives up


def run_labels(run_id: str) -> dict[str, str]:
    """Labels by which the containers of a run are found again."""
    return {"run": run_id}


def remove_containers(engine: Engine, labels: Mapping[str, str], *, of_dead: bool) -> None:
    """Remove a run's containers: this process's own, or (``of_dead``) those whose process is no more."""
    filters = [f"{LABEL}={namespace()}", *(f"io.beyondswe.{key}={value}" for key, value in labels.items())]
    try:
        found = engine.api.containers(all=True, filters={"label": filters})
    except (
        Exception
    ) as error:  # the client raises its own, requests' and urllib3's kinds for an engine that is gone
        raise EngineError(f"the engine does not list containers: {error}") from error
    for container in found:
        owner = (container.get("Labels") or {}).get("io.beyondswe.owner", "")
        if not owner_alive(owner) if of_dead else owner == owner_label():
            remove(engine, container["Id"])
    if not of_dead:
        finish_removals()


def wait_for_engine(engine: Engine) -> None:
    """Come back when the engine answers; `EngineUnavailable` if it does not within a minute."""
    deadline = time.monotonic() + RESTART
    while True:
        try:
            engine.api.ping()
            return
        except Exception as error:  # as above
            if time.monotonic() > deadline:
                raise EngineUnavailable(
                    f"the container engine stopped answering ({error}). Nothing finished is lost: "
                    "see to the engine (`beyondswe engine doctor`), then run the same command again."
                ) from error
        time.sleep(1.0)

"""What a run leaves in the engine, and whether the engine is still there."""

from __future__ import annotations

import time
from collections.abc import Callable

from beyondswe.errors import EngineError, EngineUnavailable
from beyondswe.sandbox.engine import LABEL, Engine, namespace, owner_alive, owner_label
from beyondswe.sandbox.removal import finish_removals, remove

RESTART = 60.0  # seconds that an engine may be away (a restart) before a run gives up


def run_labels(run_id: str) -> dict[str, str]:
    """Labels by which the containers of a run are found again."""
    return {"run": run_id}


def remove_own_containers(engine: Engine) -> None:
    """Remove every container that this process made."""
    _remove(engine, lambda owner: owner == owner_label())
    finish_removals()


def remove_dead_containers(engine: Engine) -> None:
    """Remove the containers of this namespace whose process is no more: killed runs leave them."""
    _remove(engine, lambda owner: not owner_alive(owner))


def _remove(engine: Engine, of_owner: Callable[[str], bool]) -> None:
    try:
        found = engine.api.containers(all=True, filters={"label": f"{LABEL}={namespace()}"})
    except Exception as error:  # the client has many kinds for an engine that is gone
        raise EngineError(f"the engine does not list containers: {error}") from error
    for container in found:
        owner = (container.get("Labels") or {}).get("io.beyondswe.owner")
        if owner and of_owner(owner):
            remove(engine, container["Id"])


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

"""Removing containers: now, or in the background where nobody needs to wait for it, but certainly."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from beyondswe.errors import EngineError
from beyondswe.sandbox.wire import EngineRefused, EngineSilent, call

if TYPE_CHECKING:
    from beyondswe.sandbox.engine import Engine

_TRIES = 4

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_pending: set[Future[None]] = set()


def remove(engine: Engine, container: str) -> None:
    """Remove a container (id or name), running or not, with its anonymous volumes. One that is gone is no
    error.
    """
    last: EngineError | None = None
    for attempt in range(_TRIES):
        try:
            call(
                engine,
                "DELETE",
                f"/containers/{container}",
                what=f"remove container {container}",
                params={"force": "1", "v": "1"},
            )
            return
        except EngineRefused as error:
            if error.status == 404:
                return
            # 409: somebody else is removing it; 500: its file system is still busy. Both pass.
            last = error
        except EngineSilent as error:
            last = error
        time.sleep(0.2 * 2**attempt)
    assert last is not None
    raise last


def remove_later(engine: Engine, container: str) -> None:
    """Remove a container in the background, so that the 10 to 60 ms do not hold the attempt.

    `finish_removals` waits for all of them and raises if one failed. The interpreter does not end before
    they are done; should the process be killed, the container's labels tell `engine prune` and the next run
    that it is left over.
    """
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="beyondswe-remove")
        done = {future for future in _pending if future.done() and not future.exception()}
        _pending.difference_update(done)
        _pending.add(_pool.submit(remove, engine, container))


def finish_removals() -> None:
    """Wait until every container given to `remove_later` is gone; `EngineError` names those that would not
    go.
    """
    with _lock:
        futures = set(_pending)
        _pending.clear()
    wait(futures)
    failed = [str(error) for error in (future.exception() for future in futures) if error is not None]
    if failed:
        raise EngineError("; ".join(failed) + ". Run `beyondswe engine prune` to remove what is left.")

"""Works off a run's attempts with a number of threads: claims, retries infrastructure errors, stops when told
to.

Deliberate: a result that arrives after the run was told to stop is thrown away, for the sandbox under it may
have been removed by then and a killed test looks like a failed one. Its attempt is made again when the run
goes on.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from beyondswe.errors import EngineError
from beyondswe.instances.model import Instance
from beyondswe.runs.attempt import Work
from beyondswe.runs.folder import RunFolder
from beyondswe.runs.ledger import Item, Ledger
from beyondswe.runs.progress import Progress
from beyondswe.scoring.types import Status

BACKOFF = (2.0, 10.0)
"""Seconds to wait before the second and the third try of an attempt that ended in an infrastructure error."""
TOGETHER = 1.0
"""Seconds within which a second signal is the first one again: timeout(1) and terminals may send it to the process
and to its group."""
GRACE = 15.0  # seconds that workers get to come home after a stop; then their threads end with the process


@dataclass
class _Queued:
    item: Item
    tries: int = 0  # in this process
    not_before: float = 0.0


class Scheduler:
    """One run being worked on. ``run`` comes back when all is done or the run was interrupted."""

    def __init__(
        self,
        *,
        folder: RunFolder,
        ledger: Ledger,
        instances: Mapping[str, Instance],
        work: Work,
        workers: int,
        progress: Progress,
        check_engine: Callable[[], None],
        remove_containers: Callable[[], None],
    ) -> None:
        """``check_engine`` raises if the engine is gone for good; ``remove_containers`` removes those of this
        process.
        """
        self._folder, self._ledger, self._instances = folder, ledger, instances
        self._work, self._workers, self._progress = work, workers, progress
        self._check_engine, self._remove_containers = check_engine, remove_containers
        self._queue = [_Queued(item) for item in ledger.pending()]
        self._begun: set[str] = set()  # instances in work of which nothing has come back yet
        self._changed = threading.Condition()
        self._record = threading.Lock()
        self._stop = threading.Event()
        self._interrupted = False
        self._interrupted_at = 0.0
        self._error: BaseException | None = None

    def run(self) -> bool:
        """Work until nothing is left; False if interrupted. Raises what made it impossible to go on."""
        threads = [
            threading.Thread(target=self._worker, name=f"worker-{n}", daemon=True)
            for n in range(min(self._workers, len(self._queue)))
        ]
        with self._signals():
            for thread in threads:
                thread.start()
            deadline = 0.0
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(0.1)
                if not self._stop.is_set():
                    continue
                if not deadline:
                    deadline = time.monotonic() + GRACE
                    if self._interrupted:
                        self._progress.say(
                            "stopping: attempts in flight are given up; again to leave at once"
                        )
                self._sweep()
                if time.monotonic() > deadline:
                    break
            self._sweep()
        if self._error is not None:
            raise self._error
        return not self._interrupted

    def _sweep(self) -> None:
        try:
            self._remove_containers()
        except EngineError as error:
            self._error = self._error or error  # the engine's going away may already be why we stop

    def _worker(self) -> None:
        try:
            while (queued := self._take()) is not None:
                self._attempt(queued)
        except BaseException as error:
            # Not lost: `run` raises it in the main thread once all workers are home.
            with self._record:
                self._error = self._error or error
            self._stop.set()

    def _take(self) -> _Queued | None:
        """The next attempt; one whose instance nobody is just setting up goes first."""
        with self._changed:
            while self._queue and not self._stop.is_set():
                now = time.monotonic()
                ready = [queued for queued in self._queue if queued.not_before <= now]
                if ready:
                    free = (queued for queued in ready if queued.item.instance_id not in self._begun)
                    chosen = next(free, ready[0])
                    self._queue.remove(chosen)
                    self._begun.add(chosen.item.instance_id)
                    return chosen
                self._changed.wait(min(0.5, min(queued.not_before for queued in self._queue) - now))
            return None

    def _attempt(self, queued: _Queued) -> None:
        item = queued.item
        earlier = self._folder.begin_attempt(item.instance_id, item.attempt, self._ledger.claim(item))
        finished = self._work(self._instances[item.instance_id], item.attempt, earlier)
        failed = finished.outcome.status is Status.INFRASTRUCTURE_ERROR
        if failed and not self._stop.is_set():
            self._check_engine()
        with self._record:
            if self._stop.is_set():
                self._ledger.release(item)
                return
            self._folder.write_attempt(item.instance_id, item.attempt, finished.files)
            row = finished.outcome.to_line()
            if failed and not finished.permanent and queued.tries < len(BACKOFF):
                self._ledger.retry(item, row)
                self._progress.retried(item.instance_id, item.attempt, finished.outcome.error)
                again = _Queued(item, queued.tries + 1, time.monotonic() + BACKOFF[queued.tries])
            else:
                again = None
                self._ledger.finish(
                    item,
                    status=finished.outcome.status,
                    patch_sha256=finished.outcome.patch_sha256,
                    outcome=row,
                )
                self._folder.append_result(row)
                self._progress.finished(finished.outcome.status)
        with self._changed:
            self._begun.discard(item.instance_id)
            if again is not None:
                self._queue.append(again)
            self._changed.notify_all()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first Ctrl-C (or SIGTERM) stops in order, the second leaves at once."""

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            now = time.monotonic()
            if self._interrupted and now - self._interrupted_at < TOGETHER:
                return
            if self._interrupted:
                hint = f"left at once; go on with the same command and --run-id {self._folder.run_id}\n"
                os.write(2, hint.encode())  # not by way of a console, which the thread below us may hold
                os._exit(130)  # what is left behind is removed when the run goes on
            self._interrupted, self._interrupted_at = True, now
            self._stop.set()

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

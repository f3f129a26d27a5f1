"""How far a run is, for people: a bar with a time estimate on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from beyondswe.scoring.types import Status

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

LINE_EVERY = 10.0  # seconds between lines where there is no terminal


def time_left(done: int, total: int, seconds: float) -> float | None:
    """Seconds still to go, by what has been done so far (already divided among the workers)."""
    return (total - done) * seconds / done if done else None


def spoken(seconds: float) -> str:
    """``4 s``, ``3 min 10 s``, ``2 h 05 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


class Progress:
    """Told of every attempt that ended; says so on standard error."""

    def __init__(self, total: int, *, console: Console, before: Mapping[str, int] | None = None) -> None:
        """``before``: how many attempts of the run ended how, when it was worked on before."""
        self._statuses: Counter[str] = Counter(before or {})
        self._total, self._before = total, self._statuses.total()
        self._done = self._before
        self._retries = 0
        self._started = self._spoke = time.monotonic()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._console = console

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("attempts"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._text(), total=self._total, completed=self._done)
        else:
            self._line()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._done > self._before:
            self._line()

    def finished(self, status: Status) -> None:
        self._done += 1
        self._statuses[status.value] += 1
        self._show()

    def retried(self, instance_id: str, attempt: int, error: str | None) -> None:
        self._retries += 1
        self.say(f"{instance_id} ({attempt}): infrastructure error, tried again: {_one_line(error)}")
        self._show()

    def say(self, text: str) -> None:
        """A line above the bar."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _show(self) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, description=self._text())
        elif time.monotonic() - self._spoke >= LINE_EVERY and self._done < self._total:
            self._line()

    def _line(self) -> None:
        self._spoke = time.monotonic()
        text = f"{self._done}/{self._total} attempts: {self._text()}".removesuffix(": ")
        print(text, file=sys.stderr, flush=True)

    def _text(self) -> str:
        before = f" ({self._before} from before)" if self._before else ""
        statuses = [f"{count} {status}" for status, count in self._statuses.most_common()]
        parts = [", ".join(statuses) + before] if statuses else []
        if self._retries:
            parts.append(f"{self._retries} tried again")
        left = time_left(
            self._done - self._before, self._total - self._before, time.monotonic() - self._started
        )
        if left:
            parts.append(f"about {spoken(left)} left")
        return ", ".join(parts)


def _one_line(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= 300 else line[:297] + "…"

"""The scheduler, with attempts made here in place of those that need an engine."""

from __future__ import annotations

import io
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from beyondswe.errors import EngineUnavailable
from beyondswe.instances.model import Family, Instance
from beyondswe.runs import scheduler
from beyondswe.runs.attempt import Finished
from beyondswe.runs.folder import RunFolder, StorageError
from beyondswe.runs.ledger import Item, Ledger
from beyondswe.runs.outcome import Outcome
from beyondswe.runs.progress import Progress, spoken, time_left
from beyondswe.runs.scheduler import Scheduler
from beyondswe.scoring.types import Status


def finished(instance: Instance, attempt: int, status: Status = Status.RESOLVED) -> Finished:
    resolved = status is Status.RESOLVED
    outcome = Outcome(
        instance_id=instance.instance_id,
        family=instance.family,
        attempt=attempt,
        status=status,
        resolved=resolved,
        score=float(resolved),
        pass_rate=float(resolved),
    )
    return Finished(outcome, {"outcome.json": b"{}", "logs/agent.log": status.value.encode()})


class Run:
    """A run in a temporary folder."""

    def __init__(self, path: Path, ids: str, attempts: int = 1) -> None:
        self.folder = RunFolder(path)
        self.ledger = Ledger(self.folder.ledger)
        self.ledger.create({}, [Item(name, k) for name in ids for k in range(1, attempts + 1)])
        self.said = io.StringIO()
        self.instances = {i: Instance(instance_id=i, family=Family.CROSSREPO, image="i") for i in ids}

    def work_off(
        self,
        work: Callable[[Instance, int, Path | None], Finished],
        workers: int = 1,
        check_engine: Callable[[], None] = lambda: None,
        remove_containers: Callable[[], None] = lambda: None,
    ) -> bool:
        with Progress(len(self.instances), console=Console(file=self.said)) as progress:
            self.scheduler = Scheduler(
                folder=self.folder,
                ledger=self.ledger,
                instances=self.instances,
                work=work,
                workers=workers,
                progress=progress,
                check_engine=check_engine,
                remove_containers=remove_containers,
            )
            return self.scheduler.run()

    def results(self) -> Counter[tuple[str, str]]:
        rows = map(json.loads, self.folder.results.read_text().splitlines())
        return Counter((row["instance_id"], row["status"]) for row in rows)


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "BACKOFF", (0.0, 0.0))


def test_every_attempt_is_made_once_with_any_number_of_workers(tmp_path: Path) -> None:
    run = Run(tmp_path, "abcdefgh", attempts=3)
    assert run.work_off(lambda instance, attempt, _: finished(instance, attempt), workers=4)
    assert run.results() == {(name, "resolved"): 3 for name in "abcdefgh"}
    assert not run.ledger.pending()


def test_texts_of_an_outcome_that_are_no_utf8_do_not_stop_the_run(tmp_path: Path) -> None:
    run = Run(tmp_path, "a")

    def work(instance: Instance, attempt: int, _: Path | None) -> Finished:
        made = finished(instance, attempt)
        made.outcome.flags.append("leftover:/opt/\udcff.orig")
        made.outcome.usage.tool_calls["half \ud83d"] = 1
        return made

    assert run.work_off(work)
    assert json.loads(run.folder.results.read_text(encoding="utf-8"))["flags"] == [
        "leftover:/opt/\\udcff.orig"
    ]


def test_attempts_run_side_by_side(tmp_path: Path) -> None:
    together = threading.Barrier(4, timeout=20)

    def work(instance: Instance, attempt: int, _: Path | None) -> Finished:
        together.wait()
        return finished(instance, attempt)

    assert Run(tmp_path, "abcd").work_off(work, workers=4)


def test_an_instance_that_nobody_has_set_up_yet_goes_first(tmp_path: Path) -> None:
    begun: list[str] = []
    both = threading.Event()

    def work(instance: Instance, attempt: int, _: Path | None) -> Finished:
        begun.append(instance.instance_id)
        if len(begun) == 2:
            both.set()
        assert both.wait(20)
        return finished(instance, attempt)

    Run(tmp_path, "ab", attempts=2).work_off(work, workers=2)
    assert sorted(begun[:2]) == ["a", "b"]


def test_an_infrastructure_error_is_tried_again_and_the_evidence_is_kept(tmp_path: Path) -> None:
    run = Run(tmp_path, "ab")
    earlier_folders: list[Path | None] = []

    def work(instance: Instance, attempt: int, earlier: Path | None) -> Finished:
        if instance.instance_id == "b":
            return finished(instance, attempt)
        earlier_folders.append(earlier)
        status = Status.INFRASTRUCTURE_ERROR if len(earlier_folders) < 3 else Status.UNRESOLVED
        return finished(instance, attempt, status)

    assert run.work_off(work)
    assert run.results() == {("a", "unresolved"): 1, ("b", "resolved"): 1}
    tries = run.folder.attempt("a", 1) / "tries"
    assert earlier_folders == [None, tries / "1", tries / "2"]
    assert all((tries / n / "logs" / "agent.log").read_bytes() == b"infrastructure_error" for n in "12")
    assert (run.folder.attempt("a", 1) / "logs" / "agent.log").read_bytes() == b"unresolved"
    assert len(run.ledger.earlier_tries(Item("a", 1))) == 2


def test_after_three_tries_an_infrastructure_error_stands(tmp_path: Path) -> None:
    run = Run(tmp_path, "a")
    calls = []

    def work(instance: Instance, attempt: int, _: Path | None) -> Finished:
        calls.append(attempt)
        return finished(instance, attempt, Status.INFRASTRUCTURE_ERROR)

    assert run.work_off(work)
    assert len(calls) == 3
    assert run.results() == {("a", "infrastructure_error"): 1}


def test_what_trying_again_cannot_mend_is_not_tried_again(tmp_path: Path) -> None:
    run = Run(tmp_path, "a")
    calls = []

    def work(instance: Instance, attempt: int, _: Path | None) -> Finished:
        calls.append(attempt)
        return replace(finished(instance, attempt, Status.INFRASTRUCTURE_ERROR), permanent=True)

    assert run.work_off(work)
    assert len(calls) == 1
    assert run.results() == {("a", "infrastructure_error"): 1}


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.INFRASTRUCTURE_ERROR])
def test_no_other_status_is_tried_again(tmp_path: Path, status: Status) -> None:
    run = Run(tmp_path, "a")
    assert run.work_off(lambda instance, attempt, _: finished(instance, attempt, status))
    assert run.results() == {("a", status.value): 1}
    assert not run.ledger.earlier_tries(Item("a", 1))


def test_a_stop_gives_up_what_is_in_flight_and_keeps_what_is_finished(tmp_path: Path) -> None:
    run = Run(tmp_path, "abc")
    removed = threading.Event()

    def work(instance: Instance, attempt: int, _: Path | None) -> Finished:
        if instance.instance_id == "b":
            run.scheduler._interrupted = True
            run.scheduler._stop.set()
            assert removed.wait(20)  # the stop removes the containers under it
            return finished(instance, attempt, Status.UNRESOLVED)  # and a killed test looks like a failed one
        return finished(instance, attempt)

    assert run.work_off(work, remove_containers=removed.set) is False
    assert run.results() == {("a", "resolved"): 1}
    assert run.ledger.pending() == [Item("b", 1), Item("c", 1)]


def test_an_engine_that_is_gone_for_good_ends_the_run_and_charges_nobody(tmp_path: Path) -> None:
    run = Run(tmp_path, "abc")

    def gone() -> None:
        raise EngineUnavailable("gone")

    def work(instance: Instance, attempt: int, _: Path | None) -> Finished:
        return finished(instance, attempt, Status.INFRASTRUCTURE_ERROR)

    with pytest.raises(EngineUnavailable):
        run.work_off(work, check_engine=gone)
    run.ledger.reopen()
    assert len(run.ledger.pending()) == 3
    assert not run.ledger.earlier_tries(Item("a", 1))


def test_a_full_disk_ends_the_run_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, "ab")

    def full(*_: object) -> None:
        raise StorageError(tmp_path, "No space left on device")

    monkeypatch.setattr(run.folder, "write_attempt", full)
    with pytest.raises(StorageError, match="make room"):
        run.work_off(lambda instance, attempt, _: finished(instance, attempt))
    run.ledger.reopen()
    assert len(run.ledger.pending()) == 2


def test_the_time_left_follows_from_what_is_done() -> None:
    assert time_left(0, 10, 5) is None
    assert time_left(2, 10, 30) == 120
    assert (spoken(4.2), spoken(190), spoken(7500)) == ("4 s", "3 min 10 s", "2 h 05 min")


def test_progress_without_a_terminal_says_a_line_at_the_start_and_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path, "ab")
    started = time.monotonic()
    run.work_off(lambda instance, attempt, _: finished(instance, attempt))
    assert time.monotonic() - started < 5
    assert capsys.readouterr().err == "0/2 attempts\n2/2 attempts: 2 resolved\n"


def test_progress_counts_what_was_there_before(capsys: pytest.CaptureFixture[str]) -> None:
    before = {"unresolved": 3, "resolved": 1}
    with Progress(5, console=Console(file=io.StringIO()), before=before) as progress:
        progress.finished(Status.UNRESOLVED)
    assert capsys.readouterr().err.splitlines() == [
        "4/5 attempts: 3 unresolved, 1 resolved (4 from before)",
        "5/5 attempts: 4 unresolved, 1 resolved (4 from before)",
    ]

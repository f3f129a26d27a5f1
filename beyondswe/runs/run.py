"""A run from its options to its last outcome: begun or gone on with under the lock, and worked off."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from beyondswe.errors import UsageError
from beyondswe.instances.model import Instance
from beyondswe.runs.attempt import Work
from beyondswe.runs.cleanup import remove_dead_containers, remove_own_containers, wait_for_engine
from beyondswe.runs.folder import RunFolder, StorageError, check_run_id, disk_errors
from beyondswe.runs.ledger import Item, Ledger
from beyondswe.runs.progress import Progress
from beyondswe.runs.scheduler import Scheduler
from beyondswe.runs.settings import Settings, check_same
from beyondswe.sandbox.engine import Engine

if TYPE_CHECKING:
    from rich.console import Console


class OpenRun:
    """A run that this process holds."""

    def __init__(self, folder: RunFolder, ledger: Ledger, settings: Settings, resumed: bool) -> None:
        self.folder, self.ledger, self.settings, self.resumed = folder, ledger, settings, resumed

    def work_off(
        self,
        engine: Engine,
        instances: Mapping[str, Instance],
        work: Work,
        *,
        workers: int,
        console: Console,
    ) -> bool:
        """Make every attempt that is still to be made; False if interrupted (then the run can be gone on
        with).
        """
        remove_dead_containers(engine)
        before = self.ledger.statuses()
        total = sum(before.values()) + len(self.ledger.pending())
        with Progress(total, console=console, before=before) as progress:
            complete = Scheduler(
                folder=self.folder,
                ledger=self.ledger,
                instances=instances,
                work=work,
                workers=workers,
                progress=progress,
                check_engine=lambda: wait_for_engine(engine),
                remove_containers=lambda: remove_own_containers(engine),
            ).run()
        if complete:
            document = self.folder.read_run()
            document["finished"] = _now()
            document["images"] = self.ledger.images()
            self.folder.write_json("run.json", document)
        return complete


@contextmanager
def open_run(
    runs_dir: Path, run_id: str, settings: Settings, instances: Mapping[str, Instance]
) -> Iterator[OpenRun]:
    """Begin a run, or go on with the one of that id if its options are the same. Holds it until the end.

    While it lasts, temporary files of this process go to the run's own folder, so that a killed run can be
    cleaned up after by the next start.
    """
    folder = RunFolder((runs_dir / check_run_id(run_id)).resolve())
    with ExitStack() as held:
        with _nothing_started(runs_dir):
            _check_free(folder)
            folder.path.mkdir(parents=True, exist_ok=True)
            held.enter_context(folder.lock())
            ledger = held.enter_context(closing(Ledger(folder.ledger)))
            before = ledger.options()
            if before is not None:
                check_same(run_id, before, settings.options())
                ledger.reopen()
            else:
                # by instance: set-up is paid once, then its image is warm for the other attempts
                items = [Item(i, k) for i in instances for k in range(1, settings.attempts + 1)]
                ledger.create(settings.options(), items)
            if not (folder.path / "run.json").exists():
                document = settings.run_document(run_id, package_version=version("beyondswe"), started=_now())
                folder.write_json("run.json", document)
            folder.rebuild_results(ledger.outcomes())
            held.enter_context(_temporary_files(folder.temporary))
        yield OpenRun(folder, ledger, settings, resumed=before is not None)


def is_finished(runs_dir: Path, run_id: str) -> bool:
    """Whether a run of that id is there and was worked off to its end."""
    folder = RunFolder(runs_dir / check_run_id(run_id))
    return (folder.path / "run.json").exists() and bool(folder.read_run().get("finished"))


def _check_free(folder: RunFolder) -> None:
    """Whether the folder is a run's, or nobody's."""
    if (
        folder.path.exists()
        and not folder.ledger.exists()
        and any(p.name != ".lock" for p in folder.path.iterdir())
    ):
        raise UsageError(
            f"{folder.path} is there already and is no run that can be gone on with; use another --run-id"
        )


@contextmanager
def _nothing_started(runs_dir: Path) -> Iterator[None]:
    """A folder that cannot be written to is wrong use as long as nothing was begun."""
    try:
        yield
    except StorageError as error:
        raise UsageError(
            f"--runs-dir {runs_dir} cannot be written to ({error.why}): "
            f"{error.advice}, or name another folder with --runs-dir"
        ) from error
    except OSError as error:
        raise UsageError(
            f"--runs-dir {runs_dir} cannot be written to ({error.strerror or error}); "
            "name another folder with --runs-dir"
        ) from error


@contextmanager
def _temporary_files(path: Path) -> Iterator[None]:
    shutil.rmtree(path, ignore_errors=True)  # of a killed process; if it cannot go, mkdir says why
    with disk_errors(path):
        path.mkdir()
    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(path)
    try:
        yield
    finally:
        tempfile.tempdir = before
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable
        shutil.rmtree(
            path, ignore_errors=True
        )  # a worker that did not come home may still write: the next start clears it


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

"""The ledger: every attempt is claimed, then finished, and no crash loses what is finished."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from beyondswe.runs.folder import StorageError
from beyondswe.runs.ledger import Item, Ledger

ITEMS = [Item(name, attempt) for name in ("a", "b") for attempt in (1, 2)]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create({"--attempts": 2}, ITEMS)
    return ledger


def finish(ledger: Ledger, item: Item, status: str = "resolved") -> None:
    ledger.finish(
        item, status=status, patch_sha256="0", outcome=f'{{"status": "{status}", "image_digest": "i"}}'
    )


def test_attempts_come_in_the_order_they_were_given(ledger: Ledger) -> None:
    assert ledger.pending() == ITEMS


def test_an_attempt_cannot_be_claimed_twice_nor_finished_unclaimed(ledger: Ledger) -> None:
    ledger.claim(ITEMS[0])
    with pytest.raises(RuntimeError):
        ledger.claim(ITEMS[0])
    with pytest.raises(RuntimeError):
        finish(ledger, ITEMS[1])


def test_what_was_in_flight_is_pending_after_reopening_and_what_was_finished_stays(
    tmp_path: Path, ledger: Ledger
) -> None:
    ledger.claim(ITEMS[0])
    finish(ledger, ITEMS[0])
    ledger.claim(ITEMS[1])
    ledger.close()
    again = Ledger(tmp_path / "ledger.db")
    again.reopen()
    assert again.pending() == ITEMS[1:]
    assert len(list(again.outcomes())) == 1


def test_earlier_tries_are_kept_and_numbered(ledger: Ledger) -> None:
    item = ITEMS[0]
    for number in range(2):
        assert ledger.claim(item) == number
        ledger.retry(item, f'"try {number + 1}"')
    assert ledger.claim(item) == 2
    finish(ledger, item)
    assert ledger.earlier_tries(item) == ['"try 1"', '"try 2"']


def test_infrastructure_errors_get_another_chance_when_the_run_goes_on(ledger: Ledger) -> None:
    for item, status in zip(ITEMS, ("infrastructure_error", "unresolved"), strict=False):
        ledger.claim(item)
        finish(ledger, item, status)
    ledger.reopen()
    assert ITEMS[0] in ledger.pending() and ITEMS[1] not in ledger.pending()
    assert len(ledger.earlier_tries(ITEMS[0])) == 1


def test_the_making_of_a_ledger_that_was_cut_short_leaves_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger(path)

    def broken() -> list[Item]:
        yield ITEMS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.create({}, broken())
    ledger.close()
    assert Ledger(path).options() is None


def test_a_process_killed_at_any_point_loses_only_what_was_in_flight(tmp_path: Path) -> None:
    """The child finishes attempts as fast as it can and says so after each; we kill it in the middle."""
    path = tmp_path / "ledger.db"
    code = """
import sys
from pathlib import Path
from beyondswe.runs.ledger import Item, Ledger
ledger = Ledger(Path(sys.argv[1]))
items = [Item(str(n), 1) for n in range(5000)]
ledger.create({}, items)
for item in items:
    ledger.claim(item)
    ledger.finish(item, status="resolved", patch_sha256="", outcome="{}")
    print(item.instance_id, flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for _ in range(30):
            last = int(child.stdout.readline())
        child.kill()
    ledger = Ledger(path)
    ledger.reopen()
    finished = len(list(ledger.outcomes()))
    assert finished >= last + 1
    assert finished + len(ledger.pending()) == 5000


def test_a_full_disk_is_an_error_that_says_what_to_do_and_loses_nothing(
    tmp_path: Path, ledger: Ledger
) -> None:
    ledger.claim(ITEMS[0])
    finish(ledger, ITEMS[0])
    ledger.claim(ITEMS[1])
    pages = ledger._db.execute("PRAGMA page_count").fetchone()[0]
    ledger._db.execute(f"PRAGMA max_page_count = {pages}")  # what SQLite meets on a full disk: SQLITE_FULL
    with pytest.raises(StorageError, match="make room"):
        ledger.finish(ITEMS[1], status="resolved", patch_sha256="", outcome='"' + "x" * 100_000 + '"')
    ledger.close()
    again = Ledger(tmp_path / "ledger.db")
    again.reopen()
    assert len(list(again.outcomes())) == 1
    assert again.pending() == ITEMS[1:]


def test_images_are_told_by_instance(ledger: Ledger) -> None:
    ledger.claim(ITEMS[0])
    finish(ledger, ITEMS[0])
    assert ledger.images() == {"a": "i"}


def test_the_database_is_in_wal_mode(tmp_path: Path, ledger: Ledger) -> None:
    assert sqlite3.connect(tmp_path / "ledger.db").execute("PRAGMA journal_mode").fetchone() == ("wal",)

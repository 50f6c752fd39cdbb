import hashlib
import shutil
import sqlite3
from pathlib import Path
from random import Random

import pytest

from tests.unit.worker.world import claim
from worker.capability import LaunchCapability
from worker.fault import LedgerBroken, Unfit
from worker.ledger import FORMAT, Ledger
from worker.ledger_row import Consume, Denied, Fence, NoteStop, Reason, Reserve, RowState, Settle

BINDING = claim(("r1", 1), incarnation="i1", ledger="l1").binding
CONSUME = Consume("i1", 7, 1.0, 60.0)


class StillClock:
    now_ms = 1_000

    def mono_s(self) -> float:
        return 1.0

    def wall_ms(self) -> int:
        return self.now_ms


def opened(data_dir: Path, worker: str = "w1", clock: StillClock | None = None) -> Ledger:
    return Ledger.open(data_dir, worker=worker, clock=clock or StillClock(), randomness=Random(1))


def contents(data_dir: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in data_dir.iterdir()
        if path.name not in {"ledger.db-shm", "ledger.db-wal"}
    }


def test_a_row_survives_and_the_ledger_keeps_its_identity(folder: Path) -> None:
    first = opened(folder / "w1")
    first.step("r1", 1, Reserve(BINDING, "x1"))
    kept = first.id
    first.close()
    again = opened(folder / "w1")
    row = again.row("r1", 1)
    assert again.id == kept
    assert row is not None
    assert (row.state, row.reservation, row.binding) == (RowState.RESERVED, "x1", BINDING)
    again.close()


def test_only_its_owner_can_read_the_files(folder: Path) -> None:
    (folder / "w1").mkdir()
    (folder / "w1" / "ledger.db").touch(mode=0o644)
    for _ in range(2):  # one made by an earlier version, then one of its own
        ledger = opened(folder / "w1")
        ledger.step("r1", 1, Reserve(BINDING, "x1"))
        modes = {path.name: path.stat().st_mode & 0o777 for path in (folder / "w1").iterdir()}
        assert modes == dict.fromkeys(("ledger.db", "ledger.db-shm", "ledger.db-wal", "lock"), 0o600)
        ledger.close()
        (folder / "w1" / "ledger.db").unlink()


def test_every_commit_is_synced(folder: Path) -> None:
    ledger = opened(folder / "w1")
    (level,) = ledger._db.execute("PRAGMA synchronous").fetchone()
    (mode,) = ledger._db.execute("PRAGMA journal_mode").fetchone()
    assert (level, mode) == (2, "wal")
    ledger.close()


def test_consuming_makes_one_capability_for_ever(folder: Path) -> None:
    ledger = opened(folder / "w1")
    ledger.step("r1", 1, Reserve(BINDING, "x1"))
    assert isinstance(ledger.consume("r1", 1, CONSUME), LaunchCapability)
    assert ledger.consume("r1", 1, CONSUME) == Denied(Reason.ILLEGAL_MOVE, RowState.CONSUMED)
    ledger.close()
    again = opened(folder / "w1")
    assert again.consume("r1", 1, CONSUME) == Denied(Reason.ILLEGAL_MOVE, RowState.CONSUMED)
    assert again.step("r1", 1, Reserve(BINDING, "x2")) == Denied(Reason.ILLEGAL_MOVE, RowState.CONSUMED)
    assert again.consume("r9", 1, CONSUME) == Denied(Reason.ILLEGAL_MOVE, None), "no row is no permission"
    again.close()


def test_a_fence_or_a_stop_before_consumption_leaves_no_capability(folder: Path) -> None:
    ledger = opened(folder / "w1")
    for attempt, command in ((1, Fence("why")), (2, NoteStop())):
        ledger.step("r1", attempt, Reserve(BINDING, "x1"))
        ledger.step("r1", attempt, command)
        assert ledger.consume("r1", attempt, CONSUME) == Denied(Reason.ILLEGAL_MOVE, RowState.FENCED)
    ledger.close()


def test_a_failed_write_breaks_the_ledger_and_gives_no_capability(folder: Path) -> None:
    ledger = opened(folder / "w1")
    ledger.step("r1", 1, Reserve(BINDING, "x1"))
    ledger._db.execute("CREATE TEMP TRIGGER full BEFORE INSERT ON main.attempt BEGIN SELECT RAISE(FAIL, 'full'); END")
    with pytest.raises(LedgerBroken, match="full"):
        ledger.consume("r1", 1, CONSUME)
    ledger.close()
    again = opened(folder / "w1")
    row = again.row("r1", 1)
    assert row is not None
    assert row.state is RowState.RESERVED
    again.close()


def test_only_rows_answered_long_ago_are_offered_and_only_settled_ones_go(folder: Path) -> None:
    clock = StillClock()
    ledger = opened(folder / "w1", clock=clock)
    for attempt in (1, 2, 3):
        ledger.step("r1", attempt, Reserve(BINDING, "x"))
        ledger.step("r1", attempt, Fence("why"))
    clock.now_ms = 5_000
    ledger.step("r1", 1, Settle("fenced"))
    clock.now_ms = 6_000
    ledger.step("r1", 2, Settle("fenced"))
    assert [row.answered_ms for row in ledger.settled(before_ms=6_000, limit=10)] == [5_000]
    assert [row.answered_ms for row in ledger.settled(before_ms=9_000, limit=1)] == [5_000]
    ledger.forget([("r1", 1), ("r1", 3), ("r1", 9)])
    assert [ledger.row("r1", n) is not None for n in (1, 2, 3)] == [False, True, True], "the third has still to report"
    assert [row.binding.run_id for row in ledger.unanswered()] == ["r1"]
    ledger.close()


def test_two_processes_do_not_share_a_directory(folder: Path) -> None:
    first = opened(folder / "w1")
    before = contents(folder / "w1")
    with pytest.raises(Unfit, match="in use by another process"):
        opened(folder / "w1")
    assert contents(folder / "w1") == before
    first.close()
    opened(folder / "w1").close()


def test_another_workers_ledger_is_refused_unchanged(folder: Path) -> None:
    opened(folder / "w1").close()
    before = contents(folder / "w1")
    with pytest.raises(Unfit, match="'w1', not of 'w2'"):
        opened(folder / "w1", worker="w2")
    assert contents(folder / "w1") == before


@pytest.mark.parametrize("index", [True, False], ids=["killed", "power lost"])
def test_another_workers_ledger_is_refused_unchanged_after_a_crash_too(folder: Path, *, index: bool) -> None:
    live = opened(folder / "w1")
    live.step("r1", 1, Reserve(BINDING, "x1"))
    shutil.copytree(folder / "w1", folder / "left")
    live.close()
    assert (folder / "left" / "ledger.db-wal").stat().st_size > 0
    if not index:
        (folder / "left" / "ledger.db-shm").unlink()
    before = {path.name: path.read_bytes() for path in (folder / "left").iterdir()}
    with pytest.raises(Unfit, match="'w1', not of 'w2'"):  # who it belongs to stands in the WAL only
        opened(folder / "left", worker="w2")
    assert {path.name: path.read_bytes() for path in (folder / "left").iterdir()} == before
    again = opened(folder / "left")
    assert again.row("r1", 1) is not None
    again.close()


def test_a_newer_format_is_refused_unchanged(folder: Path) -> None:
    opened(folder / "w1").close()
    with sqlite3.connect(folder / "w1" / "ledger.db") as db:
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
    db.close()
    before = contents(folder / "w1")
    with pytest.raises(Unfit, match="use the newer program"):
        opened(folder / "w1")
    assert contents(folder / "w1") == before


@pytest.mark.parametrize("content", [b"this is not a database, and long enough to be looked at" * 40])
def test_what_is_no_ledger_is_refused_unchanged(folder: Path, content: bytes) -> None:
    (folder / "w1").mkdir()
    (folder / "w1" / "ledger.db").write_bytes(content)
    with pytest.raises(Unfit, match="cannot be used as a ledger"):
        opened(folder / "w1")
    assert (folder / "w1" / "ledger.db").read_bytes() == content


def test_another_database_is_refused(folder: Path) -> None:
    (folder / "w1").mkdir()
    with sqlite3.connect(folder / "w1" / "ledger.db") as db:
        db.execute("CREATE TABLE something (else_ TEXT)")
    db.close()
    with pytest.raises(Unfit, match="is not a ledger"):
        opened(folder / "w1")


def test_an_empty_file_of_a_cut_off_start_is_made_a_ledger(folder: Path) -> None:
    (folder / "w1").mkdir()
    (folder / "w1" / "ledger.db").touch()
    opened(folder / "w1").close()


def test_a_folder_that_cannot_be_made_is_one_clear_line(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(Unfit, match="cannot be used"):
        opened(folder / "file" / "w1")
    with pytest.raises(Unfit, match="No such file or directory"):
        opened(folder / "missing" / "w1")

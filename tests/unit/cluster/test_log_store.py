import errno
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from cluster import durable, log_store, log_tables
from cluster.frames import NO_OP
from cluster.log_mirror import Entry
from cluster.log_store import LogStore
from cluster.outcome import FailStop, Unfit
from cluster.side_mark import SLOT_BYTES
from tests.unit.cluster.fakes import identity


@pytest.fixture
def path(tmp_path: Path) -> Path:
    log_tables.create(tmp_path / "raft.db", identity())
    return tmp_path / "raft.db"


def filled(path: Path, *terms: int) -> LogStore:
    log = LogStore(path)
    for index, term in enumerate(terms, start=2):
        log.set_term(term, log.voted_for if term == log.term else None)
        log.append(b"\x00%d" % index, index, term)
    log.sync()
    return log


def reopened(log: LogStore, path: Path) -> LogStore:
    log.close()
    return LogStore(path)


def test_genesis_holds_the_initial_entry_and_no_term(path: Path) -> None:
    log = LogStore(path)
    assert (log.entries, log.term, log.voted_for, log.commit_index) == ([Entry(NO_OP, 1, 0)], 0, None, 1)
    log.close()


def test_a_sync_returns_only_when_the_disk_has_all_that_was_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[str, int]] = []

    def fdatasync(descriptor: int) -> None:
        flushed.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, os.fstat(descriptor).st_size))

    log = LogStore(path)
    wal = path.with_name("raft.db-wal")
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    log.set_term(1, "node1")
    log.append(b"\x00command", 2, 1)
    log.sync()
    assert flushed == [("raft.db-wal", wal.stat().st_size), ("raft.mark", 2 * SLOT_BYTES)], "the mark never tells more"
    assert (log.synced_index, log.synced_term, log.claims_unsynced) == (2, 1, False)
    for step in (lambda: log.note_install(2, 1), log.forget_install, lambda: log.start_at(1, 0)):
        flushed.clear()
        step()
        assert flushed == [("raft.db-wal", wal.stat().st_size)]
    flushed.clear()
    log.sync()
    assert not flushed, "nothing to write"
    log.close()


def test_what_is_written_and_not_flushed_counts_for_nothing(path: Path) -> None:
    log = LogStore(path)
    log.set_term(1, "node1")
    log.append(b"\x00command", 2, 1)
    assert log.write()
    assert (log.synced_index, log.synced_term, log.claims_unsynced) == (1, 0, True)
    log.flush()
    log.flushed()
    assert (log.synced_index, log.synced_term, log.claims_unsynced) == (2, 1, False)
    assert not log.write()
    log.close()


def test_a_flush_that_fails_stops_the_process(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogStore(path)

    def broken(_descriptor: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr(os, "fdatasync", broken)
    log.set_term(1, "node1")
    with pytest.raises(FailStop, match=r"flushing raft\.db"):
        log.sync()
    assert log.claims_unsynced
    log.close()


def test_what_was_synced_is_there_after_a_crash_and_nothing_else_is(path: Path) -> None:
    log = filled(path, 1, 1, 2)
    log.set_commit(3)
    log.set_term(3, "node2")
    log.sync()
    log.append(b"\x00lost", 5, 3)
    log.set_term(4, "node3")
    assert (log.synced_index, log.last_index, log.claims_unsynced) == (4, 5, True)
    log = reopened(log, path)
    assert [(entry.index, entry.term) for entry in log.entries] == [(1, 0), (2, 1), (3, 1), (4, 2)]
    assert (log.term, log.voted_for, log.commit_index, log.synced_index) == (3, "node2", 3, 4)
    log.close()


def test_a_truncation_reaches_the_disk_with_what_replaces_it(path: Path) -> None:
    log = filled(path, 1, 1, 1)
    log.set_term(2, None)
    log.append(b"\x00unsynced", 5, 2)
    log.truncate_from(4)
    log.truncate_from(3)
    assert log.synced_index == 2
    log.append(b"\x00new", 3, 2)
    log = reopened(log, path)
    assert [entry.term for entry in log.entries] == [0, 1, 1, 1]
    log.set_term(2, None)
    log.truncate_from(3)
    log.append(b"\x00new", 3, 2)
    log.sync()
    log = reopened(log, path)
    assert [(entry.command, entry.term) for entry in log.entries[1:]] == [(b"\x002", 1), (b"\x00new", 2)]
    log.close()


@pytest.mark.parametrize(
    "step",
    [
        lambda log: log.append(b"\x00", 9, 2),
        lambda log: log.append(b"\x00", 4, 1),
        lambda log: log.append(b"\x00", 4, 3),
        lambda log: log.truncate_from(2),
        lambda log: log.set_term(1, None),
        lambda log: log.set_term(2, "node3"),
        lambda log: log.set_term(2, None),
        lambda log: log.set_commit(1),
        lambda log: log.set_commit(4),
    ],
)
def test_what_raft_never_does_stops_the_voter(path: Path, step: object) -> None:
    log = filled(path, 1, 2)
    log.set_term(2, "node2")
    log.set_commit(2)
    with pytest.raises(FailStop):
        step(log)
    log.close()


def test_a_full_disk_stops_the_voter_and_leaves_the_disk_as_it_was(path: Path) -> None:
    log = filled(path, 1)
    (pages,) = log._db.execute("PRAGMA page_count").fetchone()
    log._db.execute(f"PRAGMA max_page_count = {pages}")
    log.append(bytes(100_000), 3, 1)
    with pytest.raises(FailStop, match=r"raft\.db: OperationalError: database or disk is full"):
        log.sync()
    log = reopened(log, path)
    assert log.last_index == 2
    log.close()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM log WHERE idx = 3",
        "DELETE FROM log",
        "UPDATE log SET term = 9 WHERE idx = 3",
        "UPDATE log SET term = 0 WHERE idx = 4",
        "UPDATE standing SET commit_index = 40",
        "DELETE FROM standing",
        "DROP TABLE log",
    ],
)
def test_a_damaged_file_is_unfit_with_one_line(path: Path, damage: str) -> None:
    filled(path, 1, 1, 2).close()
    db = sqlite3.connect(path)
    db.execute(damage)
    db.commit()
    db.close()
    with pytest.raises(Unfit) as unfit:
        LogStore(path)
    assert str(path) in str(unfit.value)
    assert "\n" not in str(unfit.value)


def test_what_is_no_database_is_unfit(tmp_path: Path) -> None:
    (tmp_path / "raft.db").write_bytes(b"not a database at all, but long enough to look at" * 50)
    with pytest.raises(Unfit):
        LogStore(tmp_path / "raft.db")


def test_a_wal_that_a_killed_process_left_is_synced_before_the_log_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(path, 1)  # its WAL stays while it is open, as after kill -9
    done: list[str] = []
    real = log_store.open_writer

    def opened(*words: Any) -> sqlite3.Connection:
        done.append("opened")
        return real(*words)

    monkeypatch.setattr(durable, "sync_file", lambda file: done.append(file.name))
    monkeypatch.setattr(durable, "sync_folder", lambda folder: done.append(folder.name))
    monkeypatch.setattr(log_store, "open_writer", opened)
    LogStore(path).close()
    assert done == ["raft.db-wal", path.parent.name, "opened"]

    def broken(_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(durable, "sync_file", broken)
    with pytest.raises(Unfit, match="Input/output error"):
        LogStore(path)
    log.close()

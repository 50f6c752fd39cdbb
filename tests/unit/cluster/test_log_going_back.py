"""raft.db beside its mark: what is written when, and what a start makes of a file that went back."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster import durable, log_tables
from cluster.log_store import LogStore
from cluster.outcome import FailStop, Unfit
from cluster.regress import Floor, Mark
from cluster.side_mark import OpenMark
from tests.unit.cluster.fakes import identity


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "now").mkdir()
    log_tables.create(tmp_path / "now" / "raft.db", identity())
    return tmp_path / "now" / "raft.db"


class Watched(OpenMark):
    """The real file; tells what the disk holds at each act, and fails from a chosen one on."""

    def __init__(self, path: Path, done: list[tuple[str, int]], acts: int = 1 << 30) -> None:
        super().__init__(path)
        self._path, self._done, self._acts = path, done, acts

    def _act(self, what: str) -> None:
        db = sqlite3.connect(self._path.with_name("raft.db"))
        self._done.append((what, db.execute("SELECT syncs FROM standing").fetchone()[0]))
        db.close()
        self._acts -= 1
        if self._acts < 0:
            raise OSError("the disk is gone")

    def write(self, content: bytes, offset: int) -> None:
        self._act("write")
        super().write(content, offset)

    def sync(self) -> None:
        self._act("sync")
        super().sync()


def grow(log: LogStore, term: int, entries: int = 1, vote: str | None = "node2") -> None:
    if term > log.term:
        log.set_term(term, vote)
    for _ in range(entries):
        log.append(b"\x00x", log.last_index + 1, term)
    log.sync()


def kept(path: Path, name: str = "then") -> Path:
    """Copy raft.db and its WAL, as a careless backup would."""
    to = path.parent.parent / name
    to.mkdir()
    for each in ("raft.db", "raft.db-wal"):
        if path.with_name(each).exists():
            shutil.copyfile(path.with_name(each), to / each)
    return to


def put_back(path: Path, copy: Path) -> None:
    for each in ("raft.db", "raft.db-wal", "raft.db-shm"):
        path.with_name(each).unlink(missing_ok=True)
        if (copy / each).exists():
            shutil.copyfile(copy / each, path.with_name(each))


def gone_back(path: Path) -> None:
    """Leave a disk that had come to entry 4 in term 3, with a raft.db of entry 2 in term 1."""
    log = LogStore(path)
    grow(log, 1)
    copy = kept(path)
    grow(log, 3, 2)
    log.close()
    put_back(path, copy)


# ---- what is written when


def test_the_mark_follows_each_sync_and_is_synced_only_for_a_term_or_a_vote(path: Path) -> None:
    done: list[tuple[str, int]] = []
    log = LogStore(path, lambda path: Watched(path, done))
    grow(log, 1)
    assert done == [("write", 1), ("sync", 1)], "after the commit that it tells of"
    grow(log, 1, 3)
    log.truncate_from(4)
    log.sync()
    assert done[2:] == [("write", 2), ("write", 3)]
    log.set_term(2, None)
    log.sync()
    log.set_term(2, "node3")
    log.sync()
    assert done[4:] == [("write", 4), ("sync", 4), ("write", 5), ("sync", 5)]
    log.set_commit(2)
    log.sync()
    assert len(done) == 8, "a commit index alone changes nothing that was promised"
    log.start_at(3, 1)
    assert done[8:] == [("write", 6)]
    assert log._mark.newest == Mark(6, 2, 3)
    log.close()


def test_a_mark_that_cannot_be_written_stops_the_voter(path: Path) -> None:
    log = LogStore(path, lambda path: Watched(path, [], acts=0))
    log.append(b"\x00x", 2, 0)
    with pytest.raises(FailStop, match="side mark"):
        log.sync()
    log.close()


def test_a_start_makes_durable_what_it_found_before_it_is_built_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogStore(path)
    grow(log, 1)
    crashed = kept(path)  # the page cache has the WAL; whether the disk has it, nobody knows
    log.close()
    put_back(path, crashed)
    done: list[tuple[str, int]] = []
    monkeypatch.setattr(durable, "sync_file", lambda path: done.append((path.name, 0)))
    log = LogStore(path, lambda path: Watched(path, done))
    assert done == []
    log.settle()
    assert done == [("raft.db-wal", 0), ("write", 1), ("sync", 1)]
    log.close()


# ---- a file that went back


def test_a_file_that_went_back_keeps_the_term_gives_no_vote_in_it_and_has_no_say(path: Path) -> None:
    gone_back(path)
    log = LogStore(path)
    assert (log.term, log.voted_for, log.last_index, log.floor) == (3, "node1", 2, Floor(3, 4))
    assert not log.entitled
    assert "entry 4 in term 3" in str(log.trouble)
    with pytest.raises(FailStop):
        log.set_term(3, "node3")
    log.close()


def test_one_that_only_lost_its_last_vote_does_not_vote_again_in_that_term(path: Path) -> None:
    log = LogStore(path)
    grow(log, 3, vote=None)
    copy = kept(path)
    log.set_term(3, "node2")
    log.sync()
    log.close()
    put_back(path, copy)
    log = LogStore(path)
    assert (log.term, log.voted_for) == (3, "node1")
    log.close()


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_transactions_cut_off_the_wal_are_missed(path: Path, lost: int) -> None:
    log = LogStore(path)
    for _ in range(4):
        grow(log, 1)
    copy = kept(path)
    log.close()
    put_back(path, copy)
    wal = path.with_name("raft.db-wal")
    frame = 24 + 4096
    content = wal.read_bytes()
    commits = [at for at in range(32, len(content), frame) if content[at + 4 : at + 8] != bytes(4)]
    rotten = bytearray(content)
    rotten[commits[-lost] + 100] ^= 1  # SQLite stops reading there
    wal.write_bytes(rotten)
    log = LogStore(path)
    assert log.last_index == 5 - lost
    assert log.floor == Floor(1, 5)
    log.close()


@pytest.mark.parametrize("acts", range(5))
def test_a_start_that_dies_at_any_act_leaves_the_loss_to_be_found_again(path: Path, acts: int) -> None:
    gone_back(path)
    done: list[tuple[str, int]] = []
    log = LogStore(path, lambda path: Watched(path, done, acts))
    if acts < 4:
        with pytest.raises(FailStop):
            log.settle()
    else:
        log.settle()
        assert done == [("write", 1), ("sync", 1), ("write", 3), ("sync", 3)]
    log.close()
    log = LogStore(path)
    assert (log.term, log.voted_for, log.floor) == (3, "node1", Floor(3, 4))
    log.close()


def settled(path: Path) -> LogStore:
    log = LogStore(path)
    log.settle()
    return log


def test_what_was_lost_is_remembered_over_starts_until_a_leader_has_made_it_good(path: Path) -> None:
    gone_back(path)
    settled(path).close()
    log = settled(path)
    log.set_term(4, None)
    log.append(b"\x00old", 3, 1)
    log.append(b"\x00old", 4, 3)
    log.append(b"\x01", 5, 4)
    log.equals(4, 4, 4)
    log.sync()
    log.close()
    log = settled(path)
    assert log.floor == Floor(3, 4), "its last entry is of an earlier term than the leader"
    log.equals(4, 5, 4)
    assert log.entitled
    log.sync()
    log.close()
    log = settled(path)
    assert (log.entitled, log.trouble) == (True, None)
    log.close()


def test_the_end_of_a_loss_is_durable_with_the_tick_that_found_it(path: Path) -> None:
    gone_back(path)
    done: list[tuple[str, int]] = []
    log = LogStore(path, lambda path: Watched(path, done))
    log.settle()
    grow(log, 3, 2)
    log.equals(3, 4, 4)
    del done[:]
    log.sync()
    assert done == [("write", 5), ("sync", 5)]
    log.close()


def test_what_is_compacted_away_makes_nothing_good(path: Path) -> None:
    gone_back(path)
    log = settled(path)
    log.start_at(9, 3)
    log.equals(3, 8, 4)
    assert not log.entitled
    log.equals(3, 9, 9)
    assert log.entitled
    log.close()


def test_it_may_go_back_again_before_that(path: Path) -> None:
    gone_back(path)
    log = settled(path)
    copy = kept(path, "again")
    grow(log, 5, 1, vote=None)
    log.close()
    put_back(path, copy)
    log = settled(path)
    assert (log.term, log.voted_for, log.floor) == (5, "node1", Floor(5, 3))
    log.close()


def test_a_mark_that_is_older_than_its_file_is_no_alarm_and_is_brought_up(path: Path) -> None:
    log = LogStore(path)
    grow(log, 1)
    older = path.with_name("raft.mark").read_bytes()
    grow(log, 1, 5)
    log.close()
    path.with_name("raft.mark").write_bytes(older)
    log = settled(path)
    assert (log.floor, log._mark.newest) == (None, Mark(2, 1, 7))
    log.close()


@pytest.mark.parametrize("ruin", [lambda mark: mark.unlink(), lambda mark: mark.write_bytes(bytes(8192))])
def test_without_its_mark_a_file_is_unfit_and_nothing_is_changed(path: Path, ruin: Callable[[Path], None]) -> None:
    log = LogStore(path)
    grow(log, 1)
    log.close()
    ruin(path.with_name("raft.mark"))
    before = path.read_bytes()
    with pytest.raises(Unfit, match=r"raft\.mark"):
        LogStore(path)
    assert path.read_bytes() == before

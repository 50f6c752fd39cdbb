import sqlite3
from pathlib import Path

import pytest

from cluster import wal
from cluster.checkpoint_store import CheckpointStore
from cluster.compaction import Bounds, start_of_log
from cluster.frames import NO_OP, Append
from cluster.log_mirror import Entry
from cluster.log_store import LogStore
from cluster.outcome import FailStop, Unfit
from tests.simulation.cluster.machine import Appends, appended
from tests.unit.cluster.fakes import Bench, identity


def log_of(first: int, last: int, size: int = 10) -> list[Entry]:
    return [Entry(bytes(size), index, 1) for index in range(first, last + 1)]


@pytest.mark.parametrize(
    ("limit", "keep_entries", "keep_bytes", "start"),
    [
        (100, 30, 10_000, 70),
        (100, 30, 95, 91),  # nine entries are 90 bytes
        (100, 30, 5, 100),
        (20, 30, 10_000, 11),
        (11, 30, 10_000, 11),
        (1, 30, 10_000, 11),  # nothing is durable yet
    ],
)
def test_the_start_moves_up_to_what_is_durable_less_a_bounded_tail(
    limit: int, keep_entries: int, keep_bytes: int, start: int
) -> None:
    bounds = Bounds(keep_entries=keep_entries, keep_bytes=keep_bytes)
    assert start_of_log(log_of(11, 120), limit, bounds) == start


SMALL = Bounds(every_entries=20, keep_entries=5)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path, bounds=SMALL)
    bench.link("node2", "s2")
    bench.replica.tick()
    return bench


def feed(bench: Bench, count: int, size: int = 1) -> None:
    """Let the leader node2 append, commit and apply `count` more entries."""
    log = bench.log
    entries = tuple((1, b"\x00" + b"x" * size + b"%d" % (log.last_index + n)) for n in range(count))
    last = log.last_index + count
    bench.hear("node2", 1, Append(last, log.last_index, log.last_term, entries))
    bench.wait(0.2)


def test_the_log_is_compacted_only_when_the_checkpoint_is_on_disk_for_certain(bench: Bench) -> None:
    feed(bench, 50)
    assert bench.checkpoint.applied_index == 51
    assert (bench.executor.waiting, bench.log.first_index) == (1, 1), "applied and committed is not yet on disk"
    bench.executor.run_all()
    bench.replica.tick()
    assert (bench.checkpoint.durable_index, bench.log.first_index) == (51, 46)
    assert wal.size(bench.home / "checkpoint.db") == 0


def test_a_restart_goes_on_from_the_start_of_the_log(bench: Bench) -> None:
    feed(bench, 50)
    bench.executor.run_all()
    feed(bench, 10)
    bench.replica.close()
    bench.open()
    assert [entry.index for entry in bench.log.entries] == list(range(46, 62))
    assert (bench.log.last_index, bench.checkpoint.applied_index, bench.log.commit_index) == (61, 61, 61)
    bench.link("node2", "s3")
    feed(bench, 10)
    assert bench.checkpoint.applied_index == 71
    bench.replica.close()


def test_wals_of_a_busy_voter_stay_bounded(tmp_path: Path) -> None:
    bench = Bench(tmp_path, bounds=Bounds(wal_bytes=200_000, every_entries=1 << 40))
    bench.link("node2", "s2")
    most = 0
    for _ in range(40):
        feed(bench, 20, size=2000)
        bench.executor.run_all()
        most = max(most, wal.size(tmp_path / "raft.db"), wal.size(tmp_path / "checkpoint.db"))
    assert 200_000 < most < 700_000
    bench.replica.close()


def test_c78_a_long_reader_keeps_the_log_until_it_ends(bench: Bench) -> None:
    """The WAL cannot be copied past the reader, so nothing that the file lacks is dropped."""
    reader = sqlite3.connect(bench.home / "checkpoint.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM appended").fetchall()
    for _ in range(10):
        feed(bench, 50)
        bench.executor.run_all()
    assert (bench.log.first_index, bench.checkpoint.durable_index) == (1, 1)
    copy = bench.home.parent / "crashed"  # as kill -9 leaves it
    copy.mkdir()
    (copy / "raft.db").write_bytes((bench.home / "raft.db").read_bytes())
    for name in ("raft.db-wal", "raft.mark", "checkpoint.db", "checkpoint.db-wal"):
        (copy / name).write_bytes((bench.home / name).read_bytes())
    log = LogStore(copy / "raft.db")
    checkpoint = CheckpointStore(copy / "checkpoint.db", bench.identity, Appends(), log.first_index)
    for entry in log.after(checkpoint.applied_index, 1000):
        checkpoint.apply(entry)
    assert checkpoint.digest == bench.checkpoint.digest
    log.close()
    checkpoint.close()
    reader.close()
    feed(bench, 50)
    bench.executor.run_all()
    bench.wait(0.2)
    assert bench.log.first_index == bench.log.last_index - SMALL.keep_entries
    assert wal.size(bench.home / "checkpoint.db") == 0
    bench.replica.close()


def test_a_disk_that_fails_while_a_wal_is_copied_stops_the_voter(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(wal, "backfill", fail)
    feed(bench, 50)
    bench.executor.run_all()
    with pytest.raises(FailStop, match="disk I/O"):
        bench.replica.tick()


def test_a_checkpoint_that_the_log_cannot_make_again_is_unfit_and_nothing_is_made(bench: Bench) -> None:
    feed(bench, 10)
    bench.replica._checkpoint._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    older = (bench.home / "checkpoint.db").read_bytes()
    feed(bench, 50)
    bench.executor.run_all()
    feed(bench, 1)
    bench.replica.close()
    path = bench.home / "checkpoint.db"
    path.unlink()
    for content, what in ((None, "missing"), (b"", "empty"), (older, "ends at entry 11")):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(Unfit, match=what) as unfit:
            CheckpointStore(path, bench.identity, Appends(), 56)
        assert "\n" not in str(unfit.value)
        assert path.exists() == (content is not None)


def test_only_what_is_committed_and_synced_is_compacted(bench: Bench) -> None:
    feed(bench, 10)
    bench.log.append(b"\x00tail", 12, 1)
    for index in (12, 13):
        with pytest.raises(FailStop):
            bench.log.compact_to(index)
    bench.log.compact_to(11)
    bench.log.compact_to(5)
    assert bench.log.first_index == 11
    with pytest.raises(FailStop):
        bench.log.entry(10)
    bench.replica.close()


def test_a_batch_that_reaches_back_before_the_start_of_the_log_is_committed_there(bench: Bench) -> None:
    feed(bench, 50)
    bench.executor.run_all()
    bench.replica.tick()
    entries = {entry.index: entry for entry in bench.log.entries}
    first, before = bench.log.first_index, bench.replica.status()
    old = (1, b"\x00x42")
    held = tuple((entry.term, entry.command) for entry in entries.values() if entry.index > first)
    bench.hear("node2", 1, Append(first - 2, first - 4, 1, (old,)))  # all of it is compacted
    bench.hear("node2", 1, Append(51, first - 3, 1, (old, old, (1, entries[first].command), *held)))
    assert bench.replica.status() == before
    assert [frame.message.index for frame in bench.links["node2"].frames[-2:]] == [first - 3, 51]
    with pytest.raises(FailStop, match="contradicts"):
        bench.hear("node2", 2, Append(51, first - 2, 1, ((1, b"\x00"), (2, NO_OP), (2, NO_OP))))


def test_reading_goes_on(bench: Bench) -> None:
    feed(bench, 50)
    bench.executor.run_all()
    bench.replica.tick()
    assert len(bench.replica.read(appended)) == 50
    assert identity().cluster_id == bench.identity.cluster_id
    bench.replica.close()

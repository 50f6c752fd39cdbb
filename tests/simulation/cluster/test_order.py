"""Nothing leaves, is applied, compacted or installed before the sync that made it true; and the checker sees it if so."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.checkpoint_store import CheckpointStore
from cluster.compaction import Bounds
from cluster.log_store import LogStore
from cluster.outbox import Outbox
from cluster.replica import Replica
from cluster.voter import Voter
from tests.simulation.cluster.order import Order
from tests.simulation.cluster.recording import Event, FileSynced, FolderSynced, LogWritten, Renamed, Sent
from tests.simulation.cluster.test_crashes import Unsynced
from tests.simulation.cluster.world import Killed, Process, World

BOUNDS = Bounds(every_entries=12, keep_entries=4, piece_bytes=4096)


def cluster(home: Path) -> tuple[World, Process]:
    world = World(home, 7, 3, BOUNDS)
    for name in world.names:
        world.start(name)
    world.connect_all()
    assert world.run_until(lambda: world.leader() is not None and world.converged(), 5.0)
    leader = world.leader()
    assert leader is not None
    return world, leader


def lives_a_while(home: Path) -> World:
    """An election, some work, a voter that needs a snapshot; whatever comes of it."""
    world = World(home, 7, 3, BOUNDS)
    for name in world.names:
        world.start(name)
    world.connect_all()
    world.run(2.0)
    late = next((name for name, each in world.live.items() if each.replica.leadership.role != "leader"), "node1")
    if late in world.live:
        world.kill(late)
    for _ in range(12):
        leader = world.leader()
        for _ in range(4 if leader else 0):
            world.propose(leader.name if leader else "")
        world.run(0.3)
    if late not in world.live:
        world.start(late)
    world.connect_all()
    world.run(2.0)
    return world


def test_a_life_in_order_is_found_in_order(tmp_path: Path) -> None:
    world = lives_a_while(tmp_path)
    assert world.violations == []
    assert world.installed == 1
    assert world.order.committed > 40
    assert len(world.acknowledged) > 30


# ---- what a process that was killed had written and not synced


def killed_at(world: World, name: str, kind: type, then: Callable[[], object]) -> None:
    """Kill a voter just after its next event of a kind, then go on without it."""

    def die(event: Event) -> None:
        if event.voter == name and isinstance(event, kind):
            death = Killed()
            death.power = False
            raise death

    world.history.listeners.append(die)
    then()
    world.history.listeners.remove(die)
    assert name not in world.live


def test_what_was_written_and_not_synced_by_a_killed_voter_is_synced_before_its_next_life_speaks(
    tmp_path: Path,
) -> None:
    """The next life reads it from the page cache, and would acknowledge what a power loss still takes."""
    world, leader = cluster(tmp_path)
    name = next(each for each in world.names if each != leader.name)
    world.propose(leader.name)
    killed_at(world, name, LogWritten, lambda: world.run(0.3))
    disk = world.order.disks[name]
    assert disk.log_written.last == disk.log.last + 1
    world.history.events.clear()
    world.start(name)
    assert disk.log.last == disk.log_written.last, "on disk before anything else"
    assert not any(isinstance(event, Sent) for event in world.history.events)
    world.connect_all()
    assert world.run_until(world.converged, 5.0)
    world.check_at_end()
    assert world.violations == []


def test_a_name_that_a_killed_voter_had_not_synced_is_synced_before_its_log_is_cut(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    name = next(each for each in world.names if each != leader.name)
    world.kill(name)
    while leader.log.first_index <= world.order.disks[name].log.last:
        for _ in range(6):
            world.propose(leader.name)
        world.run(0.5)
    world.start(name)
    world.connect_all()
    killed_at(world, name, Renamed, lambda: world.run(2.0))
    world.history.events.clear()
    world.start(name)
    kinds = [type(event) for event in world.history.events if isinstance(event, FolderSynced | LogWritten)]
    assert kinds[-2:] == [FolderSynced, LogWritten]
    world.connect_all()
    assert world.run_until(world.converged, 5.0)
    world.check_at_end()
    assert world.violations == []


# ---- each rule, broken


def seen(world: World) -> str:
    return "\n".join(violation for violation in world.violations if violation.startswith("order: "))


def test_it_sees_a_log_that_is_never_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogStore, "write", lambda _: False)
    assert "its disk is in 0" in seen(lives_a_while(tmp_path))


def test_it_sees_a_log_that_commits_without_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogStore, "flush", lambda log: log._put_mark(durably=False))
    assert "its disk is in 0" in seen(lives_a_while(tmp_path))


def test_it_sees_what_is_released_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outbox, "release_early", Outbox.release)
    assert "acknowledges" in seen(lives_a_while(tmp_path))


def test_it_sees_a_batch_that_leaves_in_a_term_not_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogStore, "claims_unsynced", False)
    monkeypatch.setattr(Outbox, "release_early", Outbox.release)
    assert "speaks in term" in seen(lives_a_while(tmp_path))


def test_it_sees_entries_applied_that_are_not_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def apply_all(voter: Voter) -> bool:
        for entry in voter._log.after(voter._SyncObj__raftLastApplied, 100):
            if entry.index <= voter._SyncObj__raftCommitIndex:
                voter._proposals.applied(entry, voter._checkpoint.apply(entry))
                voter._SyncObj__raftLastApplied = entry.index
        return False

    world, leader = cluster(tmp_path)
    late = next(name for name in world.names if name != leader.name)
    world.kill(late)
    for _ in range(3):
        world.propose(leader.name)
    world.run(0.5)
    world.start(late)
    monkeypatch.setattr(Voter, "_SyncObj__applyLogEntries", apply_all)
    world.connect_all()  # what it misses comes to it committed already
    world.run(1.0)
    assert "which its disk does not hold" in seen(world)


def test_it_sees_a_leader_that_counts_itself_too_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that never writes counts what only the others hold."""
    world, leader = cluster(tmp_path)
    world.kill(next(name for name in world.names if name != leader.name))
    monkeypatch.setattr(leader.log, "write", lambda: False)
    world.propose(leader.name)
    world.run(0.5)
    assert "is committed, on disk it is at" in seen(world)


def test_it_sees_an_answer_before_readers_could_see_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = CheckpointStore.commit
    tick = Replica.tick

    def late(replica: Replica) -> bool:
        again = tick(replica)
        commit(replica._checkpoint)
        return again

    monkeypatch.setattr(CheckpointStore, "commit", lambda _: None)
    monkeypatch.setattr(Replica, "tick", late)
    assert "which no reader sees yet" in seen(lives_a_while(tmp_path))


def test_it_sees_a_log_compacted_beyond_what_the_checkpoint_has_on_disk(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    for _ in range(5):
        world.propose(leader.name)
    world.run(0.5)
    leader.log.compact_to(leader.checkpoint.applied_index)
    world.propose(leader.name)
    world.run(0.1)
    assert "on disk for certain" in seen(world)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("cluster.installing", "forgets an installation before the new name is on disk"),
        ("cluster.snapshot_copy", "installs a copy whose bytes are not synced"),
        ("cluster.checkpoint_store", "before its removal is on disk"),
    ],
)
def test_it_sees_an_installation_without_each_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, words: str
) -> None:
    monkeypatch.setattr(f"{module}.durable", Unsynced)
    assert words in seen(lives_a_while(tmp_path))


def test_it_sees_two_votes_in_a_term_and_a_term_that_goes_back(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    name = next(each for each in world.names if each != leader.name)
    disk = leader.log._db
    disk.execute("UPDATE standing SET voted_for = ?", (name,))
    leader.log._wal_flush()
    assert "changes its vote" in seen(world)
    disk.execute("UPDATE standing SET term = 0")
    leader.log._wal_flush()
    assert "goes back" in seen(world)


def test_a_file_that_is_synced_twice_changes_nothing() -> None:
    order = Order(["node1"])
    before = repr(order.disks)
    order.take(FileSynced("node1", "raft.db-wal"))
    order.take(FileSynced("node1", "checkpoint.db-wal"))
    assert (repr(order.disks), order.violations) == (before, [])

"""Scripted stories of voters that miss so much that the log cannot help them any more."""

import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.compaction import Bounds
from cluster.frames import Append, Frame, TimeoutNow, decode_frame, encode_frame
from cluster.outcome import Applied
from cluster.pieces import Piece
from cluster.room import RESERVE_BYTES
from cluster.snapshot_copy import INCOMING, OUTGOING
from tests.simulation.cluster.machine import appended
from tests.simulation.cluster.network import End
from tests.simulation.cluster.world import Process, World

BOUNDS = Bounds(every_entries=200, keep_entries=50, piece_bytes=512, window_pieces=4)


def cluster(home: Path, bounds: Bounds = BOUNDS) -> tuple[World, Process, str]:
    """Return a running world, its leader, and the name of a follower."""
    world = World(home, 7, 3, bounds)
    for name in world.names:
        world.start(name)
    world.connect_all()
    assert world.run_until(lambda: world.leader() is not None and world.converged(), 5.0)
    leader = world.leader()
    assert leader is not None
    return world, leader, next(name for name in world.names if name != leader.name)


def work(world: World, leader: Process, count: int) -> None:
    ops = [world.propose(leader.name) for _ in range(count)]
    assert world.run_until(lambda: world.acknowledged >= set(ops), 5.0)


def compacted_beyond(world: World, leader: Process, late: str) -> None:
    """Let the leader work until the entry after the late voter's last one is gone."""
    last = world.live[late].log.last_index if late in world.live else 3
    for _ in range(60):
        if leader.log.first_index > last:
            return
        work(world, leader, 50)
        world.run(0.3)
    raise AssertionError("the log is not compacted")


def come_back(world: World, late: str) -> None:
    world.start(late)
    world.connect_all()


def sound_at_end(world: World) -> None:
    assert world.run_until(world.converged, 20.0)
    world.check_at_end()
    assert world.violations == []


def test_the_log_is_bounded_on_every_voter_and_a_restart_needs_no_more_of_it(tmp_path: Path) -> None:
    world, leader, late = cluster(tmp_path)
    for _ in range(20):
        work(world, leader, 100)
        world.run(0.3)
    most = BOUNDS.every_entries + BOUNDS.keep_entries + 500
    assert all(len(process.log.entries) < most < process.log.last_index for process in world.live.values())
    for name in world.names:
        world.kill(name, power=name != late)
        world.start(name)
    world.connect_all()
    sound_at_end(world)


def test_a_voter_that_missed_thousands_is_sent_a_snapshot_under_load_and_no_commit_waits(tmp_path: Path) -> None:
    world, leader, late = cluster(tmp_path)
    world.kill(late)
    for _ in range(15):
        work(world, leader, 200)
        world.run(0.2)
    compacted_beyond(world, leader, late)
    come_back(world, late)
    waits: list[float] = []
    while world.installed == 0 and len(waits) < 500:
        asked_s, op = world.now_s, world.propose(leader.name)
        assert world.run_until(lambda op=op: op in world.acknowledged, 2.0)
        waits.append(world.now_s - asked_s)
    assert world.installed == 1
    assert len(waits) > 5, "nothing was committed while the snapshot was under way: this shows nothing"
    assert max(waits) < 0.3
    assert world.leader() is leader
    sound_at_end(world)
    assert world.installed == 1, "it was sent more than it needed"


def test_pieces_leave_only_as_fast_as_they_are_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, leader, late = cluster(tmp_path)
    world.kill(late)
    compacted_beyond(world, leader, late)
    come_back(world, late)
    sent: list[Piece] = []
    send = world.network.send

    def watched(end: End, raw: bytes) -> None:
        message = decode_frame(raw).message
        if isinstance(message, Piece):
            sent.append(message)
        send(end, raw)

    monkeypatch.setattr(world.network, "send", watched)
    world.run_until(lambda: bool(sent), 5.0)
    world.network.silence(late, leader.name)  # its acknowledgements are lost
    world.run(0.3)
    assert sum(len(piece.content) for piece in sent) <= 2 * BOUNDS.window_pieces * BOUNDS.piece_bytes
    assert sent[0].total > 2 * BOUNDS.window_pieces * BOUNDS.piece_bytes, "the copy is too small to show anything"


def under_way(world: World, leader: Process, late: str) -> None:
    """Come back and stop in the middle of a snapshot."""
    come_back(world, late)
    assert world.run_until(lambda: world.live[late].replica._upkeep._receiving._offset > 0, 5.0)
    assert world.installed == 0
    assert leader.replica._upkeep._sending.pin is not None


def test_a_voter_that_needs_a_snapshot_is_held_up_the_start_of_the_log_as_a_heartbeat_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer to that says nothing that other entries could help: answered at once, it would come back for ever."""
    world, leader, late = cluster(tmp_path)
    world.kill(late)
    compacted_beyond(world, leader, late)
    under_way(world, leader, late)
    monkeypatch.setattr(world.live[late].replica._upkeep._receiving, "take", lambda *_: None)
    sent: list[Append] = []
    send = world.network.send

    def watched(end: End, raw: bytes) -> None:
        message = decode_frame(raw).message
        if end.peer == late and isinstance(message, Append):
            sent.append(message)
        send(end, raw)

    monkeypatch.setattr(world.network, "send", watched)
    began_s = world.now_s
    world.run(1.0)
    assert {(append.prev_index, append.entries) for append in sent} == {(leader.log.first_index, ())}
    assert len(sent) <= (world.now_s - began_s) / world.timing.heartbeat_s + 2


def test_a_handover_in_the_middle_of_a_snapshot_never_bids_the_voter_that_is_sent_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, leader, late = cluster(tmp_path)
    world.kill(late)
    compacted_beyond(world, leader, late)
    under_way(world, leader, late)
    bidden: list[str] = []
    send = world.network.send

    def watched(end: End, raw: bytes) -> None:
        if isinstance(decode_frame(raw).message, TimeoutNow):
            bidden.append(end.peer)
        send(end, raw)

    monkeypatch.setattr(world.network, "send", watched)
    leader.replica.hand_over()
    assert world.run_until(lambda: world.leader() not in {None, leader}, 1.0)
    heir = next(name for name in world.names if name not in {late, leader.name})
    assert set(bidden) == {heir}
    sound_at_end(world)
    assert world.installed == 1


def test_a_handover_to_nobody_but_a_voter_that_is_sent_a_snapshot_waits_for_it(tmp_path: Path) -> None:
    world, leader, late = cluster(tmp_path)
    world.kill(late)
    compacted_beyond(world, leader, late)
    under_way(world, leader, late)
    world.kill(next(name for name in world.names if name not in {late, leader.name}))
    leader.replica.hand_over()
    assert world.run_until(lambda: world.live[late].replica.leadership.role == "leader", 5.0)
    assert world.installed == 1
    assert world.live[late].replica.read(appended) == leader.replica.read(appended)


def test_c74_a_receiver_whose_disk_fills_up_gives_the_copy_back_and_is_sent_another_once_there_is_room(
    tmp_path: Path,
) -> None:
    world, leader, late = cluster(tmp_path)
    world.kill(late)
    compacted_beyond(world, leader, late)
    under_way(world, leader, late)
    world.free[late] = RESERVE_BYTES - 1  # from now on whatever it writes fails, and that would end it
    world.run(1.0)
    assert world.installed == 0
    assert not (world.disks[late].folder / INCOMING).exists()
    assert leader.replica._upkeep._sending.pin is None, "the log is pinned for a voter that can take nothing"
    world.empty(late)
    sound_at_end(world)
    assert world.installed == 1


def test_a_receiver_takes_no_copy_that_would_eat_its_reserve(tmp_path: Path) -> None:
    world, leader, late = cluster(tmp_path)
    world.kill(late)
    compacted_beyond(world, leader, late)
    world.free[late] = RESERVE_BYTES + 1000
    come_back(world, late)
    world.run(2.0)
    assert world.installed == 0
    assert not (world.disks[late].folder / INCOMING).exists()
    world.empty(late)
    sound_at_end(world)
    assert world.installed == 1


def test_a_leader_makes_no_copy_that_would_eat_its_reserve(tmp_path: Path) -> None:
    world, leader, late = cluster(tmp_path)
    world.kill(late)
    compacted_beyond(world, leader, late)
    world.free[leader.name] = RESERVE_BYTES + 1000
    come_back(world, late)
    world.run(2.0)
    assert world.leader() is leader
    assert world.installed == 0
    assert not (world.disks[leader.name].folder / OUTGOING).exists()
    world.empty(leader.name)
    sound_at_end(world)
    assert world.installed == 1


@pytest.mark.parametrize("whose", ["leader", "receiver"])
def test_no_snapshot_decides_whose_state_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str) -> None:
    """A copy of one side would make a majority of it, or do away with the only word against it."""
    world, leader, late = cluster(tmp_path)
    world.kill(late)
    compacted_beyond(world, leader, late)
    come_back(world, late)
    digests = world.live[late if whose == "receiver" else leader.name].replica._digests
    monkeypatch.setattr(digests, "_compare", lambda _: None)
    digests.dispute = "not decided yet"
    world.run(2.0)
    assert world.installed == 0
    monkeypatch.undo()
    sound_at_end(world)
    assert world.installed == 1


def test_a_voter_that_never_takes_its_snapshot_does_not_hold_up_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, leader, late = cluster(tmp_path, replace(BOUNDS, stall_s=1.0))
    world.kill(late)
    compacted_beyond(world, leader, late)
    come_back(world, late)
    digests = world.live[late].replica._digests
    monkeypatch.setattr(digests, "_compare", lambda _: None)
    digests.dispute = "not decided yet"
    first = leader.log.first_index
    for _ in range(30):
        work(world, leader, 40)
        world.run(0.3)
    assert world.installed == 0
    assert leader.log.first_index > first + 600
    monkeypatch.undo()
    assert world.run_until(lambda: world.installed > 0, 30.0), "it is tried again"
    sound_at_end(world)


def test_what_a_voter_said_of_its_state_does_not_outlive_an_installation(tmp_path: Path) -> None:
    world, leader, late = cluster(tmp_path)
    world.network.disconnect(leader.name, late)
    third = next(name for name in world.names if name not in {late, leader.name})
    world.network.disconnect(third, late)
    checkpoint, digests = world.live[late].checkpoint, world.live[late].replica._digests
    checkpoint.marks.append((2, b"x" * 32))  # a bit of it was wrong, and nobody has compared it yet
    compacted_beyond(world, leader, late)
    world.connect_all()
    assert world.run_until(lambda: world.installed == 1, 20.0)
    assert (2, b"x" * 32) not in checkpoint.marks
    start = world.live[late].log.first_index
    assert all(late not in claims for index, claims in digests._claims.items() if index < start)
    sound_at_end(world)


def test_a_cut_in_the_middle_begins_anew_over_the_next_link(tmp_path: Path) -> None:
    world, leader, late = cluster(tmp_path)
    world.kill(late)
    compacted_beyond(world, leader, late)
    under_way(world, leader, late)
    world.network.disconnect(leader.name, late)
    world.run(0.1)
    assert world.live[late].replica._upkeep._receiving._copy is None
    world.connect(leader.name, late)
    sound_at_end(world)
    assert world.installed == 1


def test_a_leader_that_loses_its_office_sends_no_more_and_its_successor_begins_anew(tmp_path: Path) -> None:
    world, leader, late = cluster(tmp_path)
    world.kill(late)
    compacted_beyond(world, leader, late)
    under_way(world, leader, late)
    leader.replica.resign()
    assert world.run_until(lambda: world.leader() not in {None, leader}, 5.0)
    assert leader.replica._upkeep._sending.pin is None
    sound_at_end(world)
    assert world.installed == 1


def test_the_log_behind_the_copy_stays_until_the_voter_has_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, leader, late = cluster(tmp_path)
    world.kill(late)
    compacted_beyond(world, leader, late)
    under_way(world, leader, late)
    receiving = world.live[late].replica._upkeep._receiving
    copy = receiving._copy
    assert copy is not None
    monkeypatch.setattr(receiving, "take", lambda *_: None)  # it keeps nothing for a while
    for _ in range(10):
        work(world, leader, 100)
        world.run(0.3)
    assert leader.log.first_index <= copy.index
    assert leader.checkpoint.durable_index > copy.index + BOUNDS.keep_entries, "nothing but the pin holds the log"
    monkeypatch.undo()
    sound_at_end(world)
    assert world.installed == 1
    work(world, leader, 400)
    world.run(1.0)
    assert leader.log.first_index > copy.index, "the pin outlived its reason"


def test_pieces_move_neither_commit_index_nor_term_nor_log(tmp_path: Path) -> None:
    """Hazard S: the library commits its own unverified tail on any message with a snapshot in it."""
    world, leader, late = cluster(tmp_path)
    world.network.silence(leader.name, late)
    follower = world.live[late]
    link = follower.replica._roster.links[leader.name]
    before = (follower.log.term, follower.log.commit_index, follower.log.last_index, follower.checkpoint.applied_index)
    for term in (leader.log.term, leader.log.term + 5, 1):
        piece = Piece(1 << 40, 1, bytes(32), 10, 0, zlib.crc32(b"abcde"), b"abcde")
        raw = Frame(link.session, term, 0, 1, piece)
        follower.replica.received(link, encode_frame(raw))
        follower.replica.tick()
    after = (follower.log.term, follower.log.commit_index, follower.log.last_index, follower.checkpoint.applied_index)
    assert after == before


@pytest.mark.parametrize("place", range(1, 25, 4))
@pytest.mark.parametrize("power", [False, True])
def test_the_receiver_may_die_at_any_place_of_an_installation(tmp_path: Path, place: int, *, power: bool) -> None:
    world, leader, late = cluster(tmp_path, Bounds(every_entries=20, keep_entries=5, piece_bytes=1 << 16))
    world.kill(late)
    compacted_beyond(world, leader, late)
    come_back(world, late)
    receiving = world.live[late].replica._upkeep._receiving
    while receiving._check is None:
        world.now_s += 0.02
        world.network.now_s = world.now_s
        for process in list(world.live.values()):
            world.network.deliver_due(process.name)
            if process is not world.live[late] and process.executor.waiting:
                process.work()
            process.replica.tick()
    world.live[late].work()
    world.live[late].fuse = place
    world.tick(world.live[late])
    if late in world.live:
        world.kill(late, power=power)
    come_back(world, late)
    sound_at_end(world)
    assert appended_everywhere(world)


def appended_everywhere(world: World) -> bool:
    acknowledged = {op for op, outcomes in world.answers.items() if any(isinstance(o, Applied) for o in outcomes)}
    return all(acknowledged <= set(process.replica.read(appended)) for process in world.live.values())


def test_a_voter_that_only_seems_to_lag_needs_no_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader that knows nothing of its peers holds up the start of its log first."""
    world, leader, late = cluster(tmp_path)
    for _ in range(5):
        work(world, leader, 100)
        world.run(0.3)
    voter = leader.replica._voter
    voter._followers[late].matched, voter._followers[late].next_index = 0, 2
    voter._SyncObj__newAppendEntriesTime = 0.0
    held_up: list[int] = []
    batches = voter._answer

    def watched(peer: object, message: object) -> None:
        if isinstance(message, Append) and not message.entries:
            held_up.append(message.prev_index)
        batches(peer, message)

    monkeypatch.setattr(voter, "_answer", watched)
    world.tick(leader)
    monkeypatch.undo()
    work(world, leader, 10)
    sound_at_end(world)
    assert leader.log.first_index in held_up
    assert world.installed == 0

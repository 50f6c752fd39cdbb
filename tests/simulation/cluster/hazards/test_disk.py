"""Hazards 4, 5, 8 and 9: what a death leaves on the disk, and what the next life makes of it."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cluster.checkpoint_store import CheckpointStore
from cluster.frames import Matched, Vote, decode_frame
from cluster.installing import settle_pair
from cluster.log_store import LogStore
from tests.simulation.cluster.hazards.library import LibraryRig
from tests.simulation.cluster.hazards.ours import SMALL, OurRig
from tests.simulation.cluster.hazards.rig import APPLIED, LOST, TWO_AT_ONE_INDEX, TWO_LEADERS, Rig
from tests.simulation.cluster.machine import Appends
from tests.simulation.cluster.world import Killed

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the library's

NewLibrary, NewOurs = Callable[..., LibraryRig], Callable[..., OurRig]
ONE, TWO, THREE = "node1", "node2", "node3"


def works_with_two(rig: Rig) -> int:
    """Nodes 1 and 2 commit three commands that node 3 has not; return where the log of node 2 ends."""
    for _ in range(3):
        rig.propose(ONE)
    rig.tick(ONE)
    rig.beat(ONE)
    rig.deliver(ONE, TWO)
    rig.deliver(TWO, ONE)
    rig.beat(ONE)
    assert len(rig.told(APPLIED)) == 11
    return rig.log(TWO)[-1][0]


def eight_commands(rig: Rig) -> None:
    rig.begin()
    for _ in range(8):
        rig.propose(ONE)
    rig.tick(ONE)
    rig.agree(ONE, [TWO, THREE])
    rig.cut(ONE, THREE)


def goes_on_without_one(rig: Rig) -> None:
    """Node 2 starts again, and with node 3, which has less, must bring everything acknowledged into the future."""
    if rig.life(TWO) is not None:
        rig.kill(TWO)
    rig.kill(ONE)
    rig.start(TWO)
    rig.join(TWO, THREE)
    rig.elect(TWO, [THREE])
    rig.propose(TWO)
    rig.agree(TWO, [THREE])
    rig.heal()


@contextmanager
def reopened(rig: OurRig, left: Path) -> Iterator[LogStore]:
    """Open what a death left of node 2, as a start does."""
    log = LogStore(left / "raft.db")
    try:
        checkpoint = CheckpointStore(left / "checkpoint.db", rig.world.identities[TWO], Appends(), log.first_index)
        try:
            settle_pair(log, checkpoint)
            yield log
        finally:
            checkpoint.close()
    finally:
        log.close()


def photographed(rig: OurRig, act: Callable[[], None]) -> list[Path]:
    """Return what each way of dying would leave of node 2's disk at each place of what it does now."""
    photos: list[Path] = []

    def photograph(name: str) -> None:
        if name == TWO:
            photos.extend(rig.left(TWO, power=power) for power in (False, True))

    rig.watch = photograph
    act()
    rig.watch = lambda _: None
    assert photos
    return photos


# ---- 4, L1: state and log do not start at the same entry


def test_hazard_04_l1_the_library_clears_its_journal_where_a_newer_dump_lies_beside_it(library: NewLibrary) -> None:
    rig = library()
    eight_commands(rig)
    rig.live[TWO].forceLogCompaction()
    rig.tick(TWO)  # the dump is in its place; the journal would be shortened in the next tick
    before = works_with_two(rig)
    rig.kill(TWO)
    rig.start(TWO)
    rig.tick(TWO)
    assert rig.log(TWO)[-1][0] < before
    goes_on_without_one(rig)
    assert {LOST, TWO_AT_ONE_INDEX} <= rig.found


def test_hazard_04_l1_ours_keeps_its_log_whatever_checkpoint_lies_beside_it(ours: NewOurs) -> None:
    rig = ours(bounds=SMALL)
    eight_commands(rig)
    before = works_with_two(rig)
    assert rig.process(TWO).checkpoint.applied_index < before
    rig.kill(TWO)
    rig.start(TWO)
    assert rig.log(TWO)[-1][0] == before
    goes_on_without_one(rig)
    assert rig.found == set()


def test_hazard_04_l1_ours_drops_nothing_from_the_log_that_the_checkpoint_may_lose(ours: NewOurs) -> None:
    """A reader holds the WAL of checkpoint.db: what came after it is not synced, and power loss takes it."""
    rig = ours(bounds=SMALL)
    rig.begin()
    disk = rig.world.disks[TWO]
    synced = (disk.folder / "checkpoint.db-wal").stat().st_size
    with closing(sqlite3.connect(disk.folder / "checkpoint.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM cluster_applied").fetchall()
        for _ in range(8):
            rig.propose(ONE)
        rig.agree(ONE, [TWO, THREE])
        rig.now_s += 0.12
        for _ in range(2):
            rig.tick(TWO)
            rig.work(TWO)
        rig.tick(TWO)
        rig.propose(ONE)
        rig.agree(ONE, [TWO])  # a compaction reaches the disk with what is appended next
        left = rig.left(TWO, power=True)
    os.truncate(left / "checkpoint.db-wal", synced)  # a copy that a reader held back has synced nothing
    with reopened(rig, left) as log:
        assert log.last_index == rig.log(TWO)[-1][0]


# ---- 5, L2: a compaction that is cut short


def test_hazard_05_l2_the_library_killed_in_a_compaction_loses_the_end_of_its_journal(library: NewLibrary) -> None:
    rig = library()
    eight_commands(rig)
    rig.live[TWO].forceLogCompaction()
    rig.tick(TWO)
    before = works_with_two(rig)
    places: list[str] = []

    def third_time(place: str) -> None:
        places.append(place)
        if places.count("before add") == 3:
            raise Killed

    rig.point = third_time
    rig.tick(TWO)
    rig.point = lambda _: None
    assert rig.life(TWO) is None
    rig.start(TWO)
    assert rig.log(TWO)[-1][0] < before
    goes_on_without_one(rig)
    assert {LOST, TWO_AT_ONE_INDEX} <= rig.found


def test_hazard_05_l2_ours_may_die_at_any_place_of_a_compaction(ours: NewOurs) -> None:
    rig = ours(bounds=SMALL)
    eight_commands(rig)
    before = works_with_two(rig)

    def compact() -> None:
        rig.compact(TWO)
        rig.propose(ONE)
        rig.beat(ONE)
        rig.deliver(ONE, TWO)  # it reaches the disk with what is appended next

    photos = photographed(rig, compact)
    for left in photos:
        with reopened(rig, left) as log:
            assert log.last_index >= before
    rig.begin_again_from(TWO, photos[len(photos) // 2])
    goes_on_without_one(rig)
    assert rig.found == set()


# ---- 8, D: nothing is synced


def test_hazard_08_d_the_library_acknowledges_what_power_loss_takes(library: NewLibrary) -> None:
    rig = library()
    eight_commands(rig)
    rig.written_back(TWO)
    works_with_two(rig)
    rig.kill(TWO, power=True)
    goes_on_without_one(rig)
    assert {LOST, TWO_AT_ONE_INDEX} <= rig.found


def test_hazard_08_d_ours_has_on_disk_whatever_it_has_said(ours: NewOurs) -> None:
    rig = ours()
    eight_commands(rig)
    rig.deliver(TWO, ONE)
    said_and_left: list[tuple[int, Path]] = []

    def photograph(name: str) -> None:
        end = rig.network.end(TWO, ONE)
        if name == TWO and end is not None:
            words = [decode_frame(frame).message for _, frame in end.on_way]
            said = max((word.index for word in words if isinstance(word, Matched)), default=0)
            said_and_left.append((said, rig.left(TWO, power=True)))

    for _ in range(3):
        rig.propose(ONE)
    rig.tick(ONE)
    rig.watch = photograph
    rig.deliver(ONE, TWO)
    rig.watch = lambda _: None
    assert max(said for said, _ in said_and_left) == rig.log(TWO)[-1][0]
    for said, left in said_and_left:
        with reopened(rig, left) as log:
            assert log.last_index >= said


def test_hazard_08_d_ours_keeps_through_power_loss_what_is_acknowledged(ours: NewOurs) -> None:
    rig = ours()
    eight_commands(rig)
    works_with_two(rig)
    rig.kill(TWO, power=True)
    goes_on_without_one(rig)
    assert rig.found == set()


def loses_power_after_its_vote(rig: Rig) -> None:
    """Node 2 elects node 3, loses power, and is asked by node 1 for the same term."""
    rig.begin()
    if isinstance(rig, LibraryRig):
        rig.written_back(TWO)
    rig.cut(ONE, THREE)
    rig.elect(THREE, [TWO])
    rig.kill(TWO, power=True)
    rig.start(TWO)
    rig.join(ONE, TWO)
    rig.now_s += 40.0
    rig.tick(ONE)  # nobody has answered it for long: it leads no more
    rig.elect(ONE, [TWO])


def test_hazard_08_d_the_library_votes_twice_in_a_term_after_power_loss(library: NewLibrary) -> None:
    rig = library()
    rig.meta_is_lost = True
    loses_power_after_its_vote(rig)
    assert TWO_LEADERS in rig.found


def test_hazard_08_d_ours_votes_once_in_a_term_whatever_happens(ours: NewOurs) -> None:
    rig = ours()
    loses_power_after_its_vote(rig)
    assert rig.term(ONE) > rig.term(THREE)
    rig.heal()
    assert rig.found == set()


def test_hazard_08_d_ours_says_no_vote_before_it_is_on_disk(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    rig.cut(ONE, THREE)
    voted_and_left: list[tuple[bool, Path]] = []

    def photograph(name: str) -> None:
        end = rig.network.end(TWO, THREE)
        if name == TWO and end is not None:
            voted = any(isinstance(decode_frame(frame).message, Vote) for _, frame in end.on_way)
            voted_and_left.append((voted, rig.left(TWO, power=True)))

    rig.watch = photograph
    rig.elect(THREE, [TWO])
    rig.watch = lambda _: None
    assert any(voted for voted, _ in voted_and_left)
    for voted, left in voted_and_left:
        with reopened(rig, left) as log:
            assert not voted or (log.term, log.voted_for) == (rig.term(THREE), THREE)


# ---- 9, P: the commit index on disk is ahead of the log on disk


def all_lose_power(rig: Rig) -> str:
    """Everybody loses power; the next leader is asked for one thing, and has told nobody of it yet."""
    rig.begin()
    if isinstance(rig, LibraryRig):
        for name in rig.names:
            rig.written_back(name)
    for _ in range(6):
        rig.propose(ONE)
    rig.tick(ONE)
    rig.agree(ONE, [TWO, THREE])
    for name in rig.names:
        rig.now_s += 1.1  # once a second it notes how far it has committed
        rig.tick(name)
    for name in rig.names:
        rig.kill(name, power=True)
    rig.start_all()
    rig.elect(ONE, [TWO, THREE])
    op = rig.propose(ONE)
    for _ in range(3):
        rig.tick(ONE)
    return op


def test_hazard_09_p_the_library_acknowledges_what_nobody_else_has(library: NewLibrary) -> None:
    rig = library()
    op = all_lose_power(rig)
    assert rig.answers(op) == [APPLIED]
    assert TWO_AT_ONE_INDEX in rig.found


def test_hazard_09_p_ours_acknowledges_only_once_others_have_it(ours: NewOurs) -> None:
    rig = ours()
    op = all_lose_power(rig)
    assert rig.answers(op) == []
    rig.heal()
    assert rig.found == set()
    assert len(rig.state(TWO)) == 7


def test_hazard_09_p_ours_starts_from_no_more_than_was_committed(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    rig.cut_off(ONE)
    for _ in range(3):
        rig.propose(ONE)
    rig.beat(ONE)
    rig.kill(ONE, power=True)
    rig.start(ONE)
    assert rig.state(ONE) == []
    rig.elect(TWO, [THREE])
    for _ in range(3):
        rig.propose(TWO)
    rig.agree(TWO, [THREE])
    rig.heal()
    assert rig.found == set()

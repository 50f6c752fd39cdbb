"""Hazards 1, 2, 3 and 10: what the library does to logs that agree, and what it takes for agreement."""

from collections.abc import Callable

import pytest

from cluster.frames import Append, decode_frame
from tests.simulation.cluster.hazards.library import LibraryRig
from tests.simulation.cluster.hazards.ours import SMALL, OurRig
from tests.simulation.cluster.hazards.rig import APPLIED, LOST, TWO_AT_ONE_INDEX, Rig
from tests.simulation.cluster.world import Killed

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the library's

NewLibrary, NewOurs = Callable[..., LibraryRig], Callable[..., OurRig]
ONE, TWO, THREE = "node1", "node2", "node3"


# ---- 1, S: a message without a previous entry commits whatever the follower has


def rejoins_with_a_tail(rig: Rig, *, compacted: bool) -> list[str]:
    """A leader is cut off with three commands that nobody else has, behind one that somebody has, and comes back."""
    rig.begin()
    rig.cut(ONE, THREE)
    rig.propose(ONE)
    rig.beat(ONE)
    rig.deliver(ONE, TWO)
    rig.cut(ONE, TWO)
    alone = [rig.propose(ONE) for _ in range(3)]
    rig.beat(ONE)
    rig.elect(TWO, [THREE])
    for _ in range(10):
        rig.propose(TWO)
    rig.agree(TWO, [THREE])
    if compacted:
        rig.compact(TWO)
    rig.join(ONE, TWO)
    for _ in range(5):
        rig.beat(TWO)
        while rig.deliver(TWO, ONE, 1):
            rig.tick(ONE)
        rig.deliver(ONE, TWO)
    return alone


def test_hazard_01_s_the_library_commits_a_tail_that_nobody_else_has(library: NewLibrary) -> None:
    rig = library(logCompactionBatchSize=64)
    alone = rejoins_with_a_tail(rig, compacted=True)
    assert [rig.answers(op) for op in alone] == [[APPLIED]] * 3
    rig.heal()
    assert {LOST, TWO_AT_ONE_INDEX} <= rig.found


@pytest.mark.parametrize("compacted", [False, True])
def test_hazard_01_s_ours_commits_only_what_a_leader_has_matched(ours: NewOurs, *, compacted: bool) -> None:
    rig = ours(batch_bytes=1, bounds=SMALL)
    alone = rejoins_with_a_tail(rig, compacted=compacted)
    assert APPLIED not in {answer for op in alone for answer in rig.answers(op)}
    assert rig.heal()
    assert rig.found == set()


# ---- 2, A: a shorter batch that comes later cuts off what a longer one brought


def asks_back_twice(rig: Rig) -> int:
    """Two heartbeats in flight are both answered "I lack that"; the later answer is older than what was sent since.

    Node 3 has committed with node 2, and is about to hear of nothing that it does not know. Returns where the log of
    node 2 ends; what the later answer made node 3 send again comes next.
    """
    rig.begin()
    rig.cut(ONE, TWO)
    for _ in range(5):
        rig.propose(ONE)
        rig.beat(ONE)
    rig.agree(ONE, [THREE])
    rig.cut(TWO, THREE)
    rig.elect(THREE, [ONE])
    rig.agree(THREE, [ONE])
    rig.cut(ONE, THREE)
    rig.join(TWO, THREE)
    rig.beat(THREE)
    rig.beat(THREE)
    rig.deliver(THREE, TWO)
    assert rig.on_way(TWO, THREE) >= 2
    rig.deliver(TWO, THREE, 1)
    for _ in range(4):
        rig.propose(THREE, 60)
    rig.tick(THREE)
    rig.beat(THREE)
    rig.deliver(THREE, TWO)
    rig.deliver(TWO, THREE, 1)  # the second answer, before the acknowledgements behind it
    rig.beat(THREE)
    rig.deliver(TWO, THREE)
    rig.beat(THREE)
    return rig.log(TWO)[-1][0]


def leader_goes(rig: Rig) -> None:
    """Node 3 dies; node 2 and node 1, which was away, go on."""
    rig.kill(THREE)
    if rig.life(TWO) is None:
        rig.start(TWO)
    rig.join(ONE, TWO)
    for name, voter in ((TWO, ONE), (ONE, TWO)):
        try:
            rig.elect(name, [voter])
        except AssertionError:
            continue
        for _ in range(3):
            rig.propose(name)
        rig.agree(name, [voter])
        break
    rig.heal()


def test_hazard_02_a_the_library_cuts_off_what_it_has_acknowledged(library: NewLibrary) -> None:
    rig = library(appendEntriesBatchSizeBytes=200)
    before = asks_back_twice(rig)
    rig.deliver(THREE, TWO, 1)
    assert rig.log(TWO)[-1][0] < before
    leader_goes(rig)
    assert {LOST, TWO_AT_ONE_INDEX} <= rig.found


def test_hazard_02_a_ours_cuts_off_nothing_that_matches(ours: NewOurs) -> None:
    rig = ours(batch_bytes=80)
    before = asks_back_twice(rig)
    rig.deliver(THREE, TWO, 1)
    assert rig.log(TWO)[-1][0] >= before
    assert len(rig.told(APPLIED)) == 9
    leader_goes(rig)
    assert rig.found == set()


def acknowledged_in_parts(rig: Rig) -> int:
    """Three batches are on their way at once; what the first acknowledgement makes the leader send is all of it.

    Everything is committed by nodes 1 and 2 then. Returns where the log of node 2 ends.
    """
    rig.begin()
    rig.cut_off(ONE)
    for _ in range(6):
        rig.propose(ONE)
    rig.beat(ONE)
    rig.join(ONE, TWO)
    rig.beat(ONE)
    rig.deliver(ONE, TWO)
    assert rig.on_way(TWO, ONE) >= 2
    rig.deliver(TWO, ONE, 1)
    rig.beat(ONE)
    rig.deliver(TWO, ONE)
    rig.beat(ONE)
    assert len(rig.told(APPLIED)) == 6
    return rig.log(TWO)[-1][0]


def test_hazard_02_a_the_library_cuts_off_by_sending_again_from_each_acknowledgement(library: NewLibrary) -> None:
    rig = library(appendEntriesBatchSizeBytes=100)
    before = acknowledged_in_parts(rig)
    rig.deliver(ONE, TWO, 1)
    assert rig.log(TWO)[-1][0] < before
    rig.kill(ONE)
    rig.join(TWO, THREE)
    rig.elect(TWO, [THREE])
    for _ in range(3):
        rig.propose(TWO)
    rig.agree(TWO, [THREE])
    rig.heal()
    assert {LOST, TWO_AT_ONE_INDEX} <= rig.found


def test_hazard_02_a_ours_sends_nothing_again_that_is_on_its_way(ours: NewOurs) -> None:
    rig = ours(batch_bytes=100)
    before = acknowledged_in_parts(rig)
    end = rig.network.end(ONE, TWO)
    assert end is not None
    words = [decode_frame(frame).message for _, frame in end.on_way]
    assert not [word for word in words if isinstance(word, Append) and word.entries]
    rig.deliver(ONE, TWO)
    assert rig.log(TWO)[-1][0] == before
    rig.kill(ONE)
    rig.join(TWO, THREE)
    rig.elect(TWO, [THREE])
    rig.heal()
    assert rig.found == set()


# ---- 3, A': the same with one whole batch, and a process that dies between cutting off and adding


def test_hazard_03_a_the_library_killed_while_it_takes_a_batch_again_has_lost_it(library: NewLibrary) -> None:
    rig = library()
    before = asks_back_twice(rig)
    rig.point = lambda place: die() if place == "after deleteEntriesFrom" else None
    rig.deliver(THREE, TWO, 1)
    assert rig.life(TWO) is None
    rig.start(TWO)
    assert rig.log(TWO)[-1][0] < before
    leader_goes(rig)
    assert LOST in rig.found


def die() -> None:
    raise Killed


def test_hazard_03_a_ours_may_die_at_any_place_while_it_takes_a_batch_again(ours: NewOurs) -> None:
    for place in range(1, 100):
        rig = ours()
        before = asks_back_twice(rig)
        rig.process(TWO).fuse = place
        rig.deliver(THREE, TWO, 1)
        died = rig.life(TWO) is None
        if not died:
            rig.process(TWO).fuse = None
        leader_goes(rig)
        assert rig.found == set()
        assert rig.log(TWO)[-1][0] >= before
        if not died:
            break
    assert place > 1


# ---- 10, B: an acknowledgement of an earlier leadership counts in a later one


def hears_old_acknowledgements(rig: Rig) -> list[str]:
    """Five voters. What node 2 acknowledged in term 1 arrives in term 3, where it holds none of it."""
    one, two, three, four, five = rig.names
    rig.begin()
    for name in (three, four, five):
        rig.cut(one, name)
    for _ in range(4):
        rig.propose(one)
    rig.beat(one)
    rig.beat(one)
    rig.deliver(one, two)
    assert rig.on_way(two, one) >= 1
    rig.elect(three, [four, five])
    rig.agree(three, [four, five])
    for name in (three, four, five):
        rig.join(one, name)
    rig.agree(three, [one])
    rig.cut(three, one)
    rig.cut(three, two)
    rig.elect(one, [four, five])
    rig.deliver(two, one)
    rig.silence(one, two)
    rig.silence(one, five)
    ops = [rig.propose(one), rig.propose(one)]
    rig.tick(one)
    for _ in range(4):
        rig.beat(one)
        rig.deliver(one, four)
        rig.deliver(four, one)
    answered = [answer for op in ops for answer in rig.answers(op)]
    rig.kill(one)
    rig.now_s += 40.0
    rig.tick(three)  # nobody has answered it for long: it leads no more
    rig.join(three, two)
    rig.elect(three, [two, five])
    for _ in range(3):
        rig.propose(three)
    rig.agree(three, [two, five])
    rig.heal()
    return answered


def test_hazard_10_b_the_library_counts_an_acknowledgement_of_an_earlier_term(library: NewLibrary) -> None:
    rig = library(voters=5)
    assert hears_old_acknowledgements(rig) == [APPLIED, APPLIED]
    assert {LOST, TWO_AT_ONE_INDEX} <= rig.found


def test_hazard_10_b_ours_counts_no_acknowledgement_of_an_earlier_term(ours: NewOurs) -> None:
    rig = ours(voters=5)
    assert hears_old_acknowledgements(rig) == []
    assert rig.found == set()
    assert rig.rested

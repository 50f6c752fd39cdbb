"""Hazards 6, 7, 15, 20 and 23: what callers are told, and what an exception or a strange command does to a state."""

from collections.abc import Callable
from typing import NoReturn

import pytest

from cluster.frames import Append, Frame, encode_frame, raise_to
from cluster.outcome import Applied, FailStop, NotApplied
from cluster.proposals import Outcome
from tests.simulation.cluster.hazards.library import LibraryRig
from tests.simulation.cluster.hazards.ours import SMALL, OurRig
from tests.simulation.cluster.hazards.rig import (
    APPLIED,
    DENIED_YET_APPLIED,
    NEVER_ANSWERED,
    REFUSED,
    TWICE,
    UNKNOWN,
    Rig,
)
from tests.simulation.cluster.machine import appended

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the library's

NewLibrary, NewOurs = Callable[..., LibraryRig], Callable[..., OurRig]
ONE, TWO, THREE = "node1", "node2", "node3"


def closed_loop(*_: object) -> NoReturn:
    raise RuntimeError("the caller's event loop is closed")


# ---- 6, J1: a callback raises


def test_hazard_06_j1_the_library_applies_again_what_a_callback_raised_about(library: NewLibrary) -> None:
    rig = library()
    rig.begin()
    raised: list[int] = []

    def once(*_: object) -> None:
        if not raised:
            raised.append(1)
            closed_loop()

    rig.live[ONE].append("op1", b"", callback=once)
    rig.flow(1.0)
    rig.look()
    assert TWICE in rig.found
    assert rig.live[ONE].raftLastApplied == rig.live[TWO].raftLastApplied
    assert rig.state(ONE) == ["op1", "op1"]
    assert rig.state(TWO) == ["op1"]


def test_hazard_06_j1_ours_has_applied_once_when_a_callback_raises(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    rig.process(ONE).replica.propose(b"op1 ", closed_loop)

    def commit() -> None:
        for _ in range(5):
            rig.now_s += rig.beat_s
            rig.process(ONE).replica.tick()
            rig.deliver(ONE, TWO)
            end = rig.network.end(TWO, ONE)
            while end is not None and end.on_way:
                rig.network.carry(end)

    with pytest.raises(FailStop, match="event loop is closed"):
        commit()
    rig.kill(ONE)
    rig.start(ONE)
    assert rig.heal()
    assert rig.state(ONE) == rig.state(TWO) == ["op1"]
    assert rig.found == set()


# ---- 7, J2: a command that apply cannot bear


def test_hazard_07_j2_the_library_stops_serving_for_good(library: NewLibrary) -> None:
    rig = library()
    rig.begin()
    rig.live[ONE].append("poison", b"", callback=None)
    rig.flow(3.0)
    ops = [rig.propose(name) for name in rig.names]
    for _ in range(2):
        rig.failures.clear()
        rig.flow(5.0)
        assert rig.failures.total() > 100
        for name in rig.names:
            rig.kill(name)
            rig.start(name)
        rig.join_all()
        for rank, name in enumerate(rig.names):
            rig.postpone(name, 0.5 + 0.3 * rank)
    assert APPLIED not in {answer for op in ops for answer in rig.answers(op)}


def test_hazard_07_j2_ours_refuses_it_and_goes_on(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    told: list[Outcome] = []
    rig.process(ONE).replica.propose(b"poison", told.append)
    op = rig.propose(ONE)
    rig.agree(ONE, [TWO, THREE])
    assert [type(outcome) for outcome in told] == [NotApplied]
    assert rig.answers(op) == [APPLIED]
    assert rig.heal()
    assert rig.state(TWO) == [op]
    assert rig.found == set()


# ---- 15, I: answers that never come, or say what is not so


def cut_off_with_commands_pending(rig: Rig) -> list[str]:
    rig.begin()
    rig.cut_off(ONE)
    ops = [rig.propose(ONE) for _ in range(5)]
    rig.beat(ONE)
    rig.elect(TWO, [THREE])
    rig.agree(TWO, [THREE])
    rig.heal()
    rig.flow(2.0)
    return ops


def test_hazard_15_i_the_library_never_answers_when_leadership_ends(library: NewLibrary) -> None:
    rig = library()
    ops = cut_off_with_commands_pending(rig)
    assert sum(not rig.answers(op) for op in ops) >= 3
    assert NEVER_ANSWERED in rig.found


def test_hazard_15_i_ours_says_unknown_when_leadership_ends(ours: NewOurs) -> None:
    rig = ours()
    ops = cut_off_with_commands_pending(rig)
    assert [rig.answers(op) for op in ops] == [[UNKNOWN]] * 5
    assert rig.found == set()


def asks_a_follower_and_its_leader_dies(rig: Rig) -> str:
    """The leader has stored and passed on what the follower handed to it; then it dies."""
    rig.begin()
    op = rig.propose(TWO)
    rig.tick(TWO)
    rig.deliver(TWO, ONE)
    rig.tick(ONE)
    rig.beat(ONE)
    rig.deliver(ONE, THREE)
    rig.kill(ONE)
    rig.elect(THREE, [TWO])
    rig.agree(THREE, [TWO])
    rig.heal()
    return op


def test_hazard_15_i_the_library_denies_what_is_applied(library: NewLibrary) -> None:
    rig = library()
    op = asks_a_follower_and_its_leader_dies(rig)
    assert rig.answers(op) == [REFUSED]
    assert DENIED_YET_APPLIED in rig.found


def test_hazard_15_i_ours_forwards_nothing_and_refuses_at_once(ours: NewOurs) -> None:
    rig = ours()
    op = asks_a_follower_and_its_leader_dies(rig)
    assert rig.answers(op) == [REFUSED]
    assert op not in rig.state(THREE)
    assert rig.found == set()


def test_hazard_15_i_ours_denies_nothing_that_a_successor_may_apply(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    op = rig.propose(ONE)
    rig.tick(ONE)
    rig.deliver(ONE, THREE)
    rig.cut_off(ONE)
    rig.elect(THREE, [TWO])
    rig.agree(THREE, [TWO])
    rig.heal()
    assert rig.answers(op) == [UNKNOWN]
    assert rig.state(ONE) == [op]
    assert rig.found == set()


def test_hazard_15_i_the_library_lets_a_command_wait_for_a_leader_for_ever(library: NewLibrary) -> None:
    rig = library()
    rig.start_all()
    op = rig.propose(ONE)
    for _ in range(100):
        rig.beat(ONE)
    assert rig.answers(op) == []


def test_hazard_15_i_ours_lets_no_command_wait_for_a_leader(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    op = rig.propose(ONE)
    rig.process(ONE).replica.resign()  # before the command is in the log
    rig.tick(ONE)
    assert rig.answers(op) == [REFUSED]
    rig.heal()
    assert rig.found == set()


def pending_under_a_snapshot(rig: Rig) -> str:
    """What an old leader waits for is jumped over by a snapshot."""
    rig.begin()
    rig.cut_off(ONE)
    op = rig.propose(ONE)
    rig.beat(ONE)
    rig.elect(TWO, [THREE])
    for _ in range(10):
        rig.propose(TWO)
    rig.agree(TWO, [THREE])
    rig.compact(TWO)
    rig.join(ONE, TWO)
    rig.beat(TWO)
    rig.deliver(TWO, ONE)
    rig.heal()
    return op


def test_hazard_15_i_the_library_never_answers_what_a_snapshot_jumped_over(library: NewLibrary) -> None:
    rig = library(logCompactionBatchSize=64)
    assert rig.answers(pending_under_a_snapshot(rig)) == []
    assert NEVER_ANSWERED in rig.found


def test_hazard_15_i_ours_has_answered_before_a_snapshot_jumps_over_anything(ours: NewOurs) -> None:
    rig = ours(bounds=SMALL)
    assert rig.answers(pending_under_a_snapshot(rig)) == [UNKNOWN]
    assert rig.found == set()


# ---- 20, V: a version that is not known here


def test_hazard_20_v_the_library_applies_twice_what_follows_an_unknown_version(library: NewLibrary) -> None:
    rig = library()
    rig.begin()
    version = b"\x03"
    unknown = b"\x80\x02K\x07."  # 7, as it writes it
    rig.live[ONE]._applyCommand(version[:0] + unknown, None, version[0])
    for _ in range(3):
        rig.propose(ONE)
    rig.agree(ONE, [TWO, THREE])
    rig.flow(1.0)
    rig.look()
    assert TWICE in rig.found
    assert rig.state(ONE) == ["op1", "op2", "op3", "op3"]


def test_hazard_20_v_ours_stops_before_a_version_that_it_does_not_know(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    rig.propose(ONE)
    rig.agree(ONE, [TWO, THREE])
    follower = rig.process(TWO)
    link = follower.replica._roster.links[ONE]
    last, term = rig.log(TWO)[-1]
    entries = ((term, raise_to(9)), (term, b"\x00op2 "))
    batch = Append(last + 2, last, term, entries)
    follower.replica.received(link, encode_frame(Frame(link.session, term, 0, 1, batch)))
    follower.replica.tick()  # it stores the two, and applies nothing that is not on disk
    with pytest.raises(FailStop, match="version 9, this program knows 1"):
        follower.replica.tick()
    assert [op.split()[0] for op in follower.replica.read(appended)] == ["op1"]


def test_hazard_20_v_ours_raises_the_version_only_once_all_know_it(ours: NewOurs) -> None:
    rig = ours()
    rig.world.versions |= {ONE: 2, TWO: 2}
    rig.begin()
    rig.flow(3.0)
    assert {process.checkpoint.cluster_version for process in rig.world.live.values()} == {1}
    assert rig.heal()
    assert rig.found == set()


# ---- 23, H: reads


def reads_behind_a_successor(rig: Rig) -> str:
    """A leader that is cut off does not know yet that another one has acknowledged something."""
    rig.begin()
    rig.cut_off(ONE)
    rig.elect(TWO, [THREE])
    op = rig.propose(TWO)
    rig.agree(TWO, [THREE])
    assert rig.answers(op) == [APPLIED]
    assert rig.leads(ONE)
    return op


def test_hazard_23_h_the_library_reads_what_is_long_out_of_date(library: NewLibrary) -> None:
    rig = library()
    op = reads_behind_a_successor(rig)
    rig.now_s += 25.0
    rig.tick(ONE)
    assert rig.live[ONE]._isLeader()
    assert rig.live[ONE].getStatus()["leader"] == rig.nodes[ONE]
    assert op not in rig.state(ONE)


def test_hazard_23_h_ours_lets_nobody_read_behind_a_barrier_that_a_majority_did_not_pass(ours: NewOurs) -> None:
    rig = ours()
    op = reads_behind_a_successor(rig)
    told: list[Outcome] = []
    rig.process(ONE).replica.barrier(told.append)
    rig.tick(ONE)
    assert told == []
    assert rig.heal()
    assert not any(isinstance(outcome, Applied) for outcome in told)
    told.clear()
    leader = next(name for name in rig.names if rig.leads(name))
    rig.process(leader).replica.barrier(told.append)
    rig.flow(0.2)
    assert [type(outcome) for outcome in told] == [Applied]
    assert op in rig.state(leader)


def test_hazard_23_h_ours_shows_readers_only_what_is_committed(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    op = rig.propose(ONE)
    rig.beat(ONE)
    rig.deliver(ONE, TWO)
    process = rig.process(ONE)
    seen: list[list[str]] = []

    def look(name: str) -> None:
        if name == ONE and process.checkpoint._begun:
            rig.watch = lambda _: None  # a look is no place to die
            seen.append(rig.state(ONE))
            rig.watch = look

    rig.watch = look
    rig.deliver(TWO, ONE)
    rig.tick(ONE)
    rig.watch = lambda _: None
    assert rig.found == set()
    assert rig.state(ONE) == [op]
    assert seen, "nothing was applied and not committed yet: this shows nothing"
    assert [] in seen
    assert set(map(tuple, seen[:-1])) == {()}


def test_hazard_23_h_ours_answers_only_once_a_reader_sees_it(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    seen: list[list[str]] = []
    rig.process(ONE).replica.propose(b"op1 ", lambda _: seen.append(rig.state(ONE)))
    rig.agree(ONE, [TWO, THREE])
    assert seen == [["op1"]]

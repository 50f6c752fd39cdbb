"""Hazards 11 to 14: what a snapshot that is bad, half, old or late does to whoever is sent it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pysyncobj.serializer import Serializer

from cluster.snapshot_copy import OUTGOING
from tests.simulation.cluster.hazards.library import LibraryRig
from tests.simulation.cluster.hazards.ours import SMALL, OurRig
from tests.simulation.cluster.hazards.rig import APPLIED, LOST, TWO_AT_ONE_INDEX, Rig

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the library's

NewLibrary, NewOurs = Callable[..., LibraryRig], Callable[..., OurRig]
ONE, TWO, THREE = "node1", "node2", "node3"


def needs_a_snapshot(rig: Rig, tail: int) -> None:
    """Node 1 comes back, with a tail that nobody else has, to a leader whose log starts where it cannot follow."""
    rig.begin()
    rig.cut_off(ONE)
    for _ in range(tail):
        rig.propose(ONE)
    rig.beat(ONE)
    rig.elect(TWO, [THREE])
    for _ in range(10):
        rig.propose(TWO)
    rig.agree(TWO, [THREE])
    rig.compact(TWO)
    rig.join(ONE, TWO)


def answers_without_any_other_voter(rig: Rig) -> list[str]:
    """Return what callers are told of commands that no voter but node 2 has ever seen."""
    rig.cut(TWO, THREE)
    rig.silence(TWO, ONE)
    ops = [rig.propose(TWO) for _ in range(5)]
    for _ in range(3):
        rig.beat(TWO)
    return [answer for op in ops for answer in rig.answers(op)]


def send(rig: OurRig, *, until: Callable[[], bool], to: str = ONE) -> None:
    """Let node 2 make a copy, and send pieces of it until something holds."""
    for _ in range(100):
        if until():
            return
        rig.beat(TWO)
        rig.work(TWO)
        rig.deliver(TWO, to, 1)
        rig.deliver(to, TWO)
    raise AssertionError("it does not come to that")


def whole(rig: OurRig, name: str) -> bool:
    return rig.process(name).replica._upkeep._receiving._check is not None


# ---- 11, L3: what could not be loaded is acknowledged, with the follower's own end


def test_hazard_11_l3_the_library_acknowledges_a_snapshot_that_it_could_not_load(library: NewLibrary) -> None:
    rig = library(logCompactionBatchSize=64)
    needs_a_snapshot(rig, tail=30)
    dump = rig.folder(TWO) / "dump"
    content = bytearray(dump.read_bytes())
    content[len(content) // 2] ^= 0x10
    dump.write_bytes(content)
    rig.beat(TWO)
    rig.deliver(TWO, ONE)
    rig.deliver(ONE, TWO)
    assert rig.match(TWO, ONE) > rig.log(TWO)[-1][0]
    assert answers_without_any_other_voter(rig) == [APPLIED] * 5


def test_hazard_11_l3_ours_installs_and_acknowledges_only_what_was_announced(ours: NewOurs) -> None:
    rig = ours(bounds=SMALL)
    needs_a_snapshot(rig, tail=30)
    outgoing = rig.world.disks[TWO].folder / OUTGOING
    for _ in range(2):
        rig.beat(TWO)
        rig.deliver(TWO, ONE)
        rig.deliver(ONE, TWO)
    rig.process(TWO).work()
    content = outgoing.read_bytes()
    assert b"op35 " in content
    outgoing.write_bytes(content.replace(b"op35 ", b"op34 "))
    send(rig, until=lambda: whole(rig, ONE))
    rig.work(ONE)
    rig.tick(ONE)
    rig.deliver(ONE, TWO)
    assert rig.process(ONE).replica._upkeep.installed == 0
    assert rig.match(TWO, ONE) == 0
    assert answers_without_any_other_voter(rig) == []
    assert rig.heal()
    assert rig.found == set()


def test_hazard_11_l3_ours_acknowledges_what_matches_and_not_where_its_own_log_ends(ours: NewOurs) -> None:
    rig = ours(batch_bytes=1)
    rig.begin()
    rig.propose(ONE)
    rig.beat(ONE)
    rig.deliver(ONE, TWO)
    rig.cut_off(ONE)
    for _ in range(3):
        rig.propose(ONE)
    rig.beat(ONE)
    rig.elect(TWO, [THREE])
    rig.cut(TWO, THREE)
    rig.join(ONE, TWO)
    for _ in range(3):
        rig.propose(TWO)
    for _ in range(40):
        rig.beat(TWO)
        rig.deliver(TWO, ONE, 1)
        rig.deliver(ONE, TWO, 1)
        match = rig.match(TWO, ONE)
        assert rig.log(ONE)[:match] == rig.log(TWO)[:match]
    assert rig.match(TWO, ONE) == rig.log(TWO)[-1][0]
    rig.heal()
    assert rig.found == set()


# ---- 12, L4: a transfer goes on over another connection


def test_hazard_12_l4_the_library_goes_on_in_the_middle_after_a_reconnect(library: NewLibrary) -> None:
    rig = library(logCompactionBatchSize=16)
    needs_a_snapshot(rig, tail=30)
    rig.call_s = 0.02  # so that one round of sending ends in the middle
    rig.beat(TWO)
    assert rig.on_way(TWO, ONE) > 3
    rig.deliver(TWO, ONE, 2)
    rig.cut(ONE, TWO)
    rig.join(ONE, TWO)
    for _ in range(20):
        rig.beat(TWO)
        rig.deliver(TWO, ONE)
        rig.deliver(ONE, TWO)
    rig.call_s = 1e-5
    assert rig.match(TWO, ONE) > rig.log(TWO)[-1][0]
    assert answers_without_any_other_voter(rig) == [APPLIED] * 5


def test_hazard_12_l4_ours_begins_anew_over_the_next_connection(ours: NewOurs) -> None:
    rig = ours(bounds=SMALL)
    needs_a_snapshot(rig, tail=30)
    receiving = rig.process(ONE).replica._upkeep._receiving
    send(rig, until=lambda: receiving._offset > 0)
    assert not whole(rig, ONE)
    rig.cut(ONE, TWO)
    rig.join(ONE, TWO)
    rig.flow(1.0)
    assert rig.process(ONE).replica._upkeep.installed == 1
    assert rig.state(ONE) == rig.state(TWO)
    assert rig.heal()
    assert rig.found == set()


# ---- 13, L5: an installation clears the log and goes back


def test_hazard_13_l5_the_library_goes_back_to_an_old_snapshot_and_drops_what_came_after_it(
    library: NewLibrary,
) -> None:
    rig = library()
    needs_a_snapshot(rig, tail=0)
    for leader, voter in ((THREE, TWO), (TWO, THREE)):  # a new leader supposes that all logs end like its own
        rig.elect(leader, [voter])
        rig.agree(leader, [voter])
    rig.cut_off(TWO)
    rig.join(ONE, TWO)
    rig.beat(TWO)
    rig.beat(TWO)
    rig.deliver(TWO, ONE)
    assert rig.on_way(ONE, TWO) >= 2
    rig.deliver(ONE, TWO, 1)
    for _ in range(3):
        rig.propose(TWO)
    rig.tick(TWO)
    rig.beat(TWO)
    while rig.deliver(TWO, ONE, 1):
        rig.tick(ONE)
    rig.deliver(ONE, TWO, 1)  # the second answer, before the acknowledgements behind it
    rig.beat(TWO)
    rig.deliver(ONE, TWO)
    rig.beat(TWO)
    assert len(rig.told(APPLIED)) == 13
    before = rig.log(ONE)[-1][0]
    while "serialized" in rig.ways[TWO, ONE][0]:
        rig.deliver(TWO, ONE, 1)
    assert rig.log(ONE)[-1][0] < before
    rig.kill(TWO)
    rig.join(ONE, THREE)
    rig.elect(THREE, [ONE])
    for _ in range(4):
        rig.propose(THREE)
    rig.agree(THREE, [ONE])
    rig.heal()
    assert {LOST, TWO_AT_ONE_INDEX} <= rig.found


def copy_and_log_arrive(rig: OurRig) -> None:
    """Node 1 has received a whole copy from node 2, which died; node 3 leads and brings the log, and what follows it.

    Node 3 has not heard how far node 2 had committed, so what it brings is acknowledged, and not applied.
    """
    rig.begin()
    rig.cut_off(ONE)
    rig.elect(TWO, [THREE])
    rig.deliver(TWO, THREE)
    rig.deliver(THREE, TWO)
    for _ in range(10):
        rig.propose(TWO)
    rig.tick(TWO)
    rig.deliver(TWO, THREE)
    rig.deliver(THREE, TWO)
    rig.compact(TWO)
    rig.join(ONE, TWO)
    send(rig, until=lambda: whole(rig, ONE))
    rig.kill(TWO)
    rig.join(ONE, THREE)
    rig.elect(THREE, [ONE])


def answers_come(rig: OurRig) -> None:
    for _ in range(3):
        rig.propose(THREE)
    rig.tick(THREE)
    for _ in range(3):
        rig.deliver(THREE, ONE, 1)
        rig.deliver(ONE, THREE)


def test_hazard_13_l5_ours_keeps_what_its_log_holds_behind_a_snapshot(ours: NewOurs) -> None:
    rig = ours(bounds=SMALL)
    copy_and_log_arrive(rig)
    answers_come(rig)
    assert rig.told(APPLIED)[-3:] == ["op11", "op12", "op13"]
    end = rig.log(ONE)[-1]
    assert rig.state(ONE) == []
    rig.work(ONE)
    rig.tick(ONE)
    assert rig.process(ONE).replica._upkeep.installed == 1
    assert rig.log(ONE)[-1] == end
    rig.kill(THREE)
    rig.start(TWO)
    rig.join(ONE, TWO)
    rig.elect(ONE, [TWO])
    rig.heal()
    assert rig.found == set()


def test_hazard_13_l5_ours_never_goes_back_to_an_older_snapshot(ours: NewOurs) -> None:
    rig = ours(bounds=SMALL)
    copy_and_log_arrive(rig)
    answers_come(rig)
    rig.agree(THREE, [ONE])
    applied = rig.process(ONE).checkpoint.applied_index
    assert len(rig.state(ONE)) == 13
    rig.work(ONE)
    rig.tick(ONE)
    assert rig.process(ONE).checkpoint.applied_index == applied
    assert rig.process(ONE).replica._upkeep.installed == 0
    rig.heal()
    assert rig.found == set()


# ---- 14, L6: an older dump, begun earlier, replaces a newer one that was installed


def test_hazard_14_l6_the_library_lets_a_slow_child_overwrite_a_newer_dump(
    library: NewLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process is forked here: the child's part runs later, by the library's own code on what the child has."""
    rig = library()
    rig.settings_of[THREE] = {"useFork": True}
    begun: list[Any] = []
    serialize = Serializer.serialize

    def noted(serializer: Serializer, *work: Any) -> None:
        begun.append(work)
        serialize(serializer, *work)

    monkeypatch.setattr(Serializer, "serialize", noted)
    monkeypatch.setattr(os, "fork", lambda: 4242)
    monkeypatch.setattr(os, "waitpid", lambda *_: (0, 0))  # it is not done yet
    rig.begin()
    for _ in range(8):
        rig.propose(ONE)
    rig.agree(ONE, [TWO, THREE])
    rig.live[THREE].forceLogCompaction()
    rig.tick(THREE)
    (child_has,) = begun
    rig.cut_off(THREE)
    for _ in range(8):
        rig.propose(ONE)
    rig.agree(ONE, [TWO])
    rig.compact(ONE)
    rig.join(ONE, THREE)
    rig.agree(ONE, [THREE])
    rig.cut(ONE, TWO)
    for _ in range(3):
        rig.propose(ONE)
    rig.agree(ONE, [THREE])
    assert len(rig.told(APPLIED)) == 19
    before = rig.log(THREE)[-1][0]
    be_the_child(rig.folder(THREE) / "dump", child_has, serialize, monkeypatch)
    rig.kill(THREE)
    rig.start(THREE)
    rig.tick(THREE)
    assert rig.log(THREE)[-1][0] < before
    rig.kill(ONE)
    rig.join(TWO, THREE)
    rig.elect(TWO, [THREE])
    rig.propose(TWO)
    rig.agree(TWO, [THREE])
    rig.heal()
    assert LOST in rig.found


class ChildEnds(BaseException):
    """What `os._exit` does, where there is no process to end."""


def be_the_child(dump: Path, has: Any, serialize: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    def end(code: int) -> None:
        assert code == 0
        raise ChildEnds

    with monkeypatch.context() as child:
        child.setattr(os, "fork", lambda: 0)
        child.setattr(os, "_exit", end)
        with pytest.raises(ChildEnds):
            serialize(Serializer(str(dump), 1 << 16, True, None, None, None), *has)


def test_hazard_14_l6_ours_replaces_its_checkpoint_only_while_no_thread_works_on_it(ours: NewOurs) -> None:
    rig = ours(bounds=SMALL)
    rig.begin()
    for _ in range(8):
        rig.propose(ONE)
    rig.agree(ONE, [TWO, THREE])
    rig.cut_off(THREE)
    rig.elect(TWO, [ONE])
    for _ in range(8):
        rig.propose(TWO)
    rig.agree(TWO, [ONE])
    rig.compact(TWO)
    process, upkeep = rig.process(THREE), rig.process(THREE).replica._upkeep
    rig.work(THREE)
    rig.tick(THREE)
    upkeep._not_before_mono_s = float("inf")
    rig.join(TWO, THREE)
    send(rig, until=lambda: whole(rig, THREE), to=THREE)
    upkeep._checkpoint.durable_index = 1  # much was applied since its WAL was copied
    upkeep._not_before_mono_s = 0.0
    rig.tick(THREE)
    assert process.executor.waiting == 2
    process.work()
    rig.tick(THREE)
    assert upkeep.installed == 0, "the copy is sound, and a thread is at work on the old file"
    process.work()
    rig.tick(THREE)
    assert upkeep.installed == 1
    assert rig.heal()
    assert rig.found == set()

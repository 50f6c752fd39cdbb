import dataclasses
from pathlib import Path

import msgspec
import pytest

from cluster.checkpoint_store import CheckpointStore
from cluster.configuration import (
    GENESIS,
    Change,
    Roll,
    Seat,
    decode_change,
    encode_change,
    genesis_roll,
    is_change,
)
from cluster.frames import CONFIGURE, NO_OP, is_command
from cluster.franchise import Franchise, Heard, counts, entitled
from cluster.identity import create_disk, joining, read_identity
from cluster.log_mirror import Entry
from cluster.log_store import LogStore
from cluster.replacing import Scene, why_not
from tests.simulation.cluster.machine import Appends
from tests.unit.cluster.fakes import CLUSTER, identity

ONE, TWO, THREE, NEW, NEWER = (f"{rank:032x}" for rank in (1, 2, 3, 11, 12))
BEFORE = {"node1": ONE, "node2": TWO, "node3": THREE}


def configure(name: str, disk_id: str, before: dict[str, str] | None = None) -> bytes:
    return CONFIGURE + encode_change(Change(name, disk_id, BEFORE if before is None else before))


# ---- who counts


@pytest.mark.parametrize(
    ("seat", "heard", "matched", "applied_index", "does"),
    [
        (Seat(GENESIS, ONE), Heard(ONE), 0, 1, True),  # a disk of the genesis counts from the start
        (Seat(GENESIS, ONE), Heard(NEW, 99), 99, 99, False),  # another one never
        (Seat(GENESIS, ONE), None, 99, 99, False),  # nor one that was not heard
        (None, Heard(ONE, 99), 99, 99, False),  # nor where none is known
        (Seat(20, NEW), Heard(NEW), 20, 20, True),
        (Seat(20, NEW), Heard(NEW), 19, 30, False),  # it lacks the entry that names it
        (Seat(20, NEW), Heard(NEW, 19), 25, 19, False),  # that entry may not be committed
        (Seat(20, NEW), Heard(NEW, 20), 20, 19, True),  # the disk itself knows that it is
        (Seat(20, NEW), Heard(ONE, 99), 99, 99, False),  # the replaced one counts no more
    ],
)
def test_whose_acknowledgements_count(
    seat: Seat | None, heard: Heard | None, matched: int, applied_index: int, *, does: bool
) -> None:
    assert counts(seat, heard, matched=matched, applied_index=applied_index) is does


@pytest.mark.parametrize(
    ("seat", "applied_index", "is_entitled"),
    [
        (Seat(GENESIS, ONE), 1, True),
        (Seat(20, ONE), 20, True),
        (Seat(20, ONE), 19, False),
        (Seat(20, NEW), 99, False),
        (None, 99, False),
    ],
)
def test_who_may_vote_and_stand(seat: Seat | None, applied_index: int, *, is_entitled: bool) -> None:
    assert entitled(seat, disk_id=ONE, applied_index=applied_index) is is_entitled


# ---- the configuration


def test_a_change_replaces_one_disk_and_tells_a_disk_without_a_genesis_of_all_others() -> None:
    change = Change("node3", NEW, BEFORE)
    ours = genesis_roll(identity()).after(20, change)
    theirs = genesis_roll(joining(cluster_id=CLUSTER, name="node3", disk_id=NEW, members=BEFORE)).after(20, change)
    assert ours == theirs
    assert ours.disks() == BEFORE | {"node3": NEW}
    assert ours.seat("node3") == Seat(20, NEW)
    assert ours.seat("node1") == Seat(GENESIS, ONE)
    assert [ours.retired("node3", disk_id) for disk_id in (THREE, NEW, NEWER)] == [True, False, False]
    assert [ours.retired("node1", disk_id) for disk_id in (ONE, THREE)] == [False, False]


def test_of_two_changes_the_later_one_holds_and_what_the_first_one_said_of_others_stays() -> None:
    roll = genesis_roll(identity()).after(20, Change("node3", NEW, BEFORE))
    roll = roll.after(30, Change("node2", NEWER, BEFORE | {"node3": NEW}))
    assert roll.seat("node3") == Seat(20, NEW)
    assert roll.seat("node2") == Seat(30, NEWER)


def test_a_disk_that_is_named_again_speaks_from_then_on_whatever_was_before() -> None:
    """No leader of ours writes that; but what is committed means the same to all."""
    roll = genesis_roll(identity()).after(20, Change("node3", NEW, BEFORE)).after(30, Change("node3", THREE, BEFORE))
    assert roll.seat("node3") == Seat(30, THREE)
    assert roll.retired("node3", NEW)


def test_a_disk_made_later_knows_nobody_before_an_entry_tells_it() -> None:
    assert genesis_roll(joining(cluster_id=CLUSTER, name="node3", disk_id=NEW, members=BEFORE)) == Roll()


def test_a_change_survives_its_journey_and_what_is_none_is_no_command() -> None:
    change = Change("node3", NEW, BEFORE)
    assert decode_change(encode_change(change)) == change
    assert is_command(configure("node3", NEW))
    for wrong in (b"", b"\xc0", encode_change(change)[:-1], msgspec.msgpack.encode(["node3", NEW])):
        assert not is_change(wrong)
        assert not is_command(CONFIGURE + wrong)
    crowd = {f"node{rank}": f"{rank:032x}" for rank in range(65)}
    assert not is_change(encode_change(Change("node3", NEW, crowd)))


# ---- the configuration in force


class Holding:
    """A log and a checkpoint, as far as the franchise reads them."""

    def __init__(self, roll: Roll, applied_index: int, *configuring: Entry) -> None:
        self.roll, self.applied_index, self.configuring = roll, applied_index, list(configuring)


def franchise(holding: Holding) -> Franchise:
    return Franchise(identity("node3"), holding, holding)


def test_an_entry_in_the_log_is_in_force_before_it_is_applied_and_not_after_it_is_gone() -> None:
    holding = Holding(genesis_roll(identity()), 19)
    mine = franchise(holding)
    mine.link_up("node2", TWO)
    assert mine.entitled
    assert mine.counts("node2", 0)
    assert mine.named("node2")
    holding.configuring = [Entry(configure("node2", NEW), 20, 3)]
    assert not mine.counts("node2", 99)
    assert not mine.named("node2")
    assert mine.entitled
    holding.configuring.append(Entry(configure("node3", NEWER), 21, 3))
    assert not mine.entitled
    assert "was replaced by another" in str(mine.trouble)
    assert mine.refusal("node2", TWO) is None, "an entry that may vanish retires nobody"
    holding.configuring.clear()
    assert mine.entitled
    assert mine.trouble is None


def test_an_entry_that_is_applied_is_not_taken_a_second_time_from_the_log() -> None:
    roll = genesis_roll(identity()).after(20, Change("node2", NEW, BEFORE)).after(30, Change("node2", NEWER, BEFORE))
    mine = franchise(Holding(roll, 30, Entry(configure("node2", NEW), 20, 3)))
    assert mine.roll.seat("node2") == Seat(30, NEWER)
    assert "was replaced by disk" in str(mine.refusal("node2", NEW))
    assert "was replaced by disk" in str(mine.refusal("node2", TWO))
    assert mine.refusal("node2", NEWER) is None
    assert mine.refusal("node2", ONE) is None, "a disk that nobody has heard of may follow"


def test_what_an_earlier_disk_said_of_itself_is_not_held_for_the_next_ones_word() -> None:
    mine = franchise(Holding(genesis_roll(identity()).after(20, Change("node2", NEW, BEFORE)), 19))
    assert mine.link_up("node2", TWO)
    mine.heard("node2", 99)
    assert mine.link_up("node2", NEW)
    assert not mine.counts("node2", 99)
    mine.heard("node2", 20)
    mine.heard("node2", 5)
    assert mine.counts("node2", 99)
    assert not mine.link_up("node2", NEW), "the same disk again has forgotten nothing"


@pytest.mark.parametrize(
    ("disk_id", "told", "word"),
    [(TWO, 99, "retired"), (NEW, 19, "catching_up"), (NEW, 20, "voter"), (NEWER, 99, "not_accepted")],
)
def test_what_a_linked_disk_is_worth_in_a_word(disk_id: str, told: int, word: str) -> None:
    mine = franchise(Holding(genesis_roll(identity()).after(20, Change("node2", NEW, BEFORE)), 30))
    mine.link_up("node2", disk_id)
    mine.heard("node2", told)
    assert mine.suffrage("node2", disk_id) == word


# ---- on disk


def test_the_log_keeps_its_configuring_entries_at_hand_through_everything(tmp_path: Path) -> None:
    create_disk(tmp_path / "disk", identity())
    path = tmp_path / "disk" / "raft.db"
    log = LogStore(path)
    log.set_term(3, None)
    for index in range(2, 8):
        log.append(configure("node3", f"{index:032x}") if index in {3, 5, 7} else NO_OP, index, 3)
    assert [entry.index for entry in log.configuring] == [3, 5, 7]
    log.truncate_from(7)
    assert [entry.index for entry in log.configuring] == [3, 5]
    log.sync()
    log.close()
    log = LogStore(path)
    assert [entry.index for entry in log.configuring] == [3, 5]
    log.note_install(4, 3)
    log.start_at(4, 3)
    assert [entry.index for entry in log.configuring] == [5]
    log.start_at(9, 3)
    assert log.configuring == []
    log.close()


def test_the_checkpoint_remembers_every_disk_that_was_named(tmp_path: Path) -> None:
    create_disk(tmp_path / "disk", identity())
    path = tmp_path / "disk" / "checkpoint.db"
    store = CheckpointStore(path, identity(), Appends())
    assert store.roll == genesis_roll(identity())
    assert store.apply(Entry(configure("node3", NEW), 2, 1)) == ["node3", NEW]
    store.apply(Entry(configure("node3", NEWER, BEFORE | {"node3": NEW}), 3, 1))
    live = store.roll
    store.commit()
    store.close()
    store = CheckpointStore(path, identity(), Appends())
    assert store.roll == live
    assert store.roll.seats["node3"] == (Seat(1, THREE), Seat(2, NEW), Seat(3, NEWER))
    store.close()
    joiner = joining(cluster_id=CLUSTER, name="node3", disk_id=NEWER, members=BEFORE)
    copied = CheckpointStore(path, joiner, Appends())
    assert copied.roll == live, "a snapshot tells a disk without a genesis everything"
    copied.close()


def test_a_joining_disk_is_made_and_read_back_as_one_that_was_not_there_at_genesis(tmp_path: Path) -> None:
    made = joining(cluster_id=CLUSTER, name="node3", disk_id=NEW, members=BEFORE)
    create_disk(tmp_path / "disk", made)
    assert read_identity(tmp_path / "disk") == made
    assert not made.at_genesis
    assert identity().at_genesis


# ---- whether it may be asked now


ROLL = genesis_roll(identity())
SCENE = Scene("node1", frozenset(BEFORE), ROLL, 20, {"node2": TWO, "node3": NEW}, {"node2"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"own": "node3"}, "node3 leads from its disk"),
        ({"members": frozenset({"node1", "node2"})}, "no voter is called node3"),
        ({"counting": set()}, "it takes 2 of 3 voters, not counting node3, and only node1"),
        ({"counting": {"node3"}}, "it takes 2 of 3"),
        ({"linked": {"node2": TWO}}, "is linked to node1"),
        ({"linked": {"node2": TWO, "node3": NEWER}}, "is linked to node1"),
        ({"queued": True}, "just asked for"),
        ({"roll": ROLL.after(21, Change("node2", NEWER, BEFORE))}, "of node2 (entry 21) is under way"),
        ({"roll": ROLL.after(21, Change("node3", NEW, BEFORE))}, "of node3 (entry 21) is under way"),
        ({"roll": ROLL.after(20, Change("node2", TWO, BEFORE)), "counting": set()}, "node2 has not caught up yet"),
        ({"roll": ROLL.after(20, Change("node2", TWO, BEFORE))}, None),
        ({"roll": ROLL.after(20, Change("node3", NEWER, BEFORE))}, None),
        ({"roll": ROLL.after(19, Change("node3", NEW, BEFORE)).after(20, Change("node3", NEWER, BEFORE))}, "replaced earlier"),
    ],
)  # fmt: skip
def test_when_a_replacement_is_refused_and_in_which_words(change: dict[str, object], words: str | None) -> None:
    why = why_not("node3", NEW, dataclasses.replace(SCENE, **change))
    assert why is None if words is None else words in str(why)

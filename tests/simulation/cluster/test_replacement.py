"""Scripted stories of voters whose disk is lost, and of the disks that come in its place."""

from pathlib import Path

import pytest

from cluster.compaction import DEFAULT_BOUNDS, Bounds
from cluster.outcome import Applied, NotApplied, OutcomeUnknown, Why
from cluster.proposals import Outcome
from tests.simulation.cluster.machine import appended
from tests.simulation.cluster.world import Process, World

TIGHT = Bounds(every_entries=200, keep_entries=50, piece_bytes=512, window_pieces=4)


def cluster(home: Path, voters: int = 3, bounds: Bounds = DEFAULT_BOUNDS) -> tuple[World, Process, list[str]]:
    """Return a running world, its leader, and the names of the others."""
    world = World(home, 7, voters, bounds)
    for name in world.names:
        world.start(name)
    world.connect_all()
    assert world.run_until(lambda: world.leader() is not None and world.converged(), 5.0)
    leader = led(world)
    return world, leader, [name for name in world.names if name != leader.name]


def led(world: World) -> Process:
    leader = world.leader()
    assert leader is not None
    return leader


def work(world: World, count: int = 5) -> list[str]:
    leader = led(world)
    ops = [world.propose(leader.name) for _ in range(count)]
    assert world.run_until(lambda: world.acknowledged >= set(ops), 5.0)
    return ops


def join(world: World, *names: str) -> None:
    for name in names:
        world.start(name)
    world.connect_all()
    world.run(0.2)


def replaced(world: World, name: str) -> Applied:
    answers = world.replace(led(world).name, name)
    assert world.run_until(lambda: answers != [], 3.0)
    (outcome,) = answers
    assert isinstance(outcome, Applied), outcome
    return outcome


def refusal(answers: list[Outcome]) -> str:
    (outcome,) = answers
    assert isinstance(outcome, NotApplied)
    assert outcome.why is Why.NO_REPLACEMENT
    return str(outcome)


def suffrage(process: Process, name: str) -> str:
    return {each.name: each.suffrage for each in process.replica.status().voters}[name]


def sound_at_end(world: World) -> None:
    for name in world.names:
        if name not in world.live:
            world.start(name)
    world.connect_all()
    assert world.run_until(world.converged, 20.0)
    work(world)
    assert world.run_until(world.converged, 5.0)
    world.check_at_end()
    assert world.violations == []


# ---- before it is accepted


def test_an_empty_disk_in_a_voters_place_is_sent_the_log_but_is_no_part_of_any_majority(tmp_path: Path) -> None:
    world, leader, (lost, other) = cluster(tmp_path)
    before = work(world)
    world.prepare(lost)
    join(world, lost)
    assert world.run_until(lambda: world.live[lost].replica.read(appended) == before, 2.0)
    assert suffrage(leader, lost) == "not_accepted"
    assert f"fencepost voter replace {lost} --disk {world.live[lost].disk_id}" in str(world.live[lost].replica.trouble)
    world.kill(other)
    op = world.propose(leader.name)
    world.run(5.0)
    assert op not in world.acknowledged, "it was committed by the leader and a disk that nobody has accepted"
    assert world.leader() is None, "it leads without a majority, or an empty disk has voted"
    assert world.live[lost].log.voted_for is None
    sound_at_end_but(world, lost)


def sound_at_end_but(world: World, lost: str) -> None:
    """Bring the others back, have the disk accepted, and look."""
    for name in world.names:
        if name not in world.live:
            world.start(name)
    world.connect_all()
    world.run(0.2)
    assert world.run_until(lambda: world.leader() is not None and world.converged(), 20.0)
    replaced(world, lost)
    sound_at_end(world)


def test_an_entry_that_only_the_lost_disk_held_beside_a_dead_leader_is_never_outvoted(tmp_path: Path) -> None:
    """What replacement is for: acknowledged by two of three, one of them lost, the other one down."""
    world, leader, (lost, other) = cluster(tmp_path)
    world.network.disconnect(leader.name, other)
    world.network.disconnect(lost, other)
    kept = work(world)
    world.kill(leader.name, power=True)
    world.prepare(lost)
    join(world, lost)
    world.run(10.0)
    assert world.leader() is None, "a voter without the entry and an empty disk have elected a leader"
    world.start(leader.name)
    world.connect_all()
    assert world.run_until(lambda: world.leader() is not None and world.converged(), 5.0)
    assert led(world).replica.read(appended) == kept
    replaced(world, lost)
    sound_at_end(world)


def test_an_empty_disk_takes_no_part_in_a_first_election(tmp_path: Path) -> None:
    world = World(tmp_path, 7, 3)
    world.prepare("node3")
    join(world, *world.names)
    world.run(5.0)
    assert world.leader() is None
    assert all(process.log.term == 0 for process in world.live.values())


# ---- being accepted


def test_a_disk_is_accepted_by_the_others_and_then_is_worth_a_voter(tmp_path: Path) -> None:
    world, leader, (lost, other) = cluster(tmp_path)
    work(world)
    world.prepare(lost)
    join(world, lost)
    outcome = replaced(world, lost)
    assert outcome.result == [lost, world.live[lost].disk_id]
    assert world.run_until(lambda: suffrage(leader, lost) == "voter", 2.0)
    assert world.live[lost].replica.trouble is None
    world.kill(other)
    work(world)
    world.kill(leader.name)
    world.start(other)
    world.connect_all()
    assert world.run_until(lambda: world.leader() is not None, 5.0), "it has no vote"
    work(world)
    sound_at_end(world)


def test_without_a_majority_beside_it_a_replacement_is_refused(tmp_path: Path) -> None:
    world, leader, (lost, other) = cluster(tmp_path)
    world.prepare(lost)
    join(world, lost)
    world.kill(other)
    world.step()
    assert "only" in refusal(world.replace(leader.name, lost))
    sound_at_end_but(world, lost)


def test_a_replacement_whose_majority_dies_hangs_until_it_is_back_and_the_new_disk_does_not_help(
    tmp_path: Path,
) -> None:
    world, leader, (lost, other) = cluster(tmp_path)
    world.prepare(lost)
    join(world, lost)
    world.network.silence(leader.name, other)
    answers = world.replace(leader.name, lost)
    world.run(0.5)
    assert leader.log.configuring
    assert leader.log.configuring[0].index > leader.log.commit_index
    world.run(5.0)
    assert world.leader() in {None, world.live[other]}, "it leads by the word of the disk that it asks about"
    assert [type(outcome) for outcome in answers] == [OutcomeUnknown]
    for name in world.names:
        world.network.disconnect(other, name)
    world.connect_all()
    assert world.run_until(lambda: world.leader() is not None and world.converged(), 10.0)
    if led(world).checkpoint.roll.disks()[lost] != world.live[lost].disk_id:
        replaced(world, lost)
    sound_at_end(world)


def test_only_one_replacement_at_a_time(tmp_path: Path) -> None:
    world, leader, (one, two, *_) = cluster(tmp_path, voters=5)
    for name in (one, two):
        world.prepare(name)
    join(world, one, two)
    first, second = world.replace(leader.name, one), world.replace(leader.name, two)
    assert "just asked for" in refusal(second)
    world.tick(leader)
    assert "under way" in refusal(world.replace(leader.name, two))
    assert world.run_until(lambda: first != [], 3.0)
    assert world.run_until(lambda: suffrage(leader, one) == "voter", 3.0)
    world.run(0.1)
    replaced(world, two)
    sound_at_end(world)


def test_all_voters_can_be_replaced_one_after_the_other(tmp_path: Path) -> None:
    world, leader, lagging = cluster(tmp_path)
    for name in (*lagging, leader.name):
        work(world)
        if led(world).name == name:
            world.live[name].replica.hand_over()
            assert world.run_until(lambda name=name: world.leader() not in {None, world.live.get(name)}, 5.0)
        world.prepare(name)
        join(world, name)
        replaced(world, name)
        assert world.run_until(lambda name=name: suffrage(led(world), name) == "voter", 3.0)
    disks = led(world).checkpoint.roll.disks()
    assert disks == {name: process.disk_id for name, process in world.live.items()}
    assert not any(process.replica.identity.at_genesis for process in world.live.values())
    for name in world.names:
        world.kill(name, power=True)
    sound_at_end(world)


def test_a_new_disk_that_dies_before_it_has_caught_up_is_replaced_again(tmp_path: Path) -> None:
    world, _, (lost, _) = cluster(tmp_path)
    work(world)
    world.prepare(lost)
    join(world, lost)
    world.network.silence(lost, led(world).name)  # it never gets to acknowledge the entry that names it
    replaced(world, lost)
    first = world.live[lost].disk_id
    world.prepare(lost)
    join(world, lost)
    replaced(world, lost)
    assert led(world).checkpoint.roll.retired(lost, first)
    sound_at_end(world)


# ---- the old disk


@pytest.mark.parametrize("voters", [3, 5])
def test_an_old_disk_that_turns_up_after_its_replacement_is_told_so_and_speaks_to_nobody(
    tmp_path: Path, voters: int
) -> None:
    world, _, (lost, *_) = cluster(tmp_path, voters)
    work(world)
    old = world.prepare(lost)
    join(world, lost)
    replaced(world, lost)
    assert world.run_until(world.converged, 3.0)
    new = world.disks[lost]
    world.kill(lost)
    world.disks[lost] = old
    join(world, lost)
    world.run(1.5)
    for name in world.names:
        if name != lost:
            assert "was replaced by disk" in world.network.farewells[name, lost]
            assert lost not in world.live[name].replica._roster.links
    world.kill(lost)
    world.disks[lost] = new
    sound_at_end(world)


def test_an_old_disk_has_no_part_where_its_replacement_is_known_though_a_lagging_voter_still_listens_to_it(
    tmp_path: Path,
) -> None:
    """Of five voters, one missed the replacement; with the old disk and one more it must not make three."""
    world, leader, (lost, lagging, third, fourth) = cluster(tmp_path, voters=5)
    old = world.prepare(lost)
    for name in world.names:
        world.network.disconnect(lagging, name)
    world.start(lost)
    for name in world.names:
        if name != lagging:
            world.connect(lost, name)
    world.run(0.3)
    replaced(world, lost)
    new = world.disks[lost]
    world.kill(lost)
    world.disks[lost] = old
    world.start(lost)
    for name in (leader.name, fourth):
        world.kill(name)
    world.connect_all()
    world.run(10.0)
    assert world.leader() is None, "the old disk was counted"
    assert lost in world.live[lagging].replica._roster.links, "the lagging voter refuses it: this shows nothing"
    world.kill(lost)
    world.disks[lost] = new
    assert third in world.live
    sound_at_end(world)


def test_acknowledgements_of_the_old_disk_count_no_more_once_its_replacement_is_in_the_log(tmp_path: Path) -> None:
    world, leader, (old, silent, third, fourth) = cluster(tmp_path, voters=5)
    new = "e" * 32
    seen = dict(leader.replica._roster.links)
    scene = leader.replica.scene
    leader.replica.scene = lambda *, queued: scene(queued=queued).__class__(
        **{**_fields(scene(queued=queued)), "linked": {**{n: k.disk_id for n, k in seen.items()}, old: new}}
    )
    for name in (silent, third):
        world.network.silence(leader.name, name)
    answers: list[Outcome] = []
    leader.replica.replace(old, new, answers.append)
    op = world.propose(leader.name)
    world.run(0.6)
    assert world.live[old].log.last_index == leader.log.last_index == world.live[fourth].log.last_index
    assert answers == []
    assert op not in world.acknowledged, "the leader, one voter and the old disk made a majority"


def _fields(scene: object) -> dict[str, object]:
    return {name: getattr(scene, name) for name in scene.__slots__}


# ---- crashes on the way


def test_a_replacement_that_another_leader_never_saw_is_undone_and_the_old_disk_counts_again(tmp_path: Path) -> None:
    world, leader, (lost, other) = cluster(tmp_path)
    old = world.prepare(lost)
    join(world, lost)
    for name in (lost, other):
        world.network.silence(leader.name, name)
    answers = world.replace(leader.name, lost)
    world.tick(leader)
    assert not leader.replica._franchise.roll.retired(lost, "")
    assert leader.replica._franchise.roll.disks()[lost] == world.live[lost].disk_id
    world.kill(leader.name)
    world.kill(lost)
    world.disks[lost] = old
    join(world, lost)
    assert world.run_until(lambda: world.leader() is not None, 5.0)
    work(world)
    assert [type(outcome) for outcome in answers] in ([], [OutcomeUnknown])
    sound_at_end(world)
    assert led(world).checkpoint.roll.disks()[lost] == world.live[lost].disk_id
    assert all(not process.log.configuring for process in world.live.values())


@pytest.mark.parametrize("place", range(1, 40, 2))
def test_a_leader_may_die_at_any_place_of_a_replacement(tmp_path: Path, place: int) -> None:
    world, leader, (lost, _) = cluster(tmp_path)
    kept = work(world)
    world.prepare(lost)
    join(world, lost)
    world.run(0.2)
    answers = world.replace(leader.name, lost)
    leader.fuse = place
    world.run(0.5)
    if leader.name not in world.live:
        world.start(leader.name)
    world.connect_all()
    assert world.run_until(world.converged, 20.0)
    now = led(world)
    if now.checkpoint.roll.disks()[lost] != world.live[lost].disk_id:
        assert not any(isinstance(outcome, Applied) for outcome in answers)
        replaced(world, lost)
    sound_at_end(world)
    assert led(world).replica.read(appended)[: len(kept)] == kept


@pytest.mark.parametrize("power", [False, True])
def test_all_may_die_between_the_append_of_a_replacement_and_its_commit(tmp_path: Path, *, power: bool) -> None:
    world, leader, (lost, other) = cluster(tmp_path)
    world.prepare(lost)
    join(world, lost)
    world.replace(leader.name, lost)
    world.tick(leader)
    world.tick(leader)
    assert leader.checkpoint.roll.disks()[lost] != world.live[lost].disk_id
    for name in list(world.live):
        world.kill(name, power=power)
    for name in (leader.name, lost):
        world.start(name)
    world.connect_all()
    world.run(5.0)
    assert world.leader() is None, "the new disk helped to commit what accepts it"
    world.start(other)
    world.connect_all()
    assert world.run_until(world.converged, 10.0)
    if led(world).checkpoint.roll.disks()[lost] != world.live[lost].disk_id:
        replaced(world, lost)
    sound_at_end(world)


def test_who_learns_from_the_disk_itself_that_it_is_accepted_counts_it_though_the_leader_that_did_is_gone(
    tmp_path: Path,
) -> None:
    """The other voter holds the entry and does not know it committed; the new disk does, and says so."""
    world, leader, (lost, other) = cluster(tmp_path)
    world.prepare(lost)
    join(world, lost)
    world.live[other].stalled_until_s = 0.0
    answers = world.replace(leader.name, lost)
    while not answers:
        world.step(0.005)
        if leader.log.configuring and leader.log.commit_index >= leader.log.configuring[0].index:
            world.network.silence(leader.name, other)
    assert world.run_until(lambda: world.live[lost].replica._franchise.entitled, 2.0)
    entry = leader.log.configuring[0].index
    assert world.live[other].log.last_index >= entry > world.live[other].checkpoint.applied_index
    world.kill(leader.name, power=True)
    assert world.run_until(lambda: world.leader() is not None, 5.0)
    work(world)
    sound_at_end(world)


# ---- lag


def test_a_new_disk_is_sent_a_snapshot_under_load_and_then_counts(tmp_path: Path) -> None:
    world, leader, (lost, other) = cluster(tmp_path, bounds=TIGHT)
    world.prepare(lost)
    while leader.log.first_index == 1:
        work(world, 100)
        world.run(0.3)
    join(world, lost)
    answers = world.replace(leader.name, lost)
    while world.installed == 0 or not answers:
        work(world, 10)
    assert isinstance(answers[0], Applied)
    assert world.run_until(lambda: suffrage(leader, lost) == "voter", 5.0)
    world.kill(other)
    work(world)
    assert world.live[lost].checkpoint.roll.disks()[lost] == world.live[lost].disk_id
    sound_at_end(world)


def test_a_voter_that_missed_a_replacement_follows_the_new_disk_as_its_leader(tmp_path: Path) -> None:
    world, leader, (lost, lagging) = cluster(tmp_path)
    world.prepare(lost)
    join(world, lost)
    for name in (leader.name, lost):
        world.network.disconnect(lagging, name)
    world.kill(lagging)
    world.start(lagging)
    world.connect(lagging, leader.name)
    replaced(world, lost)
    world.network.disconnect(lagging, leader.name)
    assert world.run_until(lambda: world.live[lost].replica._franchise.entitled, 2.0)
    world.live[leader.name].replica.hand_over()
    assert world.run_until(lambda: world.leader() is world.live[lost], 5.0)
    world.kill(lagging)
    world.start(lagging)
    world.connect(lagging, lost)
    work(world)
    assert world.run_until(lambda: world.live[lagging].log.last_index == world.live[lost].log.last_index, 3.0)
    sound_at_end(world)


def test_after_a_replacement_the_cluster_version_waits_for_the_new_disks_program(tmp_path: Path) -> None:
    world, leader, (lost, _) = cluster(tmp_path)
    world.prepare(lost)
    for name in world.names:
        world.versions[name] = 2
        if name in world.live:
            world.kill(name)
        world.start(name)
    world.connect_all()
    world.run(4.0)
    assert {process.checkpoint.cluster_version for process in world.live.values()} == {1}
    assert leader.name in world.live
    replaced(world, lost)
    world.run(3.0)
    assert {process.checkpoint.cluster_version for process in world.live.values()} == {2}
    sound_at_end(world)

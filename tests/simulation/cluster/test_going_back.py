"""Stories of a raft.db that lost what it had synced: an earlier copy put back, the end of its WAL cut or rotten."""

from pathlib import Path

import pytest

from cluster.frames import Frame, RequestVote, encode_frame
from cluster.regress import Floor
from tests.simulation.cluster.going_back import keep, lose_newest, put_back
from tests.simulation.cluster.machine import appended
from tests.simulation.cluster.test_stories import cluster, heal, others
from tests.simulation.cluster.world import Process, World


def acknowledged(world: World, leader: Process, count: int) -> list[str]:
    ops = [world.propose(leader.name) for _ in range(count)]
    assert world.run_until(lambda: world.acknowledged >= set(ops), 3.0)
    return ops


def without_a_say(world: World, name: str) -> bool:
    return not world.live[name].log.entitled


def start(world: World, name: str) -> Process:
    world.start(name)
    assert world.violations == []
    return world.live[name]


@pytest.mark.parametrize("wal", [True, False])
@pytest.mark.parametrize("state", [True, False])
def test_a_voter_whose_store_went_back_has_no_say_until_its_leader_has_given_it_all_again(
    tmp_path: Path, *, wal: bool, state: bool
) -> None:
    world, leader = cluster(tmp_path)
    back = others(world, leader)[0]
    ops = acknowledged(world, leader, 5)
    earlier = keep(world.disks[back], "earlier")
    ops += acknowledged(world, leader, 20)
    end = world.live[back].log.last_index
    world.kill(back)
    put_back(world.disks[back], earlier, wal=wal, state=state)
    process = start(world, back)
    assert process.log.floor == Floor(leader.log.term, end)
    assert process.log.term == leader.log.term
    world.run(2.0)
    assert process.replica.leadership.role == "follower", "late as it is, it does not stand"
    assert f"it had come to entry {end}" in str(process.replica.status().trouble)
    world.connect_all()
    assert world.run_until(lambda: process.log.entitled, 2.0)
    assert world.run_until(world.converged, 2.0)
    assert process.replica.status().trouble is None
    world.kill(leader.name)
    assert world.run_until(lambda: world.leader() is not None, 5.0), "it has a say again, and two of three are enough"
    heal(world)
    assert [process.replica.read(appended) for process in world.live.values()] == [ops] * 3


@pytest.mark.parametrize("rotten", [True, False])
@pytest.mark.parametrize("transactions", [1, 4])
def test_transactions_lost_from_the_end_of_the_wal_are_missed(
    tmp_path: Path, transactions: int, *, rotten: bool
) -> None:
    world, leader = cluster(tmp_path)
    back = others(world, leader)[0]
    ops = [op for _ in range(8) for op in acknowledged(world, leader, 1)]
    end = world.live[back].log.last_index
    world.kill(back)
    assert lose_newest(world.disks[back], transactions, rotten=rotten)
    process = start(world, back)
    assert process.log.floor == Floor(leader.log.term, end)
    heal(world)
    assert process.log.entitled
    assert process.replica.read(appended) == ops


def test_what_only_the_lost_store_and_a_dead_leader_had_acknowledged_is_not_lost(tmp_path: Path) -> None:
    """Nobody leads until one of the two is back with it; without the mark the other two would elect, and drop it."""
    world, leader = cluster(tmp_path)
    back, third = others(world, leader)
    earlier = keep(world.disks[back], "earlier")
    world.network.disconnect(leader.name, third)
    ops = acknowledged(world, leader, 3)
    world.kill(leader.name)
    world.kill(back)
    put_back(world.disks[back], earlier, state=True)
    start(world, back)
    world.connect_all()
    world.run(10.0)
    assert world.leader() is None
    assert without_a_say(world, back)
    assert world.live[third].log.last_index < leader.log.last_index
    heal(world)
    assert [process.replica.read(appended) for process in world.live.values()] == [ops] * 3


@pytest.mark.parametrize("state", [True, False])
def test_two_of_five_may_go_back_at_the_same_time(tmp_path: Path, *, state: bool) -> None:
    world, leader = cluster(tmp_path, voters=5)
    one, two, three, _ = others(world, leader)
    earlier = {name: keep(world.disks[name], "earlier") for name in (one, two)}
    world.kill(three)
    ops = acknowledged(world, leader, 10)
    for name in (one, two, leader.name):
        world.kill(name)
    for name in (one, two):
        put_back(world.disks[name], earlier[name], state=state)
        start(world, name)
    start(world, three)
    world.connect_all()
    world.run(5.0)
    assert world.leader() is None, "only two of five have a say"
    heal(world)
    assert {tuple(process.replica.read(appended)) for process in world.live.values()} == {tuple(ops)}


def test_it_never_votes_twice_in_one_term(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    earlier = {name: keep(world.disks[name], "earlier") for name in others(world, leader)}
    world.kill(leader.name)
    assert world.run_until(lambda: world.leader() is not None, 5.0)
    elected = world.leader()
    assert elected is not None
    third, term = elected.name, elected.log.term
    back = next(name for name in earlier if name != third)
    assert world.live[back].log.voted_for == third
    world.kill(back)
    put_back(world.disks[back], earlier[back])
    process = start(world, back)
    assert (process.log.term, process.log.voted_for) == (term, back)
    world.connect_all()
    assert world.run_until(lambda: process.log.entitled, 5.0)
    link = process.replica._roster.links[third]
    request = Frame(link.session, term, 0, 1, RequestVote(1 << 20, term, bidden=True))
    process.replica.received(link, encode_frame(request))
    process.replica.tick()
    assert process.log.voted_for == back


def test_a_leader_whose_store_went_back_gives_way_to_one_with_a_shorter_log(tmp_path: Path) -> None:
    """Its own last entries were nobody else's: it must not wait for an index that never comes."""
    world, old = cluster(tmp_path)
    ops = acknowledged(world, old, 3)
    earlier = keep(world.disks[old.name], "earlier")
    for name in others(world, old):
        world.network.disconnect(old.name, name)
    for _ in range(30):
        world.propose(old.name)
    world.run(0.1)
    end = old.log.last_index
    world.kill(old.name)
    put_back(world.disks[old.name], earlier)
    process = start(world, old.name)
    assert process.log.floor == Floor(old.log.term, end)
    assert world.run_until(lambda: world.leader() is not None, 5.0)
    world.connect_all()
    assert world.run_until(lambda: process.log.entitled, 5.0)
    assert process.log.last_index < end
    heal(world)
    assert process.replica.read(appended) == ops


def test_the_loss_is_remembered_over_starts(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    back = others(world, leader)[0]
    earlier = keep(world.disks[back], "earlier")
    acknowledged(world, leader, 5)
    end = world.live[back].log.last_index
    world.kill(back)
    put_back(world.disks[back], earlier)
    for power in (False, True, True):
        start(world, back)
        world.run(0.2)
        assert world.live[back].log.floor == Floor(leader.log.term, end)
        world.kill(back, power=power)
    heal(world)


@pytest.mark.parametrize("place", range(1, 22, 2))
def test_a_voter_that_went_back_may_die_at_any_place_on_its_way_up(tmp_path: Path, place: int) -> None:
    world, leader = cluster(tmp_path)
    back, third = others(world, leader)
    earlier = keep(world.disks[back], "earlier")
    world.network.disconnect(leader.name, third)
    ops = acknowledged(world, leader, 5)
    world.kill(back)
    put_back(world.disks[back], earlier, state=True)
    start(world, back).fuse = place
    world.connect(leader.name, back)
    world.run(0.3)
    world.kill(leader.name)
    if back not in world.live:
        world.start(back)
    world.connect_all()
    world.run(3.0)
    heal(world)
    assert [process.replica.read(appended) for process in world.live.values()] == [ops] * 3


@pytest.mark.parametrize("seed", range(6))
def test_a_power_loss_that_takes_the_newest_marks_is_no_alarm(tmp_path: Path, seed: int) -> None:
    world, leader = cluster(tmp_path, seed=seed)
    ops = acknowledged(world, leader, 10)
    for name in world.names:
        world.kill(name, power=True)
    for name in world.names:
        assert start(world, name).log.entitled
    heal(world)
    assert next(iter(world.live.values())).replica.read(appended) == ops


def test_a_mark_that_missed_the_last_entries_still_keeps_its_voter_quiet_until_it_has_them(tmp_path: Path) -> None:
    """The leader of the same term says what is committed: up to there it is, not only up to the mark."""
    world, leader = cluster(tmp_path)
    back, third = others(world, leader)
    earlier = keep(world.disks[back], "earlier")
    acknowledged(world, leader, 1)
    stale = (world.disks[back].folder / "raft.mark").read_bytes()
    world.network.disconnect(leader.name, third)
    ops = acknowledged(world, leader, 30)
    world.kill(back)
    put_back(world.disks[back], earlier, state=True)
    (world.disks[back].folder / "raft.mark").write_bytes(stale)
    process = start(world, back)
    assert process.log.floor is not None
    assert process.log.floor.last_index < leader.log.last_index - 20
    world.connect(leader.name, back)
    assert world.run_until(lambda: process.log.entitled, 2.0)
    assert process.log.last_index >= leader.log.commit_index > process.log.first_index
    world.kill(leader.name)
    world.run(3.0)
    heal(world)
    assert process.replica.read(appended)[-30:] == ops


def test_a_lone_voter_that_went_back_says_so_and_takes_nothing(tmp_path: Path) -> None:
    world, lone = cluster(tmp_path, voters=1)
    earlier = keep(world.disks[lone.name], "earlier")
    acknowledged(world, lone, 3)
    world.kill(lone.name)
    put_back(world.disks[lone.name], earlier, state=True)
    process = start(world, lone.name)
    world.run(5.0)
    assert world.leader() is None
    assert "went back" in str(process.replica.status().trouble)

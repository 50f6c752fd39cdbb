"""Scripted stories of failover: who takes over from whom, how soon, and when nobody does."""

from pathlib import Path

import pytest

from tests.simulation.cluster.machine import appended
from tests.simulation.cluster.test_stories import cluster, heal, others
from tests.simulation.cluster.world import Process, World

# At power loss nobody refuses: two voters time out, perhaps a second time if the first one asked too soon.
AT_ONCE_S, BY_TIMEOUT_S = 0.2, 1.3


def successor(world: World, old: Process, within_s: float) -> Process:
    assert world.run_until(lambda: world.leader() not in {None, old}, within_s)
    new = world.leader()
    assert new is not None
    return new


def cut_off(world: World, name: str) -> None:
    for other in world.names:
        world.network.disconnect(name, other)


def undisturbed(world: World, leader: Process, term: int) -> bool:
    terms = {process.log.term for process in world.live.values()}
    return world.leader() is leader and terms == {term}


@pytest.mark.parametrize("voters", [3, 5])
@pytest.mark.parametrize("seed", range(8))
def test_a_leader_that_is_killed_is_followed_long_before_the_timeout(tmp_path: Path, seed: int, voters: int) -> None:
    world, leader = cluster(tmp_path, voters, seed)
    ops = [world.propose(leader.name) for _ in range(5)]
    assert world.run_until(lambda: world.acknowledged >= set(ops), 2.0)
    term = leader.log.term
    world.kill(leader.name)
    new = successor(world, leader, AT_ONCE_S)
    assert new.log.term == term + 1, "the vote was split"
    heal(world)
    assert new.replica.read(appended) == ops


def test_a_leader_whose_host_lost_power_is_followed_after_the_timeout(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    world.kill(leader.name, power=True)
    assert not world.run_until(lambda: world.leader() is not None, 0.25)
    successor(world, leader, BY_TIMEOUT_S)


def test_a_broken_link_to_a_living_leader_elects_nobody(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    term = leader.log.term
    for name in others(world, leader) * 3:
        world.network.disconnect(leader.name, name)
        world.run(3.0)
        assert undisturbed(world, leader, term)
        world.connect(leader.name, name)
        world.run(0.5)
    assert undisturbed(world, leader, term)


def test_one_voter_that_cannot_reach_the_leader_deposes_nobody(tmp_path: Path) -> None:
    """A firewall refuses its redials; the other follower still hears the leader and sticks to it."""
    world, leader = cluster(tmp_path)
    term = leader.log.term
    name = others(world, leader)[0]
    world.network.disconnect(leader.name, name)
    world.refuse(name, leader.name)
    world.run(5.0)
    assert undisturbed(world, leader, term)


@pytest.mark.parametrize("away_s", [0.5, 2.0, 10.0])
def test_a_voter_that_was_cut_off_comes_back_without_an_election(tmp_path: Path, away_s: float) -> None:
    world, leader = cluster(tmp_path)
    term = leader.log.term
    name = others(world, leader)[0]
    cut_off(world, name)
    ops = [world.propose(leader.name) for _ in range(3)]
    world.run(away_s)
    for other in others(world, world.live[name]):
        world.connect(name, other)
    assert world.run_until(lambda: undisturbed(world, leader, term) and world.converged(), 1.0)
    world.run(2.0)
    assert undisturbed(world, leader, term)
    assert world.live[name].replica.read(appended) == ops


def test_a_voter_that_hears_nobody_but_is_heard_deposes_nobody(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    term = leader.log.term
    name = others(world, leader)[0]
    for other in others(world, world.live[name]):
        world.network.silence(other, name)
    world.run(5.0)
    assert undisturbed(world, leader, term)


@pytest.mark.parametrize("one_way", [False, True])
def test_a_leader_that_hears_no_majority_steps_down_within_twice_the_longest_timeout(
    tmp_path: Path, *, one_way: bool
) -> None:
    """One way: its followers hear it all the time and stick to it, so nobody else can end its leadership."""
    world, leader = cluster(tmp_path)
    world.run(0.013)
    for name in others(world, leader):
        world.network.silence(name, leader.name)
        if not one_way:
            world.network.silence(leader.name, name)
    assert world.run_until(lambda: leader.replica.leadership.role != "leader", 2 * world.timing.raft_max_s)
    successor(world, leader, BY_TIMEOUT_S)


def test_a_suspended_leader_is_followed_and_comes_back_as_a_follower(tmp_path: Path) -> None:
    world, old = cluster(tmp_path)
    old.stalled_until_s = world.now_s + 5.0
    new = successor(world, old, BY_TIMEOUT_S)
    term = new.log.term
    world.run(6.0)
    assert undisturbed(world, new, term)
    assert old.replica.status().leader == new.name


def test_a_handover_costs_no_timeout_loses_nothing_and_denies_only_what_comes_after_it(tmp_path: Path) -> None:
    world, old = cluster(tmp_path)
    term = old.log.term
    before = [world.propose(old.name) for _ in range(50)]
    world.tick(old)
    old.replica.hand_over()
    world.tick(old)
    after = world.propose(old.name)
    new = successor(world, old, AT_ONCE_S)
    assert (new.log.term, old.replica.leadership.role) == (term + 1, "follower")
    assert world.run_until(lambda: world.acknowledged >= set(before), 1.0), "what was pending was not drained"
    assert [str(outcome) for outcome in world.answers[after]] == ["not_leader"]
    heal(world)
    assert new.replica.read(appended) == before


@pytest.mark.parametrize("lagging", [0, 1])
def test_the_most_caught_up_voter_takes_over(tmp_path: Path, lagging: int) -> None:
    world, old = cluster(tmp_path)
    behind, ahead = others(world, old)[lagging], others(world, old)[1 - lagging]
    world.network.silence(old.name, behind)
    ops = [world.propose(old.name) for _ in range(20)]
    assert world.run_until(lambda: world.acknowledged >= set(ops), 0.25)
    old.replica.hand_over()
    assert successor(world, old, AT_ONCE_S).name == ahead


def test_an_heir_that_dies_is_replaced_by_another(tmp_path: Path) -> None:
    world, old = cluster(tmp_path, voters=5)
    first = others(world, old)[0]
    world.live[first].stalled_until_s = world.now_s + 60.0
    old.replica.hand_over()
    world.run(0.2)
    world.kill(first)
    new = successor(world, old, 1.0)
    assert new.name != first
    assert world.live[old.name] is old


def test_a_handover_that_cannot_succeed_ends_in_resignation(tmp_path: Path) -> None:
    world, old = cluster(tmp_path)
    cut_off(world, old.name)
    old.replica.hand_over()
    world.run(0.05)
    assert old.replica.leadership.role == "follower"
    heal(world)


# ---- beside full disks


def test_a_handover_passes_a_full_voter_over(tmp_path: Path) -> None:
    world, old = cluster(tmp_path)
    full, able = others(world, old)
    world.free[full] = 0
    world.run(0.2)
    old.replica.hand_over()
    assert successor(world, old, AT_ONCE_S).name == able
    world.empty(full)
    heal(world)


def test_a_killed_leader_is_followed_at_once_though_the_next_in_line_is_full(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path, voters=5)
    ops = [world.propose(leader.name) for _ in range(5)]
    assert world.run_until(lambda: world.acknowledged >= set(ops), 2.0)
    term, full = leader.log.term, others(world, leader)[0]
    world.free[full] = 0
    world.run(0.2)
    world.kill(leader.name)
    new = successor(world, leader, AT_ONCE_S + 0.1)
    assert (new.log.term, new.name == full, world.live[full].log.term) == (term + 1, False, term)
    world.run(3.0)
    assert world.live[full].replica.leader == new.name
    world.empty(full)
    heal(world)
    assert new.log.term == term + 1, "with room again it deposed the leader that it had heeded"
    assert world.live[full].replica.read(appended) == ops


def test_who_is_full_helps_nobody_to_win(tmp_path: Path) -> None:
    """One dead and one full of three: a leader could commit nothing, so there is none, and the term stays."""
    world, leader = cluster(tmp_path)
    full = others(world, leader)[0]
    world.free[full] = 0
    world.run(0.2)
    term = leader.log.term
    world.kill(leader.name)
    world.run(10.0)
    assert world.leader() is None
    assert {process.log.term for process in world.live.values()} == {term}
    world.empty(full)
    assert world.run_until(lambda: world.leader() is not None, BY_TIMEOUT_S + 1.0)
    heal(world)

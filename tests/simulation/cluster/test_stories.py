"""Scripted stories on virtual time, each the shape of one hazard."""

from pathlib import Path
from random import Random

import pytest

from cluster.frames import Append, Frame, Matched, encode_frame
from cluster.outcome import Applied, NotApplied, OutcomeUnknown, Why
from cluster.room import RESERVE_BYTES
from tests.simulation.cluster.machine import appended
from tests.simulation.cluster.network import End
from tests.simulation.cluster.world import Process, World


def cluster(home: Path, voters: int = 3, seed: int = 7) -> tuple[World, Process]:
    world = World(home, seed, voters)
    for name in world.names:
        world.start(name)
    world.connect_all()
    assert world.run_until(lambda: world.leader() is not None and world.converged(), 5.0)
    leader = world.leader()
    assert leader is not None
    return world, leader


def others(world: World, process: Process) -> list[str]:
    return [name for name in world.names if name != process.name]


def heal(world: World) -> None:
    for name in world.names:
        if name not in world.live:
            world.start(name)
    world.connect_all()
    assert world.run_until(world.converged, 20.0)
    world.check_at_end()
    assert world.violations == []


@pytest.mark.parametrize("voters", [1, 3, 5])
def test_a_cluster_of_any_size_elects_and_replicates(tmp_path: Path, voters: int) -> None:
    world, leader = cluster(tmp_path, voters)
    ops = [world.propose(leader.name) for _ in range(20)]
    assert world.run_until(lambda: world.acknowledged >= set(ops), 2.0)
    heal(world)


def test_a_leader_cut_off_acknowledges_nothing_and_its_tail_gives_way(tmp_path: Path) -> None:
    world, old = cluster(tmp_path)
    for name in others(world, old):
        world.network.disconnect(old.name, name)
    lost = [world.propose(old.name) for _ in range(5)]
    assert world.run_until(lambda: world.leader() not in {None, old}, 5.0)
    new = world.leader()
    assert new is not None
    kept = [world.propose(new.name) for _ in range(5)]
    assert world.run_until(lambda: world.acknowledged >= set(kept), 3.0)
    heal(world)
    assert all(isinstance(world.answers[op][0], OutcomeUnknown) for op in lost)
    assert new.replica.read(appended) == kept


def test_a_leader_that_dies_after_its_followers_stored_an_entry_has_not_lost_it(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    op = world.propose(leader.name)
    world.tick(leader)  # appended here and sent early
    world.kill(leader.name)
    heal(world)
    survivors = [process.replica.read(appended) for process in world.live.values()]
    assert survivors in ([[op]] * 3, [[]] * 3)


def test_all_die_at_once_and_everything_acknowledged_is_there(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    ops = [world.propose(leader.name) for _ in range(30)]
    assert world.run_until(lambda: world.acknowledged >= set(ops), 3.0)
    for name in world.names:
        world.kill(name, power=True)
    heal(world)
    assert [process.replica.read(appended) for process in world.live.values()] == [ops] * 3


@pytest.mark.parametrize("place", range(1, 30))
def test_a_leader_may_die_at_any_place_of_its_tick(tmp_path: Path, place: int) -> None:
    world, leader = cluster(tmp_path)
    first = world.propose(leader.name)
    leader.fuse = place
    world.run(0.3)
    heal(world)
    outcomes = world.answers[first]
    if outcomes and isinstance(outcomes[0], Applied):
        assert first in next(iter(world.live.values())).replica.read(appended)


def test_the_first_election_waits_for_a_voter_that_is_late(tmp_path: Path) -> None:
    world = World(tmp_path, 7, 3)
    for name in world.names[:2]:
        world.start(name)
    world.connect_all()
    world.run(5.0)
    assert world.leader() is None
    assert all(process.log.term == 0 for process in world.live.values())
    heal(world)


def test_after_the_first_election_a_majority_is_enough(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    world.kill(leader.name)
    assert world.run_until(lambda: world.leader() is not None, 5.0)


def test_a_late_acknowledgement_of_an_earlier_leadership_commits_nothing(tmp_path: Path) -> None:
    """Hazard B: five voters; two hold the entry, a third one's old words must not make them three."""
    world, leader = cluster(tmp_path, voters=5)
    first, *rest = others(world, leader)
    for name in rest:
        world.network.silence(leader.name, name)
    world.propose(leader.name)
    world.run(0.2)
    index, term = leader.log.last_index, leader.log.term
    for name in rest:
        link = leader.replica._roster.links[name]
        late = Frame(link.session, term - 1, 0, 1, Matched(index))
        leader.replica.received(link, encode_frame(late))
    leader.replica.tick()
    assert leader.log.commit_index == index - 1
    assert world.live[first].log.last_index == index


def test_a_lagging_voter_catches_up_in_bounded_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.window.MAX_BATCH_BYTES", 200)
    monkeypatch.setattr("cluster.window.MAX_WINDOW_BYTES", 600)
    world, leader = cluster(tmp_path)
    late = others(world, leader)[0]
    world.kill(late)
    ops = [world.propose(leader.name, size=40) for _ in range(200)]
    assert world.run_until(lambda: world.acknowledged >= set(ops), 5.0)
    sizes: list[int] = []
    send = world.network.send

    def measured(end: End, frame: bytes) -> None:
        sizes.append(len(frame))
        send(end, frame)

    monkeypatch.setattr(world.network, "send", measured)
    heal(world)
    assert max(sizes) < 600


def test_frames_of_a_cut_connection_are_dropped_when_they_come_back(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    name = others(world, leader)[0]
    old = leader.replica._roster.links[name]
    batch = Append(1, 1, 0, ((leader.log.term, b"\x00forged"),))
    frame = encode_frame(Frame(old.session, leader.log.term, 0, 1, batch))
    world.network.disconnect(leader.name, name)
    world.connect(leader.name, name)
    world.run(0.2)
    before = world.live[name].log.entries[:]
    link = world.live[name].replica._roster.links[leader.name]
    world.live[name].replica.received(link, frame)
    world.run(0.2)
    assert world.live[name].log.entries == before
    assert world.live[name].replica.refused_frames == 1


def test_a_stalled_follower_does_not_depose_the_leader(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    term = leader.log.term
    for stalled in others(world, leader) * 3:
        world.live[stalled].stalled_until_s = world.now_s + Random(1).uniform(1.0, 3.0)
        world.run(4.0)
    assert (world.leader(), leader.log.term) == (leader, term)


# ---- full disks


def test_c74_a_leader_whose_disk_is_full_refuses_steps_down_and_does_not_stand_again(tmp_path: Path) -> None:
    world, full = cluster(tmp_path)
    kept = world.propose(full.name)
    assert world.run_until(lambda: kept in world.acknowledged, 2.0)
    world.free[full.name] = RESERVE_BYTES - 1
    refused = world.propose(full.name)
    world.step()
    assert full.replica.leadership.role == "follower"
    (outcome,) = world.answers[refused]
    assert isinstance(outcome, NotApplied)
    assert outcome.why is Why.STORE_FULL
    assert world.run_until(lambda: world.leader() not in {None, full}, 5.0)
    new = world.leader()
    assert new is not None
    ops = [world.propose(new.name) for _ in range(20)]
    assert world.run_until(lambda: world.acknowledged >= set(ops), 3.0), "two of three are enough"
    before = full.log.last_index
    world.run(5.0)
    assert (full.replica.leadership.role, full.log.last_index, world.leader()) == ("follower", before, new)
    assert "disk full" in str(full.replica.status().trouble)
    assert full.replica.status().leader == new.name
    world.empty(full.name)
    heal(world)
    assert full.replica.status().trouble is None
    assert full.replica.read(appended) == [kept, *ops]


def test_a_full_follower_acknowledges_nothing_and_does_not_count_as_heard(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    for name in others(world, leader):
        world.free[name] = 0
    op = world.propose(leader.name)
    world.run(0.5)
    assert world.answers[op] == [], "one of three holds it"
    assert world.run_until(lambda: leader.replica.leadership.role != "leader", 3.0), "a leader that none follow goes"
    assert isinstance(world.answers[op][0], OutcomeUnknown)
    world.run(3.0)
    assert world.leader() is None, "who cannot append does not vote either"
    for name in world.names:
        world.empty(name)
    heal(world)


def test_c74_all_disks_full_and_all_voters_restarted_lose_nothing(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    ops = [world.propose(leader.name) for _ in range(300)]
    assert world.run_until(lambda: world.acknowledged >= set(ops), 3.0)
    for name in world.names:
        world.free[name] = 0
        world.kill(name, power=True)
        world.start(name)
    world.connect_all()
    world.run(5.0)
    assert world.violations == []
    assert all("disk full" in str(process.replica.status().trouble) for process in world.live.values())
    for name in world.names:
        world.empty(name)
    heal(world)
    assert [process.replica.read(appended) for process in world.live.values()] == [ops] * 3


def test_a_lone_voter_takes_commands_again_once_there_is_space(tmp_path: Path) -> None:
    world, lone = cluster(tmp_path, voters=1)
    world.free[lone.name] = 0
    world.run(2.0)
    refused = world.propose(lone.name)
    world.free[lone.name] = RESERVE_BYTES  # at the edge: not yet, or it would flap
    world.run(2.0)
    assert world.leader() is None
    world.empty(lone.name)
    assert world.run_until(lambda: world.leader() is lone, 3.0)
    kept = world.propose(lone.name)
    assert world.run_until(lambda: kept in world.acknowledged, 1.0)
    heal(world)
    assert isinstance(world.answers[refused][0], NotApplied)
    assert lone.replica.read(appended) == [kept]


# ---- the leader's trial


def test_no_command_stops_the_voters_and_the_others_of_its_batch_go_on(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    first, poison, last = (world.propose(leader.name, kind=kind) for kind in ("", "poison", ""))
    assert world.run_until(lambda: world.acknowledged >= {first, last}, 2.0)
    (refused,) = world.answers[poison]
    assert isinstance(refused, NotApplied)
    assert refused.why is Why.FAILED_TRIAL
    assert "an unknown kind of command" in str(refused)
    heal(world)
    assert [process.replica.read(appended) for process in world.live.values()] == [[first, last]] * 3
    assert all(b"poison" not in entry.command for process in world.live.values() for entry in process.log.entries)


@pytest.mark.parametrize("ticks_between", [0, 1, 2, 50])
def test_a_command_is_tried_in_the_state_that_it_will_meet(tmp_path: Path, ticks_between: int) -> None:
    """It fails only behind another one: in the same batch, behind it in the log, or applied already."""
    world, leader = cluster(tmp_path)
    first = world.propose(leader.name, kind="rival")
    for _ in range(ticks_between):
        world.step(0.001)
    second = world.propose(leader.name, kind="rival")
    other, third = world.propose(leader.name), world.propose(leader.name, kind="rival")
    assert world.run_until(lambda: world.acknowledged >= {first, other, third}, 2.0)
    assert isinstance(world.answers[second][0], NotApplied)
    heal(world)
    assert leader.replica.read(appended) == [first, other, third]


# ---- digests


def rot(process: Process) -> None:
    """Change a voter's state behind its back, so that it makes something else of the next command."""
    process.checkpoint._writer._db.execute("INSERT INTO appended VALUES (999, 'rot')")


def expect_stopped(world: World, name: str) -> None:
    """The voter stopped over its digest, and nothing else went wrong."""
    assert name not in world.live
    (stopped,) = {violation for violation in world.violations if "another digest" not in violation}
    assert stopped.startswith(f"{name} stopped: this voter's state differs")
    world.violations.clear()
    world.digests.clear()


@pytest.mark.parametrize("who", ["leader", "follower"])
@pytest.mark.parametrize("commands", [1, 600])
def test_a_voter_whose_state_differs_stops_and_the_majority_goes_on(tmp_path: Path, who: str, commands: int) -> None:
    world, leader = cluster(tmp_path)
    odd = leader if who == "leader" else world.live[others(world, leader)[0]]
    rot(odd)
    ops = [world.propose(leader.name) for _ in range(commands)]
    assert world.run_until(lambda: odd.name not in world.live, 3.0)
    world.run(3.0)
    expect_stopped(world, odd.name)
    for suffix in ("", "-wal"):
        (world.disks[odd.name].folder / f"checkpoint.db{suffix}").unlink(missing_ok=True)
    world.acknowledged.clear()
    world.answers.clear()  # the odd leader's own answers were of its own state
    heal(world)
    assert [process.replica.read(appended) for process in world.live.values()] == [ops] * 3


def test_while_a_missing_voter_could_decide_nobody_stops_but_both_are_in_trouble(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    odd, missing = others(world, leader)
    world.kill(missing)
    rot(world.live[odd])
    op = world.propose(leader.name)
    world.run(5.0)
    assert op in world.acknowledged
    for name, other in ((odd, leader.name), (leader.name, odd)):
        trouble = str(world.live[name].replica.status().trouble)
        assert f"differs from that of {other} at entry" in trouble
        assert missing in trouble
    world.start(missing)
    world.connect_all()
    assert world.run_until(lambda: odd not in world.live, 5.0)
    world.run(3.0)
    expect_stopped(world, odd)
    assert [process.replica.status().trouble for process in world.live.values()] == [None, None]


# ---- deadlines


def test_a_leader_cut_off_answers_in_time_and_a_late_commit_is_no_second_answer(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    for name in others(world, leader):
        world.network.silence(name, leader.name)
    op = world.propose(leader.name, within_s=0.3)
    world.run(0.25)
    assert world.answers[op] == []
    world.run(0.1)
    assert [type(outcome) for outcome in world.answers[op]] == [OutcomeUnknown]
    assert leader.replica.leadership.role == "leader", "it answered because of the deadline, not of lost leadership"
    for name in others(world, leader):
        world.network.disconnect(name, leader.name)
    heal(world)
    assert leader.replica.read(appended) == [op], "unknown was the truth: its followers had it"
    assert len(world.answers[op]) == 1


def test_what_expires_before_it_is_appended_never_is(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    leader.stalled_until_s = world.now_s + 0.1
    op = world.propose(leader.name, within_s=0.05)
    world.run(1.0)
    (outcome,) = world.answers[op]
    assert isinstance(outcome, NotApplied)
    assert outcome.why is Why.EXPIRED
    heal(world)
    assert leader.replica.read(appended) == []


# ---- the cluster version


def restart(world: World, name: str, version: int) -> None:
    world.kill(name)
    world.versions[name] = version
    world.start(name)
    world.connect_all()
    assert world.run_until(world.converged, 5.0)


def test_the_version_rises_only_once_every_voter_can_and_then_gates_nothing_more(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    first, second = others(world, leader)
    for name in (first, second):
        restart(world, name, 2)
        world.run(3.0)
    early = world.propose(leader.name, version=2)
    (refused,) = world.answers[early]
    assert isinstance(refused, NotApplied)
    assert refused.why is Why.NOT_YET
    assert {process.replica.status().cluster_version for process in world.live.values()} == {1}
    restart(world, leader.name, 3)
    world.run(3.0)
    assert {process.replica.status().cluster_version for process in world.live.values()} == {2}
    now = world.leader()
    assert now is not None
    late = world.propose(now.name, version=2)
    assert world.run_until(lambda: late in world.acknowledged, 2.0)
    heal(world)


def test_a_voter_that_is_not_there_holds_the_version_back(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    first, second = others(world, leader)
    restart(world, first, 2)
    restart(world, second, 2)
    world.versions[leader.name] = 2
    world.kill(leader.name)
    world.run(4.0)
    assert {process.replica.status().cluster_version for process in world.live.values()} == {1}
    heal(world)
    world.run(3.0)
    assert {process.replica.status().cluster_version for process in world.live.values()} == {2}


def test_a_program_older_than_the_cluster_does_not_start(tmp_path: Path) -> None:
    world, leader = cluster(tmp_path)
    for name in (*others(world, leader), leader.name):
        restart(world, name, 2)
    world.run(3.0)
    old = others(world, leader)[0]
    world.kill(old)
    world.versions[old] = 1
    world.start(old)
    (violation,) = world.violations
    assert "gone on to version 2" in violation

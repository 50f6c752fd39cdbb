"""What a voter without room on its disk does with every word about elections: nothing that it could not keep."""

from pathlib import Path

import pytest

from cluster.frames import (
    NO_OP,
    Alive,
    Append,
    Conflict,
    Full,
    Matched,
    Message,
    PreVote,
    RequestVote,
    Standing,
    TimeoutNow,
    Vote,
    WouldVote,
)
from cluster.outcome import NotApplied, Why
from cluster.room import boundless
from tests.unit.cluster.fakes import Bench

ELECTION = (PreVote, RequestVote, Vote, WouldVote, Alive, Matched, Conflict)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A follower of node2 in term 3."""
    bench = Bench(tmp_path)
    for peer in ("node2", "node3"):
        bench.link(peer, f"s-{peer}")
    bench.hear("node2", 3, Append(1, 1, 0, ((3, NO_OP),)))
    return bench


def fill(bench: Bench) -> None:
    bench.free_bytes = 0
    bench.replica.tick()
    for link in bench.links.values():
        link.frames.clear()


def empty(bench: Bench) -> None:
    bench.free_bytes = boundless()
    bench.replica.tick()


def lead(bench: Bench) -> int:
    """Let the voter be asked by nobody, and elected by node3."""
    bench.wait(1.3)
    bench.hear("node3", 3, WouldVote(4))
    bench.hear("node3", 4, Vote())
    assert bench.replica.leadership.role == "leader"
    for peer in ("node2", "node3"):
        bench.hear(peer, 4, Matched(bench.log.last_index))
    return 4


def said(bench: Bench) -> list[Message]:
    """Return every word about elections or the log that left."""
    return [frame.message for link in bench.links.values() for kind in ELECTION for frame in link.sent(kind)]


def test_it_never_stands_nor_asks_whether_it_may(bench: Bench) -> None:
    fill(bench)
    bench.wait(5.0)
    bench.replica.disconnected(bench.links["node2"])
    bench.replica.refused("node2")
    bench.wait(5.0)
    assert not said(bench)
    assert bench.replica.leadership.term == 3
    assert bench.replica.leader is None, "it knows all the same that the leader is gone"


def test_leave_that_came_before_is_not_used(bench: Bench) -> None:
    bench.wait(1.3)
    bench.hear("node3", 3, WouldVote(4), tick=False)
    fill(bench)
    bench.hear("node3", 3, WouldVote(4))
    assert (bench.replica.leadership.role, bench.replica.leadership.term) == ("follower", 3)


@pytest.mark.parametrize("asking", [PreVote(9, 9), RequestVote(9, 9), RequestVote(9, 9, bidden=True)])
def test_it_votes_for_nobody_says_so_to_nobody_and_adopts_no_term(bench: Bench, asking: Message) -> None:
    fill(bench)
    bench.wait(2.0)  # nothing to stick to any more
    bench.hear("node3", 9, asking)
    assert not said(bench)
    assert (bench.replica.leadership.term, bench.log.term) == (3, 3)


def test_no_later_term_is_adopted_from_any_answer(bench: Bench) -> None:
    fill(bench)
    for answer in (Alive(), Matched(2), Conflict(2), Vote(), WouldVote(10)):
        bench.hear("node3", 9, answer)
    assert bench.replica.leadership.term == 3


def test_it_is_no_heir_not_even_once_there_is_room(bench: Bench) -> None:
    fill(bench)
    bench.hear("node2", 3, TimeoutNow())
    empty(bench)
    bench.replica.tick()
    assert not said(bench)
    assert (bench.replica.leadership.role, bench.replica.leadership.term) == ("follower", 3)


def test_it_appends_nothing_and_heeds_who_leads(bench: Bench) -> None:
    fill(bench)
    last_index = bench.log.last_index
    bench.hear("node3", 5, Append(3, 2, 3, ((5, NO_OP),)))
    assert bench.log.last_index == last_index
    assert [(frame.term, frame.message) for frame in bench.links["node3"].sent(Full)] == [(3, Full())]
    assert bench.replica.leader == "node3"
    bench.hear("node2", 2, Append(3, 2, 3, ()))
    assert (bench.replica.leader, bench.links["node2"].sent(Full)) == ("node3", []), "an older leader is none"


def test_with_room_again_it_sticks_to_the_leader_that_it_heeded(bench: Bench) -> None:
    fill(bench)
    bench.wait(5.0)
    bench.hear("node2", 3, Append(2, 2, 3, ()))
    empty(bench)
    bench.hear("node3", 3, PreVote(9, 9))
    bench.hear("node3", 9, RequestVote(9, 9))
    assert not said(bench)
    assert bench.replica.leadership.term == 3
    bench.hear("node2", 3, Append(2, 2, 3, ()))
    assert bench.links["node2"].sent(Matched)


def test_with_room_again_it_first_reads_then_stands_as_others_do(bench: Bench) -> None:
    fill(bench)
    bench.wait(5.0)
    empty(bench)
    assert not said(bench)
    bench.wait(0.7)
    assert bench.links["node3"].sent(PreVote)
    bench.hear("node3", 3, WouldVote(4))
    assert bench.replica.leadership.role == "candidate"


def test_a_candidate_gives_up_and_no_vote_makes_it_leader(bench: Bench) -> None:
    bench.wait(1.3)
    bench.hear("node3", 3, WouldVote(4))
    assert bench.replica.leadership.role == "candidate"
    bench.free_bytes = 0
    bench.hear("node3", 4, Vote())
    assert bench.replica.leadership.role == "follower"


def test_a_leader_in_the_middle_of_a_handover_resigns_and_the_wish_does_not_outlive_it(bench: Bench) -> None:
    term = lead(bench)
    bench.replica.propose(b"work", lambda _: None)
    bench.replica.hand_over()
    fill(bench)
    bench.replica.hand_over()
    bench.wait(1.0)
    assert bench.replica.leadership.role == "follower"
    assert not [link for link in bench.links.values() if link.sent(TimeoutNow)]
    empty(bench)
    bench.wait(1.9)
    bench.hear("node3", term, WouldVote(term + 1))
    bench.hear("node3", term + 1, Vote())
    bench.replica.propose(b"later", lambda _: None)
    before = bench.log.last_index
    bench.replica.tick()
    assert bench.log.last_index == before + 1


# ---- who leads beside a full one


def test_a_full_peer_is_not_bidden_though_it_is_as_caught_up_and_first_by_name(bench: Bench) -> None:
    term = lead(bench)
    bench.hear("node2", 3, Full())
    bench.replica.hand_over()
    bench.replica.tick()
    assert not bench.links["node2"].sent(TimeoutNow)
    assert len(bench.links["node3"].sent(TimeoutNow)) == 1
    bench.hear("node2", term, Matched(bench.log.last_index))
    bench.wait(0.35)
    assert len(bench.links["node2"].sent(TimeoutNow)) == 1, "it has room again"


def test_with_all_peers_full_a_handover_is_hopeless(bench: Bench) -> None:
    lead(bench)
    for peer in ("node2", "node3"):
        bench.hear(peer, 3, Full())
    bench.replica.hand_over()
    bench.replica.tick()
    assert bench.replica.leadership.role == "follower"


def test_while_handing_over_the_cluster_version_is_not_raised_either(bench: Bench) -> None:
    bench.machine.version = 2
    term = lead(bench)
    bench.hear("node2", term, Standing(bench.log.last_index, 2))
    bench.hear("node3", term, Standing(bench.log.last_index, 1))
    bench.replica.hand_over()
    bench.replica.tick()
    last_index = bench.log.last_index
    bench.hear("node3", term, Standing(last_index, 2))
    bench.wait(1.5)
    assert bench.log.last_index == last_index


def test_a_command_that_comes_while_handing_over_is_refused_untried(bench: Bench) -> None:
    lead(bench)
    bench.replica.hand_over()
    heard: list[object] = []
    bench.replica.propose(b"poison", heard.append)
    bench.replica.tick()
    (outcome,) = heard
    assert isinstance(outcome, NotApplied)
    assert outcome.why is Why.NOT_LEADER

from dataclasses import replace

import pytest

from cluster.elections import RECANVASS_S, STAGGER_S, Elections, Turn, View
from cluster.frames import Alive, PreVote, RequestVote, TimeoutNow, Vote, WouldVote
from cluster.ports import Timing

FIVE = ("node1", "node2", "node3", "node4", "node5")
TIMEOUT_S = 0.4
LATE = View(role="follower", term=4, last_term=3, last_index=9, now_s=100.0, deadline_s=100.0)
NOW = float("-inf")


def elections(name: str = "node2", members: tuple[str, ...] = FIVE) -> Elections:
    return Elections(name, members, Timing(), lambda: TIMEOUT_S, LATE.now_s)


def at(seconds: float, view: View = LATE) -> View:
    return replace(view, now_s=100.0 + seconds)


# ---- standing only with leave


def test_a_voter_that_is_late_asks_before_it_stands_and_its_term_stays() -> None:
    mine = elections()
    assert mine.turn(replace(LATE, deadline_s=100.1), may_stand=True) == Turn(100.1)
    assert mine.turn(LATE, may_stand=True) == Turn(100.0 + TIMEOUT_S, PreVote(9, 3))
    waiting = replace(LATE, deadline_s=100.4)
    for backer in ("node1", "node1", "node1"):
        mine.hear(waiting, backer, 4, WouldVote(5))
    assert mine.turn(waiting, may_stand=True) == Turn(100.4), "one backer, however often, is no majority of five"
    mine.hear(waiting, "node5", 4, WouldVote(5))
    assert mine.turn(waiting, may_stand=True) == Turn(NOW)
    assert mine.turn(waiting, may_stand=True) == Turn(100.4), "leave is used up"


def test_leave_for_another_term_or_of_an_earlier_round_is_none() -> None:
    mine = elections()
    mine.hear(LATE, "node1", 4, WouldVote(5))
    mine.turn(LATE, may_stand=True)
    mine.hear(LATE, "node3", 4, WouldVote(4))
    mine.hear(LATE, "node4", 4, WouldVote(6))
    mine.hear(LATE, "node5", 4, WouldVote(5))
    assert mine.turn(replace(LATE, deadline_s=101.0), may_stand=True) == Turn(101.0)
    mine.turn(at(0.1), may_stand=True)  # asks anew
    mine.hear(at(0.1), "node4", 4, WouldVote(5))
    waiting = replace(at(0.1), deadline_s=101.0)
    assert mine.turn(waiting, may_stand=True) == Turn(101.0)
    later = replace(waiting, term=5)  # another candidate's term was adopted meanwhile
    mine.hear(waiting, "node5", 4, WouldVote(5))
    assert mine.turn(later, may_stand=True) == Turn(101.0)


def test_a_leader_that_speaks_ends_the_round() -> None:
    mine = elections()
    mine.turn(LATE, may_stand=True)
    mine.hear(LATE, "node1", 4, WouldVote(5))
    mine.hear(LATE, "node3", 4, WouldVote(5))
    mine.heard("node1", 100.0)
    assert mine.turn(replace(LATE, deadline_s=101.0), may_stand=True) == Turn(101.0)


def test_a_lone_voter_needs_nobody() -> None:
    assert elections("node1", ("node1",)).turn(LATE, may_stand=True).deadline_s == NOW


def test_who_may_not_stand_asks_nobody() -> None:
    assert elections().turn(LATE, may_stand=False) == Turn(100.0 + TIMEOUT_S)


def test_a_leader_never_stands() -> None:
    assert elections().turn(replace(LATE, role="leader"), may_stand=True) == Turn(100.0)


def test_a_stall_pushes_the_own_deadline_out() -> None:
    mine = elections()
    assert mine.turn(at(0.2), may_stand=True) == Turn(100.2 + TIMEOUT_S / 2)
    assert mine.turn(replace(at(0.3), deadline_s=100.25), may_stand=True).canvass is not None


# ---- whom it would let win


@pytest.mark.parametrize(
    ("asking", "term", "answer"),
    [
        (PreVote(9, 3), 4, (WouldVote(5),)),
        (PreVote(2, 4), 4, (WouldVote(5),)),
        (PreVote(8, 3), 4, ()),
        (PreVote(99, 2), 4, ()),
        (PreVote(9, 3), 9, (WouldVote(10),)),
        (PreVote(9, 3), 3, (Alive(),)),
    ],
)
def test_the_answer_to_a_pre_vote_is_what_the_vote_would_be(
    asking: PreVote, term: int, answer: tuple[object, ...]
) -> None:
    assert elections().hear(LATE, "node1", term, asking) == answer


def test_a_voter_sticks_to_the_leader_that_it_hears() -> None:
    mine = elections()
    mine.heard("node1", 100.0)
    for request in (RequestVote(99, 4), RequestVote(99, 4, bidden=False)):
        assert mine.judge(at(0.29), "node3", 5, request, None) is None
    assert mine.hear(at(0.29), "node3", 4, PreVote(99, 4)) == ()
    assert mine.judge(at(0.29), "node3", 5, RequestVote(99, 4, bidden=True), None) == Vote()
    assert mine.judge(at(0.31), "node3", 5, RequestVote(99, 4), None) == Vote()
    assert mine.hear(at(0.31), "node3", 4, PreVote(99, 4)) == (WouldVote(5),)


def test_a_leader_sticks_to_itself_while_a_majority_answers() -> None:
    fresh, stale = 100.0, 99.0
    leading = replace(LATE, role="leader")
    assert elections().sticks(replace(leading, answered_s=(fresh, fresh, stale, stale)))
    assert not elections().sticks(replace(leading, answered_s=(fresh, stale, stale, stale)))


@pytest.mark.parametrize(
    ("term", "voted_for", "asking", "verdict"),
    [
        (4, None, RequestVote(9, 3), Vote()),
        (4, "node3", RequestVote(9, 3), Vote()),
        (4, "node1", RequestVote(9, 3), Alive()),
        (5, "node1", RequestVote(9, 3), Vote()),
        (5, None, RequestVote(8, 3), Alive()),
        (3, None, RequestVote(9, 3), Alive()),
        (3, None, RequestVote(9, 3, bidden=True), Alive()),
    ],
)
def test_one_vote_a_term_for_a_log_that_lacks_nothing(
    term: int, voted_for: str | None, asking: RequestVote, verdict: Vote | Alive
) -> None:
    assert elections().judge(LATE, "node3", term, asking, voted_for) == verdict


# ---- a leader that is gone


def test_stickiness_lapses_on_own_evidence_about_the_own_leader_only() -> None:
    mine = elections()
    mine.heard("node1", 100.0)
    assert mine.gone("node3", at(0.1)) is None
    assert mine.sticks(at(0.1))
    assert mine.gone("node1", at(0.1)) == 100.0, "a deadline that has passed is not put off"
    assert not mine.sticks(at(0.1))
    mine.heard("node1", 100.1)
    assert mine.sticks(at(0.1)), "it speaks: it is not gone"


def test_those_that_see_the_same_leader_gone_stand_one_after_the_other() -> None:
    waiting = replace(LATE, deadline_s=101.0)
    starts = []
    for name in FIVE[1:]:
        mine = elections(name)
        mine.heard("node1", 100.0)
        starts.append(mine.gone("node1", waiting))
    assert starts == [100.0 + rank * STAGGER_S for rank in range(4)]
    first = elections("node1")
    first.heard("node3", 100.0)
    assert first.gone("node3", waiting) == 100.0


def test_a_leader_does_not_stand_because_the_one_it_followed_before_is_gone() -> None:
    mine = elections()
    mine.heard("node1", 100.0)
    assert mine.gone("node1", replace(LATE, role="leader")) is None


def test_who_knows_the_leader_gone_asks_again_soon_but_not_for_ever() -> None:
    mine = elections("node1")
    mine.heard("node3", 100.0)
    mine.gone("node3", LATE)
    assert mine.turn(LATE, may_stand=True).deadline_s == 100.0 + RECANVASS_S
    mine.turn(at(0.1, replace(LATE, deadline_s=200.0)), may_stand=True)
    mine.turn(at(0.2, replace(LATE, deadline_s=200.0)), may_stand=True)
    for step in range(3, 7):
        again = mine.turn(at(step / 10), may_stand=True)
    assert again.deadline_s == pytest.approx(100.6 + TIMEOUT_S)


# ---- bidden by the leader


def test_a_bidden_voter_stands_at_once_and_says_so_once() -> None:
    mine, waiting = elections(), replace(LATE, deadline_s=101.0)
    mine.heard("node1", 100.0)
    mine.hear(waiting, "node1", 4, TimeoutNow())
    mine.heard("node1", 100.0)  # a heartbeat that was on its way
    assert mine.turn(waiting, may_stand=True) == Turn(NOW, bidden=True)
    assert mine.turn(waiting, may_stand=True) == Turn(101.0)


def test_a_bid_is_void_once_another_term_has_begun() -> None:
    mine = elections()
    mine.heard("node1", 100.0)
    mine.hear(LATE, "node1", 4, TimeoutNow())
    mine.heard("node3", 100.0)
    next_term = replace(LATE, term=5, deadline_s=101.0)
    assert mine.turn(next_term, may_stand=True) == Turn(101.0)


@pytest.mark.parametrize(
    ("peer", "term", "role"), [("node3", 4, "follower"), ("node1", 3, "follower"), ("node1", 4, "candidate")]
)
def test_only_the_leader_of_this_term_bids(peer: str, term: int, role: str) -> None:
    mine, waiting = elections(), replace(LATE, deadline_s=101.0, role=role)
    mine.heard("node1", 100.0)
    mine.hear(waiting, peer, term, TimeoutNow())
    assert mine.turn(waiting, may_stand=True) == Turn(101.0)


def test_votes_of_another_term_are_not_counted_together() -> None:
    mine = elections()
    assert not mine.voted("node1", 5)
    assert not mine.voted("node3", 6)
    assert mine.voted("node1", 6)


# ---- without a say


MUTE = replace(LATE, entitled=False)


@pytest.mark.parametrize(("term", "bidden"), [(4, False), (5, False), (5, True)])
def test_who_has_no_say_votes_for_nobody_but_adopts_the_term(term: int, *, bidden: bool) -> None:
    request = RequestVote(99, 4, bidden)
    assert elections().judge(LATE, "node3", term, request, None) == Vote()
    assert elections().judge(MUTE, "node3", term, request, None) == Alive()


def test_who_has_no_say_still_sticks_to_its_leader() -> None:
    mine = elections()
    mine.heard("node1", 100.0)
    assert mine.judge(at(0.1, MUTE), "node3", 5, RequestVote(99, 4), None) is None


def test_who_has_no_say_does_not_say_that_it_would_vote_but_tells_its_term() -> None:
    assert elections().hear(MUTE, "node1", 4, PreVote(99, 4)) == ()
    assert elections().hear(MUTE, "node1", 3, PreVote(99, 4)) == (Alive(),)


def test_who_has_no_say_stands_neither_late_nor_with_leave_nor_when_its_leader_is_gone() -> None:
    mine = elections("node1")
    mine.heard("node3", 100.0)
    mine.gone("node3", MUTE)
    assert mine.turn(MUTE, may_stand=True) == Turn(100.0 + TIMEOUT_S)
    asked = elections()
    asked.turn(LATE, may_stand=True)
    asked.hear(LATE, "node1", 4, WouldVote(5))
    asked.hear(LATE, "node3", 4, WouldVote(5))
    assert asked.turn(MUTE, may_stand=True) == Turn(100.0 + TIMEOUT_S)
    assert asked.turn(replace(LATE, deadline_s=101.0), may_stand=True) == Turn(101.0), "leave does not wait for a say"


def test_a_bid_to_who_has_no_say_is_void_also_once_it_has_one() -> None:
    mine, waiting = elections(), replace(LATE, deadline_s=101.0)
    mine.heard("node1", 100.0)
    mine.hear(replace(waiting, entitled=False), "node1", 4, TimeoutNow())
    assert mine.turn(waiting, may_stand=True) == Turn(101.0)


def test_a_bid_is_void_if_the_say_is_lost_before_it_is_heeded() -> None:
    mine, waiting = elections(), replace(LATE, deadline_s=101.0)
    mine.heard("node1", 100.0)
    mine.hear(waiting, "node1", 4, TimeoutNow())
    assert mine.turn(replace(waiting, entitled=False), may_stand=True) == Turn(100.0 + TIMEOUT_S)
    assert mine.turn(waiting, may_stand=True) == Turn(101.0)

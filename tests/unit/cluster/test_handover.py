from dataclasses import replace

from cluster.elections import View
from cluster.handover import NOBODY, Handover
from cluster.ports import Timing

LEADER = View(role="leader", term=4, last_term=4, last_index=9, now_s=100.0, deadline_s=0.0)
ALL = {"node2": 9, "node3": 9}


def begun(voters: int = 3) -> Handover:
    handover = Handover(voters, Timing())
    handover.begin()
    return handover


def test_nobody_is_bidden_unless_it_is_wished() -> None:
    assert Handover(3, Timing()).heir(LEADER, ALL, applied_index=9) is None


def test_the_most_caught_up_peer_is_bidden_the_first_by_name_among_equals() -> None:
    assert begun().heir(LEADER, {"node3": 9, "node2": 9}, applied_index=9) == "node2"
    assert begun().heir(LEADER, {"node3": 9, "node2": 8}, applied_index=9) == "node3"


def test_nobody_is_bidden_before_what_is_pending_is_done() -> None:
    handover = begun()
    assert handover.heir(LEADER, ALL, applied_index=8) is None
    assert handover.heir(LEADER, {"node2": 8, "node3": 7}, applied_index=9) is None
    assert handover.heir(LEADER, ALL, applied_index=9) == "node2"


def test_an_heir_has_the_shortest_timeout_before_somebody_is_bidden_again() -> None:
    handover = begun()
    assert handover.heir(LEADER, ALL, applied_index=9) == "node2"
    assert handover.heir(replace(LEADER, now_s=100.29), ALL, applied_index=9) is None
    assert handover.heir(replace(LEADER, now_s=100.31), {"node3": 9}, applied_index=9) == "node3"


def test_it_is_hopeless_without_a_majority_to_elect_anybody() -> None:
    assert begun().heir(LEADER, {}, applied_index=9) is NOBODY
    assert begun(1).heir(LEADER, {}, applied_index=9) is NOBODY
    assert begun(5).heir(LEADER, {"node2": 9}, applied_index=9) is NOBODY
    assert begun(5).heir(LEADER, ALL, applied_index=9) == "node2"


def test_the_wish_ends_with_leadership() -> None:
    handover = begun()
    assert handover.heir(replace(LEADER, role="follower"), ALL, applied_index=9) is None
    assert not handover.holds
    assert handover.heir(LEADER, ALL, applied_index=9) is None

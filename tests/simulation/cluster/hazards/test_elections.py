"""Hazards 19 and 22: who wins an election, who is deposed for nothing, and who goes on believing that it leads."""

from collections.abc import Callable

import pytest

from tests.simulation.cluster.hazards.library import LibraryRig
from tests.simulation.cluster.hazards.ours import OurRig
from tests.simulation.cluster.hazards.rig import TWO_LEADERS, Rig

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the library's

NewLibrary, NewOurs = Callable[..., LibraryRig], Callable[..., OurRig]
ONE, TWO, THREE = "node1", "node2", "node3"


# ---- 19, C: the same vote counts twice


def test_hazard_19_c_the_library_counts_a_vote_as_often_as_it_hears_it(library: NewLibrary) -> None:
    rig = library(voters=5)
    one, two, three, four, five = rig.names
    rig.start_all()
    rig.stand(one)
    rig.stand(two)
    rig.deliver(one, three)
    rig.deliver(two, four)
    rig.deliver(two, five)
    rig.ways[three, one].append(rig.ways[three, one][0])
    rig.deliver(three, one)
    for voter in (four, five):
        rig.deliver(voter, two)
    assert rig.leads(one)
    assert rig.leads(two)
    assert TWO_LEADERS in rig.found


def test_hazard_19_c_ours_counts_voters(ours: NewOurs) -> None:
    rig = ours(voters=5)
    one, two, three, four, five = rig.names
    rig.start_all()
    for candidate in (one, two):
        rig.stand(candidate)
        for voter in (three, four, five):  # each asks beforehand, and is told that it would win
            rig.deliver(candidate, voter, 1)
            rig.deliver(voter, candidate, 1)
    assert rig.term(one) == rig.term(two) == 1
    rig.deliver(one, three)
    end = rig.network.end(three, one)
    assert end is not None
    end.on_way.extend(end.on_way)
    rig.deliver(three, one)
    for voter in (four, five):
        rig.deliver(two, voter)
        rig.deliver(voter, two)
    assert not rig.leads(one)
    assert rig.leads(two)
    rig.heal()
    assert rig.found == set()


# ---- 22, G: elections for nothing, and leaders that stay too long


def comes_back_after_a_long_time(rig: Rig) -> int:
    """A follower hears nobody for a while, is heard by nobody, and comes back; return the term it finds."""
    rig.begin()
    term = rig.term(ONE)
    for other in (ONE, TWO):
        rig.silence(THREE, other)
        rig.silence(other, THREE)
    rig.postpone(THREE, 0.5)
    for name in (ONE, TWO):
        rig.postpone(name, 0.5)
    rig.flow(5.0)
    assert rig.leads(ONE)
    assert rig.term(ONE) == term
    for other in (ONE, TWO):
        rig.cut(THREE, other)
        rig.join(THREE, other)
    rig.flow(3.0)
    return term


def test_hazard_22_g_the_library_is_deposed_by_whoever_comes_back(library: NewLibrary) -> None:
    rig = library()
    term = comes_back_after_a_long_time(rig)
    assert rig.term(ONE) > term + 1


def test_hazard_22_g_ours_goes_on_when_somebody_comes_back(ours: NewOurs) -> None:
    rig = ours()
    term = comes_back_after_a_long_time(rig)
    assert rig.leads(ONE)
    assert {rig.term(name) for name in rig.names} == {term}


def believes_for(rig: Rig) -> float:
    """Return for how long a leader that hears nobody believes that it leads, while another one does."""
    rig.begin()
    for other in (TWO, THREE):
        rig.silence(ONE, other)
        rig.silence(other, ONE)
    for name in (TWO, THREE):
        rig.postpone(name, 0.5)
    began_s = rig.now_s
    while rig.leads(ONE) and rig.now_s < began_s + 60.0:
        rig.flow(0.1)
    assert rig.leads(TWO) or rig.leads(THREE) or isinstance(rig, OurRig)
    return rig.now_s - began_s


def test_hazard_22_g_the_library_believes_for_half_a_minute_that_it_leads(library: NewLibrary) -> None:
    assert believes_for(library()) > 25.0


def test_hazard_22_g_ours_steps_down_within_twice_the_longest_timeout(ours: NewOurs) -> None:
    rig = ours()
    assert believes_for(rig) <= 2 * rig.world.timing.raft_max_s + 0.2

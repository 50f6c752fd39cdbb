from cluster.frames import Alive, Conflict, Frame, Full, Matched, Message
from cluster.roster import Roster
from tests.unit.cluster.fakes import FakeLink


def linked() -> Roster:
    roster = Roster(["node3", "node2", "node4"])
    for peer in ("node2", "node3"):
        roster.link_up(FakeLink(peer))
    return roster


def say(roster: Roster, peer: str, message: Message) -> None:
    roster.heard(peer, Frame("s1", 4, 5, 1, message), 100.0)


def test_able_are_the_linked_peers_whose_last_answer_was_not_for_want_of_space() -> None:
    roster = linked()
    assert roster.able() == ("node2", "node3")
    say(roster, "node2", Full())
    say(roster, "node2", Alive())
    assert roster.able() == ("node3",), "no claim is no news"
    say(roster, "node2", Matched(3))
    assert roster.able() == ("node2", "node3")
    say(roster, "node3", Full())
    say(roster, "node3", Conflict(3))
    assert roster.able() == ("node2", "node3"), "it answers batches again"


def test_what_a_peer_said_over_an_ended_link_does_not_make_it_full_for_ever() -> None:
    roster = linked()
    say(roster, "node2", Full())
    roster.link_down(roster.links["node2"])
    assert roster.able() == ("node3",)
    roster.link_up(FakeLink("node2", "s2"))
    assert roster.able() == ("node2", "node3")

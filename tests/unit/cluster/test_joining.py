"""A replica whose peers speak from disks that nobody has accepted: heard, sent everything, and counted for nothing."""

from pathlib import Path

import pytest

from cluster.configuration import Change, encode_change
from cluster.frames import (
    CONFIGURE,
    NO_OP,
    PROTOCOL_VERSION,
    Append,
    Digests,
    Hello,
    Matched,
    PreVote,
    RequestVote,
    Standing,
    TimeoutNow,
    Vote,
    WouldVote,
)
from cluster.outcome import NotApplied, Why
from cluster.proposals import Outcome
from tests.unit.cluster.fakes import CLUSTER, Bench, FakeLink, identity

MEMBERS = dict(identity().members)
NEW, NEWER = "e" * 32, "f" * 32


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A voter with history: node3 led term 1, and its link has ended."""
    bench = Bench(tmp_path)
    bench.link("node3")
    bench.hear("node3", 1, Append(2, 1, 0, ((1, NO_OP),)))
    bench.replica.disconnected(bench.links.pop("node3"))
    bench.replica.tick()
    return bench


def named(name: str, disk_id: str) -> bytes:
    return CONFIGURE + encode_change(Change(name, disk_id, MEMBERS))


def canvass(bench: Bench) -> int:
    """Wait until the voter asks whether it might stand; return in which term."""
    bench.wait(0.7)
    asked = bench.links["node2"].sent(PreVote)
    assert asked
    return asked[-1].term + 1


@pytest.mark.parametrize(("disk_id", "role"), [(MEMBERS["node2"], "candidate"), (NEW, "follower")])
def test_leave_to_stand_counts_from_the_disk_in_force_only(bench: Bench, disk_id: str, role: str) -> None:
    bench.link("node2", disk_id=disk_id)
    term = canvass(bench)
    bench.hear("node2", 1, WouldVote(term))
    assert bench.replica.leadership.role == role


@pytest.mark.parametrize(("disk_id", "role"), [(MEMBERS["node2"], "leader"), (NEW, "candidate")])
def test_a_vote_counts_from_the_disk_in_force_only(bench: Bench, disk_id: str, role: str) -> None:
    bench.link("node2")
    term = canvass(bench)
    bench.hear("node2", 1, WouldVote(term))
    bench.link("node2", "s2", disk_id)
    bench.hear("node2", term, Vote())
    assert bench.replica.leadership.role == role


def lead(bench: Bench) -> int:
    bench.link("node2")
    term = canvass(bench)
    bench.hear("node2", 1, WouldVote(term))
    bench.hear("node2", term, Vote())
    assert bench.replica.leadership.role == "leader"
    return term


def test_an_acknowledgement_of_another_disk_moves_what_is_sent_next_and_commits_nothing(bench: Bench) -> None:
    term = lead(bench)
    link = bench.link("node3", "s3", NEW)
    bench.hear("node3", term, Matched(bench.log.last_index))
    bench.replica.tick()
    assert bench.log.commit_index < bench.log.last_index
    assert bench.replica._voter.progress()["node3"] == (bench.log.last_index, bench.log.last_index + 1)
    assert link.sent(Append)
    bench.hear("node2", term, Matched(bench.log.last_index))
    bench.replica.tick()
    assert bench.log.commit_index == bench.log.last_index


def test_what_the_lost_disk_had_acknowledged_says_nothing_of_the_new_one(bench: Bench) -> None:
    term = lead(bench)
    bench.link("node3")
    bench.hear("node3", term, Matched(bench.log.last_index))
    bench.link("node3", "s3", NEW)
    bench.replica.tick()
    assert bench.replica._voter.progress()["node3"][0] == 0
    bench.link("node3", "s4", NEW)
    bench.hear("node3", term, Matched(bench.log.last_index))
    bench.link("node3", "s5", NEW)
    bench.replica.tick()
    assert bench.replica._voter.progress()["node3"][0] == bench.log.last_index, "the same disk has forgotten nothing"


@pytest.mark.parametrize(("disk_id", "heir"), [(MEMBERS["node2"], "node2"), (NEW, "node3")])
def test_leadership_is_handed_to_a_disk_that_counts(bench: Bench, disk_id: str, heir: str) -> None:
    term = lead(bench)
    bench.link("node2", "s2", disk_id)
    bench.link("node3")
    for _ in range(3):
        for peer in ("node2", "node3"):
            bench.hear(peer, term, Matched(bench.log.last_index))
    bench.replica.hand_over()
    bench.replica.tick()
    assert [name for name, link in bench.links.items() if link.sent(TimeoutNow)] == [heir]


def test_the_state_of_a_disk_that_is_not_in_force_is_no_one_to_differ_from(bench: Bench) -> None:
    other = Digests(((bench.checkpoint.applied_index, b"x" * 32),))
    bench.link("node2", disk_id=NEW)
    bench.wait(1.1)
    bench.hear("node2", 1, other)
    assert bench.replica.trouble is None
    bench.link("node2", "s2")
    bench.hear("node2", 1, other)
    assert "differs" in str(bench.replica.trouble)


# ---- being asked to have a disk accepted


def test_the_entry_commits_by_the_others_alone_and_then_the_new_disk_counts(bench: Bench) -> None:
    term = lead(bench)
    bench.hear("node2", term, Matched(bench.log.last_index))
    bench.link("node3", "s3", NEW)
    bench.hear("node3", term, Matched(bench.log.last_index))
    answers: list[Outcome] = []
    bench.replica.replace("node3", NEW, answers.append)
    bench.replica.tick()
    entry = bench.log.last_index
    assert bench.log.entry(entry).command == named("node3", NEW)
    bench.hear("node3", term, Matched(entry))
    bench.replica.tick()
    assert bench.log.commit_index < entry
    with pytest.raises(NotApplied, match="under way"):
        bench.replica.replace("node3", NEWER, answers.append)
    bench.hear("node2", term, Matched(entry))
    bench.replica.tick()
    assert [getattr(outcome, "index", None) for outcome in answers] == [entry]
    answers.clear()
    bench.replica.barrier(answers.append)
    bench.replica.tick()
    bench.hear("node3", term, Matched(bench.log.last_index))
    bench.replica.tick()
    assert answers, "the new disk holds its entry, and does not count"


def test_who_does_not_lead_refuses(bench: Bench) -> None:
    with pytest.raises(NotApplied) as caught:
        bench.replica.replace("node3", NEW, lambda _: None)
    assert caught.value.why is Why.NOT_LEADER


def test_two_wishes_between_two_ticks_are_one_too_many(bench: Bench) -> None:
    term = lead(bench)
    bench.hear("node2", term, Matched(bench.log.last_index))
    bench.link("node3", "s3", NEW)
    bench.replica.tick()
    bench.replica.replace("node3", NEW, lambda _: None)
    with pytest.raises(NotApplied, match="just asked for"):
        bench.replica.replace("node3", NEW, lambda _: None)


# ---- disks that were replaced


def replaced(bench: Bench, name: str) -> None:
    """Hear of a replacement as a follower of node3, in term 2."""
    bench.link("node3")
    last = bench.log.last_index
    bench.hear("node3", 2, Append(last + 1, last, 1, ((2, named(name, NEW)),)))
    bench.replica.tick()
    assert bench.checkpoint.applied_index == last + 1


def test_a_link_ends_with_words_soon_after_its_disk_was_replaced(bench: Bench) -> None:
    link = bench.link("node2")
    replaced(bench, "node2")
    bench.wait(1.1)
    assert "was replaced by disk" in link.closed[0]
    assert "node2" not in bench.replica._roster.links


def test_a_new_link_of_a_replaced_disk_is_refused_and_one_of_the_new_disk_is_not(bench: Bench) -> None:
    replaced(bench, "node2")
    for disk_id, refused in ((MEMBERS["node2"], True), (NEW, False), (NEWER, False)):
        link = FakeLink("node2", disk_id, disk_id)
        bench.replica.connected(link)
        bench.replica.tick()
        assert bool(link.closed) is refused
        bench.replica.disconnected(link)
        bench.replica.tick()
        assert (bench.replica.objection(hello("node2", disk_id)) is not None) is refused


def hello(name: str, disk_id: str) -> Hello:
    return Hello(PROTOCOL_VERSION, CLUSTER, 1, name, disk_id, 0, 1, bytes(16))


def test_a_disk_that_is_not_accepted_never_takes_the_link_of_the_one_that_is(bench: Bench) -> None:
    assert bench.replica.objection(hello("node2", NEW)) is None, "it may follow"
    bench.link("node2")
    bench.replica.tick()
    assert "which speaks for it" in str(bench.replica.objection(hello("node2", NEW)))
    assert bench.replica.objection(hello("node2", MEMBERS["node2"])) is None
    bench.link("node2", "s2", NEW)
    bench.replica.tick()
    assert bench.replica.objection(hello("node2", MEMBERS["node2"])) is None, "the other way round it does"


def test_a_voter_that_learns_that_its_own_disk_was_replaced_votes_no_more(bench: Bench) -> None:
    replaced(bench, "node1")
    bench.wait(1.0)
    link = bench.link("node2")
    bench.hear("node2", 9, RequestVote(99, 8))
    assert link.sent(Vote) == []
    assert "was replaced" in str(bench.replica.trouble)
    bench.hear("node2", 9, Standing(1))
    bench.wait(2.0)
    assert bench.links["node2"].sent(PreVote) == []

from cluster.frames import Append, Matched, Standing, Vote
from cluster.outbox import Outbox
from cluster.ports import Link
from tests.unit.cluster.fakes import FakeLink, ManualClock

BATCH = Append(1, 1, 0, ())


def kinds(link: FakeLink) -> list[str]:
    return [type(frame.message).__name__ for frame in link.frames]


def test_batches_leave_early_unless_something_older_waits_for_the_same_peer() -> None:
    two, three = FakeLink("node2"), FakeLink("node3", "s2")
    outbox = Outbox({"node2": two, "node3": three}, ManualClock())
    outbox.post("node2", 4, Vote())
    for peer in ("node2", "node3"):
        outbox.post(peer, 4, BATCH)
    outbox.post("node3", 4, Matched(3))
    outbox.release_early(7)
    assert (kinds(two), kinds(three)) == ([], ["Append"])
    outbox.release(9)
    assert (kinds(two), kinds(three)) == (["Vote", "Append"], ["Append", "Matched"])
    assert [frame.applied_index for frame in three.frames] == [7, 9]


def test_a_frame_carries_the_term_in_which_its_message_was_written() -> None:
    two = FakeLink("node2")
    outbox = Outbox({"node2": two}, ManualClock())
    outbox.post("node2", 4, Matched(3))
    outbox.post("node2", 5, Vote())
    outbox.release(1)
    assert [(frame.term, frame.session, frame.wall_ms) for frame in two.frames] == [
        (4, "s1", 1_700_000_000_000),
        (5, "s1", 1_700_000_000_000),
    ]


def test_a_message_never_moves_to_another_connection() -> None:
    older, newer = FakeLink("node2"), FakeLink("node2", "s2")
    links: dict[str, Link] = {"node2": older}
    outbox = Outbox(links, ManualClock())
    outbox.post("node2", 4, Standing(1))
    outbox.post("node3", 4, Standing(1))
    links["node2"] = newer
    outbox.release(1)
    assert kinds(older) == kinds(newer) == []

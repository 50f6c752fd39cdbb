"""A peer whose store went back without a word of it: the leader remembers what that peer had acknowledged."""

from pathlib import Path

from cluster.frames import Append, Conflict, Matched, Vote
from tests.unit.cluster.fakes import Bench
from tests.unit.cluster.test_replica import stand


def leading(home: Path) -> tuple[Bench, int, int]:
    """Make node1 of five the leader; of entry 6, its last, node2 alone has told that it holds it."""
    bench = Bench(home, voters=5)
    for peer in ("node2", "node3", "node4", "node5"):
        bench.link(peer, f"s-{peer}")
    bench.replica.tick()
    term = stand(bench)
    for peer in ("node2", "node3"):
        bench.hear(peer, term, Vote())
    for each in (b"a", b"b", b"c", b"d"):
        bench.replica.propose(each, lambda _: None)
    bench.replica.tick()
    assert bench.log.last_index == 6
    bench.hear("node2", term, Matched(6))
    bench.hear("node3", term, Matched(3))
    assert bench.log.commit_index == 3
    return bench, term, 6


def test_what_a_peer_acknowledged_over_an_earlier_link_commits_nothing_over_the_next(tmp_path: Path) -> None:
    bench, term, last = leading(tmp_path)
    bench.link("node2", "s-again")
    bench.hear("node3", term, Matched(last))
    assert bench.log.commit_index == 3, "two of five hold it for certain"
    bench.hear("node2", term, Matched(last))
    assert bench.log.commit_index == last


def test_a_peer_that_went_back_is_sent_all_again_and_counts_once_it_has_what_it_had(tmp_path: Path) -> None:
    bench, term, last = leading(tmp_path)
    bench.link("node2", "s-again")
    bench.replica.tick()
    assert bench.links["node2"].sent(Append)[-1].message == Append(3, last, term, ()), "where it was, first"
    bench.hear("node2", term, Conflict(3))
    (batch,) = [frame.message for frame in bench.links["node2"].sent(Append) if frame.message.entries]
    assert isinstance(batch, Append)
    assert (batch.prev_index, len(batch.entries)) == (2, 4)
    bench.hear("node3", term, Matched(last))
    bench.hear("node2", term, Matched(5))
    assert bench.log.commit_index == 3, "not even what it matches again: it may not know how much it lost"
    bench.hear("node2", term, Matched(last))
    assert bench.log.commit_index == last


def test_such_a_peer_is_heard_so_that_who_holds_what_it_lost_stays_leader(tmp_path: Path) -> None:
    bench, term, last = leading(tmp_path)
    bench.link("node2", "s-again")
    for _ in range(40):
        bench.wait(0.1)
        bench.hear("node2", term, Matched(2))
        bench.hear("node3", term, Matched(3))
    assert bench.replica.leadership.role == "leader"
    assert (bench.log.last_index, bench.log.commit_index) == (last, 3)


def test_a_new_leadership_remembers_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    bench, _, last = leading(tmp_path)
    bench.replica.resign()
    bench.replica.tick()
    bench.link("node2", "s-again")
    bench.wait(0.6)  # who resigned lets the others go first
    term = stand(bench)
    for peer in ("node2", "node3"):
        bench.hear(peer, term, Vote())
    assert bench.replica.leadership.role == "leader"
    bench.hear("node2", term, Matched(last + 1))
    bench.hear("node3", term, Matched(last + 1))
    assert bench.log.commit_index == last + 1

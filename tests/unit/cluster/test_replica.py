import sqlite3
from pathlib import Path

import pytest

from cluster.checkpoint_store import CheckpointStore
from cluster.frames import (
    NO_OP,
    Alive,
    Append,
    Conflict,
    Goodbye,
    Matched,
    PreVote,
    RequestVote,
    Standing,
    Vote,
    WouldVote,
    decode_hello,
)
from cluster.log_store import LogStore
from cluster.outcome import Applied, FailStop, NotApplied, OutcomeUnknown, Unfit, Why
from cluster.proposals import Outcome
from tests.simulation.cluster.machine import Appends, appended
from tests.unit.cluster.fakes import Bench, FakeLink


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    for peer in ("node2", "node3"):
        bench.link(peer, f"s-{peer}")
    bench.replica.tick()
    return bench


def gather(bench: Bench) -> None:
    for peer in bench.links:
        bench.hear(peer, 0, Standing(1))


def stand(bench: Bench) -> int:
    """Make the bench's voter a candidate, as a majority would vote for it; return its term."""
    gather(bench)
    bench.wait(0.7)
    asked_term = bench.replica.leadership.term + 1
    for peer in sorted(bench.links)[: len(bench.links) // 2]:
        bench.hear(peer, 0, WouldVote(asked_term))
    assert (bench.replica.leadership.term, bench.replica.leadership.role) == (asked_term, "candidate")
    return asked_term


def elect(bench: Bench) -> int:
    """Make the bench's voter leader; return its term."""
    term = stand(bench)
    bench.hear("node2", term, Vote())
    assert bench.replica.leadership.role == "leader"
    return term


def settle(bench: Bench, term: int) -> None:
    """Let node2 acknowledge everything."""
    bench.hear("node2", term, Matched(bench.log.last_index))


def follow(bench: Bench, term: int = 1) -> None:
    """Make node2 the leader of a term, with its no-op."""
    bench.hear("node2", term, Append(1, bench.log.last_index, bench.log.last_term, ((term, NO_OP),)))


# ---- genesis


def test_the_first_election_needs_all_voters_present_and_empty(bench: Bench) -> None:
    bench.wait(3.0)
    bench.hear("node2", 0, Standing(1))
    bench.wait(3.0)
    assert not any(link.sent(PreVote) for link in bench.links.values())
    bench.hear("node3", 0, Standing(1))
    bench.wait(0.7)
    assert bench.links["node3"].sent(PreVote)
    bench.hear("node3", 0, WouldVote(1))
    assert (bench.replica.leadership.term, bench.replica.leadership.role) == (1, "candidate")


@pytest.mark.parametrize(("term", "last_index"), [(3, 9), (3, 1), (0, 2)])
def test_a_disk_without_history_never_stands_beside_one_that_has_some(bench: Bench, term: int, last_index: int) -> None:
    bench.hear("node2", 0, Standing(1))
    bench.hear("node3", term, Standing(last_index))
    bench.wait(3.0)
    assert not bench.links["node2"].sent(PreVote)
    bench.hear("node2", 0, WouldVote(1))
    assert bench.replica.leadership.term == 0


def test_what_a_peer_said_over_an_ended_link_does_not_count_for_genesis(bench: Bench) -> None:
    gather(bench)
    bench.replica.disconnected(bench.links["node3"])
    bench.wait(3.0)
    assert not bench.links["node2"].sent(PreVote)
    assert bench.replica.leadership.term == 0


def test_a_disk_without_history_votes_and_follows(bench: Bench) -> None:
    bench.hear("node2", 1, RequestVote(1, 0))
    assert [frame.term for frame in bench.links["node2"].sent(Vote)] == [1]
    follow(bench)
    assert bench.links["node2"].sent(Matched)[-1].message == Matched(2)


def test_a_lone_voter_elects_itself_and_commits(tmp_path: Path) -> None:
    bench = Bench(tmp_path, voters=1)
    heard: list[Outcome] = []
    bench.wait(0.7)
    bench.replica.propose(b"work", heard.append)
    assert bench.replica.tick(), "nobody's acknowledgement will wake it to count itself"
    assert not heard, "counted before it was on disk"
    bench.replica.tick()
    assert heard == [Applied(3, 1, [1, "work"])]
    assert bench.replica.read(appended) == ["work"]


# ---- links and frames


def test_noise_other_sessions_and_old_links_change_nothing(bench: Bench) -> None:
    follow(bench)
    link, before = bench.links["node2"], bench.replica.status()
    old = FakeLink("node2", "older")
    for from_link, raw in (
        (link, b"noise"),
        (link, link.say(9, RequestVote(50, 9), session="older")),
        (link, link.say(9, RequestVote(50, 9), session="none")),
        (old, old.say(9, RequestVote(50, 9))),
        (link, link.say(9, Goodbye("so long"))),
    ):
        bench.replica.received(from_link, raw)
        bench.replica.tick()
    assert bench.replica.status() == before
    assert bench.replica.refused_frames == 3


def test_a_stranger_is_turned_away(bench: Bench) -> None:
    stranger = FakeLink("node9", "s9")
    bench.replica.connected(stranger)
    bench.replica.received(stranger, stranger.say(9, RequestVote(50, 9)))
    bench.replica.disconnected(stranger)
    bench.replica.tick()
    assert stranger.closed
    assert bench.replica.leadership.term == 0


def test_a_new_link_replaces_the_old_one_whose_end_is_then_no_news(bench: Bench) -> None:
    old, new = bench.links["node2"], bench.link("node2", "newer")
    bench.replica.disconnected(old)
    bench.replica.tick()
    assert next(voter for voter in bench.replica.status().voters if voter.name == "node2").connected
    assert [frame.session for frame in new.sent(Standing)] == ["newer"]
    bench.replica.received(old, old.say(9, RequestVote(50, 9)))
    bench.replica.tick()
    assert bench.replica.leadership.term == 0


def test_clocks_of_peers_are_known_from_their_newest_frames(bench: Bench) -> None:
    assert bench.replica.clocks() == ()
    bench.hear("node3", 0, Standing(1))
    (clock,) = bench.replica.clocks()
    assert (clock.name, clock.wall_ms, clock.seen_mono_s) == ("node3", 5, bench.clock.mono)


def test_a_hello_says_what_is_on_disk(bench: Bench) -> None:
    follow(bench, term=4)
    hello = decode_hello(bench.replica.hello(bytes(16)))
    assert (hello.name, hello.term, hello.last_index) == ("node1", 4, 2)


# ---- nothing leaves before it is true


class Watched(FakeLink):
    """Notes, for each frame, whether the log was synced when it left."""

    def __init__(self, peer: str, session: str, bench: Bench) -> None:
        super().__init__(peer, session)
        self.bench = bench
        self.claims: list[tuple[type, bool, bool]] = []

    def send(self, frame: bytes) -> None:
        super().send(frame)
        log = self.bench.log
        self.claims.append((type(self.frames[-1].message), log.synced_index == log.last_index, log.claims_unsynced))


def test_only_batches_leave_before_the_commit_and_never_before_the_term(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for peer in ("node2", "node3"):
        bench.links[peer] = Watched(peer, f"s-{peer}", bench)
        bench.replica.connected(bench.links[peer])
    bench.replica.tick()
    term = elect(bench)
    settle(bench, term)
    bench.replica.propose(b"work", lambda _: None)
    bench.wait(0.05)
    bench.hear("node3", term + 1, RequestVote(50, term + 1))
    bench.wait(1.0)
    bench.hear("node3", term + 9, RequestVote(50, term + 9))
    claims = [claim for link in bench.links.values() for claim in link.claims]
    assert (Append, False, False) in claims, "the early release is not shown"
    assert all(not unsynced for _, _, unsynced in claims)
    assert all(synced for kind, synced, _ in claims if kind is not Append)
    assert any(kind is Vote for kind, _, _ in claims)


def test_a_leader_counts_itself_only_for_what_is_on_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, voters=1)
    counted: list[tuple[int, int]] = []
    set_commit = bench.log.set_commit

    def watched(index: int) -> None:
        counted.append((index, bench.log.synced_index))
        set_commit(index)

    monkeypatch.setattr(bench.log, "set_commit", watched)
    bench.wait(0.7)
    bench.replica.propose(b"work", lambda _: None)
    bench.wait(0.1)
    assert counted == [(2, 2), (3, 3)]


def test_not_even_a_batch_leaves_before_the_term_is_on_disk(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for peer in ("node2", "node3"):
        bench.links[peer] = Watched(peer, f"s-{peer}", bench)
        bench.replica.connected(bench.links[peer])
    elect(bench)
    bench.replica.propose(b"work", lambda _: None)
    bench.log._claims_unsynced = True  # no way there is known; the rule must hold by itself
    bench.replica.tick()
    claims = bench.links["node2"].claims
    assert claims[-1] == (Append, True, False)


def test_while_a_tick_waits_for_its_disk_callers_queue_and_nothing_is_claimed(bench: Bench) -> None:
    term = elect(bench)
    settle(bench, term)
    heard: list[Outcome] = []
    bench.replica.propose(b"work", heard.append)
    bench.hear("node3", term, Matched(bench.log.last_index), tick=False)
    step = bench.replica.step()
    flush = next(step)
    hello = decode_hello(bench.replica.hello(bytes(16)))
    assert (hello.last_index, bench.log.last_index) == (bench.log.synced_index, bench.log.synced_index + 1)
    bench.replica.propose(b"more", heard.append)
    bench.replica.received(bench.links["node2"], bench.links["node2"].say(term, Matched(bench.log.last_index)))
    with pytest.raises(FailStop, match="cut short"):
        bench.replica.tick()
    flush()
    with pytest.raises(StopIteration):
        next(step)
    assert not heard, "the leader had not counted itself when it took its step"
    bench.replica.tick()
    assert [outcome.result for outcome in heard if isinstance(outcome, Applied)] == [[1, "work"]]


def test_a_tick_that_ends_in_the_middle_of_its_flush_has_claimed_nothing(bench: Bench) -> None:
    term = elect(bench)
    settle(bench, term)
    heard: list[Outcome] = []
    bench.replica.propose(b"work", heard.append)
    bench.hear("node3", term + 1, RequestVote(90, term + 1, bidden=True), tick=False)
    next(step := bench.replica.step())
    with pytest.raises(NotApplied, match="nobody leads"):
        bench.replica.propose(b"more", heard.append)
    bench.replica.close()
    step.close()
    assert not bench.links["node3"].sent(Vote)
    assert [type(outcome) for outcome in heard] == [OutcomeUnknown]


def test_a_tick_that_could_not_write_says_nothing_and_none_follows(bench: Bench) -> None:
    term = elect(bench)
    settle(bench, term)
    heard: list[Outcome] = []
    bench.replica.propose(b"work", heard.append)
    bench.replica.tick()
    bench.log._db.close()
    bench.replica.received(bench.links["node2"], bench.links["node2"].say(term, Matched(bench.log.last_index)))
    bench.replica.received(bench.links["node3"], bench.links["node3"].say(term + 1, RequestVote(90, term + 1)))
    bench.replica.propose(b"more", heard.append)
    frames = {peer: len(link.sent(Vote)) for peer, link in bench.links.items()}
    with pytest.raises(FailStop, match=r"raft\.db"):
        bench.replica.tick()
    with pytest.raises(FailStop, match="cut short"):
        bench.replica.tick()
    assert not heard
    assert frames == {peer: len(link.sent(Vote)) for peer, link in bench.links.items()}
    with pytest.raises(NotApplied):
        bench.replica.propose(b"late", heard.append)
    bench.replica.close()
    assert {type(outcome) for outcome in heard} <= {OutcomeUnknown, NotApplied}


def test_a_callback_that_raises_stops_the_voter_instead_of_applying_twice(bench: Bench) -> None:
    def explode(_: Outcome) -> None:
        raise RuntimeError("the loop is closed")

    term = elect(bench)
    bench.replica.propose(b"work", explode)
    bench.replica.tick()
    with pytest.raises(FailStop, match="the loop is closed"):
        settle(bench, term)
    bench.replica.close()
    bench.open()
    assert bench.replica.read(appended) == ["work"]


def test_only_entries_on_this_disk_are_applied(bench: Bench) -> None:
    applied_at: list[int] = []

    class Watching(Appends):
        def apply(self, db: sqlite3.Connection, command: bytes) -> object:
            applied_at.append(bench.log.synced_index)
            return super().apply(db, command)

    bench.checkpoint._machine = Watching()
    bench.hear("node2", 1, Append(3, 1, 0, ((1, NO_OP), (1, b"\x00work"))))
    bench.replica.tick()
    assert applied_at == [3]
    assert bench.replica.status().applied_index == 3


# ---- following


def test_an_acknowledgement_names_what_is_matched_and_commits_no_further(bench: Bench) -> None:
    entries = tuple((1, b"\x00%d" % n) for n in range(4))
    bench.hear("node2", 1, Append(1, 1, 0, entries))
    bench.hear("node3", 2, Append(5, 2, 1, ()))
    assert bench.links["node3"].sent(Matched)[-1].message == Matched(2)
    assert (bench.log.last_index, bench.log.commit_index) == (5, 2)


def test_a_stale_leader_learns_the_term(bench: Bench) -> None:
    follow(bench, term=5)
    bench.hear("node3", 4, Append(1, 1, 0, ()))
    assert [frame.term for frame in bench.links["node3"].sent(Alive)] == [5]
    assert bench.replica.status().leader == "node2"


def test_a_conflict_tells_where_to_try_next(bench: Bench) -> None:
    bench.hear("node2", 3, Append(1, 9, 2, ()))
    assert bench.links["node2"].sent(Conflict)[-1].message == Conflict(2)


def test_one_vote_a_term_whatever_happens(bench: Bench) -> None:
    bench.hear("node2", 7, RequestVote(1, 0))
    bench.hear("node3", 7, RequestVote(1, 0))
    assert (len(bench.links["node2"].sent(Vote)), len(bench.links["node3"].sent(Vote))) == (1, 0)
    bench.replica.close()
    bench.open()
    for peer in ("node2", "node3"):
        bench.link(peer, f"again-{peer}")
    bench.hear("node3", 7, RequestVote(1, 0))
    bench.hear("node2", 7, RequestVote(1, 0))
    assert (len(bench.links["node2"].sent(Vote)), len(bench.links["node3"].sent(Vote))) == (1, 0)


def test_no_vote_for_a_log_that_lacks_something(bench: Bench) -> None:
    follow(bench, term=3)
    bench.wait(2.0)
    for term, request in ((50, RequestVote(1, 0)), (51, RequestVote(9, 2))):
        bench.hear("node3", term, request)
    assert not bench.links["node3"].sent(Vote)
    bench.hear("node3", 52, RequestVote(2, 3))
    assert len(bench.links["node3"].sent(Vote)) == 1


def test_a_returning_voter_does_not_depose_a_leader_that_is_heard(bench: Bench) -> None:
    follow(bench, term=3)
    bench.hear("node3", 9, RequestVote(9, 9))
    assert bench.replica.leadership.term == 3
    bench.clock.mono += 0.35
    bench.hear("node3", 9, RequestVote(9, 9))
    assert bench.replica.leadership.term == 9


def test_a_leader_that_is_gone_is_followed_at_once_but_not_while_it_is_linked(bench: Bench) -> None:
    follow(bench)
    bench.replica.refused("node2")
    bench.replica.tick()
    assert not bench.links["node3"].sent(PreVote)
    bench.replica.disconnected(bench.links["node2"])
    bench.replica.tick()
    assert bench.replica.leader == "node2", "a link that broke says nothing about the leader"
    bench.replica.refused("node2")
    bench.replica.tick()
    assert bench.replica.leader is None
    assert len(bench.links["node3"].sent(PreVote)) == 1
    bench.hear("node3", 1, WouldVote(2))
    assert bench.replica.leadership.role == "candidate"


def test_a_stalled_voter_first_reads_what_came_in(bench: Bench) -> None:
    follow(bench)
    bench.clock.mono += 60.0
    bench.replica.tick()
    assert not bench.links["node3"].sent(PreVote)
    bench.hear("node2", 1, Append(2, 2, 1, ()))
    bench.wait(0.2)
    assert not bench.links["node3"].sent(PreVote)


# ---- leading


def test_a_follower_refuses_and_forwards_nothing(bench: Bench) -> None:
    follow(bench)
    frames = len(bench.links["node2"].frames)
    with pytest.raises(NotApplied) as refused:
        bench.replica.propose(b"work", lambda _: None)
    bench.replica.tick()
    assert refused.value.why is Why.NOT_LEADER
    assert "node2" in str(refused.value)
    assert len(bench.links["node2"].frames) == frames


def test_votes_are_counted_by_voter(tmp_path: Path) -> None:
    bench = Bench(tmp_path, voters=5)
    for peer in ("node2", "node3", "node4", "node5"):
        bench.link(peer, f"s-{peer}")
    bench.replica.tick()
    term = stand(bench)
    bench.hear("node2", term, Vote())
    bench.hear("node2", term, Vote())
    assert bench.replica.leadership.role == "candidate"
    bench.hear("node3", term - 1, Vote())
    assert bench.replica.leadership.role == "candidate"
    bench.hear("node4", term, Vote())
    assert bench.replica.leadership.role == "leader"


def test_a_majority_commits_and_the_proposer_hears_it_once(bench: Bench) -> None:
    term = elect(bench)
    heard: list[Outcome] = []
    bench.replica.propose(b"work", heard.append)
    bench.replica.tick()
    batch = bench.links["node2"].sent(Append)[-1].message
    assert isinstance(batch, Append)
    assert batch.entries[-1] == (term, b"\x00work")
    bench.hear("node2", term, Matched(2))
    assert not heard
    bench.hear("node2", term, Matched(3))
    bench.hear("node3", term, Matched(3))
    assert heard == [Applied(3, term, [1, "work"])]


def test_acknowledgements_of_an_earlier_leadership_count_for_nothing(bench: Bench) -> None:
    term = elect(bench)
    bench.replica.propose(b"work", lambda _: None)
    bench.replica.tick()
    bench.hear("node2", term - 1, Matched(3))
    bench.hear("node3", 0, Matched(3))
    assert bench.log.commit_index == 1


def test_a_later_smaller_acknowledgement_takes_nothing_back(bench: Bench) -> None:
    term = elect(bench)
    bench.replica.propose(b"work", lambda _: None)
    bench.replica.tick()
    bench.hear("node2", term, Matched(3), tick=False)
    bench.hear("node2", term, Matched(2))
    assert bench.log.commit_index == 3


def test_an_acknowledgement_never_rewinds_what_is_sent(bench: Bench) -> None:
    term = elect(bench)
    for _ in range(3):
        bench.replica.propose(b"work", lambda _: None)
        bench.replica.tick()
    sent = len(bench.links["node2"].sent(Append))
    bench.hear("node2", term, Matched(2))
    again = [frame.message for frame in bench.links["node2"].sent(Append)[sent:]]
    assert all(isinstance(message, Append) and not message.entries for message in again)


def test_a_conflict_sends_what_is_missing_at_once(bench: Bench) -> None:
    term = elect(bench)
    settle(bench, term)
    bench.hear("node3", term, Conflict(1))
    batch = bench.links["node3"].sent(Append)[-1].message
    assert isinstance(batch, Append)
    assert (batch.prev_index, batch.entries) == (1, ((term, NO_OP),))


def test_a_new_link_is_told_everything_that_is_not_acknowledged(bench: Bench) -> None:
    term = elect(bench)
    settle(bench, term)
    bench.replica.propose(b"work", lambda _: None)
    bench.replica.tick()
    link = bench.link("node2", "newer")
    bench.replica.tick()
    batch = link.sent(Append)[0].message
    assert isinstance(batch, Append)
    assert (batch.prev_index, batch.entries) == (2, ((term, b"\x00work"),))


def test_what_an_ended_link_carried_does_not_fill_the_next_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.window.MAX_WINDOW_BYTES", 20)
    term = elect(bench)
    settle(bench, term)
    for _ in range(3):
        bench.replica.propose(b"work", lambda _: None)
        bench.replica.tick()
    assert not bench.links["node2"].sent(Append)[-1].message.entries
    bench.replica.disconnected(bench.links["node2"])
    bench.replica.tick()
    link = bench.link("node2", "newer")
    bench.replica.tick()
    batch = link.sent(Append)[0].message
    assert isinstance(batch, Append)
    assert (batch.prev_index, len(batch.entries)) == (2, 3)


def test_the_end_of_leadership_answers_unknown_and_what_is_applied_later_answers_nobody(bench: Bench) -> None:
    term = elect(bench)
    heard: list[Outcome] = []
    bench.replica.propose(b"work", heard.append)
    bench.replica.tick()
    bench.hear("node3", term + 1, Append(1, 3, term, ((term + 1, NO_OP),)))
    assert [type(outcome) for outcome in heard] == [OutcomeUnknown]
    bench.hear("node3", term + 1, Append(4, 4, term + 1, ()))
    bench.replica.tick()
    assert bench.replica.read(appended) == ["work"]
    assert len(heard) == 1


def test_a_leader_that_no_majority_answers_steps_down(bench: Bench) -> None:
    elect(bench)
    heard: list[Outcome] = []
    bench.replica.propose(b"work", heard.append)
    bench.wait(1.3)
    assert bench.replica.leadership.role != "leader"
    assert [type(outcome) for outcome in heard] == [OutcomeUnknown]


def test_who_resigns_lets_another_one_win(bench: Bench) -> None:
    term = elect(bench)
    for _ in range(20):  # long enough for the deadline of its own candidacy to be over
        bench.wait(0.1)
        settle(bench, term)
    asked = len(bench.links["node2"].sent(PreVote))
    bench.replica.resign()
    bench.replica.tick()
    assert bench.replica.leadership.role == "follower"
    bench.wait(0.8)
    assert len(bench.links["node2"].sent(PreVote)) == asked, "it wants to lead again before anybody else can"
    bench.hear("node3", term + 1, RequestVote(9, term + 1))
    assert len(bench.links["node3"].sent(Vote)) == 1


def test_a_barrier_is_answered_after_a_no_op_of_this_term(bench: Bench) -> None:
    term = elect(bench)
    heard: list[Outcome] = []
    bench.replica.barrier(heard.append)
    bench.replica.tick()
    settle(bench, term)
    assert heard == [Applied(3, term, None)]


def test_an_answer_may_propose_again(bench: Bench) -> None:
    term = elect(bench)
    heard: list[Outcome] = []
    bench.replica.propose(b"first", lambda _: bench.replica.propose(b"second", heard.append))
    bench.replica.tick()
    settle(bench, term)
    bench.replica.tick()
    settle(bench, term)
    assert heard == [Applied(4, term, [2, "second"])]


def test_two_leaders_in_one_term_stop_the_voter(bench: Bench) -> None:
    term = elect(bench)
    with pytest.raises(FailStop, match="leads term"):
        bench.hear("node2", term, Append(1, 1, 0, ()))


# ---- starting again


def test_a_checkpoint_that_lags_or_is_gone_is_made_again_from_the_log(bench: Bench) -> None:
    bench.hear("node2", 1, Append(4, 1, 0, ((1, NO_OP), (1, b"\x00a"), (1, b"\x00b"))))
    bench.replica.tick()
    bench.hear("node2", 1, Append(4, 4, 1, ((1, b"\x00c"),)))
    digest = bench.checkpoint.digest
    bench.replica.close()
    (bench.home / "checkpoint.db").unlink()
    bench.open()
    bench.replica.tick()
    assert (bench.checkpoint.digest, bench.replica.read(appended)) == (digest, ["a", "b"])


def test_a_checkpoint_of_another_log_is_unfit(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> None:
    bench.hear("node2", 1, Append(3, 1, 0, ((1, NO_OP), (1, b"\x00a"))))
    bench.replica.tick()
    bench.replica.close()
    other = Bench(tmp_path_factory.mktemp("other"))
    other.replica.close()
    (other.home / "checkpoint.db").write_bytes((bench.home / "checkpoint.db").read_bytes())
    with pytest.raises(Unfit, match=r"raft\.db does not hold"):
        other.open()
    assert isinstance(other.log, LogStore)
    assert isinstance(other.checkpoint, CheckpointStore)


def test_a_closed_voter_answers_everybody_and_refuses_the_rest(bench: Bench) -> None:
    elect(bench)
    appended_one: list[Outcome] = []
    queued: list[Outcome] = []
    bench.replica.propose(b"a", appended_one.append)
    bench.replica.tick()
    bench.replica.propose(b"b", queued.append)
    bench.replica.close()
    bench.replica.close()
    assert isinstance(appended_one[0], OutcomeUnknown)
    assert isinstance(queued[0], NotApplied)
    with pytest.raises(NotApplied):
        bench.replica.read(appended)
    with pytest.raises(FailStop):
        bench.replica.tick()

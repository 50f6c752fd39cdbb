from functools import partial

import pytest

from cluster import proposals
from cluster.frames import MAX_COMMAND_BYTES, NO_OP
from cluster.log_mirror import Entry
from cluster.outcome import Applied, FailStop, NotApplied, OutcomeUnknown, Why
from cluster.proposals import Outcome, Proposals


class Heard(list[Outcome]):
    def __call__(self, outcome: Outcome) -> None:
        self.append(outcome)


def append_all(desk: Proposals, first: int, term: int) -> list[Entry]:
    entries = []
    for index, proposal in enumerate(desk.take(), start=first):
        desk.appended(proposal, index, term)
        entries.append(Entry(proposal.command, index, term))
    return entries


def test_an_applied_proposal_is_answered_once_and_only_when_settled() -> None:
    desk, heard = Proposals(), Heard()
    desk.offer(b"work", heard)
    (entry,) = append_all(desk, 7, 3)
    assert entry.command == b"\x00work"
    desk.applied(entry, ["done"])
    assert not heard
    desk.settle()
    desk.settle()
    assert heard == [Applied(7, 3, ["done"])]


def _note(order: list[str], name: str, _: Outcome) -> None:
    order.append(name)


def test_answers_come_in_the_order_of_the_log() -> None:
    desk = Proposals()
    order: list[str] = []
    for name in "abc":
        desk.offer(name.encode(), partial(_note, order, name))
    for entry in append_all(desk, 7, 3):
        desk.applied(entry, None)
    desk.settle()
    assert order == ["a", "b", "c"]


def test_barriers_share_a_no_op_until_it_is_appended() -> None:
    desk, early, late = Proposals(), Heard(), Heard()
    desk.offer_barrier(early)
    desk.offer_barrier(early)
    (first,) = append_all(desk, 7, 3)
    desk.offer_barrier(late)
    (second,) = append_all(desk, 8, 3)
    assert first.command == second.command == NO_OP
    desk.applied(first, None)
    desk.settle()
    assert (len(early), len(late)) == (2, 0)


def test_the_end_of_leadership_leaves_the_appended_unknown_and_the_queued_refused() -> None:
    desk, appended, queued = Proposals(), Heard(), Heard()
    desk.offer(b"a", appended)
    append_all(desk, 7, 3)
    desk.offer(b"b", queued)
    desk.leadership_lost()
    desk.refuse(Why.NOT_LEADER)
    desk.settle()
    assert isinstance(appended[0], OutcomeUnknown)
    assert isinstance(queued[0], NotApplied)
    assert queued[0].why is Why.NOT_LEADER


def test_an_entry_of_another_term_in_a_pending_place_stops_the_voter() -> None:
    desk = Proposals()
    desk.offer(b"a", Heard())
    append_all(desk, 7, 3)
    with pytest.raises(FailStop):
        desk.applied(Entry(b"\x00b", 7, 4), None)


def test_a_tick_cut_short_acknowledges_nothing() -> None:
    desk, heard = Proposals(), Heard()
    desk.offer(b"a", heard)
    (entry,) = append_all(desk, 7, 3)
    desk.applied(entry, None)
    desk.abandon()
    desk.settle()
    assert [type(outcome) for outcome in heard] == [OutcomeUnknown]


def test_too_large_and_too_many_are_refused_before_anything_is_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, heard = Proposals(), Heard()
    with pytest.raises(NotApplied) as large:
        desk.offer(bytes(MAX_COMMAND_BYTES + 1), heard)
    assert large.value.why is Why.TOO_LARGE
    monkeypatch.setattr(proposals, "MAX_PROPOSALS", 2)
    desk.offer(b"a", heard)
    append_all(desk, 7, 3)
    desk.offer_barrier(heard)
    with pytest.raises(NotApplied) as full:
        desk.offer(b"c", heard)
    assert full.value.why is Why.QUEUE_FULL
    desk.offer_barrier(heard)  # joins the no-op that waits already
    assert not heard


def test_the_room_for_bytes_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals, "MAX_PROPOSAL_BYTES", 10)
    desk = Proposals()
    for index in range(7, 20):
        desk.offer(b"12345678", Heard())
        with pytest.raises(NotApplied):
            desk.offer(b"12345678", Heard())
        for entry in append_all(desk, index, 3):
            desk.applied(entry, None)
        desk.settle()


def test_a_deadline_that_passes_in_the_queue_is_a_definite_no() -> None:
    desk, late, other = Proposals(), Heard(), Heard()
    desk.offer(b"a", late, 10.0)
    desk.offer(b"b", other)
    desk.expire(9.9)
    desk.settle()
    assert not late
    desk.expire(10.0)
    assert [entry.command for entry in append_all(desk, 7, 3)] == [b"\x00b"]
    desk.settle()
    (outcome,) = late
    assert isinstance(outcome, NotApplied)
    assert outcome.why is Why.EXPIRED
    assert not other


def test_a_deadline_that_passes_in_the_log_leaves_the_outcome_unknown_and_is_the_only_answer() -> None:
    desk, late, patient = Proposals(), Heard(), Heard()
    desk.offer(b"a", late, 10.0)
    desk.offer(b"b", patient, 20.0)
    entries = append_all(desk, 7, 3)
    for now_s in (10.0, 11.0, 12.0):
        desk.expire(now_s)
        desk.settle()
    assert [type(outcome) for outcome in late] == [OutcomeUnknown]
    for entry in entries:
        desk.applied(entry, None)
    desk.expire(99.0)
    desk.leadership_lost()
    desk.settle()
    assert len(late) == 1
    assert patient == [Applied(8, 3, None)]


def test_an_expired_entry_still_guards_its_place_and_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals, "MAX_PROPOSALS", 1)
    desk = Proposals()
    desk.offer(b"a", Heard(), 10.0)
    (entry,) = append_all(desk, 7, 3)
    desk.expire(10.0)
    with pytest.raises(NotApplied):
        desk.offer(b"b", Heard())
    with pytest.raises(FailStop):
        desk.applied(Entry(b"\x00b", 7, 4), None)
    desk = Proposals()
    desk.offer(b"a", Heard(), 10.0)
    append_all(desk, 7, 3)
    desk.applied(entry, None)
    desk.offer(b"b", Heard())


def test_a_nearer_deadline_behind_a_farther_one_is_not_missed() -> None:
    desk, far, near = Proposals(), Heard(), Heard()
    desk.offer(b"a", far, 20.0)
    desk.offer(b"b", near, 5.0)
    for now_s, expired in ((5.0, (0, 1)), (19.0, (0, 1)), (20.0, (1, 1))):
        desk.expire(now_s)
        desk.settle()
        assert (len(far), len(near)) == expired

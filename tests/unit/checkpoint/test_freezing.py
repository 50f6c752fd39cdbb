"""The freeze (DESIGN 4): no materialisation, triggers, claims or permits; everything that ends work goes on."""

import pytest

from runner.checkpoint import freezing, ops, queries
from runner.checkpoint.results import OpResult
from tests.unit.checkpoint.book import Book, owned_book


def freeze(book: Book, *, frozen: bool = True) -> OpResult:
    return book.do(ops.SetFrozen(book.operation(principal="olga"), frozen))


def test_a_freeze_is_on_record_with_who_and_since_when_and_ends_so() -> None:
    book = owned_book()
    book.admitted(1_000)
    book.now_ms = 5_000
    assert freeze(book).detail == {"frozen": True, "unchanged": False, "open_attempts": 1}
    assert freezing.freeze_of(book.db) == freezing.Freeze(5_000, "olga")
    book.now_ms = 6_000
    again = freeze(book)
    assert (again.detail["unchanged"], again.changed) == (True, ())
    assert freezing.freeze_of(book.db) == freezing.Freeze(5_000, "olga")
    assert freeze(book, frozen=False).changed == ("head",)
    assert freezing.freeze_of(book.db) is None
    trail = [(e.op, e.actor, e.to_state) for e in queries.events(book.db, run_id=None, limit=2)]
    assert trail == [("unfreeze", "olga", "not frozen"), ("freeze", "olga", "frozen")]
    freeze(book)
    assert freezing.freeze_of(book.db) == freezing.Freeze(6_000, "olga")


def test_nothing_starts_while_frozen() -> None:
    book = owned_book()
    claimed = book.a_run(1_000)
    book.claim(claimed)
    freeze(book)
    book.now_ms = 2_000
    assert book.admit(claimed).reason == "frozen"
    assert book.materialise(2_000).reason == "frozen"
    assert book.materialise(missed=(ops.Missed(2_000, 2_000, 1, "missed_window"),)).reason == "frozen"
    assert book.do(ops.Trigger(book.operation(), "demo", "tick")).reason == "frozen"
    book.do(ops.FenceOp(claimed, 1, "claim_deadline"))
    book.now_ms = 9_000
    assert book.claim(claimed, 2).reason == "frozen"
    assert freeze(book, frozen=False).kind == "done"
    assert book.claim(claimed, 2).kind == "claimed"
    assert book.admit(claimed, 2).kind == "granted"


def test_the_permit_that_was_granted_is_told_again_and_its_work_is_reported_and_ended() -> None:
    book = owned_book()
    run_id = book.admitted(1_000)
    freeze(book)
    repeated = book.admit(run_id)
    assert (repeated.kind, repeated.again) == ("granted", True)
    assert book.report(ops.AcceptOp, run_id, execution_id="e", started_ms=1_000).kind == "recorded"
    assert book.cancel(run_id).detail["state"] == "Cancelling"
    book.lose(run_id)
    assert book.attest(run_id).kind == "done"
    assert book.states(run_id) == ("Quiesced", "Quiesced")


@pytest.mark.parametrize("frozen", [True, False])
def test_edits_go_on_and_may_put_on_record_what_they_keep_from_running(frozen: bool) -> None:
    book = owned_book()
    freeze(book, frozen=frozen)
    book.now_ms = 3_000
    kept = book.materialise(missed=(ops.Missed(1_000, 3_000, 3, "frozen"),))
    assert (kept.kind, kept.detail["missed"]) == ("done", 3)
    assert book.do(ops.SetEnabled(book.operation(), "demo", "tick", False)).kind == "done"
    (skipped,) = queries.runs(book.db, schedule_id=None, state=None, limit=9)
    assert (skipped.reason, skipped.count) == ("frozen", 3)

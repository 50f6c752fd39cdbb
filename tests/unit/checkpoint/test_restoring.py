"""A restore (DESIGN 4): a new generation, in which nothing of the old one is launched, permitted or believed."""

from typing import Any

import msgspec
import pytest

from runner.checkpoint import ops, queries
from runner.checkpoint.results import OpResult
from tests.unit.checkpoint.book import HOUR_MS, Book, owned_book, spec


def restore(book: Book) -> OpResult:
    return book.do(ops.Restore(book.operation(principal="olga")))


def in_state(state: str, **changes: Any) -> tuple[Book, str]:
    """Return a book with one run of each shape that may be open when an image is taken."""
    book = owned_book(spec(**changes))
    run_id = book.a_run(1_000)
    if state != "Pending":
        book.claim(run_id)
    if state not in {"Pending", "Claimed"}:
        book.admit(run_id)
    if state == "Accepted":
        book.report(ops.AcceptOp, run_id, execution_id="e1", started_ms=1_000)
    if state == "Cancelling":
        book.cancel(run_id)
    if state == "Unknown":
        book.lose(run_id)
    return book, run_id


@pytest.mark.parametrize("state", ["Pending", "Claimed", "Admitted", "Accepted", "Cancelling", "Unknown"])
def test_every_open_run_becomes_unknown_and_can_be_attested_or_cancelled(state: str) -> None:
    book, run_id = in_state(state)
    done = restore(book)
    assert done.detail == {"generation": 2, "runs": {"Unknown": 1}}
    run, (attempt,) = book.run(run_id), queries.attempts(book.db, run_id)
    assert (run.state.value, run.reason, run.holds_slot) == ("Unknown", "restored", True)
    assert (attempt.state.value, attempt.reason, attempt.generation) == ("Unknown", "restored", 1)
    cancelled, _ = in_state(state)
    restore(cancelled)
    assert cancelled.cancel(run_id).detail["state"] == "Cancelling"
    assert cancelled.attempt(run_id).unresolved
    for each in (book, cancelled):
        assert each.attest(run_id).detail["run_state"] == "Quiesced"
        assert not each.run(run_id).holds_slot


def test_ended_runs_stay_what_they_are() -> None:
    book, run_id = in_state("Admitted")
    book.finish(run_id)
    assert restore(book).detail["runs"] == {}
    assert book.states(run_id) == ("Succeeded", "Succeeded")


def test_a_delivery_goes_on_under_a_later_attempt() -> None:
    book, run_id = in_state("Admitted", on_unknown="retry", delivery_deadline_s=86_400)
    assert restore(book).detail["runs"] == {"Pending": 1}
    assert (book.attempt(run_id).superseded, book.attempt(run_id).reason) == (True, "restored")
    book.now_ms = 60_000
    assert book.claim(run_id, 2).kind == "claimed"
    assert book.attempt(run_id, 2).generation == 2
    assert book.binding(run_id, 2).generation == 2


def test_reports_of_the_old_generation_are_evidence_and_those_of_the_new_one_count() -> None:
    book, run_id = in_state("Admitted")
    restore(book)
    for kind, said in (
        (ops.AcceptOp, {"execution_id": "e1", "started_ms": 1}),
        (ops.FinishOp, {"succeeded": True, "reason": None, "exit_code": 0, "ended_ms": 2}),
        (ops.ForfeitOp, {}),
    ):
        answer = book.report(kind, run_id, **said)
        assert (answer.kind, answer.reason) == ("evidence", "generation_differs")
    book.cancel(run_id)
    stopped = {"consumed": True, "exit_code": None, "ended_ms": 3}
    assert book.report(ops.ConfirmStoppedOp, run_id, **stopped).reason == "generation_differs"
    assert book.finish(run_id).reason == "generation_differs"
    assert book.states(run_id) == ("Cancelling", "Cancelling")
    evidence = book.attempt(run_id).evidence
    assert "finish Succeeded exit_code=0" in evidence
    assert "confirm_stopped" in evidence
    book.attest(run_id)
    later = book.a_run(5_000)
    book.claim(later, worker="w1/b")
    book.admit(later)
    assert book.attempt(later).generation == 2
    assert book.finish(later).kind == "recorded"


def test_what_was_launched_after_the_image_is_kept_as_evidence_of_the_place_made_for_it() -> None:
    book, run_id = in_state("Pending")
    restore(book)
    told = book.do(
        ops.FinishOp("w9", run_id, 1, "z", "w9-disk", succeeded=True, reason=None, exit_code=0, ended_ms=1_500)
    )
    assert (told.kind, book.states(run_id)) == ("evidence", ("Unknown", "Unknown"))
    assert "finish Succeeded exit_code=0 by w9/z from ledger w9-disk" in book.attempt(run_id).evidence


def test_permits_and_fences_of_the_old_generation_get_nothing() -> None:
    book, run_id = in_state("Claimed")
    asked = book.binding(run_id)
    restore(book)
    assert book.do(ops.AdmitOp("w1", asked, "x1")).kind == "denied"
    assert book.do(ops.FenceOp(run_id, 1, "worker_asked", "w1")).kind == "permit_exists"
    book.attest(run_id)
    later = book.a_run(5_000)
    book.claim(later, worker="w1/b")
    current = book.binding(later)
    old = ops.AdmitOp("w1", msgspec.structs.replace(current, generation=1), "x2")
    assert book.do(old).reason == "binding_differs"
    assert book.admit(later).kind == "granted"


def test_tokens_of_a_new_generation_are_higher_than_every_one_of_the_old() -> None:
    book, run_id = in_state("Admitted")
    old = book.attempt(run_id).token
    restore(book)
    book.attest(run_id)
    later = book.a_run(5_000)
    book.claim(later, worker="w1/b")
    new = book.admit(later).token
    assert old is not None
    assert new is not None
    assert new > old


def test_no_instant_up_to_the_restore_becomes_a_run_any_more() -> None:
    book = owned_book()
    book.now_ms = 10_000
    restore(book)
    head = queries.head(book.db)
    assert (head.generation, head.restored_ms) == (2, 10_000)
    assert book.materialise(9_000).reason == "restored"
    assert book.materialise(10_000).reason == "restored"
    assert book.materialise(missed=(ops.Missed(1_000, 10_000, 10, "restored"),)).detail["missed"] == 10
    (skipped,) = queries.runs(book.db, schedule_id=None, state=None, limit=5)
    assert (skipped.reason, skipped.count) == ("restored", 10)
    assert book.a_run(11_000)


def test_a_restore_is_on_record_on_each_run_and_for_the_whole_and_can_follow_another() -> None:
    book, run_id = in_state("Admitted")
    book.now_ms = 7_000
    restore(book)
    whole = next(e for e in queries.events(book.db, run_id=None, limit=9) if e.run_id is None)
    assert (whole.op, whole.actor, whole.from_state, whole.to_state) == (
        "restore",
        "olga",
        "generation 1",
        "generation 2",
    )
    newest = queries.events(book.db, run_id=run_id, limit=2)
    assert [(e.op, e.from_state, e.to_state, e.why) for e in newest] == [
        ("restore", "Active", "Unknown", "generation 2"),
        ("restore", "Admitted", "Unknown", "generation 2"),
    ]
    book.now_ms = 9_000
    assert restore(book).detail == {"generation": 3, "runs": {"Unknown": 1}}
    assert len(queries.attempts(book.db, run_id)) == 1
    assert queries.head(book.db).restored_ms == 9_000


def test_the_same_key_restores_once() -> None:
    book, _ = in_state("Pending")
    operation = book.operation("k")
    assert book.do(ops.Restore(operation)).detail["generation"] == 2
    again = book.do(ops.Restore(operation))
    assert (again.again, queries.head(book.db).generation) == (True, 2)


def test_runs_in_line_are_restored_with_the_one_that_holds_the_slot() -> None:
    book = owned_book()
    book.now_ms = 3_000
    runs = book.materialise(1_000, 2_000, 3_000).detail["runs"]
    assert restore(book).detail["runs"] == {"Unknown": 3}
    for run_id in runs:
        book.attest(run_id)
    assert [book.run(run_id).state.value for run_id in runs] == ["Quiesced"] * 3
    book.now_ms = 2 * HOUR_MS
    assert book.a_run(2 * HOUR_MS)


def test_the_slot_goes_to_what_is_uncertain_before_anything_new_is_launched() -> None:
    book = owned_book()
    book.now_ms = 3_000
    first, second, third = book.materialise(1_000, 2_000, 3_000).detail["runs"]
    restore(book)
    for resolved, next_holder in ((first, second), (third, second), (second, None)):
        book.now_ms += 1_000
        assert book.materialise(book.now_ms).detail["overlap"] == 1
        book.attest(resolved)
        schedule = queries.schedule_named(book.db, "demo", "tick")
        assert schedule is not None
        assert schedule.slot_run_id == next_holder
    book.now_ms += 1_000
    assert book.materialise(book.now_ms).detail["overlap"] == 0


def test_an_older_delivery_that_is_opened_again_waits_behind_what_is_uncertain() -> None:
    book = owned_book(spec(delivery_deadline_s=86_400))
    failed = book.admitted(1_000)
    book.finish(failed, succeeded=False)
    book.now_ms = 3_000
    holder, in_line = book.materialise(2_000, 3_000).detail["runs"]
    restore(book)
    assert book.do(ops.Redeliver(book.operation(), failed, HOUR_MS)).detail["state"] == "Pending"
    book.attest(holder)
    assert (book.run(in_line).holds_slot, book.run(failed).holds_slot) == (True, False)
    assert book.claim(failed, 2, worker="w1/b").reason == "slot_held"
    book.attest(in_line)
    assert book.claim(failed, 2, worker="w1/b").kind == "claimed"

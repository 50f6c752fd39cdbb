"""Deliveries that are opened again, and deliveries that are tried again beside an uncertain one (DESIGN 4)."""

from runner.checkpoint import ops, queries
from runner.checkpoint.results import OpResult
from runner.checkpoint.waiting import Walk, claimable
from runner.ids import idempotency_key
from tests.unit.checkpoint.book import HOUR_MS, Book, owned_book, spec

DAY_S = 86_400


def redeliver(book: Book, run_id: str, until_ms: int = 48 * HOUR_MS) -> OpResult:
    return book.do(ops.Redeliver(book.operation(principal="olga"), run_id, until_ms))


def failed(**changes: object) -> tuple[Book, str]:
    book = owned_book(spec(**({"delivery_deadline_s": DAY_S} | changes)))
    run_id = book.admitted(1_000)
    book.now_ms = 2_000
    book.finish(run_id, succeeded=False)
    assert book.run(run_id).state.value == "Failed"
    return book, run_id


def test_a_reopened_delivery_takes_a_free_slot_and_is_claimed_at_once_under_the_same_key() -> None:
    book, run_id = failed()
    before = book.run(run_id)
    assert redeliver(book, run_id).detail == {"run_id": run_id, "state": "Pending"}
    run = book.run(run_id)
    assert (run.holds_slot, run.ended_ms, run.deadline_ms, run.reopened_after) == (True, None, 48 * HOUR_MS, 1)
    found, _ = claimable(book.db, {"default": None}, book.now_ms, Walk())
    assert [(each.run.run_id, each.attempt) for each in found] == [(run_id, 2)]
    assert book.claim(run_id, 2).kind == "claimed"
    keys = {idempotency_key(each.schedule_id, each.occurrence) for each in (before, run)}
    assert len(keys) == 1


def test_retries_and_the_deadline_count_from_the_reopening() -> None:
    book, run_id = failed(retry=ops.Retry(attempts=1))
    redeliver(book, run_id, 10_000)
    book.claim(run_id, 2)
    book.admit(run_id, 2, reservation="x2")
    book.finish(run_id, 2, succeeded=False)
    assert book.states(run_id) == ("Failed", "Failed", "Failed")
    redeliver(book, run_id, 10_000)
    book.now_ms = 10_000
    assert queries.closing(book.db, book.now_ms, 9) == [run_id]
    assert book.claim(run_id, 3).reason == "window_passed"
    assert book.do(ops.CloseOp(run_id)).detail["state"] == "Failed"
    assert not book.run(run_id).holds_slot


def test_only_a_failed_delivery_is_opened_again() -> None:
    book, run_id = failed(delivery_deadline_s=None)
    assert redeliver(book, run_id).reason == "no_delivery"
    assert redeliver(book, "absent").reason == "no_such_run"
    book, run_id = failed()
    assert redeliver(book, run_id, 2_000).reason == "deadline_passed"
    redeliver(book, run_id)
    refused = redeliver(book, run_id)
    assert (refused.reason, refused.detail["state"]) == ("illegal_move", "Pending")
    assert refused.changed == ()


def test_while_frozen_a_reopened_delivery_waits() -> None:
    book, run_id = failed()
    book.do(ops.SetFrozen(book.operation(), True))
    assert redeliver(book, run_id).kind == "done"
    assert book.claim(run_id, 2).reason == "frozen"


def test_a_superseded_attempt_frees_its_place_in_the_pool_and_keeps_the_slot() -> None:
    book = owned_book()
    pools = (ops.PoolSpec("one", 1),)
    book.apply(spec(pool="one", on_unknown="retry", delivery_deadline_s=DAY_S), spec("other", pool="one"), pools=pools)
    book.now_ms = 1_000
    (run_id,) = book.materialise(1_000).detail["runs"]
    (other,) = book.materialise(1_000, name="other").detail["runs"]
    authority = {"authorities": ("one",)}
    book.claim(run_id, **authority)
    book.admit(run_id)
    assert book.claim(other, **authority).reason == "pool_full"
    book.lose(run_id)
    assert (book.run(run_id).holds_slot, book.run(run_id).not_before_ms) == (True, 2_000)
    assert book.claim(other, **authority).kind == "claimed"
    book.now_ms = 2_000
    assert book.claim(run_id, 2, **authority).reason == "pool_full"
    book.do(ops.FenceOp(other, 1, "claim_deadline"))
    assert book.claim(run_id, 2, **authority).kind == "claimed"


def test_an_attempt_that_is_superseded_does_not_count_against_the_retries() -> None:
    book = owned_book(spec(on_unknown="retry", delivery_deadline_s=DAY_S, retry=ops.Retry(attempts=2)))
    run_id = book.admitted(1_000)
    book.lose(run_id)
    for n in (2, 3):
        assert book.run(run_id).state.value == "Pending"
        book.now_ms += 60_000
        book.claim(run_id, n)
        book.admit(run_id, n, reservation=f"x{n}")
        book.finish(run_id, n, succeeded=False)
    assert book.run(run_id).state.value == "Unknown"  # the first one may have been delivered
    assert book.attest(run_id).detail["run_state"] == "Quiesced"


def test_a_cancel_reaches_the_superseded_attempt_too() -> None:
    book = owned_book(spec(on_unknown="retry", delivery_deadline_s=DAY_S))
    run_id = book.admitted(1_000)
    book.lose(run_id)
    assert book.cancel(run_id).detail["state"] == "Cancelling"
    assert (book.attempt(run_id).unresolved, book.attempt(run_id).superseded) == (True, True)
    assert book.report(ops.ConfirmStoppedOp, run_id, consumed=True, exit_code=None, ended_ms=1).kind == "recorded"
    assert book.states(run_id) == ("Cancelled", "Cancelled")

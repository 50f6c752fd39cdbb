import msgspec
import pytest

from runner.checkpoint import ops, queries
from runner.checkpoint.records import RunState
from tests.unit.checkpoint.book import HOUR_MS, SCHEDULE, owned_book, spec


def test_claim_admit_accept_finish() -> None:
    book = owned_book()
    run_id = book.a_run()
    assert book.claim(run_id).changed == (f"attempt:{run_id}.1", f"run:{run_id}")
    assert queries.open_claims(book.db, "w1", "a")[0][1] == book.attempt(run_id)
    assert queries.open_claims(book.db, "w1", "b") == []
    granted = book.admit(run_id)
    assert (granted.kind, granted.token) == ("granted", 1 << 40 | 1)
    assert queries.open_claims(book.db, "w1", "a") == []
    assert book.report(ops.AcceptOp, run_id, execution_id="pid 7", started_ms=5).kind == "recorded"
    assert book.finish(run_id, evidence="seen").kind == "recorded"
    attempt = book.attempt(run_id)
    assert (attempt.execution_id, attempt.started_ms, attempt.exit_code) == ("pid 7", 5, 0)
    assert book.states(run_id) == ("Succeeded", "Succeeded")
    assert queries.open_attempts(book.db) == []


def test_a_permit_s_token_grows_with_every_permit() -> None:
    book = owned_book()
    tokens = []
    for at in range(1, 4):
        run_id = book.admitted(at * 1_000)
        tokens.append(book.attempt(run_id).token)
        book.finish(run_id)
    assert tokens == [1 << 40 | at for at in (1, 2, 3)]


def test_a_lost_permit_reply_is_given_again_after_a_takeover_and_to_nobody_else() -> None:
    book = owned_book()
    run_id = book.a_run()
    book.claim(run_id)
    binding = book.binding(run_id)
    first = book.do(ops.AdmitOp(worker="w1", binding=binding, reservation="x1"))
    book.acquire("node2")
    again = book.do(ops.AdmitOp(worker="w1", binding=binding, reservation="x1"))
    assert (again.kind, again.token, again.again, again.changed) == ("granted", first.token, True, ())
    other = msgspec.structs.replace(binding, incarnation="b")
    for asked, reservation in ((other, "x1"), (binding, "x2"), (msgspec.structs.replace(binding, epoch=2), "x1")):
        denied = book.do(ops.AdmitOp(worker="w1", binding=asked, reservation=reservation))
        assert (denied.kind, denied.reason) == ("denied", "already_permitted")
    book.finish(run_id)
    late = book.do(ops.AdmitOp(worker="w1", binding=binding, reservation="x1"))
    assert (late.reason, late.detail) == ("already_permitted", {"state": "Succeeded"})
    assert queries.head(book.db).token_counter == 1


def test_another_worker_s_credential_gets_no_permit() -> None:
    book = owned_book()
    run_id = book.a_run()
    book.claim(run_id)
    assert book.admit(run_id, worker="w2").reason == "worker_differs"


def test_a_claim_made_under_an_older_epoch_is_admitted_as_it_was_stored() -> None:
    book = owned_book()
    run_id = book.a_run()
    book.claim(run_id)
    book.acquire("node2")
    assert (book.binding(run_id).owner, book.binding(run_id).epoch) == ("node1", 1)
    assert book.admit(run_id).kind == "granted"


def test_a_repeated_claim_is_the_same_claim() -> None:
    book = owned_book()
    run_id = book.a_run()
    book.claim(run_id)
    again = book.claim(run_id)
    assert (again.kind, again.again, again.changed) == ("claimed", True, ())
    assert book.claim(run_id, worker="w2/z").reason == "illegal_move"
    assert book.claim(run_id, n=2).reason == "run_not_pending"


@pytest.mark.parametrize("n", [-1, 0, 2, 3])
def test_attempts_come_one_after_the_other(n: int) -> None:
    book = owned_book()
    assert book.claim(book.a_run(), n=n).reason == "attempt_differs"


def test_a_fenced_attempt_is_tried_again_after_a_growing_pause() -> None:
    book = owned_book()
    run_id = book.a_run()
    pauses = []
    for n in range(1, 9):
        assert book.claim(run_id, n=n).kind == "claimed"
        result = book.do(ops.FenceOp(run_id=run_id, attempt=n, why="claim_deadline"))
        assert result.kind == "fenced"
        assert book.admit(run_id, n=n).reason == "fenced"
        assert book.claim(run_id, n=n + 1).reason == "not_due"
        pauses.append(book.run(run_id).not_before_ms - book.now_ms)
        book.now_ms = book.run(run_id).not_before_ms
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


def test_a_claim_fenced_after_the_window_is_missed_in_the_same_commit() -> None:
    book = owned_book()
    run_id = book.a_run()
    book.claim(run_id)
    book.now_ms += HOUR_MS + 1
    book.do(ops.FenceOp(run_id=run_id, attempt=1, why="claim_deadline"))
    assert book.states(run_id) == ("Skipped", "NotLaunched")
    assert queries.schedules(book.db)[0].slot_run_id is None


def test_a_fence_never_meets_a_permit() -> None:
    book = owned_book()
    run_id = book.admitted()
    result = book.do(ops.FenceOp(run_id=run_id, attempt=1, why="drain", worker="w1"))
    assert (result.kind, result.detail, result.changed) == ("permit_exists", {"state": "Admitted"}, ())


def test_a_worker_fences_its_own_claim_only() -> None:
    book = owned_book()
    run_id = book.a_run()
    book.claim(run_id)
    assert book.do(ops.FenceOp(run_id=run_id, attempt=1, why="drain", worker="w2")).reason == "worker_differs"
    assert book.do(ops.FenceOp(run_id=run_id, attempt=1, why="drain", worker="w1")).kind == "fenced"
    assert book.do(ops.FenceOp(run_id=run_id, attempt=1, why="drain", worker="w1")).again
    assert book.do(ops.FenceOp(run_id=run_id, attempt=2, why="drain", worker="w1")).kind == "no_such_run"


def test_a_pool_s_capacity_is_held_until_the_outcome_is_definite_or_attested() -> None:
    book = owned_book(spec(), spec("other"))
    book.apply(pools=(ops.PoolSpec(name="default", limit=1),))
    first = book.admitted()
    book.now_ms = 2_000
    second = book.materialise(2_000, name="other").detail["runs"][0]
    assert book.claim(second).reason == "pool_full"
    book.lose(first)
    assert book.claimable() == []
    assert book.claim(second).reason == "pool_full"
    book.attest(first)
    assert book.claimable() == [second]
    assert book.claim(second, worker="w2/a").kind == "claimed"
    assert queries.pools(book.db)[0].held == 1


def test_a_worker_outside_the_pool_gets_no_claim() -> None:
    book = owned_book()
    assert book.claim(book.a_run(), authorities=("gpu",)).reason == "authority_differs"


def test_a_confirmed_failure_is_retried_as_often_as_the_schedule_says() -> None:
    book = owned_book(spec(retry=ops.Retry(attempts=2)))
    run_id = book.admitted()
    book.finish(run_id, succeeded=False, tail="boom")
    assert book.run(run_id).not_before_ms == book.now_ms + 1_000
    assert book.claim(run_id, n=2).reason == "not_due"
    book.now_ms += 2 * HOUR_MS
    assert book.claim(run_id, n=2).kind == "claimed", "a retry knows no window"
    book.admit(run_id, n=2)
    book.finish(run_id, n=2, succeeded=False)
    assert book.states(run_id) == ("Failed", "Failed", "Failed")
    assert (book.run(run_id).reason, book.attempt(run_id).tail) == ("exit", "boom")


def test_forfeit_gives_the_permit_back() -> None:
    book = owned_book()
    run_id = book.admitted()
    assert book.report(ops.ForfeitOp, run_id, incarnation="b").kind == "evidence"
    assert book.report(ops.ForfeitOp, run_id).kind == "recorded"
    assert book.attempt(run_id).reason == "not_consumed"
    book.now_ms += 1_000
    book.claim(run_id, n=2, worker="w2/z")
    assert book.admit(run_id, n=2, worker="w2").token == 1 << 40 | 2


def test_every_report_is_answered_finally() -> None:
    book = owned_book()
    run_id = book.admitted()
    assert book.report(ops.FinishOp, run_id, **_finish(book.now_ms), ledger="other").kind == "evidence"
    assert book.report(ops.FinishOp, run_id, **_finish(book.now_ms), worker="w2").kind == "no_such_run"
    assert book.do(ops.ForfeitOp("w1", run_id, 9, "a", "w1-disk")).kind == "no_such_run"
    assert book.do(ops.ForfeitOp("w1", "nobody", 1, "a", "w1-disk")).kind == "no_such_run"
    assert book.states(run_id) == ("Active", "Admitted")
    assert book.finish(run_id).kind == "recorded"
    assert book.lose(run_id, why="cannot_tell", worker="w1", evidence="late").kind == "evidence"
    assert "late" in book.attempt(run_id).evidence


def _finish(ended_ms: int) -> dict[str, object]:
    return {"succeeded": True, "reason": None, "exit_code": 0, "ended_ms": ended_ms}


def test_lost_then_a_late_result_of_the_same_ledger() -> None:
    book = owned_book()
    run_id = book.admitted()
    assert book.lose(run_id).kind == "recorded"
    assert book.lose(run_id).again
    assert (book.run(run_id).state, book.run(run_id).reason) == (RunState.UNKNOWN, "worker_out_of_contact")
    assert book.lose(run_id, why="cannot_tell", worker="w1").kind == "evidence"
    assert book.finish(run_id, incarnation="b").kind == "recorded"
    assert book.states(run_id) == ("Succeeded", "Succeeded")
    assert book.finish(run_id, succeeded=False).kind == "evidence"
    assert book.states(run_id) == ("Succeeded", "Succeeded")


def test_attest_retires_the_incarnation() -> None:
    book = owned_book(spec(), spec("other"))
    run_id = book.admitted()
    book.lose(run_id)
    changed = book.attest(run_id, row_revision=1)
    assert (changed.reason, changed.detail["row_revision"]) == ("row_changed", book.attempt(run_id).revision)
    assert book.attest(run_id, evidence=" ").reason == "incomplete"
    assert book.attest(run_id, statement="x" * 5_000).reason == "attestation_too_long"
    done = book.attest(run_id)
    assert done.detail == {"run_id": run_id, "attempt": 1, "state": "Quiesced", "run_state": "Quiesced"}
    assert queries.is_retired(book.db, "w1", "a")
    _, newest = queries.events(book.db, run_id=run_id, limit=2)
    assert (newest.attempt, newest.why, newest.evidence) == (1, "attested by Rita", "host is gone (ticket 7)")
    book.now_ms = 2_000
    second = book.materialise(2_000, name="other").detail["runs"][0]
    assert book.claim(second).reason == "incarnation_retired"
    assert book.claim(second, worker="w1/b").kind == "claimed"
    assert book.finish(run_id).kind == "evidence"


def test_a_retired_incarnation_gets_no_permit_for_what_it_claimed_before() -> None:
    book = owned_book(spec(), spec("other"))
    run_id = book.admitted()
    book.now_ms = 2_000
    second = book.materialise(2_000, name="other").detail["runs"][0]
    book.claim(second)
    book.lose(run_id)
    book.attest(run_id)
    assert book.admit(second).reason == "incarnation_retired"


def test_cancel_before_launch_cancels_at_once_and_the_worker_gets_no_permit() -> None:
    book = owned_book()
    run_id = book.a_run()
    book.claim(run_id)
    binding = book.binding(run_id)
    assert book.cancel(run_id).detail == {"run_id": run_id, "state": "Cancelled"}
    assert book.do(ops.AdmitOp(worker="w1", binding=binding, reservation="x")).reason == "fenced"


def test_cancel_after_the_permit_waits_for_proof() -> None:
    book = owned_book()
    run_id = book.admitted()
    assert book.cancel(run_id).detail["state"] == "Cancelling"
    assert book.cancel(run_id).detail["state"] == "Cancelling"
    assert [attempt.run_id for attempt in queries.stops(book.db, "w1")] == [run_id]
    book.do(ops.LoseOp(run_id=run_id, attempt=1, why="stop_deadline"))
    assert book.attempt(run_id).unresolved
    stopped = {"consumed": True, "exit_code": -15, "ended_ms": 9}
    assert book.report(ops.ConfirmStoppedOp, run_id, **stopped).kind == "recorded"
    assert book.report(ops.ConfirmStoppedOp, run_id, **stopped).again
    assert book.states(run_id) == ("Cancelled", "Cancelled")
    refused = book.cancel(run_id)
    assert (refused.reason, refused.detail["state"]) == ("terminal", "Cancelled")
    assert queries.stops(book.db, "w1") == []


def test_cancel_and_attest_of_nothing() -> None:
    book = owned_book()
    assert book.cancel("nobody").reason == "no_such_run"
    run_id = book.admitted()
    operation = book.operation()
    attest = ops.AttestOp(operation, run_id, 2, "Rita", "s", "e", 1)
    assert book.do(attest).reason == "no_such_attempt"


def test_a_manual_run_has_an_occurrence_of_its_own_and_overlap_holds_for_it() -> None:
    book = owned_book()
    key = "0190a0a0-1111-7000-8000-000000000001"
    book.now_ms = 1_500
    trigger = ops.Trigger(operation=book.operation(key), namespace="demo", name="tick")
    done = book.do(trigger)
    run = book.run(done.detail["run_id"])
    assert (run.scheduled_for_ms, run.trigger_id, run.triggered_ms) == (None, key, 1_500)
    assert (run.occurrence, run.state, run.holds_slot) == (f"manual/{key}", RunState.PENDING, True)
    assert book.do(trigger).detail == done.detail
    second = book.do(ops.Trigger(operation=book.operation(), namespace="demo", name="tick"))
    assert (second.detail["state"], second.detail["reason"]) == ("Skipped", "overlap")
    elsewhere = ops.Trigger(operation=book.operation(key, principal="bob"), namespace="demo", name="tick")
    assert book.do(elsewhere).reason == "trigger_exists"
    assert book.cancel(second.detail["run_id"]).reason == "terminal"
    assert queries.schedules(book.db)[0].schedule_id == SCHEDULE

"""Overlap `cancel_previous`: a later instant stops the earlier run and waits for its confirmed end."""

import pytest

from runner.checkpoint import ops, queries
from runner.checkpoint.records import RunState
from runner.checkpoint.results import OpResult
from tests.unit.checkpoint.book import SCHEDULE, Book, owned_book, spec


def replacing(**changes: object) -> Book:
    return owned_book(spec(overlap="cancel_previous", **changes))


def due(book: Book, *instants_ms: int) -> OpResult:
    book.now_ms = max(instants_ms)
    result = book.materialise(*instants_ms)
    assert result.kind == "done", result
    return result


def slot(book: Book) -> str | None:
    return queries.slot_of(book.db, SCHEDULE)


def why(book: Book, run_id: str) -> list[tuple[str, str, str | None]]:
    found = queries.events(book.db, run_id=run_id, limit=50)
    return [(e.op, e.to_state or "", e.why) for e in found if e.op in {"cancel", "displace"} and e.attempt is None]


def test_the_running_one_is_cancelled_and_the_next_waits_for_its_confirmed_end() -> None:
    book = replacing()
    first = book.admitted(1_000)
    result = due(book, 2_000)
    (second,) = result.detail["runs"]
    assert result.detail == {"runs": [second], "overlap": 0, "missed": 0, "cancelled": [first]}
    assert book.states(first) == ("Cancelling", "Cancelling")
    assert (book.states(second), slot(book)) == (("Pending",), first)
    assert book.claim(second).reason == "slot_held"
    assert why(book, first) == [("cancel", "Cancelling", "cancel_previous: 1970-01-01T00:00:02Z fell due")]
    book.report(ops.ConfirmStoppedOp, first, consumed=True, exit_code=-15, ended_ms=book.now_ms)
    assert (book.states(first), slot(book)) == (("Cancelled", "Cancelled"), second)
    assert book.claim(second).kind == "claimed"


def test_a_claim_without_a_permit_ends_at_once_and_its_worker_gets_none() -> None:
    book = replacing()
    first = book.a_run(1_000)
    book.claim(first)
    (second,) = due(book, 2_000).detail["runs"]
    assert book.states(first) == ("Cancelled", "NotLaunched")
    assert slot(book) == second
    assert book.admit(first).reason == "fenced"
    assert book.claim(second).kind == "claimed"


def test_one_that_only_waits_is_displaced() -> None:
    book = replacing()
    first = book.a_run(1_000)
    result = due(book, 2_000)
    (second,) = result.detail["runs"]
    assert result.detail["displaced"] == [first]
    assert (book.run(first).state, book.run(first).reason) == (RunState.SKIPPED, "superseded")
    assert slot(book) == second
    assert why(book, first) == [("displace", "Skipped", "cancel_previous: 1970-01-01T00:00:02Z fell due")]


def test_one_that_waits_for_a_retry_fails_with_its_failure() -> None:
    book = replacing(retry=ops.Retry(attempts=3))
    first = book.admitted(1_000)
    book.finish(first, succeeded=False)
    (second,) = due(book, 2_000).detail["runs"]
    assert (book.run(first).state, book.run(first).reason) == (RunState.FAILED, "exit")
    assert slot(book) == second


def test_an_unknown_one_becomes_cancelling_unresolved_and_holds_the_slot_until_it_is_attested() -> None:
    book = replacing()
    first = book.admitted(1_000)
    book.lose(first)
    (second,) = due(book, 2_000).detail["runs"]
    assert (book.run(first).state, book.run(first).reason) == (RunState.CANCELLING, "unresolved")
    assert slot(book) == first
    third = due(book, 3_000)
    assert "cancelled" not in third.detail, "cancelled once"
    assert third.detail["displaced"] == [second]
    assert slot(book) == first
    book.attest(first)
    assert (book.states(first)[0], slot(book)) == ("Quiesced", third.detail["runs"][0])


def test_a_batch_waits_in_line_and_the_next_batch_takes_the_place_of_all_of_it() -> None:
    book = replacing()
    first = book.admitted(1_000)
    earlier = due(book, 2_000, 3_000).detail["runs"]
    result = due(book, 4_000, 5_000)
    assert result.detail["displaced"] == earlier
    assert [book.states(run_id) for run_id in earlier] == [("Skipped",), ("Skipped",)]
    assert [book.states(run_id) for run_id in result.detail["runs"]] == [("Pending",), ("Pending",)]
    assert slot(book) == first
    book.finish(first)
    assert book.states(first)[0] == "Succeeded", "completion won"
    assert slot(book) == result.detail["runs"][0]


def test_instants_of_one_batch_never_replace_each_other() -> None:
    book = replacing()
    made = due(book, 1_000, 2_000, 3_000).detail
    assert [book.states(run_id) for run_id in made["runs"]] == [("Pending",)] * 3
    assert "displaced" not in made


def test_what_is_missed_or_on_record_already_cancels_nothing() -> None:
    book = replacing()
    first = book.admitted(1_000)
    book.now_ms = 9_000
    book.materialise(missed=(ops.Missed(2_000, 9_000, 8, "missed_window"),))
    book.db.execute("UPDATE schedules SET watermark_ms = 0")
    assert book.materialise(1_000).detail == {"runs": [], "overlap": 0, "missed": 0}
    assert book.states(first) == ("Active", "Admitted")


def test_a_trigger_replaces_what_runs_too_and_is_replaced_by_the_next_instant() -> None:
    book = replacing()
    first = book.admitted(1_000)
    book.now_ms = 1_500
    triggered = book.do(ops.Trigger(book.operation("k"), "demo", "tick"))
    manual = triggered.detail["run_id"]
    assert triggered.detail == {"run_id": manual, "state": "Pending", "reason": None, "cancelled": [first]}
    assert why(book, first) == [("cancel", "Cancelling", "cancel_previous: triggered with key k")]
    assert queries.events(book.db, run_id=first, limit=1)[0].actor == "alice"
    result = due(book, 2_000)
    assert result.detail["displaced"] == [manual]
    assert book.run(manual).reason == "superseded"


@pytest.mark.parametrize("held", [True, False])
def test_a_trigger_under_skip_is_skipped_behind_an_open_run_as_ever(held: bool) -> None:
    book = owned_book()
    if held:
        book.admitted(1_000)
    result = book.do(ops.Trigger(book.operation(), "demo", "tick"))
    assert result.detail["state"] == ("Skipped" if held else "Pending")


def test_an_edit_of_the_policy_is_for_the_next_instant() -> None:
    book = owned_book()
    first = book.admitted(1_000)
    assert due(book, 2_000).detail["overlap"] == 1
    book.apply(spec(overlap="cancel_previous"))
    assert due(book, 3_000).detail["cancelled"] == [first]


def test_a_delivery_with_an_uncertain_attempt_is_cancelled_even_while_it_waits() -> None:
    book = replacing(on_unknown="retry", delivery_deadline_s=86_400)
    first = book.admitted(1_000)
    book.lose(first)
    assert book.states(first) == ("Pending", "Unknown")
    assert due(book, 2_000).detail["cancelled"] == [first]
    assert book.states(first) == ("Cancelling", "Cancelling")
    assert slot(book) == first

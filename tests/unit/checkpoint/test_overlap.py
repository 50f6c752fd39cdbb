"""What becomes of an occurrence while others of its schedule are open: queue_one, queue_all, allow, and edits of those."""

import pytest

from runner.checkpoint import ops, queries
from runner.checkpoint.records import RunState
from runner.checkpoint.results import OpResult
from tests.unit.checkpoint.book import HOUR_MS, SCHEDULE, Book, owned_book, spec


def policy(overlap: str, **changes: object) -> Book:
    return owned_book(spec(overlap=overlap, **changes))


def due(book: Book, *instants_ms: int, **changes: object) -> list[str]:
    book.now_ms = max(book.now_ms, *instants_ms)
    result = book.materialise(*instants_ms, **changes)  # type: ignore[arg-type]  # each call is its own mixture
    assert result.kind == "done", result
    return list(result.detail["runs"])


def launched(book: Book, run_id: str) -> None:
    assert book.claim(run_id, len(queries.attempts(book.db, run_id)) + 1).kind == "claimed"
    assert book.admit(run_id, reservation=run_id).kind == "granted"


def row(book: Book) -> tuple[str | None, int, int]:
    found = queries.schedule_named(book.db, "demo", "tick")
    assert found is not None
    return found.slot_run_id, found.planned_runs, found.watermark_ms


def skipped(book: Book) -> list[tuple[int, int, str]]:
    found = queries.runs(book.db, schedule_id=SCHEDULE, state=RunState.SKIPPED, limit=50)
    return [(one.first_ms, one.count, str(one.reason)) for one in reversed(found) if not hasattr(one, "run_id")]


def trigger(book: Book, *, beside: bool = False) -> OpResult:
    result = book.do(ops.Trigger(book.operation(), "demo", "tick", beside=beside))
    assert result.kind == "done", result
    return result


def edit(book: Book, overlap: str, **changes: object) -> None:
    assert book.apply(spec(overlap=overlap, **changes)).kind == "done"


def holds(book: Book, run_id: str, state: str) -> None:
    {"retry": lambda: book.finish(run_id, succeeded=False), "Unknown": lambda: book.lose(run_id)}.get(
        state, lambda: book.cancel(run_id)
    )()


HELD = ("retry", "Unknown", "Cancelling")


@pytest.mark.parametrize("state", HELD)
def test_queue_one_keeps_the_one_that_waits_and_skips_what_comes_after_it(state: str) -> None:
    book = policy("queue_one", retry=ops.Retry(attempts=2))
    (first,) = due(book, 1_000)
    launched(book, first)
    holds(book, first, state)
    (second,) = due(book, 2_000, 3_000)
    assert due(book, 4_000) == []
    assert skipped(book) == [(3_000, 2, "overlap")]
    assert (book.states(second), row(book)[0]) == (("Pending",), first)
    assert book.claim(second).reason == "slot_held"


def test_queue_one_has_room_again_once_the_waiting_one_has_its_turn() -> None:
    book = policy("queue_one")
    (first,) = due(book, 1_000)
    launched(book, first)
    (second,) = due(book, 2_000)
    book.finish(first)
    (third,) = due(book, 3_000)
    assert (row(book)[0], book.states(third)) == (second, ("Pending",))
    assert due(book, 4_000) == []


def test_queue_all_takes_as_many_as_its_limit_and_counts_the_overflow() -> None:
    book = policy("queue_all", queue_limit=2)
    (first,) = due(book, 1_000)
    book.now_ms = 5_000
    result = book.materialise(2_000, 3_000, 4_000, 5_000)
    second, third = result.detail["runs"]
    assert result.detail == {"runs": [second, third], "overlap": 0, "queue_full": 2, "missed": 0}
    assert skipped(book) == [(4_000, 2, "queue_full")]
    book.cancel(first)
    assert row(book)[0] == second
    assert len(due(book, 6_000, 7_000)) == 1


@pytest.mark.parametrize("overlap", ["skip", "queue_one", "queue_all", "cancel_previous"])
def test_a_batch_that_finds_the_slot_free_waits_in_line_whole(overlap: str) -> None:
    book = policy(overlap, queue_limit=1)
    first, second, third = due(book, 1_000, 2_000, 3_000)
    assert [book.run(each).holds_slot for each in (first, second, third)] == [True, False, False]
    if overlap in {"queue_one", "queue_all"}:
        assert due(book, 4_000) == [], "its line is full"


@pytest.mark.parametrize("overlap", ["queue_one", "queue_all", "allow"])
def test_a_manual_run_obeys_overlap_as_a_planned_one_does(overlap: str) -> None:
    book = policy(overlap, queue_limit=1, max_concurrent=2)
    due(book, 1_000)
    assert [trigger(book).detail["reason"] for _ in range(2)] == [
        None,
        "queue_full" if overlap == "queue_all" else "overlap",
    ]


def test_allow_runs_side_by_side_up_to_its_limit_however_long_they_last() -> None:
    book = policy("allow", max_concurrent=2, retry=ops.Retry(attempts=2))
    first, second = due(book, 1_000, 2_000, 3_000)
    assert book.claimable() == sorted([first, second])
    assert skipped(book) == [(3_000, 1, "overlap")]
    for run_id in (first, second):
        launched(book, run_id)
        assert (book.run(run_id).beside, book.run(run_id).holds_slot) == (True, False)
    book.lose(first)
    book.cancel(second)
    assert due(book, 4_000) == [], "Unknown and Cancelling count for as long as they last"
    book.attest(first)
    (third,) = due(book, 5_000)
    assert (book.claimable(), row(book)[0]) == ([third], None)


def test_under_allow_what_is_caught_up_waits_for_each_other_beside_what_is_in_time() -> None:
    book = policy("allow", max_concurrent=3, catch_up=ops.CatchUp(policy="all"))
    late, later, in_time = due(book, 1_000, 2_000, 100_000, caught_up=2)
    assert [book.run(each).caught_up for each in (late, later, in_time)] == ["all", "all", None]
    assert [book.run(each).beside for each in (late, later, in_time)] == [False, False, True]
    assert book.claimable() == sorted([late, in_time])
    launched(book, late)
    assert book.claim(later).reason == "slot_held"
    assert len(due(book, 101_000, 102_000)) == 1, "three go on: one caught up, two beside it"
    book.finish(late)
    assert book.claimable()[0] == later
    assert book.claim(later).kind == "claimed"


def test_a_caught_up_run_waits_while_as_many_as_may_run_beside_the_slot() -> None:
    book = policy("allow", max_concurrent=1, catch_up=ops.CatchUp(policy="all"))
    (beside,) = due(book, 100_000)
    book.now_ms += 500_000
    (late,) = due(book, 200_000, caught_up=1)
    assert (book.claimable(), book.claim(late).reason) == ([beside], "slot_held")
    assert due(book, 600_500) == [], "nor does a newer one take the place that is free next"
    book.cancel(beside)
    assert book.claimable() == [late]


def test_what_was_triggered_to_run_whatever_else_is_open_counts_for_nothing() -> None:
    book = policy("allow", max_concurrent=1)
    (first,) = due(book, 1_000)
    apart = [trigger(book, beside=True).detail["run_id"] for _ in range(3)]
    assert book.claimable() == sorted([first, *apart])
    assert all(book.run(each).apart for each in apart)
    book.cancel(first)
    (second,) = due(book, 2_000)
    edit(book, "skip")
    book.cancel(second)
    for run_id in apart:
        launched(book, run_id)
    (third,) = due(book, 3_000)
    launched(book, third)
    edit(book, "cancel_previous")
    (fourth,) = due(book, 4_000)
    assert [book.run(each).state for each in apart] == [RunState.ACTIVE] * 3
    assert book.states(third)[0] == "Cancelling"
    assert book.run(fourth).state is RunState.PENDING


@pytest.mark.parametrize("state", HELD)
def test_after_an_edit_what_allow_let_run_is_in_the_way(state: str) -> None:
    book = policy("allow", retry=ops.Retry(attempts=2))
    (open_run,) = due(book, 1_000)
    launched(book, open_run)
    holds(book, open_run, state)
    edit(book, "skip")
    assert due(book, 2_000) == []
    edit(book, "queue_one")
    (waits,) = due(book, 3_000)
    assert due(book, 4_000) == [], "the one that waits has the slot already"
    assert (row(book)[0], book.claim(waits).reason) == (waits, "slot_held")
    assert waits not in book.claimable()
    edit(book, "allow")
    assert waits in book.claimable()
    edit(book, "queue_all", queue_limit=2)
    (behind,) = due(book, 5_000, 6_000)
    assert skipped(book)[-1] == (6_000, 1, "queue_full")
    if state == "retry":
        book.now_ms += 10_000
        assert open_run in book.claimable(), "what was let run goes on beside"
        book.cancel(open_run)
    else:
        book.attest(open_run) if state == "Unknown" else book.report(
            ops.ConfirmStoppedOp, open_run, consumed=True, exit_code=-15, ended_ms=0
        )
    assert book.claimable() == [waits]
    assert book.claim(behind).reason == "slot_held"


def test_after_an_edit_to_cancel_previous_what_allow_let_run_is_stopped() -> None:
    book = policy("allow")
    running, claimed, waiting = due(book, 1_000, 2_000, 3_000)
    launched(book, running)
    book.claim(claimed)
    edit(book, "cancel_previous")
    book.now_ms = 4_000
    result = book.materialise(4_000)
    (newest,) = result.detail["runs"]
    assert (result.detail["cancelled"], result.detail["displaced"]) == ([running, claimed], [waiting])
    assert book.claim(newest).reason == "slot_held"
    book.report(ops.ConfirmStoppedOp, running, consumed=True, exit_code=-15, ended_ms=0)
    assert book.claimable() == [newest]


def test_max_runs_counts_what_became_a_run_and_then_nothing_is_planned_or_stopped() -> None:
    book = policy("cancel_previous", max_runs=2)
    (first,) = due(book, 1_000)
    trigger(book)
    missed = (ops.Missed(2_000, 2_000, 1, "missed_window"), ops.Missed(3_500, 3_900, 2, "excluded"))
    (second,) = due(book, 3_000, 4_000, missed=missed)
    assert (row(book)[1:], skipped(book)) == ((2, 4_000), [(2_000, 1, "missed_window")])
    assert (first, second) != (None, None)
    assert due(book, 5_000) == []
    assert (row(book)[1:], book.run(second).state) == ((2, 5_000), RunState.PENDING)
    edit(book, "cancel_previous", max_runs=3)
    assert len(due(book, 6_000, 7_000)) == 1, "an edit that raises it goes on counting"
    book.do(ops.Delete(book.operation(), "demo", "tick"))
    edit(book, "cancel_previous", max_runs=3)
    assert (row(book)[1], len(due(book, 8_000, 9_000, 10_000, 11_000))) == (0, 3)


def test_a_delivery_opened_again_waits_for_the_slot_although_it_ran_beside_it() -> None:
    book = policy("allow", max_concurrent=2, on_unknown="retry", delivery_deadline_s=86_400)
    (failed,) = due(book, 1_000)
    launched(book, failed)
    book.finish(failed, succeeded=False)
    others = due(book, 2_000, 3_000)
    book.do(ops.Redeliver(book.operation(), failed, 2 * HOUR_MS))
    again = book.run(failed)
    assert (again.state, again.beside, again.holds_slot) == (RunState.PENDING, False, True)
    book.now_ms += 10_000
    assert book.claimable() == sorted(others)
    book.cancel(others[0])
    assert failed in book.claimable()

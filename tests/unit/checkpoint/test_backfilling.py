"""Backfill makes runs for instants that nothing is on record of; enabling with catch-up; a clock that is accepted."""

import pytest

from runner.checkpoint import ops, queries
from runner.checkpoint.limits import MAX_WAITING
from runner.checkpoint.records import Schedule
from runner.checkpoint.results import OpResult
from tests.unit.checkpoint.book import HOUR_MS, SCHEDULE, Book, spec

CREATED_MS = 1_000_000


def book_of(**changes: object) -> Book:
    book = Book(now_ms=CREATED_MS)
    book.acquire()
    assert book.apply(spec(**changes)).kind == "done"
    return book


def row(book: Book) -> Schedule:
    found = queries.schedule_named(book.db, "demo", "tick")
    assert found is not None
    return found


def backfill(book: Book, *instants_ms: int, **changes: object) -> OpResult:
    said: dict[str, object] = {"name": "tick", "schedule_revision": row(book).definition_revision, **changes}
    return book.do(ops.Backfill(book.operation(), "demo", instants=instants_ms, **said))


def switch(book: Book, *, enabled: bool, catch_up: bool = False) -> OpResult:
    return book.do(ops.SetEnabled(book.operation(), "demo", "tick", enabled, catch_up))


@pytest.mark.parametrize("overlap", ["skip", "queue_one", "queue_all", "cancel_previous", "allow"])
def test_backfilled_runs_wait_in_line_behind_what_holds_the_slot_oldest_first(overlap: str) -> None:
    book = book_of(overlap=overlap, queue_limit=1, max_runs=1, max_concurrent=1)
    operation = ops.Trigger(book.operation(), "demo", "tick")
    holder = book.do(operation).detail["run_id"]
    result = backfill(book, 1_000, 2_000, 3_000)
    made = result.detail["runs"]
    assert (result.kind, result.detail["left"], len(made)) == ("done", [], 3)
    runs = [book.run(each) for each in made]
    assert [(run.scheduled_for_ms, run.state.value, run.beside) for run in runs] == [
        (at_ms, "Pending", False) for at_ms in (1_000, 2_000, 3_000)
    ]
    assert {run.closes_ms for run in runs} == {CREATED_MS + HOUR_MS + 1}, "their window counts from now"
    assert (row(book).planned_runs, row(book).watermark_ms) == (0, CREATED_MS)
    assert book.claimable() == [holder]
    book.cancel(holder)
    for run_id in made:
        assert book.claimable() == [run_id]
        book.claim(run_id)
        book.admit(run_id, reservation=run_id)
        book.finish(run_id)


def test_what_is_on_record_or_must_not_come_back_is_left_alone_and_listed() -> None:
    book = book_of()
    book.now_ms += 5_000
    excluded = ops.Missed(CREATED_MS + 2_000, CREATED_MS + 3_000, 2, "excluded")
    book.materialise(CREATED_MS + 1_000, CREATED_MS + 5_000, missed=(excluded,))
    result = backfill(book, *(CREATED_MS + n * 1_000 for n in (0, 1, 2, 3, 4, 5)))
    assert len(result.detail["runs"]) == 2
    assert [each["why"] for each in result.detail["left"]] == ["has_run", "excluded", "excluded", "has_run"]
    assert result.detail["left"][0]["scheduled_for"] == "1970-01-01T00:16:41Z"
    again = backfill(book, CREATED_MS)
    assert (again.detail["runs"], again.detail["left"][0]["why"]) == ([], "has_run")
    book.do(ops.Prune(SCHEDULE, 10_000, 10))
    book.db.execute("UPDATE schedules SET pruned_before_ms = 10000")
    book.db.execute("UPDATE head SET restored_ms = 20000")
    result = backfill(book, 1_000, 10_000, 10_001, 20_000, 20_001)
    assert [each["why"] for each in result.detail["left"]] == ["pruned", "pruned", "restored", "restored"]


def test_a_backfilled_delivery_has_its_deadline_from_now_on() -> None:
    book = book_of(on_unknown="retry", delivery_deadline_s=60)
    (run_id,) = backfill(book, 1_000).detail["runs"]
    assert book.run(run_id).deadline_ms == CREATED_MS + 60_000


def test_a_disabled_schedule_can_be_backfilled_up_to_where_it_was_disabled() -> None:
    book = book_of()
    switch(book, enabled=False)
    book.now_ms += HOUR_MS
    assert backfill(book, CREATED_MS + 1_000).reason == "not_yet"
    assert len(backfill(book, CREATED_MS).detail["runs"]) == 1


@pytest.mark.parametrize(
    ("instants", "changes", "reason"),
    [
        ((1_000,), {"name": "nobody"}, "no_such_schedule"),
        ((1_000,), {"schedule_revision": 99}, "stale_plan"),
        ((CREATED_MS + 1,), {}, "not_yet"),
        (tuple(range(MAX_WAITING + 1)), {}, "too_many"),
        ((2_000, 1_000), {}, "malformed_plan"),
        ((1_000, 1_000), {}, "malformed_plan"),
        ((-1, 1_000), {}, "out_of_range"),
    ],
)
def test_a_backfill_that_does_not_fit_changes_nothing(
    instants: tuple[int, ...], changes: dict[str, object], reason: str
) -> None:
    book = book_of()
    result = backfill(book, *instants, **changes)
    assert (result.kind, result.reason, result.changed) == ("refused", reason, ())


def test_neither_frozen_nor_deleted_is_anything_backfilled() -> None:
    book = book_of()
    book.do(ops.SetFrozen(book.operation(), frozen=True))
    assert backfill(book, 1_000).reason == "frozen"
    book.do(ops.SetFrozen(book.operation(), frozen=False))
    book.do(ops.Delete(book.operation(), "demo", "tick"))
    assert backfill(book, 1_000).reason == "schedule_deleted"


def test_the_same_backfill_again_is_told_the_same() -> None:
    book = book_of()
    op = ops.Backfill(book.operation("k"), "demo", "tick", row(book).definition_revision, (1_000,))
    first, second = book.do(op), book.do(op)
    assert (second.again, second.detail, second.changed) == (True, first.detail, ())


def test_enabling_with_catch_up_plans_from_where_it_was_disabled_and_never_from_before_what_is_gone() -> None:
    for catch_up, watermark_ms in ((False, CREATED_MS + HOUR_MS), (True, CREATED_MS + 1_000)):
        book = book_of()
        book.now_ms += 1_000
        book.materialise(book.now_ms)
        switch(book, enabled=False)
        book.now_ms = CREATED_MS + HOUR_MS
        switch(book, enabled=True, catch_up=catch_up)
        assert row(book).watermark_ms == watermark_ms
    switch(book, enabled=False)
    book.apply(spec(overlap="allow"))
    switch(book, enabled=True, catch_up=True)
    assert row(book).watermark_ms == CREATED_MS + HOUR_MS, "nothing counts that is older than its definition"
    switch(book, enabled=False)
    book.now_ms += 60 * 24 * HOUR_MS
    book.do(ops.Prune(SCHEDULE, book.now_ms - 40 * 24 * HOUR_MS, 10))
    switch(book, enabled=True, catch_up=True)
    assert row(book).watermark_ms == book.now_ms - 40 * 24 * HOUR_MS


def test_accepting_the_clock_changes_no_row_and_stands_on_the_trail() -> None:
    book = book_of()
    result = book.do(ops.AcceptClock(book.operation()))
    assert (result.kind, result.changed) == ("done", ())
    (event,) = [each for each in queries.events(book.db, run_id=None, limit=9) if each.op == "accept_clock"]
    assert (event.actor, event.from_state, event.to_state) == ("alice", None, None)

"""Retention: what goes, what never goes, and that nothing that went is ever planned or launched again."""

from typing import Any

import pytest

from runner.checkpoint import ops, queries
from runner.checkpoint.operations import KEPT_MS
from runner.checkpoint.records import Schedule, SkipRange
from runner.checkpoint.results import OpResult
from tests.unit.checkpoint.book import HOUR_MS, OTHER_SCHEDULE, SCHEDULE, Book, spec
from worker.protocol import CommandTarget

DAY_MS = 24 * HOUR_MS
START_MS = 100 * DAY_MS
KEPT_S = 3_600


def retained(*more: ops.ScheduleSpec, **changes: Any) -> Book:
    book = Book(now_ms=START_MS)
    book.acquire()
    assert book.apply(spec(retention_s=KEPT_S, **changes), *more).kind == "done"
    return book


def pruned(book: Book, before_ms: int | None = None, limit: int = 1_000, schedule_id: str = SCHEDULE) -> OpResult:
    result = book.do(ops.Prune(schedule_id, book.now_ms if before_ms is None else before_ms, limit))
    assert result.kind == "done", result
    return result


def row(book: Book) -> Schedule:
    found = queries.schedule_named(book.db, "demo", "tick")
    assert found is not None
    return found


def ran(book: Book, at_ms: int, *, succeeded: bool = True) -> str:
    run_id = book.admitted(at_ms)
    book.finish(run_id, succeeded=succeeded)
    return run_id


def kept(book: Book) -> list[str]:
    return [run_id for (run_id,) in book.db.execute("SELECT run_id FROM runs ORDER BY run_id")]


def rows_of(book: Book, run_id: str) -> int:
    counted = (f"SELECT COUNT(*) FROM {table} WHERE run_id = ?" for table in ("runs", "attempts", "events"))
    return sum(book.db.execute(each, (run_id,)).fetchone()[0] for each in counted)


def key_at(ms: int, n: int = 1) -> str:
    stamp = f"{ms:012x}"
    return f"{stamp[:8]}-{stamp[8:]}-7000-8000-{n:012x}"


def trigger(book: Book, key: str, principal: str = "alice") -> OpResult:
    return book.do(ops.Trigger(book.operation(key, principal=principal), "demo", "tick"))


def test_a_run_goes_whole_once_it_ended_long_enough_ago() -> None:
    book = retained()
    first = ran(book, START_MS + 1_000)
    book.now_ms = START_MS + 5_000
    second = ran(book, START_MS + 6_000)
    book.now_ms = START_MS + 6_000 + KEPT_S * 1_000 - 1
    result = pruned(book)
    assert (result.detail["runs"], kept(book), rows_of(book, first)) == (1, [second], 0)
    assert result.detail["rows"] == rows_of(book, second), "they were as many"
    assert result.changed == (f"run:{first}", f"schedule:{SCHEDULE}")
    book.now_ms += 1
    assert pruned(book).detail["runs"] == 1
    assert kept(book) == []
    assert book.db.execute("SELECT COUNT(*) FROM attempts").fetchone() == (0,)


def test_a_run_that_took_long_is_kept_from_its_end_on() -> None:
    book = retained()
    run_id = book.admitted(START_MS + 1_000)
    book.now_ms = START_MS + 10 * HOUR_MS
    book.finish(run_id)
    assert pruned(book).detail["runs"] == 0
    book.now_ms += KEPT_S * 1_000
    assert pruned(book).detail["runs"] == 1


def test_the_bound_is_the_proposers_within_the_retention() -> None:
    book = retained()
    first, second = ran(book, START_MS + 1_000), ran(book, START_MS + 2_000)
    book.now_ms = START_MS + DAY_MS
    result = pruned(book, before_ms=START_MS + 1_000)
    assert (kept(book), result.detail["pruned_before_ms"]) == ([second], START_MS + 1_000)
    assert pruned(book, before_ms=START_MS).detail["pruned_before_ms"] == START_MS + 1_000, "never back"
    assert rows_of(book, first) == 0


@pytest.mark.parametrize("end", ["pending", "active", "unknown", "cancelling", "unresolved"])
def test_an_open_run_is_never_forgotten(end: str) -> None:
    book = retained()
    run_id = book.a_run(START_MS + 1_000) if end == "pending" else book.admitted(START_MS + 1_000)
    if end in {"unknown", "unresolved"}:
        book.lose(run_id)
    if end in {"cancelling", "unresolved"}:
        book.cancel(run_id)
    before = rows_of(book, run_id)
    book.now_ms = START_MS + 3_650 * DAY_MS
    assert pruned(book).detail["runs"] == 0
    assert rows_of(book, run_id) == before


def test_a_run_that_succeeded_beside_an_uncertain_attempt_stays_until_that_is_attested() -> None:
    book = retained(on_unknown="retry", delivery_deadline_s=86_400)
    run_id = book.admitted(START_MS + 1_000)
    book.lose(run_id)
    book.now_ms += 1_000
    book.claim(run_id, 2)
    book.admit(run_id, 2)
    book.finish(run_id, 2)
    assert book.states(run_id) == ("Succeeded", "Unknown", "Succeeded")
    book.now_ms += 40 * DAY_MS
    assert pruned(book).detail["runs"] == 0
    book.attest(run_id, 1)
    assert pruned(book).detail["runs"] == 1


def test_reports_about_a_run_that_is_gone_are_finally_answered() -> None:
    book = retained()
    run_id = book.admitted(START_MS + 1_000)
    who = {"worker": "w1", "run_id": run_id, "attempt": 1, "incarnation": "a", "ledger": "w1-disk"}
    fence, admit = ops.FenceOp(run_id, 1, "worker_asked", "w1"), ops.AdmitOp("w1", book.binding(run_id), "x1")
    book.finish(run_id)
    book.now_ms += DAY_MS
    pruned(book)
    assert book.do(ops.FinishOp(**who, succeeded=True, reason=None, exit_code=0, ended_ms=0)).kind == "no_such_run"
    assert book.do(fence).kind == "no_such_run"
    assert (book.do(admit).kind, book.do(admit).reason) == ("denied", "no_such_run")


def test_skips_wholly_before_the_bound_go_and_the_newest_range_can_go_on() -> None:
    book = retained()
    holder = book.admitted(START_MS + 1_000)
    for at_ms in (2_000, 3_000):
        book.now_ms = START_MS + at_ms
        book.materialise(book.now_ms)
    book.finish(holder)
    holder = book.admitted(START_MS + 4_000)
    for at_ms in (5_000, 6_000, 5_000_000):
        book.now_ms = START_MS + at_ms
        book.materialise(book.now_ms)
    book.now_ms = START_MS + 2 * HOUR_MS
    result = pruned(book)
    assert (result.detail["skips"], result.detail["runs"]) == (1, 1)
    ranges = [
        each for each in queries.runs(book.db, schedule_id=None, state=None, limit=9) if isinstance(each, SkipRange)
    ]
    assert [(each.first_ms - START_MS, each.count) for each in ranges] == [(5_000, 3)], (
        "it reaches past the bound: whole"
    )
    book.now_ms = START_MS + DAY_MS
    assert pruned(book).detail["skips"] == 1
    book.materialise(book.now_ms)
    (fresh,) = [
        each for each in queries.runs(book.db, schedule_id=None, state=None, limit=9) if isinstance(each, SkipRange)
    ]
    assert (fresh.first_ms, fresh.count) == (book.now_ms, 1)
    assert queries.counts(book.db)["Skipped"] == 1


def test_nothing_at_or_before_the_mark_is_ever_planned_again() -> None:
    book = retained()
    ran(book, START_MS + 1_000)
    book.now_ms = START_MS + DAY_MS
    pruned(book)
    assert row(book).pruned_before_ms == row(book).watermark_ms == START_MS + 1_000
    book.db.execute("UPDATE schedules SET watermark_ms = ?", (START_MS,))
    assert book.materialise(START_MS + 1_000).reason == "pruned"
    assert book.materialise(START_MS + 5_000).reason == "pruned", "the plan starts before the mark"
    book.do(ops.Delete(book.operation(), "demo", "tick"))
    book.apply(spec())
    assert row(book).watermark_ms == book.now_ms


def test_the_mark_never_passes_instants_that_are_not_planned_yet() -> None:
    book = retained()
    book.now_ms = START_MS + DAY_MS  # nobody owned for a day
    pruned(book)
    assert row(book).pruned_before_ms == START_MS
    assert book.materialise(START_MS + DAY_MS).kind == "done"


@pytest.mark.parametrize("how", ["disabled", "deleted"])
def test_the_watermark_of_what_plans_nothing_comes_along(how: str) -> None:
    book = retained()
    ran(book, START_MS + 1_000)
    off = ops.SetEnabled(book.operation(), "demo", "tick", enabled=False)
    book.do(off if how == "disabled" else ops.Delete(book.operation(), "demo", "tick"))
    book.now_ms = START_MS + DAY_MS
    assert pruned(book).detail["runs"] == 1
    mark_ms = book.now_ms - KEPT_S * 1_000
    assert (row(book).pruned_before_ms, row(book).watermark_ms) == (mark_ms, mark_ms)


def test_the_answer_of_an_operation_key_outlives_its_run() -> None:
    book = retained()
    key = key_at(START_MS)
    first = trigger(book, key)
    book.cancel(first.detail["run_id"])
    book.now_ms = START_MS + KEPT_MS
    assert pruned(book).detail["runs"] == 0, "the key is still taken: its run is what keeps it from launching again"
    assert trigger(book, key).detail == first.detail
    assert trigger(book, key, principal="bob").reason == "trigger_exists"
    book.now_ms += 1
    assert pruned(book).detail["runs"] == 1
    for principal in ("alice", "bob", "carol"):
        again = trigger(book, key, principal)
        assert again.again or again.reason in {"key_too_old", "trigger_exists"}
    book.do(ops.ForgetOperations(1 << 47, 100))
    assert trigger(book, key).reason == "key_too_old"
    assert kept(book) == []


def test_a_key_minted_ahead_keeps_its_run_for_as_long_as_it_is_taken() -> None:
    book = retained()
    ahead = trigger(book, key_at(START_MS + HOUR_MS))
    book.cancel(ahead.detail["run_id"])
    book.now_ms = START_MS + HOUR_MS + KEPT_MS
    assert pruned(book).detail["runs"] == 0
    book.now_ms += 1
    assert pruned(book).detail["runs"] == 1


@pytest.mark.parametrize(
    "key", ["k1", "0", "00000000-0001-4000-8000-000000000001", "00000000-000g-7000-8000-000000000001"]
)
def test_a_key_that_is_never_too_old_keeps_its_run(key: str) -> None:
    book = retained()
    book.cancel(trigger(book, key).detail["run_id"])
    book.now_ms = START_MS + 400 * DAY_MS
    assert pruned(book).detail["runs"] == 0
    assert trigger(book, key, principal="bob").reason == "trigger_exists"


def test_a_target_goes_with_the_last_row_that_names_it() -> None:
    book = retained(spec("other", target=CommandTarget(argv=("shared",))), target=CommandTarget(argv=("old",)))
    old = ran(book, START_MS + 1_000)
    book.apply(spec(retention_s=KEPT_S, target=CommandTarget(argv=("shared",))))
    shared = ran(book, START_MS + 2_000)
    book.apply(spec(retention_s=KEPT_S, target=CommandTarget(argv=("new",))))
    digests = {argv: book.run(run_id).digest for argv, run_id in (("old", old), ("shared", shared))}
    book.now_ms = START_MS + DAY_MS
    assert pruned(book).detail["runs"] == 2
    with pytest.raises(KeyError):
        queries.target(book.db, digests["old"])
    assert queries.target(book.db, digests["shared"]).argv == ("shared",), "the other schedule names it"
    assert queries.target(book.db, row(book).digest).argv == ("new",)


def test_a_command_forgets_no_more_rows_than_it_may_but_always_one_run() -> None:
    book = retained()
    runs = [ran(book, START_MS + n * 1_000) for n in range(1, 6)]
    each = rows_of(book, runs[0])
    book.now_ms = START_MS + DAY_MS
    assert pruned(book, limit=0).detail["runs"] == 0
    assert pruned(book, limit=-5).detail["runs"] == 0
    assert pruned(book, limit=1).detail["runs"] == 1
    assert pruned(book, limit=2 * each + 1).detail == {
        "runs": 2, "skips": 0, "rows": 2 * each, "pruned_before_ms": START_MS + 5_000,
    }  # fmt: skip
    assert kept(book) == runs[3:]


def test_only_the_named_schedule_is_touched() -> None:
    book = retained(spec("other", retention_s=KEPT_S))
    ran(book, START_MS + 1_000)
    book.now_ms = START_MS + 2_000
    (other,) = book.materialise(START_MS + 2_000, name="other").detail["runs"]
    book.cancel(other)
    book.now_ms = START_MS + DAY_MS
    pruned(book)
    assert kept(book) == [other]
    assert pruned(book, schedule_id=OTHER_SCHEDULE).detail["runs"] == 1
    refused = book.do(ops.Prune("nobody", 1, 1))
    assert (refused.kind, refused.reason) == ("refused", "no_such_schedule")


def test_lines_of_the_trail_about_skips_go_after_a_month_and_others_stay() -> None:
    book = retained()
    book.admitted(START_MS + 1_000)
    book.now_ms = START_MS + 2_000
    book.materialise(book.now_ms)
    book.now_ms = START_MS + 3_000
    book.materialise(book.now_ms)
    told = [e.op for e in queries.events(book.db, run_id=None, limit=99) if e.run_id is None]
    assert told == ["materialise", "apply", "acquire"], "one line for a range, however long it gets"
    book.now_ms = START_MS + 29 * DAY_MS
    pruned(book)
    assert [e.op for e in queries.events(book.db, run_id=None, limit=99) if e.run_id is None] == told
    book.now_ms = START_MS + 31 * DAY_MS
    pruned(book)
    assert [e.op for e in queries.events(book.db, run_id=None, limit=99) if e.run_id is None] == ["apply", "acquire"]


def test_a_prune_that_finds_nothing_changes_nothing() -> None:
    book = retained()
    ran(book, START_MS + 1_000)
    book.now_ms = START_MS + DAY_MS
    pruned(book)
    assert pruned(book).changed == ()

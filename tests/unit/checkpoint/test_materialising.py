import pytest

from runner import ids
from runner.checkpoint import ops, queries
from runner.checkpoint.records import RunState, SkipRange
from tests.unit.checkpoint.book import CLUSTER, HOUR_MS, SCHEDULE, Book, owned_book, spec
from worker.protocol import CommandTarget


def skips(book: Book) -> list[tuple[int, int, int, str]]:
    found = queries.runs(book.db, schedule_id=None, state=RunState.SKIPPED, limit=50)
    return [(s.first_ms, s.last_ms, s.count, s.reason) for s in reversed(found) if isinstance(s, SkipRange)]


def slot(book: Book) -> str | None:
    schedule = queries.schedule_named(book.db, "demo", "tick")
    assert schedule is not None
    return schedule.slot_run_id


def missed(first_ms: int, last_ms: int, count: int) -> ops.Missed:
    return ops.Missed(first_ms=first_ms, last_ms=last_ms, count=count, reason="missed_window")


def test_the_first_of_a_batch_takes_the_slot_and_the_others_wait_in_line() -> None:
    book = owned_book()
    book.now_ms = 3_000
    first, second, third = book.materialise(1_000, 2_000, 3_000).detail["runs"]
    assert [book.run(each).holds_slot for each in (first, second, third)] == [True, False, False]
    assert book.claimable() == [first]
    assert book.claim(second).reason == "slot_held"
    book.claim(first)
    book.admit(first)
    book.finish(first)
    assert slot(book) == second, "passed on in the commit that freed it"
    book.cancel(second)
    assert slot(book) == third
    book.cancel(third)
    assert slot(book) is None


def test_a_cancelled_run_in_line_leaves_the_slot_where_it_is() -> None:
    book = owned_book()
    book.now_ms = 2_000
    first, second = book.materialise(1_000, 2_000).detail["runs"]
    assert book.cancel(second).detail["state"] == "Cancelled"
    assert slot(book) == first


def test_a_slot_held_by_an_earlier_batch_skips_each_instant() -> None:
    book = owned_book()
    book.a_run(1_000)
    book.now_ms = 4_000
    result = book.materialise(2_000, 3_000, 4_000)
    assert (result.detail["runs"], result.detail["overlap"]) == ([], 3)
    assert skips(book) == [(2_000, 4_000, 3, "overlap")]
    assert queries.counts(book.db)["Skipped"] == 3


@pytest.mark.parametrize("state", ["retry", "Unknown", "Cancelling"])
def test_the_slot_is_kept_while_anything_may_follow(state: str) -> None:
    book = owned_book(spec(retry=ops.Retry(attempts=2)))
    run_id = book.admitted()
    {"retry": lambda: book.finish(run_id, succeeded=False), "Unknown": lambda: book.lose(run_id)}.get(
        state, lambda: book.cancel(run_id)
    )()
    book.now_ms = 2_000
    assert book.materialise(2_000).detail["overlap"] == 1
    assert slot(book) == run_id


def test_skips_coalesce_only_with_the_instant_just_before() -> None:
    book = owned_book()
    run_id = book.admitted()
    for now_ms in (2_000, 3_000):
        book.now_ms = now_ms
        book.materialise(now_ms)
    book.finish(run_id)
    book.now_ms = 4_000
    second = book.materialise(4_000).detail["runs"][0]
    book.now_ms = 5_000
    book.materialise(5_000)
    assert skips(book) == [(2_000, 3_000, 2, "overlap"), (5_000, 5_000, 1, "overlap")]
    book.cancel(second)
    book.now_ms = 5 * HOUR_MS
    book.materialise(missed=(missed(6_000, 9_000, 4),))
    book.now_ms = 6 * HOUR_MS
    book.materialise(missed=(missed(5 * HOUR_MS + 1_000, 5 * HOUR_MS + 2_000, 2),))
    assert skips(book)[2:] == [(6_000, 5 * HOUR_MS + 2_000, 6, "missed_window")]


def test_skips_do_not_coalesce_across_an_edit_or_a_pause() -> None:
    book = owned_book()
    book.a_run(1_000)
    for now_ms, change in ((2_000, None), (3_000, "edit"), (4_000, "pause")):
        book.now_ms = now_ms
        if change == "edit":
            book.apply(spec(trigger=ops.Every(interval_s=2)))
        if change == "pause":
            for enabled in (False, True):
                operation = book.operation()
                book.do(ops.SetEnabled(operation=operation, namespace="demo", name="tick", enabled=enabled))
        book.now_ms += 500
        book.materialise(book.now_ms)
    assert [count for _, _, count, _ in skips(book)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schedule_id": "nobody"}, "no_such_schedule"),
        ({"schedule_revision": 99}, "stale_plan"),
        ({"after_ms": 1}, "stale_plan"),
        ({"until_ms": 10_001}, "not_yet"),
        ({"due": (0,)}, "malformed_plan"),
        ({"due": (2_000, 2_000)}, "malformed_plan"),
        ({"due": (3_000, 2_000)}, "malformed_plan"),
        ({"due": (9_001,), "until_ms": 9_000}, "malformed_plan"),
        ({"until_ms": -1}, "malformed_plan"),
        ({"missed": (missed(5_000, 4_000, 2),)}, "malformed_plan"),
        ({"missed": (missed(4_000, 4_000, 2),)}, "malformed_plan"),
        ({"missed": (missed(4_000, 4_001, 3),)}, "malformed_plan"),
        ({"missed": (missed(4_000, 5_000, 1),)}, "malformed_plan"),
        ({"missed": (missed(4_000, 5_000, 2),), "due": (5_000,)}, "malformed_plan"),
        ({"missed": (missed(4_000, 5_000, 2),), "due": (4_500,)}, "malformed_plan"),
        ({"missed": (missed(6_000, 7_000, 2), missed(4_000, 5_000, 2))}, "malformed_plan"),
        ({"missed": (missed(9_000, 9_500, 2),), "due": (8_000,), "until_ms": 9_000}, "malformed_plan"),
        ({"due": (1_000, 2_000), "caught_up": 3}, "malformed_plan"),
        ({"due": (1_000,), "caught_up": -1}, "malformed_plan"),
        ({"due": (1_000, 2_000), "starts_ms": (1_000,)}, "malformed_plan"),
        ({"starts_ms": (1_000,)}, "malformed_plan"),
        ({"due": (1_000,), "starts_ms": (999,)}, "malformed_plan"),
        ({"due": (1_000,), "starts_ms": (1_501,)}, "malformed_plan"),
    ],
)
def test_a_plan_that_does_not_fit_changes_nothing(changes: dict[str, object], reason: str) -> None:
    book = owned_book(spec(jitter_ms=500))
    book.now_ms = 10_000
    result = book.materialise(**changes)  # type: ignore[arg-type]  # each case is its own mixture
    assert (result.kind, result.reason, result.changed) == ("refused", reason, ())
    schedule = queries.schedule_named(book.db, "demo", "tick")
    assert schedule is not None
    assert schedule.watermark_ms == 0
    assert sum(queries.counts(book.db).values()) == 0


def test_what_is_skipped_may_lie_between_what_runs() -> None:
    book = owned_book(spec(jitter_ms=500, catch_up=ops.CatchUp(window_s=1, policy="all")))
    book.now_ms = 70_000
    excluded = ops.Missed(2_000, 2_000, 1, "excluded")
    first, second, third = book.materialise(
        1_500, 3_000, 70_000, missed=(missed(1_000, 1_400, 2), excluded), caught_up=2, starts_ms=(1_500, 3_500, 70_001)
    ).detail["runs"]
    assert skips(book) == [(1_000, 1_400, 2, "missed_window"), (2_000, 2_000, 1, "excluded")]
    found = [book.run(each) for each in (first, second, third)]
    assert [run.not_before_ms for run in found] == [1_500, 3_500, 70_001]
    assert [run.scheduled_for_ms for run in found] == [1_500, 3_000, 70_000]
    assert [run.caught_up for run in found] == ["all", "all", None]
    assert [run.closes_ms for run in found] == [61_501, 63_001, 130_001], "no window is shorter than lateness"
    book.now_ms = 71_000
    book.materialise(missed=(ops.Missed(71_000, 71_000, 1, "excluded"),))
    book.now_ms = 73_000
    later = (ops.Missed(72_000, 72_000, 1, "missed_window"), ops.Missed(73_000, 73_000, 1, "excluded"))
    book.materialise(missed=later)
    assert [count for _, _, count, _ in skips(book)] == [2, 1, 1, 1, 1], "another reason in between parts them"


def test_a_run_starts_when_its_jitter_says_and_closes_when_its_window_does() -> None:
    book = owned_book(spec(jitter_ms=90_000, catch_up=ops.CatchUp(window_s=90)))
    book.now_ms = 1_000
    (run_id,) = book.materialise(1_000, starts_ms=(91_000,)).detail["runs"]
    assert (book.claimable(), book.claim(run_id).reason) == ([], "not_due")
    book.now_ms = 91_000
    assert book.claimable() == [run_id], "at the window's edge it still runs"
    book.now_ms += 1
    assert book.claim(run_id).reason == "window_passed"


def test_the_same_batch_from_two_owners_is_made_once() -> None:
    book = owned_book()
    book.now_ms = 1_000
    schedule = queries.schedule_named(book.db, "demo", "tick")
    assert schedule is not None
    plan = ops.Materialise(SCHEDULE, schedule.definition_revision, 0, 1_000, (), (1_000,))
    assert book.do(plan).kind == "done"
    book.acquire("node2")
    assert book.do(plan).reason == "stale_plan"
    assert sum(queries.counts(book.db).values()) == 1


def test_an_occurrence_that_has_a_row_is_not_made_again_even_behind_a_wrong_watermark() -> None:
    book = owned_book()
    run_id = book.a_run(1_000)
    book.db.execute("UPDATE schedules SET watermark_ms = 0")
    assert book.materialise(1_000).detail == {"runs": [], "overlap": 0, "missed": 0}
    assert book.states(run_id) == ("Pending",)


def test_a_run_freezes_what_it_was_made_from() -> None:
    book = owned_book()
    run_id = book.a_run(1_000)
    before = book.run(run_id)
    book.apply(spec(retry=ops.Retry(attempts=7), target=CommandTarget(argv=("false",))))
    after = book.run(run_id)
    assert after == before
    assert queries.target(book.db, after.digest).argv == ("true",)
    assert run_id == ids.run_id(CLUSTER, SCHEDULE, "1970-01-01T00:00:01Z", 1_000)
    assert after.closes_ms == 1_000 + HOUR_MS + 1, "exactly as late as the window still runs"


def test_a_disabled_schedule_plans_nothing() -> None:
    book = owned_book()
    book.do(ops.SetEnabled(operation=book.operation(), namespace="demo", name="tick", enabled=False))
    book.now_ms = 1_000
    assert book.materialise(1_000).reason == "disabled"


def test_what_closes_in_line_is_missed_and_the_slot_goes_on() -> None:
    book = owned_book()
    book.now_ms = 3_000
    first, second, third = book.materialise(1_000, 2_000, 3_000).detail["runs"]
    book.now_ms = 1_000 + HOUR_MS
    assert (queries.closing(book.db, book.now_ms, 10), book.claimable()) == ([], [first]), "exactly as late runs"
    book.now_ms = 2_000 + HOUR_MS + 1
    assert queries.closing(book.db, book.now_ms, 10) == [first, second]
    assert book.claimable() == []
    assert book.claim(first).reason == "window_passed"
    for run_id in (second, first):
        assert book.do(ops.CloseOp(run_id=run_id)).kind == "done"
        assert (book.run(run_id).state, book.run(run_id).reason) == (RunState.SKIPPED, "missed_window")
    assert book.do(ops.CloseOp(run_id=third)).reason == "window_open"
    assert book.do(ops.CloseOp(run_id=first)).reason == "illegal_move"
    assert slot(book) == third
    assert book.claimable() == [third]

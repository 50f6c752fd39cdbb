"""A deleted schedule: what ends, what goes on, and what comes back."""

import pytest

from runner.checkpoint import ops, queries
from runner.checkpoint.deleting import NO_TARGET
from runner.checkpoint.records import Schedule
from runner.checkpoint.results import OpResult
from tests.unit.checkpoint.book import OTHER_SCHEDULE, SCHEDULE, Book, owned_book, spec
from worker.protocol import CommandTarget

OLD = CommandTarget(argv=("old",))


def delete(book: Book, name: str = "tick", key: str | None = None) -> OpResult:
    return book.do(ops.Delete(operation=book.operation(key), namespace="demo", name=name))


def row(book: Book, name: str = "tick") -> Schedule:
    found = queries.schedule_named(book.db, "demo", name)
    assert found is not None
    return found


def targets(book: Book) -> list[str]:
    return sorted(
        queries.target(book.db, digest).argv[0] for (digest,) in book.db.execute("SELECT digest FROM payloads")
    )


def test_open_runs_go_on_with_the_target_that_they_froze_and_nothing_more_is_planned() -> None:
    book = owned_book(spec(target=OLD, retry=ops.Retry(attempts=2)))
    book.now_ms = 2_000
    first, second = book.materialise(1_000, 2_000).detail["runs"]
    book.claim(first)
    book.admit(first)
    done = delete(book)
    assert (done.kind, done.detail) == ("done", {"schedule_id": SCHEDULE, "open_runs": 2, "unchanged": False})
    book.now_ms = 3_000
    assert book.materialise(3_000).reason == "disabled"
    assert (queries.enabled_ids(book.db), queries.schedules(book.db)) == ([], [])
    book.finish(first, succeeded=False)
    book.now_ms = 4_000
    assert book.claim(first, 2).kind == "claimed"
    assert queries.target(book.db, book.run(first).digest) == OLD
    book.admit(first, 2)
    book.finish(first, 2)
    assert book.claim(second).kind == "claimed", "the slot is passed on as ever"
    assert [run.run_id for run in queries.runs(book.db, schedule_id=SCHEDULE, state=None, limit=9)] == [second, first]


def test_a_tombstone_keeps_no_command() -> None:
    book = owned_book(spec(target=OLD), spec("other", target=CommandTarget(argv=("shared",))))
    book.apply(spec("third", schedule_id="third", target=CommandTarget(argv=("shared",))))
    delete(book)
    delete(book, "other")
    assert row(book).spec.target == NO_TARGET
    assert targets(book) == ["shared"], "what the third still names stays"
    delete(book, "third")
    assert targets(book) == []
    specs = [blob for (blob,) in book.db.execute("SELECT spec FROM schedules")]
    assert len(specs) == 3
    assert not any(b"shared" in blob or b'"old"' in blob for blob in specs)


def test_an_edit_drops_the_target_that_nothing_names_any_more() -> None:
    book = owned_book(spec(target=OLD))
    book.a_run(1_000)
    for argv in ("b", "c"):
        book.apply(spec(target=CommandTarget(argv=(argv,))))
    assert targets(book) == ["c", "old"], "a run still names the first"


def test_what_changes_planning_is_refused_in_words_of_its_own() -> None:
    book = owned_book()
    delete(book)
    for change in (
        ops.Trigger(book.operation(), "demo", "tick"),
        ops.SetEnabled(book.operation(), "demo", "tick", enabled=True),
        ops.SetEnabled(book.operation(), "demo", "tick", enabled=False),
    ):
        result = book.do(change)
        assert (result.kind, result.reason, result.changed) == ("refused", "schedule_deleted", ())
    assert delete(book, "nobody").reason == "no_such_schedule"


def test_deleting_twice_answers_the_same_and_changes_nothing() -> None:
    book = owned_book()
    first = delete(book, key="k")
    assert delete(book, key="k").again
    before = row(book)
    book.now_ms = 9_000
    second = delete(book)
    assert second.detail == first.detail | {"unchanged": True}
    assert (row(book), second.changed) == (before, ())


@pytest.mark.parametrize("enabled", [True, False])
def test_an_apply_revives_the_same_id_enabled_and_never_plans_what_is_past(enabled: bool) -> None:
    book = owned_book()
    run_id = book.a_run(1_000)
    if not enabled:
        book.do(ops.SetEnabled(book.operation(), "demo", "tick", enabled=False))
    delete(book)
    book.now_ms = 5_500
    result = book.apply(spec(schedule_id=OTHER_SCHEDULE))
    assert [each["outcome"] for each in result.detail["schedules"]] == ["revived"]
    found = row(book)
    assert (found.schedule_id, found.enabled, found.deleted_ms) == (SCHEDULE, True, None)
    assert (found.watermark_ms, found.anchor_ms, found.slot_run_id) == (5_500, 6_000, run_id)
    assert found.spec.target == CommandTarget(argv=("true",))
    assert book.materialise(5_000).reason == "malformed_plan"
    book.now_ms = 6_000
    assert book.materialise(6_000).detail["overlap"] == 1, "the run from before still holds the slot"
    assert [schedule.schedule_id for schedule in queries.schedules(book.db)] == [SCHEDULE]
    again = book.apply(spec())
    assert [each["outcome"] for each in again.detail["schedules"]] == ["unchanged"]


def test_a_watermark_ahead_of_now_is_kept_over_a_revival() -> None:
    book = owned_book()
    delete(book)
    book.db.execute("UPDATE schedules SET watermark_ms = 90000")
    book.apply(spec())
    assert row(book).watermark_ms == 90_000


def test_it_leaves_a_line_in_the_trail() -> None:
    book = owned_book()
    delete(book)
    event = queries.events(book.db, run_id=None, limit=1)[0]
    assert (event.actor, event.op, event.to_state, event.why) == ("alice", "delete", "deleted", "demo/tick")

"""From which instant on a definition plans: after itself, but for a late `at` that it is the first to name."""

from typing import Any

import pytest

from runner.checkpoint import ops, queries
from runner.checkpoint.limits import MAX_WAITING
from runner.checkpoint.records import Schedule
from runner.checkpoint.results import OpResult
from tests.unit.checkpoint.book import HOUR_MS, Book, spec

NOW_MS = 10 * HOUR_MS
CRON = ops.Cron("* * * * *")


def row(book: Book) -> Schedule:
    found = queries.schedule_named(book.db, "demo", "tick")
    assert found is not None
    return found


def applied(book: Book, trigger: ops.TriggerSpec, **changes: Any) -> OpResult:
    return book.apply(spec(trigger=trigger, **changes))


def new_book() -> Book:
    book = Book(now_ms=NOW_MS)
    book.acquire()
    return book


@pytest.mark.parametrize(
    ("late_ms", "window_s", "armed"),
    [
        (3_000, 3_600, True),
        (HOUR_MS, 3_600, True),
        (HOUR_MS + 1, 3_600, False),
        (60_000, 1, True),
        (60_001, 1, False),
        (2 * HOUR_MS, 7_200, True),
    ],
)
def test_a_late_at_is_armed_within_the_window_of_its_schedule(late_ms: int, window_s: int, armed: bool) -> None:
    late, window = ops.At((NOW_MS - late_ms,)), ops.CatchUp(window_s=window_s)
    book = new_book()
    result = applied(book, late, catch_up=window)
    assert result.reason == (None if armed else "at_has_passed")
    if armed:
        assert row(book).watermark_ms == NOW_MS - late_ms - 1
    book = new_book()
    assert applied(book, ops.AnyOf((CRON, late)), catch_up=window).kind == "done", "the other trigger goes on"
    assert row(book).watermark_ms == (NOW_MS - late_ms - 1 if armed else NOW_MS)
    assert row(book).defined_ms == NOW_MS


def test_of_several_instants_those_within_the_window_are_armed_and_all_past_is_refused() -> None:
    book = new_book()
    assert applied(book, ops.At((1_000, NOW_MS - 5_000, NOW_MS - 3_000, NOW_MS + 1))).kind == "done"
    assert row(book).watermark_ms == NOW_MS - 5_001
    book = new_book()
    assert applied(book, ops.At((1_000, NOW_MS + 1))).kind == "done"
    assert row(book).watermark_ms == NOW_MS
    for gone in (ops.At((1_000, 2_000)), ops.AnyOf((ops.At((1_000,)), ops.At((2_000, 3_000))))):
        assert applied(new_book(), gone).reason == "at_has_passed"


def test_no_definition_names_more_instants_than_one_look_may_find_due() -> None:
    many = tuple(range(NOW_MS + 1, NOW_MS + MAX_WAITING + 1))
    assert applied(new_book(), ops.At(many)).kind == "done"
    assert applied(new_book(), ops.AnyOf((ops.At(many), ops.At((1,))))).reason == "too_many_instants"


def test_only_what_a_definition_is_the_first_to_name_is_armed() -> None:
    first, second = NOW_MS - 5_000, NOW_MS - 3_000
    book = new_book()
    applied(book, ops.At((first, NOW_MS + HOUR_MS)))
    book.materialise(first)
    assert row(book).watermark_ms == NOW_MS
    book.now_ms += 1_000
    applied(book, ops.At((first, NOW_MS + HOUR_MS)), overlap="allow")
    assert row(book).watermark_ms == book.now_ms, "an edit of anything else arms nothing"
    book.now_ms += 4_000
    applied(book, ops.AnyOf((CRON, ops.At((first, second, book.now_ms - 1_000)))))
    assert row(book).watermark_ms == book.now_ms - 1_001, "what was planned past stays past"
    book.now_ms += 1_000
    late = ops.At((first, second))
    assert applied(book, late).reason == "at_has_passed"

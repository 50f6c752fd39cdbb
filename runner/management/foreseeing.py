"""What a schedule plans next, and why: each instant, on the schedule's own clock, with the rule that decided."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, takewhile
from typing import Final

from msgspec import UNSET

from runner.calendar import Occurrence, Timing, because, next_run, occurrences, starts_ms, timing_of
from runner.calendar.local_clock import local_text
from runner.calendar.zones import zone
from runner.checkpoint.birth import window_ms
from runner.checkpoint.records import Schedule
from runner.ids import instant_text
from runner.management.schedule_forms import ExplainedForm, PlannedForm

MOST_COUNTED: Final = 1_000
"""Runs that are counted to tell how many of `max_runs` are left at a later instant."""

StartMs = Callable[[int], int]


def of_schedule(row: Schedule, after_ms: int, planned_ms: int, *, explain: bool = False) -> Iterator[PlannedForm]:
    """Yield the instants of a schedule strictly after one, as `following` or `explained` does, while `max_runs` has room.

    Args:
        planned_ms: what is due up to here is planned already, and in what `max_runs` has left no more.

    Raises:
        BadExpression: as `occurrences`.
    """
    when = timing_of(row.spec, row.anchor_ms)
    start_ms = partial(_start_ms, row, when) if row.spec.jitter_ms else None
    left = _left(row, when, planned_ms, after_ms)
    for found in occurrences(when, after_ms) if explain else _runs(when, after_ms):
        if found.at_ms > planned_ms and left == 0:
            return
        if found.at_ms > planned_ms and found.skipped is None and left is not None:
            left -= 1
        yield _explained(when, found, start_ms) if explain else _planned(when, found, start_ms)


def following(when: Timing, after_ms: int) -> Iterator[PlannedForm]:
    """Yield the instants strictly after one that run.

    Raises:
        BadExpression: as `occurrences`.
    """
    return (_planned(when, found, None) for found in _runs(when, after_ms))


def explained(when: Timing, after_ms: int) -> Iterator[ExplainedForm]:
    """Yield the planned instants strictly after one, those too that are skipped, with the reason in words.

    Raises:
        BadExpression: as `occurrences`.
    """
    return (_explained(when, found, None) for found in occurrences(when, after_ms))


def _left(row: Schedule, when: Timing, planned_ms: int, after_ms: int) -> int | None:
    """Return how many runs a schedule may still plan after an instant; None for no limit that is in reach."""
    if row.spec.max_runs is None:
        return None
    left = max(0, row.spec.max_runs - row.planned_runs)
    if after_ms <= planned_ms:
        return left
    if left > MOST_COUNTED:
        return None
    return left - sum(
        1 for _ in takewhile(lambda found: found.at_ms <= after_ms, islice(_runs(when, planned_ms), left))
    )


def _runs(when: Timing, after_ms: int) -> Iterator[Occurrence]:
    while (found := next_run(when, after_ms)) is not None:
        yield found
        after_ms = found.at_ms


def _planned(when: Timing, found: Occurrence, start_ms: StartMs | None) -> PlannedForm:
    return PlannedForm(instant_text(found.at_ms), _local(when, found), _rule(found, start_ms))


def _explained(when: Timing, found: Occurrence, start_ms: StartMs | None) -> ExplainedForm:
    starts = None if start_ms is None or found.skipped is not None else start_ms(found.at_ms)
    return ExplainedForm(
        at=instant_text(found.at_ms),
        local=_local(when, found),
        rule=_rule(found, start_ms),
        skipped=found.skipped,
        because=_why(because(when, found), found.at_ms, starts),
        starts=UNSET if starts is None else instant_text(starts),
    )


def _start_ms(row: Schedule, when: Timing, at_ms: int) -> int:
    (start,) = starts_ms(row.spec, row.schedule_id, when, window_ms(row.spec), (at_ms,))
    return start


def _local(when: Timing, found: Occurrence) -> str:
    return local_text(found.at_ms, zone(when.timezone))


def _rule(found: Occurrence, start_ms: StartMs | None) -> str | None:
    if found.rule is not None or start_ms is None:
        return found.rule
    return "jitter" if start_ms(found.at_ms) > found.at_ms else None


def _why(words: str | None, at_ms: int, starts: int | None) -> str | None:
    if starts is None or starts == at_ms:
        return words
    delay = f"jitter delays the start by {(starts - at_ms) / 1000:g} s"
    return delay if words is None else f"{words}; {delay}"

"""What a schedule plans next, and why: each instant, on the schedule's own clock, with the rule that decided."""

from collections.abc import Callable, Iterator
from functools import partial

from msgspec import UNSET

from runner.calendar import Occurrence, Timing, because, next_run, occurrences, starts_ms, timing_of
from runner.calendar.local_clock import local_text
from runner.calendar.zones import zone
from runner.checkpoint.birth import window_ms
from runner.checkpoint.records import Schedule
from runner.ids import instant_text
from runner.management.schedule_forms import ExplainedForm, PlannedForm

StartMs = Callable[[int], int]


def of_schedule(row: Schedule, after_ms: int) -> Iterator[PlannedForm]:
    """Yield the instants of a schedule strictly after one that run; raises as `following`."""
    when = timing_of(row.spec, row.anchor_ms)
    return following(when, after_ms, _start_of(row, when))


def explained_of_schedule(row: Schedule, after_ms: int) -> Iterator[ExplainedForm]:
    """Yield the planned instants of a schedule strictly after one, with the reasons; raises as `explained`."""
    when = timing_of(row.spec, row.anchor_ms)
    return explained(when, after_ms, _start_of(row, when))


def following(when: Timing, after_ms: int, start_ms: StartMs | None = None) -> Iterator[PlannedForm]:
    """Yield the instants strictly after one that run.

    Args:
        start_ms: from an instant to when it starts; None where nothing is delayed.

    Raises:
        BadExpression: as `occurrences`.
    """
    while (found := next_run(when, after_ms)) is not None:
        yield PlannedForm(instant_text(found.at_ms), _local(when, found), _rule(found, start_ms))
        after_ms = found.at_ms


def explained(when: Timing, after_ms: int, start_ms: StartMs | None = None) -> Iterator[ExplainedForm]:
    """Yield the planned instants strictly after one, those too that are skipped, with the reason in words.

    Raises:
        BadExpression: as `occurrences`.
    """
    for found in occurrences(when, after_ms):
        starts = None if start_ms is None or found.skipped is not None else start_ms(found.at_ms)
        yield ExplainedForm(
            at=instant_text(found.at_ms),
            local=_local(when, found),
            rule=_rule(found, start_ms),
            skipped=found.skipped,
            because=_why(because(when, found), found.at_ms, starts),
            starts=UNSET if starts is None else instant_text(starts),
        )


def _start_of(row: Schedule, when: Timing) -> StartMs | None:
    return partial(_start_ms, row, when) if row.spec.jitter_ms else None


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

"""From a schedule's stored definition to the calendar's own words."""

from functools import lru_cache

from runner.calendar.dst import DstPolicy
from runner.calendar.exclusions import NONE, Dates, Exclusions, entry, exclusions_of
from runner.calendar.faults import BadExpression
from runner.calendar.jitter import start_ms
from runner.calendar.timing import Timing, next_occurrence
from runner.checkpoint.ops import NamedDates, ScheduleSpec


def timing_of(spec: ScheduleSpec, anchor_ms: int, defined_ms: int | None = None) -> Timing:
    """Return when a schedule is due.

    Args:
        anchor_ms: what its `every` counts from, milliseconds since the epoch, UTC.
        defined_ms: when this definition took effect; None where nothing before it is asked for.

    Raises:
        BadExpression: an exclusion cannot be meant.
    """
    return Timing(
        spec.trigger,
        spec.timezone,
        anchor_ms,
        DstPolicy(spec.dst_gap, spec.dst_fold),
        NONE if not spec.exclude else _exclusions(spec.exclude, spec.calendars),
        spec.start_ms,
        spec.end_ms,
        defined_ms,
    )


def starts_ms(
    spec: ScheduleSpec, schedule_id: str, timing: Timing, window_ms: int, due: tuple[int, ...]
) -> tuple[int, ...]:
    """Return when each of some planned instants starts, or nothing where the schedule has no jitter.

    Args:
        window_ms: how late it may start at most, milliseconds.

    Raises:
        BadExpression: as `runner.calendar.occurrences`.
    """
    if spec.jitter_ms == 0:
        return ()
    found: list[int] = []
    for at_ms in due:
        following = next_occurrence(timing, at_ms)
        next_ms = None if following is None else following.at_ms
        found.append(start_ms(schedule_id, at_ms, spec.jitter_ms, next_ms=next_ms, window_ms=window_ms))
    return tuple(found)


@lru_cache(maxsize=1024)
def _exclusions(texts: tuple[str, ...], calendars: tuple[NamedDates, ...]) -> Exclusions:
    return exclusions_of(texts, tuple((each.name, tuple(_dates(each))) for each in calendars))


def _dates(calendar: NamedDates) -> list[Dates]:
    found: list[Dates] = []
    for text in calendar.dates:
        each = entry(text)
        if not isinstance(each, Dates):
            raise BadExpression(
                "calendars", f"calendar {calendar.name}: {text[:60]!r} is no date; write 2026-12-25 or a range of dates"
            )
        found.append(each)
    return found

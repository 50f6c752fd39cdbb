"""From readings of a local clock to real instants, across every change of that clock, by Debian cron's rules.

Real time is cut into stretches in which the zone's offset stays the same. Within one a reading *is* an instant.
Between two, readings are lost (the clock went forward) or come again (it went back), and all that daylight saving
time asks of a schedule is decided by comparing a stretch's first reading with the highest one reached before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from runner.calendar.expression import Expression
from runner.calendar.wall import DAY_S, SEARCH_DAYS, matching_day, readings

# A jump of three hours or more is a correction of the clock, not daylight saving time: nothing is made up for it.
CORRECTION_S: Final = 3 * 3600
REACH_S: Final = (SEARCH_DAYS + 3) * DAY_S  # a day before the question to two days after the last date in reach
FIRST_S: Final = -62_000_000_000  # in the year 5: room for a day and an offset before it
LAST_S: Final = 253_300_000_000  # in the year 9996


@dataclass(frozen=True, slots=True)
class Stretch:
    """Real time `[from_s, to_s)` (UTC seconds since the epoch) in which local = UTC + `offset_s`."""

    from_s: int
    to_s: int
    offset_s: int


@dataclass(frozen=True, slots=True)
class Instant:
    """One planned instant, UTC seconds since the epoch; `made_up` for readings that the clock jumped over."""

    at_s: int
    made_up: bool


def instants(expression: Expression, zone: ZoneInfo, after_s: int) -> Iterator[Instant]:
    """Yield the planned instants strictly after `after_s`, ascending, each once.

    Ends where none comes within 48 years of the last one, or near the year 9996. The work per instant is bounded: days
    that match nothing are skipped over by calendar arithmetic, and readings that the clock jumps over each time they
    match (`* 2 31 3 */7` in Berlin) are not searched for to the end of time.
    """
    # One day earlier: whatever the clock lost or repeats around `after_s` began within a day of it.
    cursor_s = max(after_s, FIRST_S) - DAY_S
    reached_s: int | None = None
    until_s = cursor_s + REACH_S
    while cursor_s < min(until_s, LAST_S):
        day = matching_day(expression, (cursor_s + offset_s(zone, cursor_s)) // DAY_S - 1)
        if day is None:
            return
        if day * DAY_S - 2 * DAY_S > cursor_s:
            cursor_s, reached_s = day * DAY_S - 2 * DAY_S, None
        for stretch in _stretches(zone, cursor_s):
            for instant in _within(expression, stretch, reached_s, after_s):
                until_s = instant.at_s + REACH_S
                yield instant
            end_s = stretch.to_s + stretch.offset_s
            reached_s = end_s if reached_s is None else max(reached_s, end_s)
        cursor_s += DAY_S


def offset_s(zone: ZoneInfo, at_s: int) -> int:
    """Return local minus UTC at an instant, seconds."""
    offset = datetime.fromtimestamp(at_s, zone).utcoffset()
    assert offset is not None, "a zone with rules always has an offset"
    return offset.days * DAY_S + offset.seconds


def _within(expression: Expression, stretch: Stretch, reached_s: int | None, after_s: int) -> Iterator[Instant]:
    """Yield a stretch's instants after `after_s`, given the highest reading reached before it (None: nothing odd)."""
    start_s, end_s = stretch.from_s + stretch.offset_s, stretch.to_s + stretch.offset_s
    made_up_s = None
    if not expression.wildcard and reached_s is not None:
        lost_s = start_s - reached_s
        if 0 < lost_s < CORRECTION_S and any(True for _ in readings(expression, reached_s, start_s)):
            made_up_s = start_s
            if stretch.from_s > after_s:
                yield Instant(stretch.from_s, made_up=True)
        start_s = max(start_s, reached_s)  # readings that come again were had on their first pass
    for reading in readings(expression, max(start_s, after_s + 1 + stretch.offset_s), end_s):
        if reading != made_up_s:
            yield Instant(reading - stretch.offset_s, made_up=False)


def _stretches(zone: ZoneInfo, from_s: int) -> tuple[Stretch, ...]:
    """Cut one UTC day at the zone's change of offset, if it has one; no zone has two that differ within a day."""
    to_s = from_s + DAY_S
    before_s, after_s = offset_s(zone, from_s), offset_s(zone, to_s)
    if before_s == after_s:
        return (Stretch(from_s, to_s, before_s),)
    low_s, high_s = from_s, to_s  # offset is `before_s` at low, something else at high
    while high_s - low_s > 1:
        middle_s = (low_s + high_s) // 2
        if offset_s(zone, middle_s) == before_s:
            low_s = middle_s
        else:
            high_s = middle_s
    return (Stretch(from_s, high_s, before_s), Stretch(high_s, to_s, after_s))

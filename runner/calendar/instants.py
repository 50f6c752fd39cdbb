"""From readings of a local clock to real instants, across every change of that clock, by Debian cron's rules.

Real time is cut into stretches in which the zone's offset stays the same. Within one a reading *is* an instant.
Between two, readings are lost (the clock went forward) or come again (it went back), and all that daylight saving
time asks of a schedule is decided by comparing a stretch's first reading with the highest one reached before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from zoneinfo import ZoneInfo

from runner.calendar.dst import DEFAULT, DstPolicy
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
    """One planned instant, UTC seconds since the epoch.

    Attributes:
        made_up: it stands in for readings that the clock jumped over.
        skipped: it does not run: its readings were jumped over, and the schedule's policy leaves them out. The instant
            is then the first one after the gap, where it would have run.
    """

    at_s: int
    made_up: bool = False
    skipped: Literal["dst_gap"] | None = None


def instants(expression: Expression, zone: ZoneInfo, after_s: int, policy: DstPolicy = DEFAULT) -> Iterator[Instant]:
    """Yield the planned instants strictly after `after_s`, ascending, each once.

    Ends where none comes within 48 years of the last one, or near the year 9996. The work per instant is bounded: days
    that match nothing are skipped over by calendar arithmetic, and readings that the clock jumps over each time they
    match (`* 2 31 3 */7` in Berlin) are not searched for to the end of time.
    """
    # One day earlier: whatever the clock lost or repeats around `after_s` began within a day of it.
    cursor_s = max(after_s, FIRST_S) - DAY_S
    reached_s: int | None = None
    until_s = cursor_s + REACH_S
    last_pass = policy.fold == "last" and not expression.wildcard
    while cursor_s < min(until_s, LAST_S):
        day = matching_day(expression, (cursor_s + offset_s(zone, cursor_s)) // DAY_S - 1)
        if day is None:
            return
        if day * DAY_S - 2 * DAY_S > cursor_s:
            cursor_s, reached_s = day * DAY_S - 2 * DAY_S, None
        today = stretches(zone, cursor_s)
        # What the clock repeats it repeats within a day.
        ahead = today + stretches(zone, cursor_s + DAY_S) if last_pass else ()
        for place, stretch in enumerate(today, start=1):
            found = _within(expression, policy, stretch, reached_s, max(after_s + 1, stretch.from_s))
            for instant in found:
                if last_pass and _comes_again(instant, stretch, ahead[place:]):
                    continue
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


def stretches(zone: ZoneInfo, from_s: int) -> tuple[Stretch, ...]:
    """Cut the day that begins at an instant where the zone's offset changes, if it does; no zone changes it twice in one."""
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


def _within(
    expression: Expression, policy: DstPolicy, stretch: Stretch, reached_s: int | None, since_s: int
) -> Iterator[Instant]:
    """Yield a stretch's instants from `since_s` on, given the highest reading reached before it (None: nothing odd)."""
    start_s, end_s = stretch.from_s + stretch.offset_s, stretch.to_s + stretch.offset_s
    stand_in: Instant | None = None
    if not expression.wildcard and reached_s is not None:
        stand_in = _after_gap(expression, policy, stretch, reached_s)
        if stand_in is not None and stretch.from_s >= since_s:
            yield stand_in
        if policy.fold == "first":
            start_s = max(start_s, reached_s)  # readings that come again were had on their first pass
    for reading in readings(expression, max(start_s, since_s + stretch.offset_s), end_s):
        at_s = reading - stretch.offset_s
        if stand_in is None or at_s != stand_in.at_s:
            yield Instant(at_s)


def _after_gap(expression: Expression, policy: DstPolicy, stretch: Stretch, reached_s: int) -> Instant | None:
    """Return what becomes of the readings that were lost before a stretch; None if none were that matter."""
    start_s = stretch.from_s + stretch.offset_s
    if not 0 < start_s - reached_s < CORRECTION_S or next(readings(expression, reached_s, start_s), None) is None:
        return None
    if policy.gap == "next":
        return Instant(stretch.from_s, made_up=True)
    # A reading of its own on that very instant runs: one instant is one occurrence.
    planned_anyway = next(readings(expression, start_s, start_s + 1), None) is not None
    return None if planned_anyway else Instant(stretch.from_s, skipped="dst_gap")


def _comes_again(instant: Instant, stretch: Stretch, later: tuple[Stretch, ...]) -> bool:
    reading = instant.at_s + stretch.offset_s
    return any(each.from_s + each.offset_s <= reading < each.to_s + each.offset_s for each in later)

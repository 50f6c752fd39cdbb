"""All that decides when a schedule is due, in one place: each occurrence, run or skipped, with the rule that decided."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby, takewhile
from typing import Final, Literal
from zoneinfo import ZoneInfo

from runner.calendar.dst import DEFAULT, DstPolicy
from runner.calendar.exclusions import NONE, Exclusions
from runner.calendar.expression import parse
from runner.calendar.faults import BadExpression, Key
from runner.calendar.instants import LAST_S, REACH_S, instants, offset_s, stretches
from runner.calendar.local_clock import comes_twice, is_second_pass, local_text, reading_text
from runner.calendar.trigger import check_trigger
from runner.calendar.wall import DAY_S, SEARCH_DAYS
from runner.calendar.zones import zone
from runner.checkpoint.ops import AnyOf, At, Cron, Every, TriggerSpec

MAX_SKIPS: Final = 150
"""How many skips are looked past for an occurrence that runs; an excluded stretch, however full, is a few of them."""

HOUR_S: Final = 3_600
Rule = Literal["gap", "fold", "excluded"]
Skip = Literal["dst_gap", "excluded"]


@dataclass(frozen=True, slots=True)
class Timing:
    """When a schedule is due.

    Attributes:
        timezone: IANA zone of the schedule's clock.
        anchor_ms: what `every` counts from, milliseconds since the epoch, UTC; of no meaning for the others.
        start_ms: nothing is planned before this instant; None for no such bound.
        end_ms: nothing is planned after this instant.
        defined_ms: in a union only what `at` names is planned up to this instant; None for no such bound.
    """

    trigger: TriggerSpec
    timezone: str
    anchor_ms: int = 0
    policy: DstPolicy = DEFAULT
    exclusions: Exclusions = NONE
    start_ms: int | None = None
    end_ms: int | None = None
    defined_ms: int | None = None

    def reaches(self, at_ms: int) -> bool:
        """Return whether an instant is not after the end."""
        return self.end_ms is None or at_ms <= self.end_ms


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One planned instant and what the calendar decides of it.

    Attributes:
        at_ms: milliseconds since the epoch, UTC; its name, whether it runs or not.
        rule: what decided: `gap` if it stands for readings that the clock jumped over, `fold` if its reading comes
            twice, `excluded`; None if nothing odd did.
        skipped: why it does not run, or None if it does.
    """

    at_ms: int
    rule: Rule | None = None
    skipped: Skip | None = None


def occurrences(timing: Timing, after_ms: int) -> Iterator[Occurrence]:
    """Yield every planned occurrence strictly after an instant, skipped ones too, ascending, each once.

    Ends where none is within reach (48 years after the last one, the year 9996). The work for each is bounded.

    Raises:
        BadExpression: as `check_timing`; for a stored schedule that means other time zone data than at its apply.
    """
    where = zone(timing.timezone)
    excluding = timing.exclusions != NONE
    if timing.start_ms is not None:
        after_ms = max(after_ms, timing.start_ms - 1)
    for each in takewhile(lambda each: timing.reaches(each.at_ms), _planned(timing, timing.trigger, where, after_ms)):
        if excluding and each.skipped is None and timing.exclusions.covering(_reading_s(each.at_ms, where)) is not None:
            yield Occurrence(each.at_ms, "excluded", "excluded")
        else:
            yield each


def next_occurrence(timing: Timing, after_ms: int) -> Occurrence | None:
    """Return the first planned occurrence strictly after an instant, whether it runs or not; None if none is in reach.

    Raises:
        BadExpression: as `occurrences`.
    """
    return next(occurrences(timing, after_ms), None)


def next_run(timing: Timing, after_ms: int) -> Occurrence | None:
    """Return the first occurrence strictly after an instant that runs; None if none does within reach.

    Looks past `MAX_SKIPS` skips, of which an excluded stretch of hours or years, however many fall into it, is a few.

    Raises:
        BadExpression: as `occurrences`.
    """
    where, left, sure_ms = zone(timing.timezone), MAX_SKIPS, after_ms
    while left > 0:
        for found in occurrences(timing, max(after_ms, sure_ms)):
            if found.skipped is None:
                return found
            if left == 0 or found.at_ms <= sure_ms:
                break  # more than one in the same excluded stretch: jump to its end
            after_ms, left = found.at_ms, left - 1
            if found.skipped == "excluded":
                sure_ms = _end_ms(timing.exclusions, where, after_ms)
        else:
            return None
    return None


def check_timing(timing: Timing, now_ms: int) -> None:
    """Return if a schedule can be meant and something of it is left to run after now.

    Raises:
        BadExpression: it cannot; the text is one line for a person.
    """
    check_trigger(timing.trigger, timing.timezone)
    _check_bounds(timing)
    if next_run(timing, now_ms) is not None:
        return
    first = next_occurrence(timing, now_ms)
    if first is None and next_occurrence(replace(timing, start_ms=None, end_ms=None), now_ms) is not None:
        key: Key = "start" if timing.end_ms is None else "end"
        told = " and ".join(
            f"{name} {local_text(at_ms, zone(timing.timezone))}"
            for name, at_ms in (("start", timing.start_ms), ("end", timing.end_ms))
            if at_ms is not None
        )
        raise BadExpression(key, f"nothing would run: from now on nothing is planned within {told}; move {key}")
    if first is None:
        if isinstance(timing.trigger, Cron) and now_ms // 1000 < LAST_S - REACH_S:
            cron, years = timing.trigger.expression, SEARCH_DAYS // 366
            why = f"for {years} years the clock of {timing.timezone} jumps over it each time"
            raise BadExpression("cron", f"cron {cron!r} never comes: {why}; name another time of day")
        return
    key = "exclude" if first.skipped == "excluded" else "dst_gap"
    at = local_text(first.at_ms, zone(timing.timezone))
    raise BadExpression(key, f"nothing would run: all is skipped from {at} on, as far as one looks; loosen {key}")


def _check_bounds(timing: Timing) -> None:
    bounds: tuple[tuple[Literal["start", "end"], int | None], ...] = (
        ("start", timing.start_ms),
        ("end", timing.end_ms),
    )
    for key, at_ms in bounds:
        if at_ms is not None and not 0 <= at_ms < LAST_S * 1000:
            raise BadExpression(key, f"{key} {at_ms} ms lies outside the years 1970 to 9995")
    if timing.start_ms is not None and timing.end_ms is not None and timing.end_ms < timing.start_ms:
        start, end = (local_text(at_ms, zone(timing.timezone)) for at_ms in (timing.start_ms, timing.end_ms))
        raise BadExpression("end", f"end {end} is before start {start}; swap them, or leave one out")


def because(timing: Timing, occurrence: Occurrence) -> str | None:
    """Return in words which rule decided and how; None if none did."""
    where, at_ms = zone(timing.timezone), occurrence.at_ms
    match occurrence.rule:
        case "gap":
            before_s = at_ms // 1000 + offset_s(where, at_ms // 1000 - 1)
            jump = f"the clock jumps from {reading_text(before_s)} to {reading_text(_reading_s(at_ms, where))}"
            return f"{jump}; what falls in between {'runs' if occurrence.skipped is None else 'is skipped'} here"
        case "fold":
            which = "second" if is_second_pass(at_ms, where) else "first"
            return f"the clock shows {reading_text(_reading_s(at_ms, where))} twice; this is the {which} time"
        case "excluded":
            piece = timing.exclusions.covering(_reading_s(at_ms, where))
            assert piece is not None, "what was excluded is covered"
            return f"excluded from {reading_text(piece[0])} until {reading_text(piece[1])}"
        case None:
            return None


def _planned(timing: Timing, trigger: TriggerSpec, where: ZoneInfo, after_ms: int) -> Iterator[Occurrence]:
    """Yield what a trigger plans, before exclusions and without bounds."""
    if isinstance(trigger, AnyOf):
        later_ms = after_ms if timing.defined_ms is None else max(after_ms, timing.defined_ms)
        froms = ((part, after_ms if isinstance(part, At) else later_ms) for part in trigger.triggers)
        parts = (_planned(timing, part, where, from_ms) for part, from_ms in froms)
        for _, same in groupby(merge(*parts, key=_at_ms), key=_at_ms):
            yield min(same, key=lambda each: each.skipped is not None)  # it runs if any of them runs it
        return
    if isinstance(trigger, Cron):
        quiet_until_s = asked_until_s = after_ms // 1000
        for instant in instants(parse(trigger.expression), where, after_ms // 1000, timing.policy):
            rule: Rule | None = None
            if instant.made_up or instant.skipped is not None:
                rule = "gap"
            elif instant.at_s >= quiet_until_s:
                # Whatever the clock shows twice is less than a day away from a change of it.
                if instant.at_s >= asked_until_s:
                    quiet_until_s = instant.at_s + (DAY_S if is_quiet(where, instant.at_s) else 0)
                    asked_until_s = instant.at_s + HOUR_S  # near a change the question is dear: not for each instant
                rule = "fold" if comes_twice(instant.at_s * 1000, where) else None
            yield Occurrence(instant.at_s * 1000, rule, instant.skipped)
        return
    yield from map(Occurrence, _elapsed(trigger, timing.anchor_ms, after_ms))


def _elapsed(trigger: Every | At, anchor_ms: int, after_ms: int) -> Iterable[int]:
    """Return the instants of a trigger that knows no clock on a wall, strictly after one, ascending."""
    if isinstance(trigger, At):
        return trigger.instants_ms[bisect_right(trigger.instants_ms, after_ms) :]
    interval_ms = trigger.interval_s * 1000
    first_ms = anchor_ms + max(1, (after_ms - anchor_ms) // interval_ms + 1) * interval_ms
    return range(first_ms, LAST_S * 1000, interval_ms)


def _at_ms(occurrence: Occurrence) -> int:
    return occurrence.at_ms


def is_quiet(where: ZoneInfo, at_s: int) -> bool:
    """Return whether a clock does not change from a day before an instant (UTC seconds) to two days after it."""
    return all(len(stretches(where, at_s + days * DAY_S)) == 1 for days in (-1, 0, 1))


def _end_ms(exclusions: Exclusions, where: ZoneInfo, at_ms: int) -> int:
    """Return an instant from an excluded one up to which all are surely excluded, as near to the last one as is cheap."""
    at_s = at_ms // 1000
    offset, piece = offset_s(where, at_s), exclusions.covering(_reading_s(at_ms, where))
    assert piece is not None, "an excluded instant is covered"
    from_s, to_s = piece
    # No clock has ever been two days off: two days inside both ends, changes of the clock cannot lead out.
    inside_s = to_s - offset - 2 * DAY_S
    if inside_s > at_s and at_s + offset - 2 * DAY_S >= from_s:
        return inside_s * 1000
    until_s = at_s
    while until_s < to_s - offset:
        first = stretches(where, until_s)[0]
        if first.offset_s != offset:
            break
        until_s = first.to_s
    return min(until_s, to_s - offset) * 1000 - 1


def _reading_s(at_ms: int, where: ZoneInfo) -> int:
    return at_ms // 1000 + offset_s(where, at_ms // 1000)

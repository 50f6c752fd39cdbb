"""What a schedule planned in a long time, counted and not walked over: one range for each change of fate."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo

from runner.calendar.exclusions import NONE, Exclusions
from runner.calendar.expression import Expression, parse
from runner.calendar.instants import FIRST_S, LAST_S, Stretch, stretches
from runner.calendar.timing import Skip, Timing, is_quiet, occurrences
from runner.calendar.wall import DAY_S, counted
from runner.calendar.zones import zone
from runner.checkpoint.ops import Cron, Every


@dataclass(frozen=True, slots=True)
class Tally:
    """Neighbouring occurrences with the same fate; instants in milliseconds since the epoch, UTC, both included."""

    first_ms: int
    last_ms: int
    count: int
    skipped: Skip | None


def tallies(timing: Timing, after_ms: int, until_ms: int) -> Iterator[Tally]:
    """Yield what is planned in `(after_ms, until_ms]` as ranges, ascending; two neighbours never share their fate.

    The same as counting `occurrences`, without walking over most of them (`pieces`).

    Raises:
        BadExpression: as `occurrences`.
    """
    last: Tally | None = None
    for each in pieces(timing, after_ms, until_ms):
        if last is not None and last.skipped == each.skipped:
            last = replace(last, last_ms=each.last_ms, count=last.count + each.count)
        else:
            if last is not None:
                yield last
            last = each
    if last is not None:
        yield last


def pieces(timing: Timing, after_ms: int, until_ms: int) -> Iterator[Tally]:
    """Yield the same, before neighbours are joined: whoever bounds the pieces taken bounds the work.

    One holds at most a day (of an interval without exclusions: all of it). Those of a union are walked over, one by
    one, and so are those of a fixed-time job that a change of the clock may decide.

    Raises:
        BadExpression: as `occurrences`.
    """
    where, trigger = zone(timing.timezone), timing.trigger
    after_ms = after_ms if timing.start_ms is None else max(after_ms, timing.start_ms - 1)
    until_ms = until_ms if timing.end_ms is None else min(until_ms, timing.end_ms)
    match trigger:
        case Cron(expression=text):
            expression = parse(text)
            for stretch in _days(where, after_ms, until_ms):
                for part, odd in ((stretch, False),) if expression.wildcard else _about_changes(where, stretch):
                    if odd:
                        yield from _walked(timing, part.from_s * 1000 - 1, part.to_s * 1000 - 1)
                    else:
                        yield from _cron(expression, timing.exclusions, part)
        case Every(interval_s=interval_s) if timing.exclusions == NONE:
            yield from _every(interval_s * 1000, timing.anchor_ms, after_ms + 1, min(until_ms + 1, LAST_S * 1000))
        case Every(interval_s=interval_s):
            for stretch in _days(where, after_ms - 1_000, until_ms):  # an anchor need not be a whole second
                for from_s, to_s, skipped in _parts(timing.exclusions, stretch):
                    from_ms, to_ms = max(from_s * 1000, after_ms + 1), min(to_s * 1000, until_ms + 1)
                    for each in _every(interval_s * 1000, timing.anchor_ms, from_ms, to_ms):
                        yield replace(each, skipped=skipped)
        case _:
            yield from _walked(timing, after_ms, until_ms)


def _days(where: ZoneInfo, after_ms: int, until_ms: int) -> Iterator[Stretch]:
    """Cut `(after_ms, until_ms]` into parts of at most a day in which the clock is not changed."""
    from_s, to_s = max(after_ms // 1000 + 1, FIRST_S), min(until_ms // 1000 + 1, LAST_S)
    while from_s < to_s:
        for each in stretches(where, from_s):
            if each.from_s < min(each.to_s, to_s):
                yield replace(each, to_s=min(each.to_s, to_s))
            from_s = each.to_s


def _about_changes(where: ZoneInfo, stretch: Stretch) -> Iterator[tuple[Stretch, bool]]:
    """Cut a stretch of at most a day, and say of each part whether a change of the clock is near enough to decide there.

    It decides what is read again after it or was read before it, and what stands in for lost readings at its instant:
    nothing that is farther away than the clock is moved.
    """
    if is_quiet(where, stretch.from_s):
        yield stretch, False
        return
    from_s = stretch.from_s
    for days in (-1, 0, 1):
        for before, after in pairwise(stretches(where, stretch.from_s + days * DAY_S)):
            moved_s = abs(after.offset_s - before.offset_s)
            odd_s = max(from_s, min(after.from_s - moved_s, stretch.to_s))
            end_s = max(odd_s, min(after.from_s + moved_s + 1, stretch.to_s))
            yield replace(stretch, from_s=from_s, to_s=odd_s), False
            yield replace(stretch, from_s=odd_s, to_s=end_s), True
            from_s = end_s
    yield replace(stretch, from_s=from_s), False


def _parts(exclusions: Exclusions, stretch: Stretch) -> Iterator[tuple[int, int, Skip | None]]:
    """Cut a stretch (UTC seconds, `[from_s, to_s)`) where exclusions begin and end."""
    from_s = stretch.from_s
    while from_s < stretch.to_s:
        reading_s = from_s + stretch.offset_s
        piece = exclusions.covering(reading_s)
        end_s = piece[1] if piece is not None else exclusions.free_until(reading_s)
        to_s = stretch.to_s if end_s is None else min(end_s - stretch.offset_s, stretch.to_s)
        yield from_s, to_s, None if piece is None else "excluded"
        from_s = to_s


def _cron(expression: Expression, exclusions: Exclusions, stretch: Stretch) -> Iterator[Tally]:
    for from_s, to_s, skipped in _parts(exclusions, stretch):
        found = counted(expression, from_s + stretch.offset_s, to_s + stretch.offset_s)
        if found is not None:
            count, first_s, last_s = found
            yield Tally((first_s - stretch.offset_s) * 1000, (last_s - stretch.offset_s) * 1000, count, skipped)


def _every(interval_ms: int, anchor_ms: int, from_ms: int, to_ms: int) -> Iterator[Tally]:
    """Yield the instants in `[from_ms, to_ms)` as one range, if there are any; the first is an interval after the anchor."""
    first = max(1, -((anchor_ms - from_ms) // interval_ms))
    last = (to_ms - 1 - anchor_ms) // interval_ms
    if first <= last:
        yield Tally(anchor_ms + first * interval_ms, anchor_ms + last * interval_ms, last - first + 1, None)


def _walked(timing: Timing, after_ms: int, until_ms: int) -> Iterator[Tally]:
    if until_ms <= after_ms:
        return
    for each in takewhile(lambda each: each.at_ms <= until_ms, occurrences(timing, after_ms)):
        yield Tally(each.at_ms, each.at_ms, 1, each.skipped)

"""What a schedule planned in a long time, counted and not walked over: one range for each change of fate."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from zoneinfo import ZoneInfo

from runner.calendar.exclusions import NONE, Exclusions
from runner.calendar.expression import Expression, parse
from runner.calendar.instants import FIRST_S, LAST_S, Stretch, stretches
from runner.calendar.timing import Skip, Timing, is_quiet, occurrences
from runner.calendar.wall import counted
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

    The same as counting `occurrences`, but the work grows with the days and excluded stretches in between, and not with
    the occurrences; only those of fixed-time jobs within days of a change of the clock are walked over.

    Raises:
        BadExpression: as `occurrences`.
    """
    last: Tally | None = None
    for each in _pieces(timing, after_ms, until_ms):
        if last is not None and last.skipped == each.skipped:
            last = replace(last, last_ms=each.last_ms, count=last.count + each.count)
        else:
            if last is not None:
                yield last
            last = each
    if last is not None:
        yield last


def _pieces(timing: Timing, after_ms: int, until_ms: int) -> Iterator[Tally]:
    where, trigger = zone(timing.timezone), timing.trigger
    after_ms = after_ms if timing.start_ms is None else max(after_ms, timing.start_ms - 1)
    until_ms = until_ms if timing.end_ms is None else min(until_ms, timing.end_ms)
    match trigger:
        case Cron(expression=text):
            expression = parse(text)
            for stretch in _days(where, after_ms, until_ms):
                if expression.wildcard or is_quiet(where, stretch.from_s):
                    yield from _cron(expression, timing.exclusions, stretch)
                else:
                    yield from _walked(timing, stretch.from_s * 1000 - 1, stretch.to_s * 1000 - 1)
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
    for each in takewhile(lambda each: each.at_ms <= until_ms, occurrences(timing, after_ms)):
        yield Tally(each.at_ms, each.at_ms, 1, each.skipped)

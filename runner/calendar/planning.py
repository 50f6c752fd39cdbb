"""What is due of one schedule between its watermark and now: what runs, what is skipped, and how far that reaches."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final, Literal

from runner.calendar.tally import Tally, pieces, tallies
from runner.calendar.timing import Occurrence, Timing, next_run, occurrences
from runner.checkpoint.birth import LATENESS_MS
from runner.checkpoint.ops import CatchUp, Missed

# What one call may do stays within a tenth of a second, mostly far below: instants that are walked over, ranges, days
# that are counted.
MAX_COUNTED: Final = 5_000
MAX_RANGES: Final = 500
LONGEST_LOOK_MS: Final = 100 * 86_400_000

Unrun = Literal["restored", "frozen"]
"""Why instants become no run, whatever policy says."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One look at the clock for one schedule; instants in milliseconds since the epoch, UTC.

    Attributes:
        until_ms: the new watermark: every planned instant up to here is in `missed` or `due`. Earlier than now if
            there was more to count than one call may; plan again from there.
        missed: instants that are skipped, as ranges, oldest first; none of `due` lies within one.
        due: one batch, oldest first.
        caught_up: how many of the first of `due` are later than lateness allows.
    """

    until_ms: int
    missed: tuple[Missed, ...]
    due: tuple[int, ...]
    caught_up: int = 0


def plan(timing: Timing, catch_up: CatchUp, watermark_ms: int, now_ms: int) -> Plan:
    """Return what is due in `(watermark_ms, now_ms]`.

    Instants at most 60 s late all run. Of older ones, those within the window run as the policy says, and the rest is
    missed; what is excluded or falls into a gap is skipped for that reason. The work of one call is bounded: long
    stretches are counted, not walked over, except those of a union; `until_ms` says how far it came.

    Raises:
        BadExpression: as `occurrences`.
    """
    if now_ms <= watermark_ms:
        return Plan(watermark_ms, (), ())
    late_ms = max(watermark_ms, now_ms - LATENESS_MS - 1)
    gone_ms = min(late_ms, max(watermark_ms, now_ms - catch_up.window_s * 1000 - 1))
    gone, until_ms = _counted(timing, watermark_ms, gone_ms)
    if until_ms < gone_ms:
        return Plan(until_ms, _missed(gone), ())
    late, until_ms = _counted(timing, gone_ms, late_ms)
    recent: tuple[Occurrence, ...] = ()
    if until_ms == late_ms:
        recent, until_ms = tuple(_between(timing, late_ms, now_ms)), now_ms
    keep = _allowed(catch_up) - _newer(timing, catch_up, recent, until_ms, late_ms, now_ms)
    missed, caught_up = _newest(timing, late, keep)
    skips = tuple(Tally(each.at_ms, each.at_ms, 1, each.skipped) for each in recent if each.skipped is not None)
    due = (*caught_up, *(each.at_ms for each in recent if each.skipped is None))
    return Plan(until_ms, _missed((*gone, *missed, *skips), due), due, len(caught_up))


def skip(timing: Timing, watermark_ms: int, until_ms: int, reason: Unrun) -> Plan:
    """Return every instant in `(watermark_ms, until_ms]` as skipped for one reason; bounded as `plan` is.

    Raises:
        BadExpression: as `occurrences`.
    """
    if until_ms <= watermark_ms:
        return Plan(watermark_ms, (), ())
    found, reached_ms = _counted(timing, watermark_ms, until_ms)
    if not found:
        return Plan(reached_ms, (), ())
    count = sum(each.count for each in found)
    return Plan(reached_ms, (Missed(found[0].first_ms, found[-1].last_ms, count, reason),), ())


def _counted(timing: Timing, after_ms: int, until_ms: int) -> tuple[list[Tally], int]:
    """Return what is planned in `(after_ms, until_ms]`, a day or less at a time, and how far one call came with it."""
    until_ms = min(until_ms, after_ms + LONGEST_LOOK_MS)
    found: list[Tally] = []
    ranges = 0
    for each in pieces(timing, after_ms, until_ms):
        ranges += not found or found[-1].skipped != each.skipped
        if ranges > MAX_RANGES or len(found) == MAX_COUNTED:
            return found, found[-1].last_ms
        found.append(each)
    return found, until_ms


def _between(timing: Timing, after_ms: int, until_ms: int) -> Iterator[Occurrence]:
    return takewhile(lambda each: each.at_ms <= until_ms, occurrences(timing, after_ms))


def _allowed(catch_up: CatchUp) -> int:
    match catch_up.policy:
        case "none":
            return 0
        case "latest":
            return 1
        case "all":
            return catch_up.limit


def _newer(
    timing: Timing, catch_up: CatchUp, recent: Sequence[Occurrence], until_ms: int, late_ms: int, now_ms: int
) -> int:
    """Return how many instants that run come after those counted and take their places, no more than there are places.

    For `latest` whatever is newer does; for `all` only what is caught up too.
    """
    places = _allowed(catch_up)
    if catch_up.policy == "latest":
        if until_ms < late_ms:
            found = next_run(timing, until_ms)
            return int(found is not None and found.at_ms <= now_ms)
        return int(any(each.skipped is None for each in recent))
    if until_ms >= late_ms:
        return 0
    count = 0
    for each in islice(pieces(timing, until_ms, min(late_ms, until_ms + LONGEST_LOOK_MS)), MAX_COUNTED):
        count, until_ms = count + (each.count if each.skipped is None else 0), each.last_ms
        if count >= places:
            return places
    while count < places and (found := next_run(timing, until_ms)) is not None and found.at_ms <= late_ms:
        count, until_ms = count + 1, found.at_ms
    return count


def _newest(timing: Timing, late: Sequence[Tally], keep: int) -> tuple[list[Tally], tuple[int, ...]]:
    """Part off the newest instants that run, at most `keep`: what is left as ranges, and those, oldest first."""
    left: deque[Tally] = deque()
    run: deque[int] = deque()
    for each in reversed(late):
        if each.skipped is not None or keep <= 0:
            left.appendleft(each)
            continue
        kept = _last(timing, each, min(keep, each.count))
        keep -= len(kept)
        run.extendleft(reversed(kept))
        if len(kept) < each.count:
            left.extendleft(reversed(list(_counted(timing, each.first_ms - 1, kept[0] - 1)[0])))
    return list(left), tuple(run)


def _last(timing: Timing, within: Tally, count: int) -> list[int]:
    """Return the last instants of a range that run."""
    if within.count == 1:
        return [within.last_ms]
    after_ms = within.first_ms - 1
    if count < within.count:
        # The nearest whole second after which there are still enough.
        low_s, high_s = after_ms // 1000, within.last_ms // 1000
        while low_s < high_s:
            middle_s = (low_s + high_s + 1) // 2
            enough = sum(each.count for each in tallies(timing, middle_s * 1000 - 1, within.last_ms)) >= count
            low_s, high_s = (middle_s, high_s) if enough else (low_s, middle_s - 1)
        after_ms = max(after_ms, low_s * 1000 - 1)
    return list(deque((each.at_ms for each in _between(timing, after_ms, within.last_ms)), count))


def _missed(ranges: Iterable[Tally], due: Sequence[int] = ()) -> tuple[Missed, ...]:
    """Return ranges with their reasons, neighbours joined unless something between them runs."""
    found: list[Missed] = []
    for each in ranges:
        reason = each.skipped or "missed_window"
        last = found[-1] if found else None
        if last is None or last.reason != reason or any(last.last_ms < at_ms < each.first_ms for at_ms in due):
            found.append(Missed(each.first_ms, each.last_ms, each.count, reason))
        else:
            found[-1] = Missed(last.first_ms, each.last_ms, last.count + each.count, reason)
    return tuple(found)

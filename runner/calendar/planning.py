"""What is due of one schedule between its watermark and now: what runs, what is missed, and how far that reaches."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, assert_never

from runner.calendar.trigger import instants_ms, next_after
from runner.checkpoint.ops import AnyOf, At, Cron, Every, Missed, TriggerSpec

LATENESS_MS: Final = 60_000
WINDOW_MS: Final = 3_600_000
# One call stays within some milliseconds of work; a minutely schedule that was down for 30 days takes nine calls.
MAX_COUNTED: Final = 5_000

Unrun = Literal["restored", "frozen"]
"""Why instants become no run, whatever policy says."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One look at the clock for one schedule; instants in milliseconds since the epoch, UTC.

    Attributes:
        until_ms: the new watermark: every planned instant up to here is in `missed` or `due`. Earlier than now if
            there was more to count than one call may; plan again from there.
        missed: instants that policy decides not to run, as ranges, oldest first, all before the first of `due`.
        due: one batch, oldest first.
    """

    until_ms: int
    missed: tuple[Missed, ...]
    due: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Late:
    """The instants of a look that are later than lateness allows: how many, the first, and the newest two."""

    count: int
    first_ms: int
    last_but_one_ms: int
    last_ms: int


def plan(trigger: TriggerSpec, timezone: str, anchor_ms: int, watermark_ms: int, now_ms: int) -> Plan:
    """Return what is due in `(watermark_ms, now_ms]`.

    Instants at most 60 s late all run. Of older ones only the latest runs, if nothing newer does and it is at most one
    hour late (policy `latest`, window 1 h); the rest are missed. The work of one call is bounded: arithmetic for
    `every` and `at`; for cron at most `MAX_COUNTED` instants, of which all are missed if there are more (`until_ms`).

    Raises:
        BadExpression: as `next_after`.
    """
    if now_ms <= watermark_ms:
        return Plan(watermark_ms, (), ())
    edge_ms = max(watermark_ms, now_ms - LATENESS_MS - 1)
    match trigger:
        case Every(interval_s=interval_s):
            late = _late_every(interval_s * 1000, anchor_ms, watermark_ms, edge_ms)
            recent = _every(interval_s * 1000, anchor_ms, edge_ms, now_ms)
            return _decide(late, tuple(recent), now_ms)
        case Cron():
            ahead = instants_ms(trigger, timezone, watermark_ms)
            return _plan_walked(ahead, edge_ms, now_ms)
        case At() | AnyOf():
            return _plan_walked(_each(trigger, timezone, anchor_ms, watermark_ms), edge_ms, now_ms)
        case _:
            assert_never(trigger)


def skip(trigger: TriggerSpec, timezone: str, anchor_ms: int, watermark_ms: int, until_ms: int, reason: Unrun) -> Plan:
    """Return every instant in `(watermark_ms, until_ms]` as not run; bounded as `plan` is.

    Raises:
        BadExpression: as `next_after`.
    """
    if until_ms <= watermark_ms:
        return Plan(watermark_ms, (), ())
    match trigger:
        case Every(interval_s=interval_s):
            late, reached_ms = _late_every(interval_s * 1000, anchor_ms, watermark_ms, until_ms), until_ms
        case Cron():
            late, reached_ms = _late_walked(instants_ms(trigger, timezone, watermark_ms), until_ms)
        case At() | AnyOf():
            late, reached_ms = _late_walked(_each(trigger, timezone, anchor_ms, watermark_ms), until_ms)
        case _:
            assert_never(trigger)
    return Plan(reached_ms, () if late is None else _missed(late.first_ms, late.last_ms, late.count, reason), ())


def _late_walked(ahead: Iterator[int], until_ms: int) -> tuple[Late | None, int]:
    """Return the instants up to `until_ms`, `MAX_COUNTED` at most, and how far that reaches."""
    late: Late | None = None
    for at_ms in ahead:
        if at_ms > until_ms:
            break
        late = (
            Late(1, at_ms, at_ms, at_ms) if late is None else Late(late.count + 1, late.first_ms, late.last_ms, at_ms)
        )
        if late.count == MAX_COUNTED:
            return late, at_ms
    return late, until_ms


def _decide(late: Late | None, recent: tuple[int, ...], now_ms: int) -> Plan:
    if late is None:
        return Plan(now_ms, (), recent)
    if recent or now_ms - late.last_ms > WINDOW_MS:
        return Plan(now_ms, _missed(late.first_ms, late.last_ms, late.count), recent)
    return Plan(now_ms, _missed(late.first_ms, late.last_but_one_ms, late.count - 1), (late.last_ms,))


def _missed(first_ms: int, last_ms: int, count: int, reason: Unrun | None = None) -> tuple[Missed, ...]:
    return (Missed(first_ms, last_ms, count, reason or "missed_window"),) if count else ()


def _plan_walked(ahead: Iterator[int], edge_ms: int, now_ms: int) -> Plan:
    late: Late | None = None
    recent: list[int] = []
    for at_ms in ahead:
        if at_ms > now_ms:
            break
        if at_ms > edge_ms:
            recent.append(at_ms)
        elif late is None:
            late = Late(1, at_ms, at_ms, at_ms)
        elif late.count == MAX_COUNTED:
            # Something newer is due, so none of those counted is the latest: all are missed, whatever comes.
            return Plan(late.last_ms, _missed(late.first_ms, late.last_ms, late.count), ())
        else:
            late = Late(late.count + 1, late.first_ms, late.last_ms, at_ms)
    return _decide(late, tuple(recent), now_ms)


def _each(trigger: At | AnyOf, timezone: str, anchor_ms: int, after_ms: int) -> Iterator[int]:
    while (found := next_after(trigger, timezone, anchor_ms, after_ms)) is not None:
        yield found.at_ms
        after_ms = found.at_ms


def _late_every(interval_ms: int, anchor_ms: int, after_ms: int, until_ms: int) -> Late | None:
    """Return the instants in `(after_ms, until_ms]` without walking them."""
    before = max(0, (after_ms - anchor_ms) // interval_ms)
    last = (until_ms - anchor_ms) // interval_ms
    if last <= before:
        return None
    last_ms = anchor_ms + last * interval_ms
    return Late(last - before, anchor_ms + (before + 1) * interval_ms, last_ms - interval_ms, last_ms)


def _every(interval_ms: int, anchor_ms: int, after_ms: int, until_ms: int) -> range:
    """Return the instants in `(after_ms, until_ms]`; at most one a second for 60 s."""
    before = max(0, (after_ms - anchor_ms) // interval_ms)
    last = (until_ms - anchor_ms) // interval_ms
    return range(anchor_ms + (before + 1) * interval_ms, anchor_ms + last * interval_ms + 1, interval_ms)

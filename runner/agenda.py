"""What the calendar asks for now: which schedules are due, as operations, and when to look again. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from runner.calendar import BadExpression, Plan, Timing, Unrun, next_occurrence, plan, skip, starts_ms, timing_of
from runner.checkpoint.birth import window_ms
from runner.checkpoint.ops import AnyOf, Every, Materialise
from runner.checkpoint.records import Head, Schedule

# Plans of one schedule that one command may chain: a cron that was down for long takes several (calendar.planning).
MAX_CHAINED: Final = 2
# Instants that one turn walks over before it lets the rest wait, give or take one schedule's: a tenth of a second at most.
MAX_WALKED: Final = 5_000
INSTANTS_A_DAY: Final = 6  # to count a day takes as long as to walk over so many
DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Aim:
    """A schedule's next planned instant, good as long as it was reckoned from this definition and this watermark.

    Attributes:
        next_ms: milliseconds since the epoch, UTC; None if it will not fire again.
        fault: why it cannot be planned at all (other time zone data than at its apply), in words for a person.
    """

    definition_revision: int
    watermark_ms: int
    next_ms: int | None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """Instants up to here become no run, whatever policy says, and are put on record with this reason."""

    until_ms: int
    reason: Unrun


def bars(head: Head) -> tuple[Bar, ...]:
    """Return what keeps past instants from running: what fell due before a restore may have run already."""
    return () if head.restored_ms is None else (Bar(head.restored_ms, "restored"),)


def bars_of_edit(head: Head, now_ms: int) -> tuple[Bar, ...]:
    """Return the same for what an edit puts on record before it: nothing runs while frozen, nor later what it ends."""
    return (*bars(head), Bar(now_ms, "frozen")) if head.frozen else bars(head)


def aim_of(row: Schedule) -> Aim:
    """Reckon the aim of an enabled schedule."""
    if has_run_out(row):
        return Aim(row.definition_revision, row.watermark_ms, None)
    try:
        planned = next_occurrence(timing_of(row.spec, row.anchor_ms, row.defined_ms), row.watermark_ms)
    except BadExpression as fault:
        return Aim(row.definition_revision, row.watermark_ms, None, str(fault))
    return Aim(row.definition_revision, row.watermark_ms, planned.at_ms if planned else None)


def has_run_out(row: Schedule) -> bool:
    """Return whether all runs that a schedule may plan are on record, so that nothing is planned any more."""
    return row.spec.max_runs is not None and row.planned_runs >= row.spec.max_runs


def is_of(aim: Aim, row: Schedule) -> bool:
    """Return whether an aim was reckoned from this definition and this watermark."""
    return aim.definition_revision == row.definition_revision and aim.watermark_ms == row.watermark_ms


def due(
    schedules: Sequence[Schedule], aimed: Mapping[str, Aim], now_ms: int, limit: int, barred: Sequence[Bar] = ()
) -> list[Materialise]:
    """Return one operation for each schedule whose aim was reached, those due longest first, at most `limit`.

    Fewer if that would take too long: after `MAX_WALKED` instants walked over the rest wait for the next turn.
    """
    reached: list[tuple[int, str, Schedule]] = []
    for row in schedules:
        aim = aimed.get(row.schedule_id)
        if aim is not None and aim.next_ms is not None and aim.next_ms <= now_ms:
            reached.append((aim.next_ms, row.schedule_id, row))
    reached.sort(key=lambda entry: entry[:2])
    found: list[Materialise] = []
    instants = 0
    for _, _, row in reached[:limit]:
        planned = _chain(row, now_ms, 1, barred)[0]
        found += planned
        instants += walked(row, planned)
        if instants >= MAX_WALKED:
            break
    return found


def walked(row: Schedule, planned: Sequence[Materialise]) -> int:
    """Return how much work it was to plan this, in instants that were walked over.

    Those of a union all were; others are counted a day at a time, those of an interval all at once.
    """
    spec, written = row.spec, sum(len(op.due) + len(op.missed) for op in planned)
    if isinstance(spec.trigger, AnyOf):
        return written + sum(missed.count for op in planned for missed in op.missed)
    if isinstance(spec.trigger, Every) and not spec.exclude:
        return written
    return written + sum(op.until_ms - op.after_ms for op in planned) * INSTANTS_A_DAY // DAY_MS


def catch_up(row: Schedule, now_ms: int, barred: Sequence[Bar] = ()) -> tuple[list[Materialise], bool]:
    """Return what must be committed before an edit of this schedule, and whether that reaches `now_ms`.

    An edit moves the watermark to now: whatever is due before it has to be on record first, or it would be dropped
    without a trace. A disabled schedule plans nothing, so nothing precedes its edit.
    """
    return _chain(row, now_ms, MAX_CHAINED, barred) if row.enabled and not has_run_out(row) else ([], True)


def _chain(row: Schedule, now_ms: int, links: int, barred: Sequence[Bar]) -> tuple[list[Materialise], bool]:
    """Plan from the watermark on, in at most so many links, each starting where the one before ended."""
    found: list[Materialise] = []
    watermark_ms = row.watermark_ms
    for _ in range(links):
        try:
            timing = timing_of(row.spec, row.anchor_ms, row.defined_ms)
            look = _look(row, timing, watermark_ms, now_ms, barred)
            delayed = starts_ms(row.spec, row.schedule_id, timing, window_ms(row.spec), look.due)
        except BadExpression:
            return found, True  # its aim says so; an edit is how a person mends it
        if look.missed or look.due or watermark_ms < look.until_ms < now_ms:
            planned = (watermark_ms, look.until_ms, look.missed, look.due, look.caught_up, delayed)
            found.append(Materialise(row.schedule_id, row.definition_revision, *planned))
        watermark_ms = look.until_ms
        if watermark_ms >= now_ms:
            return found, True
    return found, False


def _look(row: Schedule, timing: Timing, watermark_ms: int, now_ms: int, barred: Sequence[Bar]) -> Plan:
    """Plan from the watermark on: what is barred first, up to where it ends."""
    for bar in barred:
        if bar.until_ms > watermark_ms:
            return skip(timing, watermark_ms, min(bar.until_ms, now_ms), bar.reason)
    return plan(timing, row.spec.catch_up, watermark_ms, now_ms)

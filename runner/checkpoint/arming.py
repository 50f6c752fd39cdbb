"""From which instant on a schedule plans once it is created, edited or revived."""

from typing import Final

from runner.checkpoint.birth import WINDOW_MS
from runner.checkpoint.ops import At, ScheduleSpec
from runner.checkpoint.records import Head, Schedule

AT_HAS_PASSED: Final = "at_has_passed"


def watermark_ms(spec: ScheduleSpec, stored: Schedule | None, head: Head) -> int:
    """Return the watermark of a definition that takes effect now.

    An instant counts only if it is later than the definition that plans it. The exception is a one-shot that is new
    and late within its window: its watermark lies just before it, so that it runs once.
    """
    reached_ms = head.now_ms if stored is None else max(stored.watermark_ms, head.now_ms)
    trigger = spec.trigger
    if isinstance(trigger, At) and _is_new(spec, stored):
        return min(reached_ms, max(trigger.instants_ms[0] - 1, _floor_ms(stored, head)))
    return reached_ms


def never_comes(spec: ScheduleSpec, stored: Schedule | None, head: Head) -> bool:
    """Return whether a one-shot is new and its instant would never be planned.

    It is more than the window ago, or not later than what this schedule has planned, pruned or lost to a restore.
    """
    trigger = spec.trigger
    return isinstance(trigger, At) and _is_new(spec, stored) and trigger.instants_ms[-1] <= _floor_ms(stored, head)


def _is_new(spec: ScheduleSpec, stored: Schedule | None) -> bool:
    return stored is None or stored.deleted_ms is not None or stored.spec.trigger != spec.trigger


def _floor_ms(stored: Schedule | None, head: Head) -> int:
    """Return the instant up to which nothing is planned any more."""
    floors_ms = [head.now_ms - WINDOW_MS - 1, head.restored_ms or 0]
    if stored is not None:
        floors_ms += [stored.watermark_ms, stored.pruned_before_ms or 0]
    return max(floors_ms)

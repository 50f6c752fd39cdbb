"""From which instant on a schedule plans once it is created, edited or revived."""

from typing import Final

from runner.checkpoint.birth import window_ms
from runner.checkpoint.ops import At, ScheduleSpec
from runner.checkpoint.records import Head, Schedule

AT_HAS_PASSED: Final = "at_has_passed"


def watermark_ms(spec: ScheduleSpec, stored: Schedule | None, head: Head) -> int:
    """Return the watermark of a definition that takes effect now.

    An instant counts only if it is later than the definition that plans it. The exception is one that `at` names and
    that is late within its window: the watermark lies just before it, so that it runs once. In a union there is no such
    exception: what the other triggers would have planned meanwhile must not run.
    """
    reached_ms = head.now_ms if stored is None else max(stored.watermark_ms, head.now_ms)
    late_ms = _first_left_ms(spec, stored, head)
    return reached_ms if late_ms is None else min(reached_ms, late_ms - 1)


def never_comes(spec: ScheduleSpec, stored: Schedule | None, head: Head) -> bool:
    """Return whether `at` is new and none of its instants would ever be planned.

    Each is more than the window ago, or not later than what this schedule has planned, pruned or lost to a restore.
    """
    return _names_instants(spec, stored) and _first_left_ms(spec, stored, head) is None


def _first_left_ms(spec: ScheduleSpec, stored: Schedule | None, head: Head) -> int | None:
    if not isinstance(spec.trigger, At) or not _names_instants(spec, stored):
        return None
    floor_ms = _floor_ms(spec, stored, head)
    return next((at_ms for at_ms in spec.trigger.instants_ms if at_ms > floor_ms), None)


def _names_instants(spec: ScheduleSpec, stored: Schedule | None) -> bool:
    is_new = stored is None or stored.deleted_ms is not None or stored.spec.trigger != spec.trigger
    return is_new and isinstance(spec.trigger, At)


def _floor_ms(spec: ScheduleSpec, stored: Schedule | None, head: Head) -> int:
    """Return the instant up to which nothing is planned any more."""
    floors_ms = [head.now_ms - window_ms(spec) - 1, head.restored_ms or 0]
    if stored is not None:
        floors_ms += [stored.watermark_ms, stored.pruned_before_ms or 0]
    return max(floors_ms)

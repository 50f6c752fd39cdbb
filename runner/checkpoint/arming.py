"""From which instant on a schedule plans once it is created, edited or revived."""

from collections.abc import Iterator
from typing import Final

from runner.checkpoint.birth import window_ms
from runner.checkpoint.limits import MAX_WAITING
from runner.checkpoint.ops import AnyOf, At, Cron, Every, ScheduleSpec, TriggerSpec
from runner.checkpoint.records import Head, Schedule

AT_HAS_PASSED: Final = "at_has_passed"
TOO_MANY_INSTANTS: Final = "too_many_instants"


def watermark_ms(spec: ScheduleSpec, stored: Schedule | None, head: Head) -> int:
    """Return the watermark of a definition that takes effect now.

    An instant counts only if it is later than the definition that plans it. The exception is one that `at` names for
    the first time and that is late within its window: the watermark lies just before it, so that it runs once. What
    recurs beside it, in a union, is held back by `Schedule.defined_ms`.
    """
    reached_ms = head.now_ms if stored is None else max(stored.watermark_ms, head.now_ms)
    late_ms = _first_left_ms(spec, stored, head)
    return reached_ms if late_ms is None else min(reached_ms, late_ms - 1)


def never_comes(spec: ScheduleSpec, stored: Schedule | None, head: Head) -> bool:
    """Return whether the trigger is new, names all its instants, and none of them would ever be planned.

    Each is more than the window ago, or not later than what this schedule has planned, pruned or lost to a restore.
    """
    is_new = stored is None or stored.deleted_ms is not None or stored.spec.trigger != spec.trigger
    parts = _parts(spec.trigger)
    if not is_new or not all(isinstance(part, At) for part in parts):
        return False
    floor_ms = _floor_ms(spec, stored, head)
    return all(at_ms <= floor_ms for at_ms in _named(spec.trigger))


def names_too_many(spec: ScheduleSpec) -> bool:
    """Return whether `at` names more instants than may fall due in one look, whenever that is."""
    return sum(1 for _ in _named(spec.trigger)) > MAX_WAITING


def _first_left_ms(spec: ScheduleSpec, stored: Schedule | None, head: Head) -> int | None:
    """Return the first instant that `at` names for the first time and that would still be planned."""
    floor_ms = _floor_ms(spec, stored, head)
    gone = stored is None or stored.deleted_ms is not None
    known = frozenset() if stored is None or gone else frozenset(_named(stored.spec.trigger))
    return min((at_ms for at_ms in _named(spec.trigger) if at_ms > floor_ms and at_ms not in known), default=None)


def _parts(trigger: TriggerSpec) -> tuple[Cron | Every | At, ...]:
    return trigger.triggers if isinstance(trigger, AnyOf) else (trigger,)


def _named(trigger: TriggerSpec) -> Iterator[int]:
    return (at_ms for part in _parts(trigger) if isinstance(part, At) for at_ms in part.instants_ms)


def _floor_ms(spec: ScheduleSpec, stored: Schedule | None, head: Head) -> int:
    """Return the instant up to which nothing is planned any more."""
    floors_ms = [head.now_ms - window_ms(spec) - 1, head.restored_ms or 0]
    if stored is not None:
        floors_ms += [stored.watermark_ms, stored.pruned_before_ms or 0]
    return max(floors_ms)

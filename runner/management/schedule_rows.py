"""From a schedule's row to the form that people and programs read."""

from typing import TypedDict

from msgspec import UNSET, UnsetType

from runner.calendar import BadExpression
from runner.checkpoint.ops import AnyOf, At, CatchUp, Cron, Every, Retry, ScheduleSpec, TriggerSpec
from runner.checkpoint.records import Schedule
from runner.ids import instant_text
from runner.management.foreseeing import of_schedule
from runner.management.schedule_forms import (
    CalendarForm,
    CatchUpForm,
    PlannedForm,
    RetryForm,
    ScheduleForm,
    TriggerForm,
)


class _Bounds(TypedDict):
    start: str | UnsetType
    end: str | UnsetType
    max_runs: int | UnsetType
    planned_runs: int | UnsetType


class _Calendar(TypedDict):
    dst_gap: str | UnsetType
    dst_fold: str | UnsetType
    exclude: list[str] | UnsetType
    calendars: list[CalendarForm] | UnsetType
    jitter_ms: int | UnsetType


class _Overlap(TypedDict):
    overlap: str
    max_concurrent: int | UnsetType
    queue_limit: int | UnsetType


def schedule_form(row: Schedule, now_ms: int) -> ScheduleForm:
    """Return a schedule, with its next instant after what is planned already and after now."""
    spec = row.spec
    simple = TriggerForm() if isinstance(spec.trigger, AnyOf) else _trigger(spec.trigger)
    parts = spec.trigger.triggers if isinstance(spec.trigger, AnyOf) else (spec.trigger,)
    counts_from_anchor = any(isinstance(part, Every) for part in parts)
    return ScheduleForm(
        namespace=spec.namespace,
        name=spec.name,
        schedule_id=row.schedule_id,
        enabled=row.enabled,
        cron=simple.cron,
        every_s=simple.every_s,
        at=simple.at,
        triggers=[_trigger(part) for part in parts] if isinstance(spec.trigger, AnyOf) else UNSET,
        anchor=instant_text(row.anchor_ms) if counts_from_anchor else None,
        timezone=spec.timezone,
        **_bounds(row),
        **_calendar(spec),
        catch_up=_catch_up(spec.catch_up),
        **_overlap(spec),
        pool=spec.pool,
        on_unknown=spec.on_unknown,
        attempts=spec.retry.attempts,
        retry=retry_form(spec.retry),
        retention_s=spec.retention_s,
        next=_next(row, now_ms) if row.enabled else None,
        planned_until=instant_text(row.watermark_ms),
        pruned_until=None if row.pruned_before_ms is None else instant_text(row.pruned_before_ms),
        slot_run_id=row.slot_run_id,
        row_revision=row.revision,
    )


def _trigger(trigger: TriggerSpec) -> TriggerForm:
    match trigger:
        case Cron(expression=expression):
            return TriggerForm(cron=expression)
        case Every(interval_s=interval_s):
            return TriggerForm(every_s=interval_s)
        case At(instants_ms=(at_ms,)):
            return TriggerForm(at=instant_text(at_ms))
        case At(instants_ms=instants_ms):
            return TriggerForm(at=[instant_text(at_ms) for at_ms in instants_ms])
        case AnyOf():
            return TriggerForm()


def _bounds(row: Schedule) -> _Bounds:
    spec = row.spec
    return {
        "start": UNSET if spec.start_ms is None else instant_text(spec.start_ms),
        "end": UNSET if spec.end_ms is None else instant_text(spec.end_ms),
        "max_runs": UNSET if spec.max_runs is None else spec.max_runs,
        "planned_runs": UNSET if spec.max_runs is None else row.planned_runs,
    }


def _calendar(spec: ScheduleSpec) -> _Calendar:
    return {
        "dst_gap": UNSET if spec.dst_gap == "next" else spec.dst_gap,
        "dst_fold": UNSET if spec.dst_fold == "first" else spec.dst_fold,
        "exclude": list(spec.exclude) or UNSET,
        "calendars": [CalendarForm(each.name, len(each.dates)) for each in spec.calendars] or UNSET,
        "jitter_ms": spec.jitter_ms or UNSET,
    }


def _overlap(spec: ScheduleSpec) -> _Overlap:
    return {
        "overlap": spec.overlap,
        "max_concurrent": UNSET if spec.max_concurrent is None else spec.max_concurrent,
        "queue_limit": spec.queue_limit if spec.overlap == "queue_all" else UNSET,
    }


def _catch_up(policy: CatchUp) -> CatchUpForm:
    return CatchUpForm(policy.window_s, policy.policy, policy.limit)


def retry_form(policy: Retry) -> RetryForm:
    """Return a retry policy as a body states it."""
    codes = None if policy.on_exit_codes is None else list(policy.on_exit_codes)
    factor = policy.factor_milli / 1_000
    return RetryForm(policy.attempts, policy.backoff_ms, factor, policy.max_ms, codes)


def _next(row: Schedule, now_ms: int) -> PlannedForm | None:
    """Return the next occurrence that runs."""
    planned_ms = max(row.watermark_ms, now_ms)
    try:
        return next(of_schedule(row, planned_ms, planned_ms), None)
    except BadExpression:
        return None  # accepted under time zone data that this voter does not have; the owner's decides

"""The JSON forms that tell of schedules: what they are, what they plan, what a change would do (WIRE: JSON forms)."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType


class RetryForm(Struct, frozen=True):
    """A retry policy, as a body states it."""

    attempts: int
    backoff_ms: int
    factor: float
    max_ms: int
    on_exit_codes: list[int] | None


class PlannedForm(Struct, frozen=True):
    """A planned instant, as `next` prints it too."""

    at: str
    local: str
    rule: str | None


class ExplainedForm(PlannedForm, frozen=True):
    """A planned instant, run or skipped, with the reason.

    Attributes:
        skipped: `dst_gap` or `excluded`; null if it runs.
        because: which rule applied and how, in words; null if none did.
        starts: when it starts, where the schedule has jitter.
    """

    skipped: str | None
    because: str | None
    starts: str | UnsetType = UNSET


class TriggerForm(Struct, frozen=True, omit_defaults=True):
    """One trigger of a union, as a body states it."""

    cron: str | None = None
    every_s: int | None = None
    at: str | list[str] | None = None


class CalendarForm(Struct, frozen=True):
    """A named calendar that a schedule carries: how many dates and ranges it holds."""

    name: str
    dates: int


class CatchUpForm(Struct, frozen=True):
    """A catch-up policy, as a body states it."""

    window_s: int
    policy: str
    limit: int


class ScheduleForm(Struct, frozen=True, kw_only=True):
    """One schedule, without its command; what is left out is as by default (`bodies.ScheduleBody`).

    Attributes:
        cron: its expression, or null.
        every_s: its interval, or null.
        at: its instants, a text if there is one only; or null.
        triggers: those of a union, of which the three above are null then.
        start: nothing is planned before it, nor after `end`.
        planned_runs: how many of `max_runs` were planned.
        calendars: those that `exclude` names, as they stood when it was applied.
        anchor: what an interval counts from, or null.
        attempts: launches in all, as `retry` says too.
        retention_s: for how long ended runs are kept.
        next: the next instant that runs, null while disabled or if none will come.
        planned_until: every planned instant up to here has a run or a skip, or had one.
        pruned_until: runs and skips up to here may be gone; null if nothing was forgotten yet.
        slot_run_id: the run that owns the overlap slot, or null.
    """

    namespace: str
    name: str
    schedule_id: str
    enabled: bool
    cron: str | None
    every_s: int | None
    at: str | list[str] | None
    triggers: list[TriggerForm] | UnsetType = UNSET
    anchor: str | None
    timezone: str
    start: str | UnsetType = UNSET
    end: str | UnsetType = UNSET
    max_runs: int | UnsetType = UNSET
    planned_runs: int | UnsetType = UNSET
    dst_gap: str | UnsetType = UNSET
    dst_fold: str | UnsetType = UNSET
    exclude: list[str] | UnsetType = UNSET
    calendars: list[CalendarForm] | UnsetType = UNSET
    catch_up: CatchUpForm
    jitter_ms: int | UnsetType = UNSET
    overlap: str
    max_concurrent: int | UnsetType = UNSET
    queue_limit: int | UnsetType = UNSET
    pool: str
    on_unknown: str
    attempts: int
    retry: RetryForm
    retention_s: int
    next: PlannedForm | None
    planned_until: str
    pruned_until: str | None
    slot_run_id: str | None
    row_revision: int


class PreviewForm(Struct, frozen=True, kw_only=True):
    """What an apply would do, as `namespace/name` and pool names; `apply?dry_run=true` writes nothing.

    Attributes:
        differences: of each that would change, the keys whose values would.
        revives: those that were deleted and would come back, enabled, under the id they had.
        pools: those that would get another limit, new ones included.
        new_pools: those of them that do not exist yet.
    """

    dry_run: Literal[True] = True
    creates: list[str]
    changes: list[str]
    differences: dict[str, list[str]]
    revives: list[str]
    unchanged: list[str]
    pools: list[str]
    new_pools: list[str]


class LeftForm(Struct, frozen=True):
    """A planned instant that a backfill leaves alone, and why: what is on record of it, or the rule that decided."""

    scheduled_for: str
    why: str


class BackfillForm(Struct, frozen=True, kw_only=True):
    """What a backfill would do; `dry_run` writes nothing.

    Attributes:
        creates: the instants that would get a run, oldest first.
    """

    dry_run: Literal[True] = True
    creates: list[str]
    left: list[LeftForm]

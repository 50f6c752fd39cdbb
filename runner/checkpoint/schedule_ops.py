"""Operations on schedules, and what the calendar plans of them.

Everything an op needs is in it: apply has no clock and draws nothing. Instants are integers in milliseconds since the
Unix epoch, UTC (`_ms`).
"""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from runner.checkpoint.management_ops import Operation
from runner.ids import LATEST_INSTANT_MS
from worker.protocol import CommandTarget

DEFAULT_RETENTION_S: Final = 30 * 86_400


class Cron(Struct, frozen=True, tag="cron"):
    """Five cron fields, or six with the seconds first, read in the schedule's time zone."""

    expression: str


class Every(Struct, frozen=True, tag="every"):
    """Elapsed time from an anchor; first fire anchor + interval."""

    interval_s: Annotated[int, Meta(ge=1)]


class At(Struct, frozen=True, tag="at"):
    """Named instants, each once; ascending, no two alike."""

    instants_ms: Annotated[tuple[Annotated[int, Meta(ge=0, le=LATEST_INSTANT_MS)], ...], Meta(min_length=1)]


class AnyOf(Struct, frozen=True, tag="any_of"):
    """What any of several triggers plans; an instant of two of them is one occurrence."""

    triggers: Annotated[tuple[Cron | Every | At, ...], Meta(min_length=2)]


TriggerSpec: TypeAlias = Cron | Every | At | AnyOf
Overlap: TypeAlias = Literal["skip", "queue_one", "queue_all", "cancel_previous", "allow"]


class Retry(Struct, frozen=True):
    """How many launches in all when failures are confirmed, and how long to wait between them; no floats in apply.

    Attributes:
        backoff_ms: pause after the first confirmed failure, milliseconds.
        factor_milli: by how much each later pause is longer, in thousandths.
        max_ms: the longest pause, milliseconds.
        on_exit_codes: if given, only an attempt that exited with one of them is tried again.
    """

    attempts: Annotated[int, Meta(ge=1)] = 1
    backoff_ms: Annotated[int, Meta(ge=0)] = 1_000
    factor_milli: Annotated[int, Meta(ge=1_000)] = 2_000
    max_ms: Annotated[int, Meta(ge=0)] = 300_000
    on_exit_codes: tuple[int, ...] | None = None


class CatchUp(Struct, frozen=True):
    """What becomes of an occurrence that is more than a minute late when the owner gets to it.

    Attributes:
        window_s: how late it may still run, seconds; exactly as late as this is not too late.
        policy: of those that may, `latest` runs the newest unless a newer one is due in time, `all` runs them oldest
            first, `none` runs none.
        limit: for `all`: the newest so many run.
    """

    window_s: Annotated[int, Meta(ge=1)] = 3_600
    policy: Literal["latest", "all", "none"] = "latest"
    limit: Annotated[int, Meta(ge=1)] = 100


class NamedDates(Struct, frozen=True):
    """A calendar that several schedules share, as it stood when this one was applied.

    Attributes:
        dates: `2026-12-25` and `2026-12-24..2027-01-01`, as written.
    """

    name: str
    dates: tuple[str, ...]


class ScheduleSpec(Struct, frozen=True):
    """A schedule as its file states it.

    Attributes:
        schedule_id: UUIDv7 drawn by the owner's shell; used only if the name was never seen.
        overlap: what becomes of an instant while a run of an earlier batch holds the slot.
        on_unknown: `retry` is for targets with a delivery deadline only.
        retention_s: for how long terminal runs are kept, seconds.
        delivery_deadline_s: until when a launched run may be launched again, seconds after its instant; None for
            targets that are not deliveries.
        start_ms: nothing is planned before this instant.
        end_ms: nothing is planned after this instant.
        max_runs: planned occurrences that become runs, since the schedule was created or revived; None for no limit.
        exclude: when it does not run, as written (`runner.calendar.exclusions.entry`).
        calendars: the calendars that `exclude` names.
        jitter_ms: by how much a start may be delayed, milliseconds.
        max_concurrent: for overlap `allow`: more runs than this are never open at once.
        queue_limit: for overlap `queue_all`: how many runs may wait in line.
    """

    namespace: str
    name: str
    schedule_id: str
    trigger: TriggerSpec
    timezone: str
    overlap: Overlap
    pool: str
    on_unknown: Literal["hold", "retry"]
    retry: Retry
    target: CommandTarget
    retention_s: Annotated[int, Meta(ge=1)] = DEFAULT_RETENTION_S
    delivery_deadline_s: Annotated[int, Meta(ge=1)] | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    max_runs: Annotated[int, Meta(ge=1)] | None = None
    dst_gap: Literal["next", "skip"] = "next"
    dst_fold: Literal["first", "last", "both"] = "first"
    exclude: tuple[str, ...] = ()
    calendars: tuple[NamedDates, ...] = ()
    catch_up: CatchUp = CatchUp()
    jitter_ms: Annotated[int, Meta(ge=0)] = 0
    max_concurrent: Annotated[int, Meta(ge=1)] | None = None
    queue_limit: Annotated[int, Meta(ge=1)] = 100


class PoolSpec(Struct, frozen=True):
    """A named pool and how many attempts may hold capacity in it at once."""

    name: str
    limit: Annotated[int, Meta(ge=0)]


class Apply(Struct, frozen=True, tag="apply"):
    """Create or change the named schedules and pools, all or none; leaves enabled/disabled and all others alone."""

    operation: Operation
    pools: tuple[PoolSpec, ...]
    schedules: tuple[ScheduleSpec, ...]


class SetEnabled(Struct, frozen=True, tag="set_enabled"):
    """Enable or disable future planning of one schedule.

    Attributes:
        catch_up: when it is enabled: what was due while it was disabled is planned after all, as `catch_up` says.
    """

    operation: Operation
    namespace: str
    name: str
    enabled: bool
    catch_up: bool = False


class Delete(Struct, frozen=True, tag="delete"):
    """End the planning of one schedule and leave a tombstone; its open runs go on."""

    operation: Operation
    namespace: str
    name: str


class Trigger(Struct, frozen=True, tag="trigger"):
    """Create a manual run now, whose trigger id is the operation key.

    Attributes:
        beside: it runs whatever else of the schedule is open, and no other run waits for it.
    """

    operation: Operation
    namespace: str
    name: str
    beside: bool = False


class Unplanned(Struct, frozen=True):
    """A planned instant that a backfill leaves alone, since the calendar says that it does not run."""

    at_ms: int
    why: Literal["excluded", "dst_gap"]


class Backfill(Struct, frozen=True, tag="backfill"):
    """Create runs for planned instants of the past that nothing is on record of; others are left alone and listed.

    Refused (`stale_plan`) unless `schedule_revision` is the row's: the instants are of one definition.

    Attributes:
        schedule_revision: revision that last changed the definition (not the row).
        instants: oldest first, none after the schedule's watermark.
        unplanned: those in between that do not run; they are only listed in the answer.
    """

    operation: Operation
    namespace: str
    name: str
    schedule_revision: int
    instants: tuple[int, ...]
    unplanned: tuple[Unplanned, ...] = ()


class Missed(Struct, frozen=True):
    """Neighbouring planned instants that policy decided not to run, as one range (first == last for one)."""

    first_ms: int
    last_ms: int
    count: int
    reason: Literal["missed_window", "restored", "frozen", "dst_gap", "excluded"]


class Materialise(Struct, frozen=True, tag="materialise"):
    """What the calendar says of one schedule between two instants, for overlap to decide.

    Refused (`stale_plan`) unless `schedule_revision` and `after_ms` are the row's: a plan is for one definition
    and one watermark. Nothing in it may be later than the command's `now_ms` (`not_yet`).

    Attributes:
        schedule_revision: revision that last changed the definition (not the row).
        after_ms: the watermark the plan starts from, exclusive.
        until_ms: the new watermark, inclusive.
        missed: ranges that are not run, oldest first; no instant of `due` lies within one.
        due: instants of one batch that run if overlap allows, oldest first.
        caught_up: how many of the first of `due` are more than a minute late: they wait for each other whatever the
            overlap policy.
        starts_ms: where jitter delays some: not before which instant each of `due` starts; empty if none is delayed.
    """

    schedule_id: str
    schedule_revision: int
    after_ms: int
    until_ms: int
    missed: tuple[Missed, ...]
    due: tuple[int, ...]
    caught_up: int = 0
    starts_ms: tuple[int, ...] = ()


class Prune(Struct, frozen=True, tag="prune"):
    """Forget terminal runs and skips of one schedule up to an explicit bound; nothing up to it materialises again.

    Attributes:
        before_ms: the bound, inclusive, by planned instant (a manual run's: by trigger instant).
        limit: how many rows at most; what is left waits for the next command.
    """

    schedule_id: str
    before_ms: int
    limit: int

"""The request bodies of the management listener, as JSON (WIRE: Management listener).

A schedule is written as in its file, with lengths of time as numbers: `every_s`, `retention_s`, `jitter_ms`, `timeout_ms`
in the command, `backoff_ms` and `max_ms` in `retry`, `window_s` in `catch_up`.
Unknown keys are refused, so that a misspelt policy is an error and never a default.
"""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from runner.calendar.dst import Fold, Gap
from runner.checkpoint.limits import MAX_ATTESTED, MAX_CALENDARS, MAX_POOLS, MAX_SCHEDULES
from runner.checkpoint.ops import Overlap, PoolSpec
from runner.checkpoint.schedule_ops import DEFAULT_RETENTION_S
from worker.protocol import CommandTarget

NAME_PATTERN: Final = r"^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?\Z"
MAX_BODY_BYTES: Final = 1 << 20

Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
RunId = Annotated[str, Meta(min_length=1, max_length=64)]
Words = Annotated[str, Meta(min_length=1, max_length=1024)]
CatchUpPolicy: TypeAlias = Literal["latest", "all", "none"]


class RetryBody(Struct, frozen=True, forbid_unknown_fields=True):
    """How a confirmed failure is answered (`policies.retry_of` says what is right beyond the types).

    Attributes:
        attempts: launches in all.
        backoff_ms: the pause after the first failure.
        factor: by how much each later pause is longer; at most three decimals count, and more are refused.
        max_ms: the longest pause.
        on_exit_codes: if given, only an attempt that exited with one of them is tried again; -N is signal N.
    """

    attempts: Annotated[int, Meta(ge=1)] = 1
    backoff_ms: Annotated[int, Meta(ge=0)] = 1_000
    factor: int | float = 2
    max_ms: Annotated[int, Meta(ge=0)] = 300_000
    on_exit_codes: Annotated[tuple[int, ...], Meta(min_length=1, max_length=256)] | None = None


class TriggerBody(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One trigger; exactly one of its members.

    Attributes:
        cron: five cron fields, or six with the seconds first, read in the schedule's `timezone`.
        every_s: elapsed seconds between fires.
        at: instants, RFC 3339; without an offset they are read in `timezone`.
    """

    cron: str | None = None
    every_s: int | None = None
    at: str | tuple[str, ...] | None = None


class CatchUpBody(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What becomes of an occurrence that is more than a minute late (`policies.catch_up_of` says what is right).

    Attributes:
        window_s: how late it may still run.
        limit: of how many at most, under `all`.
    """

    window_s: int = 3_600
    policy: CatchUpPolicy = "latest"
    limit: int = 100


class ScheduleBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One schedule; exactly one of `cron`, `every_s`, `at` and `triggers`.

    What lies in a range or goes with another key only is judged by `defining.spec_of`.

    Attributes:
        cron: as in `TriggerBody`, and so are `every_s` and `at`.
        triggers: several: it is due whenever one of them is.
        timezone: IANA name.
        start: nothing is planned before this instant, written as in `at`.
        end: nothing is planned after it.
        max_runs: how many planned occurrences become runs in all; null for no limit.
        exclude: when it does not run (`runner.calendar.exclusions.entry`); `calendar:NAME` is one of the body's.
        jitter_ms: by how much a start may be delayed.
        max_concurrent: with overlap `allow`: how many runs are open at once.
        queue_limit: with overlap `queue_all`: how many wait in line.
        retention_s: for how long ended runs are kept.
    """

    namespace: Name
    name: Name
    cron: str | None = None
    every_s: int | None = None
    at: str | tuple[str, ...] | None = None
    triggers: tuple[TriggerBody, ...] | None = None
    timezone: str = "UTC"
    start: str | None = None
    end: str | None = None
    max_runs: int | None = None
    dst_gap: Gap = "next"
    dst_fold: Fold = "first"
    exclude: tuple[str, ...] = ()
    catch_up: CatchUpBody = CatchUpBody()
    jitter_ms: int = 0
    overlap: Overlap = "skip"
    max_concurrent: int | None = None
    queue_limit: int | None = None
    pool: Name = "default"
    on_unknown: Literal["hold"] = "hold"
    retry: RetryBody = RetryBody()
    retention_s: int = DEFAULT_RETENTION_S
    command: CommandTarget


class CalendarBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Dates and ranges of dates (`2026-12-24..2027-01-01`) that the schedules of the same body may name."""

    name: Name
    dates: tuple[str, ...]


class PoolBody(PoolSpec, frozen=True, forbid_unknown_fields=True):
    """A pool as its file states it: name and limit."""


class ApplyBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/apply: all or none of it takes effect; what it does not name is left alone.

    Attributes:
        calendars: a schedule keeps what it excludes as it is here; only applying it again changes that.
    """

    pools: Annotated[tuple[PoolBody, ...], Meta(max_length=MAX_POOLS)] = ()
    schedules: Annotated[tuple[ScheduleBody, ...], Meta(max_length=MAX_SCHEDULES)] = ()
    calendars: Annotated[tuple[CalendarBody, ...], Meta(max_length=MAX_CALENDARS)] = ()


class ScheduleName(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/disable and /v1/delete, and what every body about one schedule has."""

    namespace: Name
    name: Name


class ManualBody(ScheduleName, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Body of POST /v1/trigger.

    Attributes:
        overlap: `allow`: it runs whatever else of the schedule is open, and no other run waits for it.
    """

    overlap: Literal["allow"] | None = None


class EnableBody(ScheduleName, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Body of POST /v1/enable.

    Attributes:
        catch_up: what was due while it was disabled is looked at as after a time without an owner.
    """

    catch_up: bool = False


class BackfillBody(
    ScheduleName,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
    rename={"first": "from", "last": "to"},
):
    """Body of POST /v1/backfill.

    Attributes:
        first: the first instant that may get a run, RFC 3339, UTC unless it says otherwise.
        last: the last one.
        dry_run: only say what would become of each.
    """

    first: str
    last: str
    dry_run: bool = False


class CancelBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/cancel."""

    run_id: RunId


class EmptyBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/freeze, /v1/unfreeze and /v1/clock/accept: an object without anything in it."""


class AttestBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/attest: a named human's statement, with evidence, about what that human read.

    Attributes:
        attempt: the attempt's n.
        row_revision: `row_revision` of that attempt as `GET /v1/runs/{id}` showed it.
    """

    run_id: RunId
    attempt: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    attester: Words
    statement: Words
    evidence: Words
    row_revision: Annotated[int, Meta(ge=0, le=2**53)]


class AttestedBody(Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt that a statement covers, as `GET /v1/unknown` showed it."""

    run_id: RunId
    attempt: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    row_revision: Annotated[int, Meta(ge=0, le=2**53)]


class AttestIncarnationBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/attest/incarnation: one statement about all that one lost process life left uncertain.

    Attributes:
        attempts: exactly what `GET /v1/unknown?worker=…&incarnation=…` listed; anything else is refused.
    """

    worker: Annotated[str, Meta(min_length=1, max_length=64)]
    incarnation: Annotated[str, Meta(min_length=1, max_length=64)]
    attester: Words
    statement: Words
    evidence: Words
    attempts: Annotated[tuple[AttestedBody, ...], Meta(max_length=MAX_ATTESTED)]


class ReplaceBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/voters/replace.

    Attributes:
        disk_id: the new disk, as `voter prepare` printed it; without it, the one that is linked to the owner.
    """

    voter: Annotated[str, Meta(min_length=1, max_length=64)]
    disk_id: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")] | None = None

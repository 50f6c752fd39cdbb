"""The rows of the checkpoint as small frozen records; instants in milliseconds since the epoch, UTC."""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from runner.checkpoint.ops import ScheduleSpec


class AttemptState(Enum):
    """What evidence there is of one attempt (DESIGN 4)."""

    CLAIMED = "Claimed"
    ADMITTED = "Admitted"
    ACCEPTED = "Accepted"
    CANCELLING = "Cancelling"
    UNKNOWN = "Unknown"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    NOT_LAUNCHED = "NotLaunched"
    QUIESCED = "Quiesced"


class RunState(Enum):
    """What became of one occurrence (DESIGN 4)."""

    PENDING = "Pending"
    ACTIVE = "Active"
    CANCELLING = "Cancelling"
    UNKNOWN = "Unknown"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    QUIESCED = "Quiesced"
    SKIPPED = "Skipped"


@dataclass(frozen=True, slots=True)
class Head:
    """The register's own row: who owns, under which epoch, at which revision.

    Attributes:
        generation: grows with each restore.
        frozen: nothing is materialised, claimed or permitted.
        restored_ms: when this generation began; what was planned up to then and has no row is not run. None before
            the first restore.
    """

    cluster_id: str
    generation: int
    epoch: int
    owner: str | None
    revision: int
    now_ms: int
    token_counter: int
    frozen: bool
    restored_ms: int | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """Launch `n` of a run, bound to one incarnation of one worker.

    Attributes:
        unresolved: Cancelling, and the worker is lost or cannot tell.
        superseded: a later delivery took its place (webhooks, on_unknown = retry).
        won: it finished out of Cancelling since the last reopen: completion won over cancellation.
        generation: of the checkpoint when it was claimed.
        token: fencing token of its permit, None without one.
        fenced: no permit exists and none ever will.
        evidence: what was said of it beside its state, newest last, bounded.
        revision: revision that last changed this row.
    """

    run_id: str
    n: int
    state: AttemptState
    reason: str | None
    unresolved: bool
    superseded: bool
    won: bool
    worker: str
    incarnation: str
    ledger: str
    owner: str
    epoch: int
    generation: int
    authority: str
    digest: str
    reservation: str | None
    token: int | None
    fenced: bool
    execution_id: str | None
    exit_code: int | None
    claimed_ms: int
    admitted_ms: int | None
    started_ms: int | None
    ended_ms: int | None
    cancelling_ms: int | None
    tail: str
    evidence: str
    revision: int


@dataclass(frozen=True, slots=True)
class Run:
    """The one durable row of an occurrence.

    Attributes:
        scheduled_for_ms: the planned instant; None for a manual run.
        trigger_id: the manual run's trigger id; None for a planned one.
        triggered_ms: its trigger instant.
        occurrence: `scheduled_for` text or `manual/` and the trigger id.
        digest: of the frozen target, whose bytes are stored once in `payloads`.
        attempts_allowed: launches in all, when failures are confirmed; counted since the last reopen.
        backoff_ms: pause after the first confirmed failure; `factor_milli` and `max_backoff_ms` make the later ones.
        on_exit_codes: the exit codes after which it is tried again, comma separated; None for any failure.
        on_unknown: `hold`, or `retry` for deliveries.
        not_before_ms: no claim before this instant.
        closes_ms: closing instant while nothing of it was ever launched.
        deadline_ms: closing instant after that; None for none.
        reopened_after: the attempts up to this launch number came before the last reopen.
        cancelled: a cancel was committed.
        closed: its closing instant was committed as passed.
        beside: it runs beside its schedule's slot: it neither takes it nor waits for it.
        apart: beside, and no overlap rule counts it: somebody triggered it to run whatever else is open.
        caught_up: the catch-up policy that let it run although it was late; None if it was in time.
        holds_slot: it owns its schedule's overlap slot.
    """

    run_id: str
    schedule_id: str
    namespace: str
    schedule: str
    schedule_revision: int
    scheduled_for_ms: int | None
    trigger_id: str | None
    triggered_ms: int | None
    occurrence: str
    state: RunState
    reason: str | None
    pool: str
    digest: str
    attempts_allowed: int
    backoff_ms: int
    factor_milli: int
    max_backoff_ms: int
    on_exit_codes: str | None
    on_unknown: Literal["hold", "retry"]
    not_before_ms: int
    closes_ms: int
    deadline_ms: int | None
    reopened_after: int
    cancelled: bool
    closed: bool
    beside: bool
    caught_up: str | None
    holds_slot: bool
    created_ms: int
    ended_ms: int | None
    revision: int
    apart: bool = False


@dataclass(frozen=True, slots=True)
class SkipRange:
    """Neighbouring planned instants that were skipped for one reason."""

    schedule_id: str
    namespace: str
    schedule: str
    first_ms: int
    last_ms: int
    count: int
    reason: str
    revision: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule's row.

    Attributes:
        definition_revision: revision that last changed the definition; plans name it.
        watermark_ms: every planned instant up to here has a run or lies in a skip.
        anchor_ms: what `every` counts from.
        slot_run_id: the run that owns the overlap slot, or None.
        planned_runs: planned occurrences that became runs since it was created or revived, for `max_runs`.
        tail_skip_ms: first instant of the skip range that holds the newest planned instant, if that one was skipped.
        digest: of the target that its next run freezes.
        pruned_before_ms: nothing planned up to here materialises again; None if nothing was pruned yet.
        deleted_ms: when it was deleted; None while it is there.
        defined_ms: when its definition took effect: what recurs is planned only after it, also where the watermark lies
            before it for the sake of a late `at`.
        revision: revision that last changed the row.
    """

    spec: ScheduleSpec
    schedule_id: str
    enabled: bool
    definition_revision: int
    watermark_ms: int
    anchor_ms: int
    slot_run_id: str | None
    revision: int
    digest: str
    tail_skip_ms: int | None = None
    pruned_before_ms: int | None = None
    deleted_ms: int | None = None
    planned_runs: int = 0
    defined_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """A named pool with its limit and how many attempts hold capacity in it."""

    name: str
    limit: int
    held: int


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the trail that recovery staff read.

    Attributes:
        attempt: None where the run itself moved, which follows from its attempts' lines of the same revision.
        why: snake_case, or a few words.
        evidence: on what it was decided: a report's words, what the owner had heard, a human's statement.
    """

    revision: int
    ordinal: int
    at_ms: int
    actor: str
    run_id: str | None
    attempt: int | None
    op: str
    from_state: str | None
    to_state: str | None
    why: str | None
    evidence: str | None = None

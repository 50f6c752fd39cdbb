"""The JSON forms of everything that the management listener answers (WIRE: JSON forms).

Instants are texts; a key whose value is `UNSET` is left out. Argument lists and environments of commands are in none
of them: they may hold secrets.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from runner.management.schedule_forms import RetryForm


class AttemptForm(Struct, frozen=True, kw_only=True):
    """One attempt as `runs` lists it.

    Attributes:
        permit: the fencing token, or null without a permit.
    """

    n: int
    state: str
    worker: str
    incarnation: str
    epoch: int
    permit: int | None
    execution_id: str | None
    started_at: str | None
    ended_at: str | None
    exit_code: int | None


class AttemptInFull(AttemptForm, frozen=True, kw_only=True):
    """One attempt as `show` tells of it.

    Attributes:
        reason: why it is in its state, snake_case.
        unresolved: Cancelling, and its worker is lost or cannot tell.
        claimed_at: when it was bound to its worker.
        admitted_at: when its permit was committed.
        tail: the end of its output, for work that did not succeed.
        evidence: what was said of it and changed nothing.
        row_revision: what an attestation must name, so that nobody attests what they did not read.
    """

    reason: str | None
    unresolved: bool
    superseded: bool
    claimed_at: str
    admitted_at: str | None
    tail: str
    evidence: str
    row_revision: int


class RunForm(Struct, frozen=True, kw_only=True):
    """One run as `runs` lists it; `triggered_at` and a null `scheduled_for` for a manual one.

    Attributes:
        caught_up: the catch-up policy that let it run although it was late; null if it was in time.
        late_s: how long after its instant it was put on record, seconds; null for a manual one.
        beside: it runs beside its schedule's overlap slot.
    """

    namespace: str
    schedule: str
    schedule_id: str
    scheduled_for: str | None
    triggered_at: str | UnsetType = UNSET
    run_id: str
    state: str
    reason: str | None
    caught_up: str | None
    late_s: float | None
    beside: bool
    attempts: list[AttemptForm]


class RangeForm(Struct, frozen=True, kw_only=True):
    """Neighbouring planned instants that were skipped for one reason, as `runs` lists them."""

    namespace: str
    schedule: str
    schedule_id: str
    scheduled_for: str
    scheduled_until: str
    count: int
    run_id: None = None
    state: Literal["Skipped"] = "Skipped"
    reason: str
    attempts: list[AttemptForm] = []


class EventForm(Struct, frozen=True, kw_only=True, rename={"from_state": "from", "to_state": "to"}):
    """One transition: who, what, from where to where, why, and on what evidence, where more than the reason is known."""

    revision: int
    at: str
    actor: str
    run_id: str | None
    attempt: int | None
    op: str
    from_state: str | None
    to_state: str | None
    why: str | None
    evidence: str | None


class UnknownForm(Struct, frozen=True, kw_only=True):
    """One attempt that a human may attest, as `unknown` lists it.

    Attributes:
        state: `Unknown`, or `Cancelling` (whose stop stays unconfirmed).
        worker: null, as `incarnation`, for a place that a restore made: no claim of it is on record.
        since: when it came into its state; null if its trail is gone.
        why: what is known of why, in words.
        row_revision: what an attestation must name.
    """

    namespace: str
    schedule: str
    scheduled_for: str | None
    run_id: str
    run_state: str
    attempt: int
    state: str
    superseded: bool
    worker: str | None
    incarnation: str | None
    since: str | None
    reason: str | None
    why: str
    permit: int | None
    evidence: str
    row_revision: int


class ShowForm(Struct, frozen=True, kw_only=True):
    """One run with its trail.

    Attributes:
        caught_up: as `RunForm` says, and so are `late_s` and `beside`.
        retry: the policy that it froze.
        not_before: no claim before this instant.
        events: newest first.
        unknown_because: what is known and what is not, in words; null if nothing is uncertain.
        waits_for: what a Pending run waits for, in words; null for any other run.
    """

    namespace: str
    schedule: str
    schedule_id: str
    scheduled_for: str | None
    triggered_at: str | UnsetType = UNSET
    run_id: str
    state: str
    reason: str | None
    caught_up: str | None
    late_s: float | None
    beside: bool
    pool: str
    not_before: str
    attempts_allowed: int
    retry: RetryForm
    holds_slot: bool
    created_at: str
    ended_at: str | None
    attempts: list[AttemptInFull]
    events: list[EventForm]
    unknown_because: str | None
    waits_for: str | None


class VoterForm(Struct, frozen=True):
    """One voter as the asked one sees it.

    Attributes:
        disk_id: the disk that speaks for it now; null while it is not connected.
        suffrage: what its word is worth: `voter` counts, `catching_up` is accepted and does not count yet,
            `not_accepted` waits for `fencepost voter replace`, `retired` was replaced; null while it is not connected.
    """

    name: str
    connected: bool
    applied_index: int
    disk_id: str | None
    suffrage: str | None


class WorkerForm(Struct, frozen=True):
    """One worker as the owner hears it."""

    name: str
    incarnation: str
    last_contact_s: float


class FreezeForm(Struct, frozen=True):
    """The freeze in force: since when, and by which principal."""

    since: str
    by: str


class StatusForm(Struct, frozen=True, kw_only=True):
    """The asked voter's own view.

    Attributes:
        owner: name of the owning voter, or null if this one knows of none.
        workers: null where only the owner knows.
        runs: state to instants.
        tzdata: the version of the time zone data that this voter plans by.
        clock: `ok`, `clock_stepped` or `clock_behind`; null where only the owner knows.
        frozen: null unless nothing is materialised, claimed or permitted.
        timing: every length of time in force, seconds.
        trouble: why the asked voter is not ready, in words; null while it can do its part.
    """

    cluster_id: str
    generation: int
    node: str
    role: str
    owner: str | None
    epoch: int
    revision: int
    term: int
    applied_index: int
    voters: list[VoterForm]
    workers: list[WorkerForm] | None
    runs: dict[str, int]
    clock: str | None
    tzdata: str
    frozen: FreezeForm | None
    timing: dict[str, float]
    trouble: str | None

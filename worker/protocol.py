"""The words a worker and the owner exchange over the admission listener (WIRE: Admission listener).

Bodies are msgspec structs, as JSON by default and as msgpack by `Content-Type: application/msgpack`. Every changing
request is a list of at most `MAX_ITEMS` items with one `Answer` per item, in order. All instants are integers in
milliseconds since the Unix epoch, UTC, and end in `_ms`; lengths of time are in seconds and end in `_s`.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

VERSION: Final = 1
MAX_ITEMS: Final = 1_000
MAX_BODY_BYTES: Final = 1 << 20
MAX_POLL_S: Final = 5.0
MAX_POOLS: Final = 100
MAX_TAIL_BYTES: Final = 1024

LARGEST: Final = (1 << 53) - 1  # what every JSON reader keeps exactly
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Ordinal = Annotated[int, Meta(ge=1, le=LARGEST)]
Instant = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
ExitCode = Annotated[int, Meta(ge=-(1 << 31), lt=1 << 32)]
Id = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=1024)]


class CommandTarget(Struct, frozen=True, forbid_unknown_fields=True):
    """A command to run on the worker's host; argv is never passed through a shell.

    Attributes:
        argv: program and arguments, at least the program.
        env: variables added to PATH, HOME, LANG, TZ and FENCEPOST_*.
        cwd: working directory, or None for the worker's own.
        timeout_ms: how long it may run, milliseconds, or None for no limit.
    """

    argv: Annotated[tuple[str, ...], Meta(min_length=1)]
    env: dict[str, str] = {}
    cwd: str | None = None
    timeout_ms: Ordinal | None = None


class Binding(Struct, frozen=True, forbid_unknown_fields=True):
    """All that a claim binds an attempt to; a permit is granted only to exactly the stored one.

    Its numbers have no upper limit of their own: one that is not exactly the stored one is denied, whatever it is.

    Attributes:
        occurrence: `scheduled_for` as text, or `manual/` and the trigger id.
        digest: lower-case hex sha256 of the frozen target.
        authority: execution authority: the pool the worker's credential must be bound to.
    """

    cluster_id: Id
    generation: int
    namespace: Id
    schedule_id: Id
    occurrence: Annotated[str, Meta(max_length=128)]
    run_id: Id
    attempt: Annotated[int, Meta(ge=1)]
    owner: Id
    epoch: int
    worker: Id
    incarnation: Id
    ledger: Id
    digest: Id
    authority: Id


class Claim(Struct, frozen=True):
    """An open claim as the owner lists it to its worker.

    Attributes:
        schedule: the schedule's name (its id is in the binding).
        scheduled_for: text for FENCEPOST_SCHEDULED_FOR: the occurrence's instant, or the trigger instant of a manual run.
        idempotency_key: lower-case hex sha256 of schedule_id and occurrence (DESIGN 6).
        not_before_ms: no permit is granted before this instant.
    """

    binding: Binding
    schedule: str
    scheduled_for: str
    idempotency_key: str
    target: CommandTarget
    not_before_ms: int


Phase = Literal["reserved", "consumed", "accepted", "ended"]


class Held(Struct, frozen=True):
    """One attempt that the worker's ledger has a row for and whose last report was not finally answered.

    Attributes:
        phase: how far its own row has come.
        observable: this process can still see the work (or its recorded end).
    """

    run_id: Id
    attempt: Ordinal
    phase: Phase
    observable: bool


class Poll(Struct, frozen=True):
    """A worker's contact: what it is, what it holds, what it has room for.

    Attributes:
        life: counts the starts of this ledger, durably: of two incarnations of one ledger the higher is the newer.
        number: grows with every message of this incarnation; an older one is ignored.
        epoch: the owner epoch of the last reply this incarnation got, 0 before the first; the owner trusts the
            absence of a row in `held` only if this is its own epoch.
        slots: how many more attempts it would take now.
        pools: those that this process serves, of those that its credential is for; None for all of them.
        wait_s: how long the owner may hold the reply back if nothing is new, at most `MAX_POLL_S`.
        cluster_id: the cluster that this ledger belongs to: that of its first answered poll; "" before.
        generation: the highest one that an owner named to this ledger, 0 before the first. An owner of another
            cluster, or of an earlier generation, refuses each message (409).
    """

    version: Count
    incarnation: Id
    ledger: Id
    life: Ordinal
    number: Count
    epoch: Count
    slots: Annotated[int, Meta(ge=0, le=MAX_ITEMS)]
    held: Annotated[list[Held], Meta(max_length=MAX_ITEMS)]
    wait_s: Annotated[float, Meta(ge=0, le=MAX_POLL_S)] = 0.0
    pools: Annotated[list[Id], Meta(max_length=MAX_POOLS)] | None = None
    cluster_id: Id = ""
    generation: Count = 0


class Stop(Struct, frozen=True):
    """An attempt of this worker that is Cancelling: stop it, if it is alive, and say so."""

    run_id: str
    attempt: int


class PollReply(Struct, frozen=True):
    """Level-triggered: *all* open claims of this incarnation and *all* Cancelling attempts of this worker.

    Attributes:
        retired: a human attested this incarnation quiescent; it must launch nothing more.
    """

    version: int
    owner: str
    epoch: int
    cluster_id: str
    generation: int
    claims: list[Claim]
    stops: list[Stop]
    retired: bool = False


class PermitRequest(Struct, frozen=True):
    """Ask for the one permit of an attempt, after it was reserved durably under `reservation`."""

    binding: Binding
    reservation: Id


class Permits(Struct, frozen=True):
    """Body of POST /v1/permits; `cluster_id` and `generation` as in a poll."""

    version: Count
    number: Count
    items: Annotated[list[PermitRequest], Meta(max_length=MAX_ITEMS)]
    cluster_id: Id = ""
    generation: Count = 0


class FenceRequest(Struct, frozen=True):
    """Ask that no permit may ever exist for this attempt."""

    binding: Binding


class Fences(Struct, frozen=True):
    """Body of POST /v1/fences; `cluster_id` and `generation` as in a poll."""

    version: Count
    number: Count
    items: Annotated[list[FenceRequest], Meta(max_length=MAX_ITEMS)]
    cluster_id: Id = ""
    generation: Count = 0


class Report(Struct, frozen=True, tag_field="kind", kw_only=True):
    """What a worker says of one attempt; repeated until it is finally answered.

    Attributes:
        incarnation: the process life that reserved the attempt (not always the one that reports).
        ledger: identity of the ledger file the words come from.
        evidence: what the ledger and the host prove, in words.
    """

    run_id: Id
    attempt: Ordinal
    incarnation: Id
    ledger: Id
    evidence: Text = ""


class Accept(Report, frozen=True, tag="accept", kw_only=True):
    """The engine accepted the work."""

    execution_id: Annotated[str, Meta(max_length=256)]
    started_ms: Instant


class Finish(Report, frozen=True, tag="finish", kw_only=True):
    """The engine's definite result, observed before any stop was noted.

    Attributes:
        reason: None on success; else `exit`, `timeout` or `refused`.
        tail: the end of the output of work that did not succeed, at most `MAX_TAIL_BYTES` of UTF-8.
    """

    succeeded: bool
    reason: Literal["exit", "timeout", "refused"] | None = None
    exit_code: ExitCode | None = None
    ended_ms: Instant
    tail: Text = ""


class ConfirmStopped(Report, frozen=True, tag="confirm_stopped", kw_only=True):
    """After a stop was noted: nothing of the work is alive any more, however it ended.

    Attributes:
        consumed: whether launch permission was ever consumed; False stands for a local fence.
    """

    consumed: bool
    exit_code: ExitCode | None = None
    ended_ms: Instant


class Forfeit(Report, frozen=True, tag="forfeit"):
    """The same incarnation durably fenced this attempt in its ledger before consuming it."""


class CannotTell(Report, frozen=True, tag="cannot_tell"):
    """The outcome cannot be observed any more (or the ledger has no row)."""


AnyReport = Accept | Finish | ConfirmStopped | Forfeit | CannotTell


class Reports(Struct, frozen=True):
    """Body of POST /v1/reports; `cluster_id` and `generation` as in a poll."""

    version: Count
    number: Count
    items: Annotated[list[AnyReport], Meta(max_length=MAX_ITEMS)]
    cluster_id: Id = ""
    generation: Count = 0


AnswerKind = Literal["granted", "denied", "permit_exists", "fenced", "recorded", "evidence", "no_such_run"]


class Answer(Struct, frozen=True):
    """The final answer to one item.

    Attributes:
        reason: why it was denied, in snake_case; None otherwise.
        token: the fencing token of a granted permit.
    """

    kind: AnswerKind
    reason: str | None = None
    token: int | None = None


class Answers(Struct, frozen=True):
    """Reply to permits, fences and reports: one answer per item, in order."""

    items: list[Answer]


class NotOwner(Struct, frozen=True):
    """Body of a 421: who owns, as far as this voter knows, and all admission URLs it knows."""

    owner: str | None
    urls: list[str]

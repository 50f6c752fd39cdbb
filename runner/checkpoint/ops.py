"""The operations of a command, and their bytes in the log (DESIGN 3.2: checkpoint).

A command is one compare-and-set: if epoch or revision differ nothing is applied; otherwise every op is applied or
refused on its own and sees the ops before it. Everything an op needs is in it: apply has no clock and draws nothing.
Instants are integers in milliseconds since the Unix epoch, UTC (`_ms`).
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from cluster.outcome import FailStop
from worker.protocol import Binding, CommandTarget

VERSION: Final = 1

Actor = Literal["owner", "operator", "recovery", "worker"]


class Operation(Struct, frozen=True):
    """Who asked for a management change, under which key; the checkpoint keeps its result (WIRE: Idempotency-Key).

    Attributes:
        principal: name of the authenticated caller; keys of two principals never meet.
        key: UUIDv7 text that the client minted.
        digest: lower-case hex sha256 of the request's body; the same key with another digest is refused.
    """

    principal: str
    key: str
    digest: str


class Cron(Struct, frozen=True, tag="cron"):
    """Five cron fields, read in the schedule's time zone."""

    expression: str


class Every(Struct, frozen=True, tag="every"):
    """Elapsed time from an anchor; first fire anchor + interval."""

    interval_s: Annotated[int, Meta(ge=1)]


class Retry(Struct, frozen=True):
    """How many launches in all, when failures are confirmed."""

    attempts: Annotated[int, Meta(ge=1)] = 1


class ScheduleSpec(Struct, frozen=True):
    """A schedule as its file states it.

    Attributes:
        schedule_id: UUIDv7 drawn by the owner's shell; used only if the name was never seen.
        overlap: only `skip` in this version.
        on_unknown: only `hold` for commands.
    """

    namespace: str
    name: str
    schedule_id: str
    trigger: Cron | Every
    timezone: str
    overlap: Literal["skip"]
    pool: str
    on_unknown: Literal["hold"]
    retry: Retry
    target: CommandTarget


class PoolSpec(Struct, frozen=True):
    """A named pool and how many attempts may hold capacity in it at once."""

    name: str
    limit: Annotated[int, Meta(ge=0)]


class Acquire(Struct, frozen=True, tag="acquire"):
    """Take ownership: epoch + 1. Guarded by the command's expected revision."""

    owner: str


class Apply(Struct, frozen=True, tag="apply"):
    """Create or change the named schedules and pools, all or none; leaves enabled/disabled and all others alone."""

    operation: Operation
    pools: tuple[PoolSpec, ...]
    schedules: tuple[ScheduleSpec, ...]


class SetEnabled(Struct, frozen=True, tag="set_enabled"):
    """Enable or disable future planning of one schedule."""

    operation: Operation
    namespace: str
    name: str
    enabled: bool


class Trigger(Struct, frozen=True, tag="trigger"):
    """Create a manual run now, whose trigger id is the operation key."""

    operation: Operation
    namespace: str
    name: str


class Missed(Struct, frozen=True):
    """Neighbouring planned instants that policy decided not to run, as one range (first == last for one)."""

    first_ms: int
    last_ms: int
    count: int
    reason: Literal["missed_window"]


class Materialise(Struct, frozen=True, tag="materialise"):
    """What the calendar says of one schedule between two instants, for overlap to decide.

    Refused (`stale_plan`) unless `schedule_revision` and `after_ms` are the row's: a plan is for one definition
    and one watermark. Nothing in it may be later than the command's `now_ms` (`not_yet`).

    Attributes:
        schedule_revision: revision that last changed the definition (not the row).
        after_ms: the watermark the plan starts from, exclusive.
        until_ms: the new watermark, inclusive.
        missed: ranges that are not run, oldest first, all before the first of `due`.
        due: instants of one batch that run if overlap allows, oldest first.
    """

    schedule_id: str
    schedule_revision: int
    after_ms: int
    until_ms: int
    missed: tuple[Missed, ...]
    due: tuple[int, ...]


class ClaimOp(Struct, frozen=True, tag="claim"):
    """Bind the next attempt of a Pending run to a worker's incarnation."""

    run_id: str
    attempt: int
    worker: str
    incarnation: str
    ledger: str
    authorities: tuple[str, ...]


class AdmitOp(Struct, frozen=True, tag="admit"):
    """Grant the one permit of an attempt to exactly the stored claim and one reservation."""

    worker: str
    binding: Binding
    reservation: str


class FenceOp(Struct, frozen=True, tag="fence"):
    """State for ever that no permit exists for an attempt.

    Attributes:
        worker: the worker that asks, with its binding's incarnation; None if the owner's deadline passed.
    """

    run_id: str
    attempt: int
    why: str
    worker: str | None = None


class AcceptOp(Struct, frozen=True, tag="accept"):
    """Record that the engine accepted the work."""

    worker: str
    run_id: str
    attempt: int
    incarnation: str
    ledger: str
    execution_id: str
    started_ms: int
    evidence: str = ""


class FinishOp(Struct, frozen=True, tag="finish"):
    """Record the engine's definite result."""

    worker: str
    run_id: str
    attempt: int
    incarnation: str
    ledger: str
    succeeded: bool
    reason: str | None
    exit_code: int | None
    ended_ms: int
    tail: str = ""
    evidence: str = ""


class ConfirmStoppedOp(Struct, frozen=True, tag="confirm_stopped"):
    """Record that, after a stop was noted, nothing of the work is alive."""

    worker: str
    run_id: str
    attempt: int
    incarnation: str
    ledger: str
    consumed: bool
    exit_code: int | None
    ended_ms: int
    evidence: str = ""


class ForfeitOp(Struct, frozen=True, tag="forfeit"):
    """Record that the same incarnation fenced the attempt in its ledger before consuming it."""

    worker: str
    run_id: str
    attempt: int
    incarnation: str
    ledger: str
    evidence: str = ""


class LoseOp(Struct, frozen=True, tag="lose"):
    """Record that the outcome of an attempt cannot be confirmed (any more).

    Attributes:
        worker: the worker whose report says so, or None if the owner's deadline says so.
        ledger: of the worker that says so: only the ledger that the attempt is bound to can know.
        why: snake_case: `worker_out_of_contact`, `cannot_tell`, `not_held`, `incarnation_replaced`, `stop_deadline`.
    """

    run_id: str
    attempt: int
    why: str
    worker: str | None = None
    ledger: str | None = None
    evidence: str = ""


class CancelOp(Struct, frozen=True, tag="cancel"):
    """Cancel one run: commits Cancelling before any worker hears of it."""

    operation: Operation
    run_id: str


class AttestOp(Struct, frozen=True, tag="attest"):
    """A named human's statement of quiescence about one attempt.

    Attributes:
        row_revision: the attempt's row revision that the attester read; another one is refused (`row_changed`).
    """

    operation: Operation
    run_id: str
    attempt: int
    attester: str
    statement: str
    evidence: str
    row_revision: int


class CloseOp(Struct, frozen=True, tag="close"):
    """A Pending run's closing instant has passed (refused unless it has, by the command's `now_ms`)."""

    run_id: str


class ForgetOperations(Struct, frozen=True, tag="forget_operations"):
    """Drop the kept results of operation keys older than the retention (7 days), oldest first, at most `limit`."""

    before_ms: int
    limit: int


Op = (
    Acquire
    | Apply
    | SetEnabled
    | Trigger
    | Materialise
    | ClaimOp
    | AdmitOp
    | FenceOp
    | AcceptOp
    | FinishOp
    | ConfirmStoppedOp
    | ForfeitOp
    | LoseOp
    | CancelOp
    | AttestOp
    | CloseOp
    | ForgetOperations
)


class Command(Struct, frozen=True):
    """One compare-and-set on the checkpoint.

    Attributes:
        expect_epoch: the epoch under which the proposer owns (for Acquire: the one it read).
        expect_revision: the revision it read.
        now_ms: the owner's trusted now; apply clamps it so that the checkpoint's now never goes back.
        actor: name of the voter that proposes.
    """

    version: int
    expect_epoch: int
    expect_revision: int
    now_ms: int
    actor: str
    ops: tuple[Op, ...]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Command)


def encode(command: Command) -> bytes:
    """Return the bytes of a command for the log."""
    return _encoder.encode(command)


def decode(raw: bytes) -> Command:
    """Return the command of some committed bytes.

    Raises:
        FailStop: the version, an op or a field is not known to this program: applying less than what was committed
            would let voters differ, so this one stops.
    """
    try:
        command = _decoder.decode(raw)
    except msgspec.MsgspecError as fault:
        raise FailStop(f"a committed command cannot be read by this program: {fault}") from fault
    if command.version != VERSION:
        raise FailStop(f"a committed command has version {command.version}; this program knows {VERSION}")
    return command

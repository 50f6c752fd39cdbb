"""The operations of a command, and their bytes in the log (DESIGN 3.2: checkpoint).

A command is one compare-and-set: if epoch or revision differ nothing is applied; otherwise every op is applied or
refused on its own and sees the ops before it. Everything an op needs is in it: apply has no clock and draws nothing.
Instants are integers in milliseconds since the Unix epoch, UTC (`_ms`).
"""

from typing import Final

import msgspec
from msgspec import Struct

from cluster.outcome import FailStop
from runner.checkpoint.attempt_ops import (
    AcceptOp,
    AdmitOp,
    ClaimOp,
    CloseOp,
    ConfirmStoppedOp,
    FenceOp,
    FinishOp,
    ForfeitOp,
    LoseOp,
)
from runner.checkpoint.management_ops import (
    AcceptClock,
    AttestedRow,
    AttestIncarnationOp,
    AttestOp,
    CancelOp,
    ForgetOperations,
    Operation,
    Redeliver,
    Restore,
    SetFrozen,
)
from runner.checkpoint.schedule_ops import (
    AnyOf,
    Apply,
    At,
    Backfill,
    CatchUp,
    Cron,
    Delete,
    Every,
    Materialise,
    Missed,
    NamedDates,
    Overlap,
    PoolSpec,
    Prune,
    Retry,
    ScheduleSpec,
    SetEnabled,
    Trigger,
    TriggerSpec,
    Unplanned,
)

__all__ = [
    "VERSION",
    "AcceptClock",
    "AcceptOp",
    "Acquire",
    "AdmitOp",
    "AnyOf",
    "Apply",
    "At",
    "AttestIncarnationOp",
    "AttestOp",
    "AttestedRow",
    "Backfill",
    "CancelOp",
    "CatchUp",
    "Change",
    "ClaimOp",
    "CloseOp",
    "Command",
    "ConfirmStoppedOp",
    "Cron",
    "Delete",
    "Every",
    "FenceOp",
    "FinishOp",
    "ForfeitOp",
    "ForgetOperations",
    "LoseOp",
    "Materialise",
    "Missed",
    "NamedDates",
    "Op",
    "Operation",
    "Overlap",
    "PoolSpec",
    "Prune",
    "Redeliver",
    "Restore",
    "Retry",
    "ScheduleSpec",
    "SetEnabled",
    "SetFrozen",
    "Trigger",
    "TriggerSpec",
    "Unplanned",
    "decode",
    "encode",
]

VERSION: Final = 1


class Acquire(Struct, frozen=True, tag="acquire"):
    """Take ownership: epoch + 1. Guarded by the command's expected revision."""

    owner: str


Change = (
    Apply
    | SetEnabled
    | Delete
    | Trigger
    | Backfill
    | CancelOp
    | AttestOp
    | AttestIncarnationOp
    | SetFrozen
    | Redeliver
    | Restore
    | AcceptClock
)
"""What people ask for, under an operation key."""
Op = (
    Change
    | Acquire
    | Materialise
    | Prune
    | ClaimOp
    | AdmitOp
    | FenceOp
    | AcceptOp
    | FinishOp
    | ConfirmStoppedOp
    | ForfeitOp
    | LoseOp
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

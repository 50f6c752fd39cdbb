"""What applying a command answers: plain builtins on the wire, small structs here."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

Kind = Literal[
    "done",  # a management or owner op took effect; `detail` says what
    "refused",  # it did not; `reason` says why, `detail["state"]` in which state the row is
    "claimed",
    "granted",  # `token`; `again` if this reservation had it already
    "denied",  # `reason`
    "permit_exists",
    "fenced",
    "recorded",
    "evidence",  # kept beside the row, changed no state
    "no_such_run",
]


class OpResult(Struct, frozen=True, omit_defaults=True):
    """The typed result of one op.

    Attributes:
        detail: what a management caller is told, JSON-able; also the stored reply of its operation key.
        again: this answer was given before (an idempotent repeat).
        changed: keys of the rows it changed (`run:ID`, `attempt:ID.N`, `schedule:ID`, `pool:NAME`, …), in order.
    """

    kind: Kind
    reason: str | None = None
    token: int | None = None
    again: bool = False
    detail: dict[str, Any] = {}
    changed: tuple[str, ...] = ()


class CommandResult(Struct, frozen=True):
    """The result of a whole command.

    Attributes:
        verdict: `applied`; `stale` (the epoch differs) or `conflict` (the revision differs): nothing was applied.
        epoch: the checkpoint's epoch after the command.
        revision: its revision after the command.
        now_ms: the checkpoint's clamped now after the command.
        results: one per op if applied, else empty.
    """

    verdict: Literal["applied", "stale", "conflict"]
    epoch: int
    revision: int
    now_ms: int
    results: tuple[OpResult, ...] = ()


def to_builtins(result: CommandResult) -> object:
    """Return the msgpack-encodable form that `StateMachine.apply` answers with."""
    return msgspec.to_builtins(result)


def from_builtins(value: object) -> CommandResult:
    """Return the typed form of what a proposal's `Applied.result` holds."""
    return msgspec.convert(value, CommandResult)

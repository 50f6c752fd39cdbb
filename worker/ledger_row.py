"""What may happen to a ledger row, and in which order: the table that keeps an attempt from a second submission.

Pure: a row, a command and the instant in; the new row and a decision out. `ledger.py` loads and stores.
"""

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from worker.outcome import Outcome, Receipt
from worker.protocol import Binding

MAX_EVIDENCE: Final = 1024


class RowState(Enum):
    """How far an attempt has come on this worker."""

    RESERVED = "reserved"  # noted before a permit is asked for
    CONSUMED = "consumed"  # launch permission used up; the engine may have been asked
    ACCEPTED = "accepted"  # the engine's receipt is kept
    ENDED = "ended"  # a definite result is kept
    FENCED = "fenced"  # never consumed, and never will be
    LOST = "lost"  # the outcome cannot be observed any more


class LedgerRow(Struct, frozen=True, kw_only=True):
    """All that this worker knows of one attempt, durably.

    Attributes:
        binding: the claim, its incarnation being the life that reserved it.
        reservation: id under which the permit is asked for, the same on every ask.
        permit_known: the owner said that a permit exists.
        token: fencing token of the consumed permit.
        accept_answered: the owner heard of the receipt.
        stop_noted_ms: when a cancellation was noted; from then on any end is reported as a confirmed stop.
        evidence: why the row was fenced or lost, in words.
        answer: the final answer to its last report, None while that is still repeated.
        answered_ms: when that came, or when the owner was last asked whether it still keeps the run.
    """

    binding: Binding
    reservation: str
    reserved_ms: int
    state: RowState = RowState.RESERVED
    permit_known: bool = False
    token: int | None = None
    consumed_ms: int | None = None
    receipt: Receipt | None = None
    accept_answered: bool = False
    stop_noted_ms: int | None = None
    outcome: Outcome | None = None
    evidence: str = ""
    answer: str | None = None
    answered_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Reserve:
    """Note an invocation before asking for its permit."""

    binding: Binding
    reservation: str


@dataclass(frozen=True, slots=True)
class Consume:
    """Use up the launch permission that a grant gave.

    Attributes:
        incarnation: the process life that wants to launch.
        waited_s: seconds since it first asked for the permit, suspended time included.
        limit_s: grants that took longer are dropped.
    """

    incarnation: str
    token: int
    waited_s: float
    limit_s: float


@dataclass(frozen=True, slots=True)
class Fence:
    """Close the row before it was consumed."""

    why: str
    permit_known: bool = False


@dataclass(frozen=True, slots=True)
class LearnPermit:
    """The owner said whether a permit exists for a fenced row."""

    exists: bool


@dataclass(frozen=True, slots=True)
class KeepReceipt:
    """The engine accepted the work."""

    receipt: Receipt


@dataclass(frozen=True, slots=True)
class End:
    """The engine stated a definite result."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class NoteStop:
    """The owner committed a cancellation of this attempt."""


@dataclass(frozen=True, slots=True)
class Lose:
    """The outcome cannot be observed any more."""

    evidence: str


@dataclass(frozen=True, slots=True)
class SettleAccept:
    """The owner answered the report of the receipt."""


@dataclass(frozen=True, slots=True)
class Settle:
    """The owner finally answered the last report of this row."""

    answer: str


@dataclass(frozen=True, slots=True)
class Remember:
    """The owner was asked again, long after its final answer, and still keeps the run."""


Command = (
    Reserve | Consume | Fence | LearnPermit | KeepReceipt | End | NoteStop | Lose | SettleAccept | Settle | Remember
)


class Reason(Enum):
    """Why a command changed nothing."""

    ILLEGAL_MOVE = "illegal_move"
    OTHER_INCARNATION = "other_incarnation"
    GRANT_EXPIRED = "grant_expired"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class Done:
    """The command was applied."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The command changed nothing."""

    reason: Reason
    state: RowState | None


Decision = Done | Denied

_R = RowState
MOVES: Final = MappingProxyType[tuple[RowState | None, type[Command]], RowState](
    {
        (None, Reserve): _R.RESERVED,
        (_R.RESERVED, Consume): _R.CONSUMED,
        (_R.RESERVED, Fence): _R.FENCED,
        (_R.RESERVED, NoteStop): _R.FENCED,
        (_R.RESERVED, Lose): _R.LOST,
        (_R.CONSUMED, KeepReceipt): _R.ACCEPTED,
        (_R.CONSUMED, End): _R.ENDED,
        (_R.CONSUMED, NoteStop): _R.CONSUMED,
        (_R.CONSUMED, Lose): _R.LOST,
        (_R.ACCEPTED, SettleAccept): _R.ACCEPTED,
        (_R.ACCEPTED, End): _R.ENDED,
        (_R.ACCEPTED, NoteStop): _R.ACCEPTED,
        (_R.ACCEPTED, Lose): _R.LOST,
        (_R.ENDED, SettleAccept): _R.ENDED,
        (_R.ENDED, Settle): _R.ENDED,
        (_R.ENDED, Remember): _R.ENDED,
        (_R.FENCED, NoteStop): _R.FENCED,
        (_R.FENCED, LearnPermit): _R.FENCED,
        (_R.FENCED, Settle): _R.FENCED,
        (_R.FENCED, Remember): _R.FENCED,
        (_R.LOST, SettleAccept): _R.LOST,
        (_R.LOST, Settle): _R.LOST,
        (_R.LOST, Remember): _R.LOST,
    }
)


def step(row: LedgerRow | None, command: Command, *, now_ms: int) -> tuple[LedgerRow | None, Decision]:
    """Decide one command against one row (None: there is no row). Same inputs, same answer."""
    state = row.state if row is not None else None
    target = MOVES.get((state, type(command)))
    if target is None:
        return row, Denied(Reason.ILLEGAL_MOVE, state)
    if row is None:
        assert isinstance(command, Reserve), "only a reservation makes a row"
        return LedgerRow(binding=command.binding, reservation=command.reservation, reserved_ms=now_ms), Done()
    if (row.answer is not None) is not isinstance(command, Remember):
        return row, Denied(Reason.SETTLED if row.answer is not None else Reason.ILLEGAL_MOVE, state)
    refusal = _guard(row, command)
    if refusal is not None:
        return row, Denied(refusal, state)
    return _change(replace(row, state=target), command, now_ms), Done()


def _guard(row: LedgerRow, command: Command) -> Reason | None:
    """Return why this row must not take a command that its state allows."""
    if not isinstance(command, Consume):
        return None
    if command.incarnation != row.binding.incarnation:
        return Reason.OTHER_INCARNATION
    return Reason.GRANT_EXPIRED if command.waited_s > command.limit_s else None


def _change(row: LedgerRow, command: Command, now_ms: int) -> LedgerRow:  # noqa: C901, PLR0911 - one line per command
    match command:
        case Reserve():
            raise AssertionError("a reservation only makes a row")
        case Consume(token=token):
            return replace(row, token=token, permit_known=True, consumed_ms=now_ms)
        case Fence(why=why, permit_known=known):
            return replace(row, evidence=why[:MAX_EVIDENCE], permit_known=known)
        case LearnPermit(exists=exists):
            return replace(row, permit_known=exists)
        case KeepReceipt(receipt=receipt):
            return replace(row, receipt=receipt)
        case End(outcome=outcome):
            return replace(row, outcome=outcome)
        case NoteStop():
            return row if row.stop_noted_ms is not None else replace(row, stop_noted_ms=now_ms)
        case Lose(evidence=evidence):
            return replace(row, evidence=evidence[:MAX_EVIDENCE])
        case SettleAccept():
            return replace(row, accept_answered=True)
        case Settle(answer=answer):
            return replace(row, answer=answer, answered_ms=now_ms)
        case Remember():
            return replace(row, answered_ms=now_ms)
        case _:
            assert_never(command)

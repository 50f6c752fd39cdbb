"""The state machine of an attempt: DESIGN section 4's table, and the step that reads it.

`MOVES` is the truth. A pair that is not in it is refused with the state; before the table is asked, a command that was
given before gets the answer it got before.
"""

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from runner.checkpoint.attempt_guards import (
    ADMIT_GUARDS,
    ATTEST_GUARDS,
    CLAIM_GUARDS,
    REPEATED_ADMIT_GUARDS,
    stands_against,
)
from runner.checkpoint.attempt_words import (
    REPORTS,
    Accept,
    Admit,
    Attest,
    Cancel,
    Claim,
    Command,
    ConfirmStopped,
    Decision,
    Denied,
    Facts,
    Fence,
    Finish,
    Forfeit,
    Granted,
    Kept,
    Lose,
    Moved,
    PermitExists,
    Reason,
    Restore,
    Supersede,
)
from runner.checkpoint.records import Attempt, AttemptState
from runner.checkpoint.said import already_said, as_moved, keep_words, newborn, restored_newborn, was_given_back

_CLAIMED = AttemptState.CLAIMED
_ADMITTED = AttemptState.ADMITTED
_ACCEPTED = AttemptState.ACCEPTED
_CANCELLING = AttemptState.CANCELLING
_UNKNOWN = AttemptState.UNKNOWN
_SUCCEEDED = AttemptState.SUCCEEDED
_FAILED = AttemptState.FAILED
_CANCELLED = AttemptState.CANCELLED
_NOT_LAUNCHED = AttemptState.NOT_LAUNCHED
_QUIESCED = AttemptState.QUIESCED

DEFINITE: Final = (_SUCCEEDED, _FAILED, _CANCELLED, _NOT_LAUNCHED)
"""The outcome is proved."""
UNCERTAIN: Final = (_ADMITTED, _ACCEPTED, _CANCELLING, _UNKNOWN)
"""It may have been launched, and its outcome is not proved."""
TERMINAL: Final = (*DEFINITE, _QUIESCED)
_PERMITTED: Final = (*UNCERTAIN, _SUCCEEDED, _FAILED, _CANCELLED, _QUIESCED)


@dataclass(frozen=True, slots=True)
class Move:
    """A row that changes the attempt.

    Attributes:
        to: the state it goes to; where there are two, the engine's result decides.
        unless: reasons to say no, asked in this order. A report that one of them stands against is kept as evidence.
    """

    to: tuple[AttemptState, ...]
    unless: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Keep:
    """A late report: unchanged, kept as evidence."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Unchanged, with this answer."""

    decision: Denied | PermitExists


@dataclass(frozen=True, slots=True)
class Regrant:
    """The same reservation is told of the permit it has."""

    unless: tuple[Reason, ...]


Row = Move | Keep | Answer | Regrant
Pair = tuple[AttemptState | None, type[Command]]

_SAME_LEDGER = (Reason.LEDGER_DIFFERS, Reason.GENERATION_DIFFERS)
_SAME_LEDGER_CURRENT = (*_SAME_LEDGER, Reason.SUPERSEDED)
_SAME_LEDGER_AND_EXECUTION = (*_SAME_LEDGER, Reason.EXECUTION_DIFFERS)
_SAME_LIFE = (*_SAME_LEDGER, Reason.INCARNATION_DIFFERS)
_SAME_LIFE_CURRENT = (*_SAME_LIFE, Reason.SUPERSEDED)
_OWNER_OR_ITS_WORKER = (Reason.WORKER_DIFFERS,)
_OWNER_OR_ITS_LEDGER = (Reason.WORKER_DIFFERS, Reason.LEDGER_DIFFERS)
_RESULT = (_SUCCEEDED, _FAILED)

_LATE: Final[dict[Pair, Row]] = {(state, report): Keep() for state in (_UNKNOWN, *TERMINAL) for report in REPORTS}
_PERMIT_STANDS: Final[dict[Pair, Row]] = {(state, Fence): Answer(PermitExists(state)) for state in _PERMITTED}
_ADMITTED_BEFORE: Final[dict[Pair, Row]] = {
    (state, Admit): Answer(Denied(Reason.ALREADY_PERMITTED, state)) for state in _PERMITTED
}
_RESTORED: Final[dict[Pair, Row]] = {(state, Restore): Move((_UNKNOWN,)) for state in (None, _CLAIMED, *UNCERTAIN)}

MOVES: Final = MappingProxyType[Pair, Row](
    {
        # Every late report has an answer; the rows below say which ones still move something.
        **_LATE,
        **_PERMIT_STANDS,
        **_ADMITTED_BEFORE,
        **_RESTORED,
        (None, Claim): Move((_CLAIMED,), CLAIM_GUARDS),
        (_CLAIMED, Admit): Move((_ADMITTED,), ADMIT_GUARDS),
        (_ADMITTED, Admit): Regrant(REPEATED_ADMIT_GUARDS),
        (_NOT_LAUNCHED, Admit): Answer(Denied(Reason.FENCED, _NOT_LAUNCHED)),
        (_CLAIMED, Fence): Move((_NOT_LAUNCHED,), _OWNER_OR_ITS_WORKER),
        (_CLAIMED, Cancel): Move((_NOT_LAUNCHED,)),
        (_ADMITTED, Cancel): Move((_CANCELLING,)),
        (_ACCEPTED, Cancel): Move((_CANCELLING,)),
        (_UNKNOWN, Cancel): Move((_CANCELLING,)),  # unresolved at once; a superseded one stays superseded
        (_ADMITTED, Accept): Move((_ACCEPTED,), _SAME_LEDGER),
        (_ACCEPTED, Accept): Keep(),  # of another execution: the same one was answered before
        (_UNKNOWN, Accept): Move((_UNKNOWN,), _SAME_LEDGER_AND_EXECUTION),  # the execution id is kept
        (_CANCELLING, Accept): Move((_CANCELLING,), _SAME_LEDGER_AND_EXECUTION),
        (_ADMITTED, Finish): Move(_RESULT, _SAME_LEDGER),
        (_ACCEPTED, Finish): Move(_RESULT, _SAME_LEDGER),
        (_CANCELLING, Finish): Move(_RESULT, _SAME_LEDGER),  # completion won
        (_UNKNOWN, Finish): Move(_RESULT, _SAME_LEDGER_CURRENT),
        (_ADMITTED, Forfeit): Move((_FAILED,), _SAME_LIFE),
        (_UNKNOWN, Forfeit): Move((_FAILED,), _SAME_LIFE_CURRENT),
        (_CANCELLING, Forfeit): Move((_CANCELLED,), _SAME_LIFE),
        (_CANCELLING, ConfirmStopped): Move((_CANCELLED,), _SAME_LIFE),  # its life only counts if never consumed
        (_ADMITTED, Lose): Move((_UNKNOWN,), _OWNER_OR_ITS_LEDGER),
        (_ACCEPTED, Lose): Move((_UNKNOWN,), _OWNER_OR_ITS_LEDGER),
        (_CANCELLING, Lose): Move((_CANCELLING,), _OWNER_OR_ITS_LEDGER),  # unresolved from now on
        (_UNKNOWN, Attest): Move((_QUIESCED,), ATTEST_GUARDS),
        (_CANCELLING, Attest): Move((_QUIESCED,), ATTEST_GUARDS),  # only once it is unresolved
        (_UNKNOWN, Supersede): Move((_UNKNOWN,)),
    }
)


def step(attempt: Attempt | None, command: Command, facts: Facts, *, now_ms: int) -> tuple[Attempt | None, Decision]:
    """Decide one command against one attempt. Same inputs, same answer, on every machine.

    Args:
        attempt: the row, or None for a launch that does not exist yet.
        command: what is asked.
        facts: what the rows around it say.
        now_ms: the command's clamped now, milliseconds since the epoch, UTC.

    Returns:
        The row as it is afterwards (the same object if nothing changed), and the answer.
    """
    if attempt is None:
        return _first(command, facts, now_ms)
    if already_said(attempt, command):
        return attempt, Moved(again=True)
    row = MOVES.get((attempt.state, type(command)))
    if row is None:
        return attempt, Denied(Reason.ILLEGAL_MOVE, attempt.state)
    if isinstance(row, Move):
        return _move(row, attempt, command, facts, now_ms)
    return _stay(row, attempt, command, facts, now_ms)


def holds_capacity(attempt: Attempt) -> bool:
    """Return whether it counts in its pool: from the claim until it is definite, attested or superseded."""
    return attempt.state not in TERMINAL and not attempt.superseded


def was_launched(attempt: Attempt) -> bool:
    """Return whether it may ever have reached an engine: neither fenced nor given back before it was consumed."""
    return attempt.state not in {_CLAIMED, _NOT_LAUNCHED} and not was_given_back(attempt)


def _first(command: Command, facts: Facts, now_ms: int) -> tuple[Attempt | None, Decision]:
    row = MOVES.get((None, type(command)))
    if isinstance(command, Restore):
        return restored_newborn(command, now_ms), Moved()
    if not isinstance(command, Claim):
        return None, Denied(Reason.ILLEGAL_MOVE, None)
    assert isinstance(row, Move)
    draft = newborn(command, now_ms)
    against = _first_against(row.unless, draft, command, facts, now_ms)
    return (draft, Moved()) if against is None else (None, Denied(against, None))


def _move(row: Move, attempt: Attempt, command: Command, facts: Facts, now_ms: int) -> tuple[Attempt, Decision]:
    against = _first_against(row.unless, attempt, command, facts, now_ms)
    if against is not None and isinstance(command, REPORTS):
        return keep_words(attempt, command, now_ms), Kept(against)
    if against is not None:
        return attempt, Denied(against, attempt.state)
    moved = as_moved(attempt, command, now_ms)
    if len(row.to) == 1:
        moved = replace(moved, state=row.to[0])
    assert moved.state in row.to, (attempt.state, type(command), moved.state)
    return moved, Granted(command.token) if isinstance(command, Admit) else Moved()


def _stay(
    row: Keep | Answer | Regrant, attempt: Attempt, command: Command, facts: Facts, now_ms: int
) -> tuple[Attempt, Decision]:
    match row:
        case Keep():
            return keep_words(attempt, command, now_ms), Kept()
        case Answer(decision):
            return attempt, decision
        case Regrant(unless):
            against = _first_against(unless, attempt, command, facts, now_ms)
            if against is not None:
                return attempt, Denied(against, attempt.state)
            assert attempt.token is not None, "Admitted without a token"
            return attempt, Granted(attempt.token, again=True)


def _first_against(
    unless: tuple[Reason, ...], attempt: Attempt, command: Command, facts: Facts, now_ms: int
) -> Reason | None:
    return next((guard for guard in unless if stands_against(guard, attempt, command, facts, now_ms)), None)

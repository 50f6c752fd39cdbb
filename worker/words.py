"""What a worker has to say of a ledger row, and what an answer to it means. Pure."""

from typing import Final

from msgspec.structs import replace

from worker.ledger_row import (
    MAX_EVIDENCE,
    Command,
    LearnPermit,
    LedgerRow,
    RowState,
    Settle,
    SettleAccept,
)
from worker.protocol import (
    Accept,
    Answer,
    AnyReport,
    CannotTell,
    ConfirmStopped,
    FenceRequest,
    Finish,
    Forfeit,
    Held,
    Phase,
)

Word = AnyReport | FenceRequest

FINAL: Final = frozenset({"recorded", "evidence", "no_such_run"})
NOT_YET: Final = frozenset({"not_due", "frozen"})  # a permit denied for these may be granted later


def key_of(word: Word) -> tuple[str, int]:
    """Return which attempt a word is about."""
    if isinstance(word, FenceRequest):
        return word.binding.run_id, word.binding.attempt
    return word.run_id, word.attempt


def words(row: LedgerRow) -> tuple[Word, ...]:
    """Return what is to be said now, in order; nothing while the work goes on or once all was answered.

    A fenced row first asks the quorum for a fence, which proves that there is no permit; only if there is one does it
    forfeit it. After a noted stop there is no choice left: the permit exists, and any end is a confirmed stop.
    """
    if row.answer is not None:
        return ()
    match row.state:
        case RowState.RESERVED | RowState.CONSUMED:
            return ()
        case RowState.ACCEPTED:
            return _accept(row)
        case RowState.ENDED:
            return (*_accept(row), _stopped(row, consumed=True) if row.stop_noted_ms is not None else _finish(row))
        case RowState.FENCED:
            return (_fenced(row),)
        case RowState.LOST:
            return (*_accept(row), cannot_tell(row, row.evidence))


def last_word(row: LedgerRow) -> Word:
    """Return the word whose answer ended the reports about a settled row; to say it again changes nothing."""
    assert row.answer is not None, "nothing was answered for good yet"
    return words(replace(row, answer=None))[-1]


def meaning(word: Word, answer: Answer) -> Command | None:
    """Return what an answer does to the row, or None if the word must be said again."""
    if isinstance(word, Accept):
        return SettleAccept()  # a denied one is not repeated: the end that follows says more
    if answer.kind in FINAL:
        return Settle(answer.kind)
    if isinstance(word, FenceRequest):
        return Settle("fenced") if answer.kind == "fenced" else LearnPermit(exists=True)
    if isinstance(word, Forfeit):
        return LearnPermit(exists=False)  # refused: ask for the fence again, which says what there is
    return None


def held(row: LedgerRow, incarnation: str, *, resumed: bool = False) -> Held:
    """Return how a poll lists a row: how far it came, and whether this life still sees the work or its end.

    Args:
        resumed: this life observes the work of an earlier one on.
    """
    phase: Phase = "ended" if row.state is RowState.ENDED else _phase(row)
    seen = row.state in {RowState.ENDED, RowState.FENCED} or (
        row.state is not RowState.LOST and (resumed or row.binding.incarnation == incarnation)
    )
    return Held(run_id=row.binding.run_id, attempt=row.binding.attempt, phase=phase, observable=seen)


def cannot_tell(row: LedgerRow, evidence: str) -> CannotTell:
    """Return the report that an attempt's outcome is out of sight."""
    binding = row.binding
    return CannotTell(
        run_id=binding.run_id,
        attempt=binding.attempt,
        incarnation=binding.incarnation,
        ledger=binding.ledger,
        evidence=evidence[:MAX_EVIDENCE],
    )


def _phase(row: LedgerRow) -> Phase:
    if row.receipt is not None:
        return "accepted"
    return "consumed" if row.consumed_ms is not None else "reserved"


def _accept(row: LedgerRow) -> tuple[Accept, ...]:
    if row.receipt is None or row.accept_answered:
        return ()
    binding = row.binding
    return (
        Accept(
            run_id=binding.run_id,
            attempt=binding.attempt,
            incarnation=binding.incarnation,
            ledger=binding.ledger,
            execution_id=row.receipt.execution_id,
            started_ms=row.receipt.started_ms,
        ),
    )


def _finish(row: LedgerRow) -> Finish:
    outcome, binding = row.outcome, row.binding
    assert outcome is not None, "an ended row has an outcome"
    return Finish(
        run_id=binding.run_id,
        attempt=binding.attempt,
        incarnation=binding.incarnation,
        ledger=binding.ledger,
        evidence=outcome.evidence[:MAX_EVIDENCE],
        succeeded=outcome.succeeded,
        reason=outcome.reason,
        exit_code=outcome.exit_code,
        ended_ms=outcome.ended_ms,
        tail=outcome.tail,
    )


def _stopped(row: LedgerRow, *, consumed: bool) -> ConfirmStopped:
    binding, outcome = row.binding, row.outcome
    noted_ms = row.stop_noted_ms
    assert noted_ms is not None, "a stop was noted"
    if outcome is None:
        evidence = f"fenced in the ledger before its launch permission was consumed: {row.evidence}"
    else:
        result = "success" if outcome.succeeded else f"failure ({outcome.reason})"
        evidence = f"ended after the stop was noted; its own result was {result}. {outcome.evidence}"
    return ConfirmStopped(
        run_id=binding.run_id,
        attempt=binding.attempt,
        incarnation=binding.incarnation,
        ledger=binding.ledger,
        evidence=evidence.strip()[:MAX_EVIDENCE],
        consumed=consumed,
        exit_code=outcome.exit_code if outcome is not None else None,
        ended_ms=outcome.ended_ms if outcome is not None else noted_ms,
    )


def _fenced(row: LedgerRow) -> Word:
    if row.stop_noted_ms is not None:
        return _stopped(row, consumed=False)
    if not row.permit_known:
        return FenceRequest(row.binding)
    binding = row.binding
    return Forfeit(
        run_id=binding.run_id,
        attempt=binding.attempt,
        incarnation=binding.incarnation,
        ledger=binding.ledger,
        evidence=row.evidence,
    )

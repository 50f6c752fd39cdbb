"""What a new incarnation does with the rows that earlier ones left: nothing of them is ever launched again."""

import structlog

from worker.engine.base import Engine, Trace
from worker.ledger import Ledger
from worker.ledger_row import LedgerRow, Lose, RowState

_log = structlog.get_logger("worker.earlier_lives")


def settle(ledger: Ledger, engine: Engine, incarnation: str) -> int:
    """Close every open row of an earlier incarnation, with what ledger and host prove as evidence; return how many.

    Idempotent: a crash in the middle leaves the rest for the next life. Recorded ends and fences stay as they are and
    are reported as they stand.
    """
    open_states = {RowState.RESERVED, RowState.CONSUMED, RowState.ACCEPTED}
    closed = 0
    for row in ledger.unanswered():
        if row.state in open_states and row.binding.incarnation != incarnation:
            evidence = evidence_of(row, engine)
            ledger.step(row.binding.run_id, row.binding.attempt, Lose(evidence))
            _log.warning("attempt_lost", run_id=row.binding.run_id, attempt=row.binding.attempt, evidence=evidence)
            closed += 1
    return closed


def evidence_of(row: LedgerRow, engine: Engine) -> str:
    """Return in words how far the row came in its own life, and what the host shows now."""
    if row.state is RowState.RESERVED:
        return (
            "reserved_only: this ledger never consumed its launch permission, so the worker never launched it;"
            " the process that reserved it has ended"
        )
    stop = "" if row.stop_noted_ms is None else "; a stop had been noted"
    trace = Trace(
        run_id=row.binding.run_id,
        attempt=row.binding.attempt,
        execution_id=row.receipt.execution_id if row.receipt is not None else None,
    )
    host = engine.prove(trace)
    if row.receipt is None:
        return f"consumed_without_receipt: it may or may not have been launched{stop}; {host}"
    return f"observer_lost: it was launched and the process that watched it has ended{stop}; {host}"

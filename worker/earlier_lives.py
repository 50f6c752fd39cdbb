"""What a new incarnation does with the rows that earlier ones left: nothing of them is ever launched again."""

import structlog

from worker.engine.base import Engine, Trace, Work
from worker.ledger import Ledger
from worker.ledger_row import LedgerRow, Lose, RowState

_log = structlog.get_logger("worker.earlier_lives")


def settle(ledger: Ledger, engine: Engine, incarnation: str) -> list[tuple[LedgerRow, Work]]:
    """Close every open row of an earlier incarnation, except for work that its engine can still address.

    What is closed is reported as lost, with what ledger and host prove as evidence. Idempotent: a crash in the middle
    leaves the rest for the next life. Recorded ends and fences stay as they are and are reported as they stand.

    Returns:
        The accepted rows that stay open, each with its work, which this life observes on.
    """
    open_states = {RowState.RESERVED, RowState.CONSUMED, RowState.ACCEPTED}
    resumed: list[tuple[LedgerRow, Work]] = []
    for row in ledger.unanswered():
        if row.state not in open_states or row.binding.incarnation == incarnation:
            continue
        key = (row.binding.run_id, row.binding.attempt)
        work = engine.reattach(_trace(row)) if row.state is RowState.ACCEPTED else None
        if work is not None:
            resumed.append((row, work))
            _log.info("attempt_resumed", run_id=key[0], attempt=key[1])
            continue
        evidence = evidence_of(row, engine)
        ledger.step(*key, Lose(evidence))
        _log.warning("attempt_lost", run_id=key[0], attempt=key[1], evidence=evidence)
    return resumed


def evidence_of(row: LedgerRow, engine: Engine) -> str:
    """Return in words how far the row came in its own life, and what the host shows now."""
    if row.state is RowState.RESERVED:
        return (
            "reserved_only: this ledger never consumed its launch permission, so the worker never launched it;"
            " the process that reserved it has ended"
        )
    stop = "" if row.stop_noted_ms is None else "; a stop had been noted"
    host = engine.prove(_trace(row))
    if row.receipt is None:
        return f"consumed_without_receipt: it may or may not have been launched{stop}; {host}"
    return f"observer_lost: it was launched and the process that watched it has ended{stop}; {host}"


def _trace(row: LedgerRow) -> Trace:
    return Trace(
        run_id=row.binding.run_id,
        attempt=row.binding.attempt,
        execution_id=row.receipt.execution_id if row.receipt is not None else None,
    )

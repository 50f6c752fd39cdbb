"""What people and closing instants do to runs: cancel, attest, close."""

from typing import Final

from runner.checkpoint import attempt as attempts_of
from runner.checkpoint import attempt_words as words
from runner.checkpoint import run as runs_of
from runner.checkpoint.attempt_words import Denied
from runner.checkpoint.carrying import carry, run_with_case
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import AttestOp, CancelOp, CloseOp
from runner.checkpoint.records import Attempt, RunState
from runner.checkpoint.results import OpResult

NO_SUCH_RUN: Final = "no_such_run"
MAX_ATTESTATION_CHARS: Final = 4096


def cancel(commit: Commit, op: CancelOp) -> OpResult:
    """Commit Cancelling before any worker hears of it; Cancelled at once only where nothing can be running."""
    found = run_with_case(commit, op.run_id)
    if found is None:
        return OpResult("refused", NO_SUCH_RUN)
    run, case = found
    state = run.state
    if state is not RunState.CANCELLING:
        after, standing = runs_of.step(case, runs_of.Cancel(), now_ms=commit.now_ms)
        if standing is None:
            return OpResult("refused", "terminal", detail={"run_id": op.run_id, "state": state.value})
        state = carry(commit, run, case, after, Cause(op.operation.principal, "cancel")).state
    return OpResult("done", detail={"run_id": op.run_id, "state": state.value})


def attest(commit: Commit, op: AttestOp) -> OpResult:
    """Record a named human's statement that nothing of an attempt is alive; retires its incarnation."""
    found = run_with_case(commit, op.run_id)
    if found is None or not 0 < op.attempt <= len(found[1].attempts):
        return OpResult("refused", NO_SUCH_RUN if found is None else "no_such_attempt")
    if len(op.attester) + len(op.statement) + len(op.evidence) > MAX_ATTESTATION_CHARS:
        return OpResult("refused", "attestation_too_long")
    run, case = found
    attempt = case.attempts[op.attempt - 1]
    command = words.Attest(op.attester, op.statement, op.evidence, op.row_revision)
    attested, decision = attempts_of.step(attempt, command, words.NOTHING_BESIDE, now_ms=commit.now_ms)
    if isinstance(decision, Denied):
        detail = {"state": attempt.state.value, "row_revision": attempt.revision}
        return OpResult("refused", decision.reason.value, detail=detail)
    assert attested is not None
    after, standing = runs_of.step(case, runs_of.Settle(attested), now_ms=commit.now_ms)
    assert standing is not None, "a run follows its attempts"
    why = f"attested by {op.attester}: {op.statement} ({op.evidence})"
    carry(commit, run, case, after, Cause(op.operation.principal, "attest", why))
    _retire(commit, attempt)
    detail = {"run_id": op.run_id, "attempt": op.attempt, "state": attested.state.value}
    return OpResult("done", detail={**detail, "run_state": standing.state.value})


def close(commit: Commit, op: CloseOp) -> OpResult:
    """Give a Pending run up whose closing instant has passed."""
    found = run_with_case(commit, op.run_id)
    if found is None:
        return OpResult("refused", NO_SUCH_RUN)
    run, case = found
    closing_ms = runs_of.closing_ms(case)
    if run.state is RunState.PENDING and (closing_ms is None or commit.now_ms < closing_ms):
        return OpResult("refused", "window_open", detail={"state": run.state.value})
    after, standing = runs_of.step(case, runs_of.Close(), now_ms=commit.now_ms)
    if standing is None:
        return OpResult("refused", "illegal_move", detail={"state": run.state.value})
    carry(commit, run, case, after, Cause(commit.voter, "close", runs_of.MISSED_WINDOW))
    return OpResult("done", detail={"run_id": op.run_id, "state": standing.state.value})


def _retire(commit: Commit, attempt: Attempt) -> None:
    if not attempt.incarnation:
        return  # made by a restore: there never was a claim
    row = (attempt.worker, attempt.incarnation, commit.now_ms, commit.revision)
    commit.db.execute("INSERT OR IGNORE INTO retired VALUES (?, ?, ?, ?)", row)
    commit.note(f"incarnation:{attempt.worker}/{attempt.incarnation}")

"""What operators and closing instants do to runs: cancel, close."""

from typing import Final

from runner.checkpoint import run as runs_of
from runner.checkpoint.carrying import carry, run_with_case
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import CancelOp, CloseOp
from runner.checkpoint.records import RunState
from runner.checkpoint.results import OpResult

NO_SUCH_RUN: Final = "no_such_run"


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

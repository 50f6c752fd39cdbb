"""A failed delivery, opened again: one more attempt of the same occurrence, under the same idempotency key."""

from dataclasses import replace
from typing import Final

from runner.checkpoint import queries
from runner.checkpoint import run as runs_of
from runner.checkpoint.carrying import carry, run_with_case
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import Redeliver
from runner.checkpoint.results import OpResult
from runner.ids import instant_text

_REOPEN: Final = (
    "UPDATE runs SET closes_ms = ?, deadline_ms = ?, reopened_after = ?, beside = 0, apart = 0 WHERE run_id = ?"
)


def redeliver(commit: Commit, op: Redeliver) -> OpResult:
    """Reopen a Failed delivery until a new deadline; its attempts so far count no more against its retries.

    It takes its schedule's slot if that is free, else it waits in line, where run ids order: as the oldest it comes
    before the others. So does one that ran beside the slot: its place there was given up when it failed.
    """
    found = run_with_case(commit, op.run_id)
    if found is None:
        return OpResult("refused", "no_such_run")
    run, case = found
    state = {"run_id": op.run_id, "state": run.state.value}
    if run.deadline_ms is None:
        return OpResult("refused", "no_delivery", detail=state)
    if op.deadline_ms <= commit.now_ms:
        return OpResult("refused", "deadline_passed", detail=state)
    after, standing = runs_of.step(case, runs_of.Reopen(op.deadline_ms), now_ms=commit.now_ms)
    if standing is None:
        return OpResult("refused", "illegal_move", detail=state)
    reopened = replace(
        run,
        closes_ms=after.closes_ms,
        deadline_ms=after.deadline_ms,
        reopened_after=after.reopened_after,
        beside=False,
        apart=False,
    )
    commit.db.execute(_REOPEN, (after.closes_ms, after.deadline_ms, after.reopened_after, op.run_id))
    schedule = queries.schedule(commit.db, run.schedule_id)
    assert schedule is not None, "a run's schedule stays, as a tombstone at least"
    if schedule.slot_run_id is None:
        commit.take_slot(run.schedule_id, op.run_id)
        reopened = replace(reopened, holds_slot=True)
    why = f"until {instant_text(op.deadline_ms)}"
    stands = carry(commit, reopened, case, after, Cause(op.operation.principal, "redeliver", why))
    return OpResult("done", detail={"run_id": op.run_id, "state": stands.state.value})

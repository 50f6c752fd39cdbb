"""Backfill: runs for planned instants of the past that nothing is on record of."""

import sqlite3
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from runner.checkpoint import queries
from runner.checkpoint.birth import Birth, planned_run
from runner.checkpoint.carrying import insert_run
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.deleting import NO_SUCH_SCHEDULE
from runner.checkpoint.freezing import FROZEN
from runner.checkpoint.limits import MAX_WAITING
from runner.checkpoint.ops import Backfill
from runner.checkpoint.records import Head, Schedule
from runner.checkpoint.results import OpResult
from runner.ids import instant_text

DELETED: Final = "schedule_deleted"
_RUN: Final = "SELECT 1 FROM runs WHERE schedule_id = ? AND scheduled_for_ms = ?"
_RANGE: Final = (
    "SELECT reason, last_ms FROM skips WHERE schedule_id = ? AND first_ms <= ? ORDER BY first_ms DESC LIMIT 1"
)


def backfill(commit: Commit, op: Backfill) -> OpResult:
    """Make each instant that has no row a Pending run, one after the other behind whatever holds the slot.

    The same uniqueness as for planning: what has a row, lies in a skipped range, was pruned or lost to a restore is left
    alone and listed. Later than the watermark nothing is backfilled: a range that is planned then would count it again.
    The window and the deadline of a run count from now; it counts for no `max_runs`.
    """
    schedule = queries.schedule_named(commit.db, op.namespace, op.name)
    reason = NO_SUCH_SCHEDULE if schedule is None else _refusal(commit, schedule, op)
    if schedule is None or reason is not None:
        return OpResult("refused", reason)
    taken = schedule.slot_run_id is not None
    made: list[str] = []
    left: list[tuple[int, str]] = [(each.at_ms, each.why) for each in op.unplanned]
    for at_ms in op.instants:
        why = left_alone(commit.db, commit.head, schedule, at_ms)
        if why is not None:
            left.append((at_ms, why))
            continue
        birth = Birth(skipped=None, holds_slot=not taken, counts_from_ms=commit.now_ms)
        run = planned_run(commit, schedule, at_ms, birth)
        insert_run(commit, run, Cause(op.operation.principal, "backfill"))
        made.append(run.run_id)
        taken = True
    listed = [{"scheduled_for": instant_text(at_ms), "why": why} for at_ms, why in sorted(left)]
    return OpResult("done", detail={"schedule_id": schedule.schedule_id, "runs": made, "left": listed})


def left_alone(db: sqlite3.Connection, head: Head, schedule: Schedule, at_ms: int) -> str | None:
    """Return why a past instant gets no run: what is on record of it, or what must never come back; None if it may."""
    if schedule.pruned_before_ms is not None and at_ms <= schedule.pruned_before_ms:
        return "pruned"
    if head.restored_ms is not None and at_ms <= head.restored_ms:
        return "restored"
    if db.execute(_RUN, (schedule.schedule_id, at_ms)).fetchone() is not None:
        return "has_run"
    found = db.execute(_RANGE, (schedule.schedule_id, at_ms)).fetchone()
    return None if found is None or found[1] < at_ms else str(found[0])


def _refusal(commit: Commit, schedule: Schedule, op: Backfill) -> str | None:
    if schedule.deleted_ms is not None:
        return DELETED
    if commit.head.frozen:
        return FROZEN
    if op.schedule_revision != schedule.definition_revision:
        return "stale_plan"
    planned_ms = min(schedule.watermark_ms, commit.now_ms)
    return _fault(op.instants, planned_ms) or _fault([each.at_ms for each in op.unplanned], planned_ms)


def _fault(instants: Sequence[int], planned_ms: int) -> str | None:
    if len(instants) > MAX_WAITING:
        return "too_many"
    if any(later <= earlier for earlier, later in pairwise(instants)):
        return "malformed_plan"
    if any(at_ms < 0 for at_ms in instants):
        return "out_of_range"  # a run id tells time from 1970 on
    return "not_yet" if any(at_ms > planned_ms for at_ms in instants) else None

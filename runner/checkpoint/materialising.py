"""What the calendar planned becomes runs and skips: each planned instant once, whoever proposes it how often."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from runner.checkpoint import queries
from runner.checkpoint.birth import Birth, planned_run
from runner.checkpoint.carrying import insert_run
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.freezing import FROZEN
from runner.checkpoint.ops import Materialise, Missed
from runner.checkpoint.overlap import CANCEL_PREVIOUS, OVERLAP, Way, make_way
from runner.checkpoint.records import RunState, Schedule
from runner.checkpoint.results import OpResult
from runner.ids import instant_text

_EXISTS: Final = "SELECT 1 FROM runs WHERE schedule_id = ? AND scheduled_for_ms = ?"


@dataclass(slots=True)
class _Planning:
    """A schedule while a batch of it is written: the slot and the newest skip move."""

    schedule: Schedule
    slot_run_id: str | None
    tail_skip_ms: int | None


def materialise(commit: Commit, op: Materialise) -> OpResult:
    """Turn one batch into runs and skips, and move the watermark.

    The slot is free: the first instant becomes Pending with it, the others wait in line behind it. A run of an
    earlier batch holds it: each instant is Skipped(overlap), or, under `cancel_previous`, waits in line for that one's
    confirmed end.
    """
    schedule = queries.schedule(commit.db, op.schedule_id)
    if schedule is None:
        return OpResult("refused", "no_such_schedule")
    reason = _refusal(commit, schedule, op)
    if reason is not None:
        return OpResult("refused", reason, detail={"watermark_ms": schedule.watermark_ms})
    planning = _Planning(schedule, schedule.slot_run_id, schedule.tail_skip_ms)
    for missed in op.missed:
        _skip(commit, planning, missed.first_ms, missed.last_ms, missed.count, missed.reason)
    # One row per occurrence, whatever the watermark says.
    due = [instant_ms for instant_ms in op.due if not _exists(commit, op.schedule_id, instant_ms)]
    way = _way(commit, schedule, due)
    if way is not None:
        planning.slot_run_id = way.slot_run_id
    made: list[str] = []
    skipped = 0
    held_before = planning.slot_run_id is not None and way is None
    for instant_ms in due:
        if held_before:
            _skip(commit, planning, instant_ms, instant_ms, 1, OVERLAP)
            skipped += 1
        else:
            made.append(_make(commit, planning, instant_ms))
    commit.db.execute(
        "UPDATE schedules SET watermark_ms = ?, tail_skip_ms = ?, revision = ? WHERE schedule_id = ?",
        (op.until_ms, planning.tail_skip_ms, commit.revision, op.schedule_id),
    )
    commit.note(f"schedule:{op.schedule_id}")
    detail: dict[str, Any] = {"runs": made, "overlap": skipped, "missed": sum(missed.count for missed in op.missed)}
    return OpResult("done", detail=detail if way is None else detail | way.detail)


def _exists(commit: Commit, schedule_id: str, instant_ms: int) -> bool:
    return commit.db.execute(_EXISTS, (schedule_id, instant_ms)).fetchone() is not None


def _way(commit: Commit, schedule: Schedule, due: Sequence[int]) -> Way | None:
    """Make way for a batch where the policy says so; None where it does not, or nothing stands in the way."""
    if not due or schedule.slot_run_id is None or schedule.spec.overlap != CANCEL_PREVIOUS:
        return None
    return make_way(commit, schedule, commit.voter, f"{instant_text(due[0])} fell due")


def _refusal(commit: Commit, schedule: Schedule, op: Materialise) -> str | None:
    if not schedule.enabled:
        return "disabled"
    if (op.schedule_revision, op.after_ms) != (schedule.definition_revision, schedule.watermark_ms):
        return "stale_plan"
    if op.until_ms > commit.now_ms:
        return "not_yet"
    return _bar(commit, schedule, op) or (None if _is_in_order(op) else "malformed_plan")


def _bar(commit: Commit, schedule: Schedule, op: Materialise) -> str | None:
    """Return what keeps this stretch of time from being planned as the plan says, if anything does."""
    if schedule.pruned_before_ms is not None and op.after_ms < schedule.pruned_before_ms:
        return "pruned"
    if commit.head.frozen and (op.due or any(missed.reason != FROZEN for missed in op.missed)):
        return FROZEN  # an edit still puts on record what it keeps from running
    if op.due and commit.head.restored_ms is not None and op.due[0] <= commit.head.restored_ms:
        return "restored"
    return None


def _is_in_order(op: Materialise) -> bool:
    """Return whether every instant lies in (after, until], each later than the one before it."""
    latest_ms = op.after_ms
    for missed in op.missed:
        if missed.first_ms <= latest_ms or not _is_range(missed):
            return False
        latest_ms = missed.last_ms
    for instant_ms in op.due:
        if instant_ms <= latest_ms:
            return False
        latest_ms = instant_ms
    return latest_ms <= op.until_ms


def _is_range(missed: Missed) -> bool:
    width_ms = missed.last_ms - missed.first_ms
    return missed.count == 1 if width_ms == 0 else 1 < missed.count <= width_ms + 1


def _make(commit: Commit, planning: _Planning, instant_ms: int) -> str:
    birth = Birth(skipped=None, holds_slot=planning.slot_run_id is None)
    run = planned_run(commit, planning.schedule, instant_ms, birth)
    insert_run(commit, run, Cause(commit.voter, "materialise"))
    planning.slot_run_id = planning.slot_run_id or run.run_id
    planning.tail_skip_ms = None
    return run.run_id


def _skip(commit: Commit, planning: _Planning, first_ms: int, last_ms: int, count: int, reason: str) -> None:
    """Record that policy decided not to run some instants; joins the skip just before it if the reason is the same."""
    schedule = planning.schedule
    joined = commit.db.execute(
        "UPDATE skips SET last_ms = ?, count = count + ?, revision = ?"
        " WHERE schedule_id = ? AND first_ms = ? AND reason = ?",
        (last_ms, count, commit.revision, schedule.schedule_id, planning.tail_skip_ms, reason),
    )
    if joined.rowcount == 0:
        whose = (schedule.schedule_id, first_ms, last_ms, schedule.spec.namespace, schedule.spec.name)
        commit.db.execute("INSERT INTO skips VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*whose, count, reason, commit.revision))
        planning.tail_skip_ms = first_ms
    commit.note(f"skip:{schedule.schedule_id}.{planning.tail_skip_ms}")
    if joined.rowcount > 0:
        return  # the range itself counts on: a line for each instant would outgrow everything else behind a stuck run
    until = "" if count == 1 else f" to {instant_text(last_ms)}, {count} in all"
    why = f"{reason} {schedule.spec.namespace}/{schedule.spec.name} {instant_text(first_ms)}{until}"
    commit.event(Cause(commit.voter, "materialise", why), to_state=RunState.SKIPPED.value)

"""What the calendar planned becomes runs and skips: each planned instant once, whoever proposes it how often."""

from dataclasses import dataclass
from typing import Any, Final

from runner.checkpoint.carrying import WINDOW_MS, insert_run
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import Materialise, Missed
from runner.checkpoint.records import Run, RunState
from runner.checkpoint.results import OpResult
from runner.ids import instant_text, occurrence_text, run_id

OVERLAP: Final = "overlap"

_LOAD: Final = (
    "SELECT schedule_id, namespace, name, pool, digest, attempts_allowed, enabled, definition_revision,"
    " watermark_ms, slot_run_id, tail_skip_ms FROM schedules WHERE schedule_id = ?"
)

_EXISTS: Final = "SELECT 1 FROM runs WHERE schedule_id = ? AND scheduled_for_ms = ?"


@dataclass(slots=True)
class _Planning:
    """The part of a schedule's row that a batch needs; the slot and the newest skip move while it is written."""

    schedule_id: str
    namespace: str
    name: str
    pool: str
    digest: str
    attempts_allowed: int
    enabled: int
    definition_revision: int
    watermark_ms: int
    slot_run_id: str | None
    tail_skip_ms: int | None


def materialise(commit: Commit, op: Materialise) -> OpResult:
    """Turn one batch into runs and skips, and move the watermark.

    The slot is free: the first instant becomes Pending with it, the others wait in line behind it. A run of an
    earlier batch holds it: each instant is Skipped(overlap).
    """
    row = commit.db.execute(_LOAD, (op.schedule_id,)).fetchone()
    if row is None:
        return OpResult("refused", "no_such_schedule")
    planning = _Planning(*row)
    reason = _refusal(commit, planning, op)
    if reason is not None:
        return OpResult("refused", reason, detail={"watermark_ms": planning.watermark_ms})
    for missed in op.missed:
        _skip(commit, planning, missed.first_ms, missed.last_ms, missed.count, missed.reason)
    held_before = planning.slot_run_id is not None
    made, skipped = [], 0
    for instant_ms in op.due:
        # One row per occurrence, whatever the watermark says.
        if commit.db.execute(_EXISTS, (op.schedule_id, instant_ms)).fetchone() is not None:
            continue
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
    detail: dict[str, Any] = {"runs": made, "overlap": skipped}
    return OpResult("done", detail={**detail, "missed": sum(missed.count for missed in op.missed)})


def _refusal(commit: Commit, planning: _Planning, op: Materialise) -> str | None:
    if not planning.enabled:
        return "disabled"
    if (op.schedule_revision, op.after_ms) != (planning.definition_revision, planning.watermark_ms):
        return "stale_plan"
    if op.until_ms > commit.now_ms:
        return "not_yet"
    return None if _is_in_order(op) else "malformed_plan"


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
    occurrence = occurrence_text(instant_ms)
    run = Run(
        run_id=run_id(commit.head.cluster_id, planning.schedule_id, occurrence, instant_ms),
        schedule_id=planning.schedule_id,
        namespace=planning.namespace,
        schedule=planning.name,
        schedule_revision=planning.definition_revision,
        scheduled_for_ms=instant_ms,
        trigger_id=None,
        triggered_ms=None,
        occurrence=occurrence,
        state=RunState.PENDING,
        reason=None,
        pool=planning.pool,
        digest=planning.digest,
        attempts_allowed=planning.attempts_allowed,
        not_before_ms=instant_ms,
        closes_ms=instant_ms + WINDOW_MS,
        cancelled=False,
        closed=False,
        holds_slot=planning.slot_run_id is None,
        created_ms=commit.now_ms,
        ended_ms=None,
        revision=commit.revision,
    )
    insert_run(commit, run, Cause(commit.voter, "materialise"))
    planning.slot_run_id = planning.slot_run_id or run.run_id
    planning.tail_skip_ms = None
    return run.run_id


def _skip(commit: Commit, planning: _Planning, first_ms: int, last_ms: int, count: int, reason: str) -> None:
    """Record that policy decided not to run some instants; joins the skip just before it if the reason is the same."""
    joined = commit.db.execute(
        "UPDATE skips SET last_ms = ?, count = count + ?, revision = ?"
        " WHERE schedule_id = ? AND first_ms = ? AND reason = ?",
        (last_ms, count, commit.revision, planning.schedule_id, planning.tail_skip_ms, reason),
    )
    if joined.rowcount == 0:
        whose = (planning.schedule_id, first_ms, last_ms, planning.namespace, planning.name)
        commit.db.execute("INSERT INTO skips VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*whose, count, reason, commit.revision))
        planning.tail_skip_ms = first_ms
    commit.note(f"skip:{planning.schedule_id}.{planning.tail_skip_ms}")
    until = "" if count == 1 else f" to {instant_text(last_ms)}, {count} in all"
    why = f"{reason} {planning.namespace}/{planning.name} {instant_text(first_ms)}{until}"
    commit.event(Cause(commit.voter, "materialise", why), to_state=RunState.SKIPPED.value)

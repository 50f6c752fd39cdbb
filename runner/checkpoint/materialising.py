"""What the calendar planned becomes runs and skips: each planned instant once, whoever proposes it how often."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Any, Final

from runner.checkpoint.birth import Birth, planned_run
from runner.checkpoint.carrying import insert_run
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.freezing import FROZEN
from runner.checkpoint.ops import Materialise, Missed
from runner.checkpoint.overlap import Place, Turn, Way, make_way, turn_of
from runner.checkpoint.queries import schedule as schedule_of
from runner.checkpoint.records import RunState, Schedule
from runner.checkpoint.results import OpResult
from runner.checkpoint.run import MISSED_WINDOW
from runner.ids import instant_text

_EXISTS: Final = "SELECT 1 FROM runs WHERE schedule_id = ? AND scheduled_for_ms = ?"


@dataclass(slots=True)
class _Planning:
    """A schedule while a batch of it is written: its slot, its newest skip and its count of runs move."""

    schedule: Schedule
    turn: Turn
    tail_skip_ms: int | None
    planned_runs: int

    @property
    def has_run_out(self) -> bool:
        most = self.schedule.spec.max_runs
        return most is not None and self.planned_runs >= most


@dataclass(frozen=True, slots=True)
class _Due:
    """An instant that runs if overlap allows."""

    at_ms: int
    start_ms: int | None
    caught_up: bool


def materialise(commit: Commit, op: Materialise) -> OpResult:
    """Turn one batch into runs and skips, and move the watermark.

    The slot is free: the first instant becomes Pending with it, the others wait in line behind it. A run of an
    earlier batch holds it: overlap decides for each. Once a schedule has all its runs the rest of the plan is nothing.
    """
    schedule = schedule_of(commit.db, op.schedule_id)
    if schedule is None:
        return OpResult("refused", "no_such_schedule")
    reason = _refusal(commit, schedule, op)
    if reason is not None:
        return OpResult("refused", reason, detail={"watermark_ms": schedule.watermark_ms})
    planning = _Planning(schedule, turn_of(commit, schedule), schedule.tail_skip_ms, schedule.planned_runs)
    way = _make_way(commit, planning, op)
    made: list[str] = []
    skipped: Counter[str] = Counter(overlap=0)
    missed = 0
    for each in _in_order(op):
        if planning.has_run_out:
            break
        if isinstance(each, Missed):
            _skip(commit, planning, (each.first_ms, each.last_ms, each.count), each.reason)
            missed += each.count
        elif not _exists(commit, op.schedule_id, each.at_ms):  # one row per occurrence, whatever the watermark says
            place = planning.turn.place(caught_up=each.caught_up)
            if place.skipped is None:
                made.append(_make(commit, planning, each, place))
            else:
                _skip(commit, planning, (each.at_ms, each.at_ms, 1), place.skipped)
                skipped[place.skipped] += 1
    commit.db.execute(
        "UPDATE schedules SET watermark_ms = ?, tail_skip_ms = ?, planned_runs = ?, revision = ? WHERE schedule_id = ?",
        (op.until_ms, planning.tail_skip_ms, planning.planned_runs, commit.revision, op.schedule_id),
    )
    commit.note(f"schedule:{op.schedule_id}")
    detail: dict[str, Any] = {"runs": made, **skipped, "missed": missed}
    return OpResult("done", detail=detail if way is None else detail | way.detail)


def _make_way(commit: Commit, planning: _Planning, op: Materialise) -> Way | None:
    """Make way for the batch where the policy says so; None where nothing of it runs, or nothing is in its way."""
    if planning.has_run_out or not planning.turn.stops_others:
        return None
    first_ms = next((at_ms for at_ms in op.due if not _exists(commit, op.schedule_id, at_ms)), None)
    if first_ms is None:
        return None
    way = make_way(commit, planning.schedule, commit.voter, f"{instant_text(first_ms)} fell due")
    planning.turn = planning.turn.cleared(way)
    return way


def _exists(commit: Commit, schedule_id: str, instant_ms: int) -> bool:
    return commit.db.execute(_EXISTS, (schedule_id, instant_ms)).fetchone() is not None


def _in_order(op: Materialise) -> Iterator[Missed | _Due]:
    """Yield ranges and instants, oldest first if each kind is."""
    starts = op.starts_ms or (None,) * len(op.due)
    due: list[Missed | _Due] = [
        _Due(at_ms, start_ms, n < op.caught_up) for n, (at_ms, start_ms) in enumerate(zip(op.due, starts, strict=True))
    ]
    yield from merge(due, op.missed, key=_first_ms)


def _first_ms(each: Missed | _Due) -> int:
    return each.first_ms if isinstance(each, Missed) else each.at_ms


def _refusal(commit: Commit, schedule: Schedule, op: Materialise) -> str | None:
    if not schedule.enabled:
        return "disabled"
    if (op.schedule_revision, op.after_ms) != (schedule.definition_revision, schedule.watermark_ms):
        return "stale_plan"
    if op.until_ms > commit.now_ms:
        return "not_yet"
    return _bar(commit, schedule, op) or (None if _can_be_meant(schedule, op) else "malformed_plan")


def _bar(commit: Commit, schedule: Schedule, op: Materialise) -> str | None:
    """Return what keeps this stretch of time from being planned as the plan says, if anything does."""
    if schedule.pruned_before_ms is not None and op.after_ms < schedule.pruned_before_ms:
        return "pruned"
    if commit.head.frozen and (op.due or any(missed.reason == MISSED_WINDOW for missed in op.missed)):
        return FROZEN  # an edit still puts on record what it keeps from running, and what would run at no time
    if op.due and commit.head.restored_ms is not None and op.due[0] <= commit.head.restored_ms:
        return "restored"
    return None


def _can_be_meant(schedule: Schedule, op: Materialise) -> bool:
    """Return whether every instant lies in (after, until], each later than the one before it, and starts in its time."""
    if not 0 <= op.caught_up <= len(op.due) or (op.starts_ms and len(op.starts_ms) != len(op.due)):
        return False
    longest_ms = schedule.spec.jitter_ms
    if not all(0 <= start_ms - at_ms <= longest_ms for at_ms, start_ms in zip(op.due, op.starts_ms, strict=False)):
        return False
    latest_ms = op.after_ms
    for each in _in_order(op):
        if _first_ms(each) <= latest_ms or (isinstance(each, Missed) and not _is_range(each)):
            return False
        latest_ms = each.last_ms if isinstance(each, Missed) else each.at_ms
    return latest_ms <= op.until_ms


def _is_range(missed: Missed) -> bool:
    width_ms = missed.last_ms - missed.first_ms
    return missed.count == 1 if width_ms == 0 else 1 < missed.count <= width_ms + 1


def _make(commit: Commit, planning: _Planning, due: _Due, place: Place) -> str:
    birth = Birth(
        skipped=None,
        holds_slot=place.holds_slot,
        beside=place.beside,
        caught_up=planning.schedule.spec.catch_up.policy if due.caught_up else None,
        start_ms=due.start_ms,
    )
    run = planned_run(commit, planning.schedule, due.at_ms, birth)
    insert_run(commit, run, Cause(commit.voter, "materialise"))
    planning.tail_skip_ms = None
    planning.planned_runs += 1
    return run.run_id


def _skip(commit: Commit, planning: _Planning, skipped: tuple[int, int, int], reason: str) -> None:
    """Record that policy decided not to run some instants; joins the skip just before it if the reason is the same."""
    schedule = planning.schedule
    first_ms, last_ms, count = skipped
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

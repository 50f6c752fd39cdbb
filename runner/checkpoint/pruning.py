"""Retention: a committed forgetting, up to an explicit bound, before which nothing is ever planned again."""

from typing import Final

from runner.checkpoint import payload, queries
from runner.checkpoint.commit import Commit
from runner.checkpoint.expiring import Bound, bound_of, expired_runs, expired_skips
from runner.checkpoint.ops import Prune
from runner.checkpoint.records import Schedule
from runner.checkpoint.results import OpResult
from runner.checkpoint.schedule_ops import DEFAULT_RETENTION_S

_ROWS_OF: Final = (
    "SELECT 1 + (SELECT COUNT(*) FROM attempts WHERE run_id = ?1) + (SELECT COUNT(*) FROM events WHERE run_id = ?1)"
)
_SKIP_LINES: Final = (
    "SELECT revision, ordinal FROM events WHERE run_id IS NULL AND op = 'materialise' AND at_ms <= ?"
    " ORDER BY at_ms, revision, ordinal LIMIT ?"
)
_MARK: Final = (
    "UPDATE schedules SET pruned_before_ms = ?1, watermark_ms = MAX(watermark_ms, ?1), tail_skip_ms = ?2,"
    " revision = ?3 WHERE schedule_id = ?4"
)


def prune(commit: Commit, op: Prune) -> OpResult:
    """Forget runs that ended long enough ago, with their attempts and events, and skips; at most `limit` rows.

    A run goes whole: the first may take more rows than are left. Kept answers of operation keys stay as they are, and
    a report about a run that is gone is answered `no_such_run`.
    """
    schedule = queries.schedule(commit.db, op.schedule_id)
    if schedule is None:
        return OpResult("refused", "no_such_schedule")
    bound = bound_of(schedule, op.before_ms, commit.now_ms)
    room = max(op.limit, 0)
    rows, digests = _forget_runs(commit, schedule, bound, room)
    skips = expired_skips(commit.db, schedule.schedule_id, bound, max(room - rows, 0))
    for first_ms in skips:
        commit.db.execute("DELETE FROM skips WHERE schedule_id = ? AND first_ms = ?", (schedule.schedule_id, first_ms))
        commit.note(f"skip:{schedule.schedule_id}.{first_ms}")
    for digest in sorted(set(digests) - {schedule.digest}):
        payload.forget_unused(commit.db, digest)
    _forget_skip_lines(commit, max(room - rows - len(skips), 0))
    pruned_before_ms = _mark(commit, schedule, bound, skips)
    detail = {"runs": len(digests), "skips": len(skips), "rows": rows + len(skips)}
    return OpResult("done", detail={**detail, "pruned_before_ms": pruned_before_ms})


def _forget_runs(commit: Commit, schedule: Schedule, bound: Bound, room: int) -> tuple[int, list[str]]:
    """Forget runs, oldest first; returns how many rows went, and the target of each run."""
    rows = 0
    digests: list[str] = []
    for run_id, digest in expired_runs(commit.db, schedule.schedule_id, bound, room):
        count: int = commit.db.execute(_ROWS_OF, (run_id,)).fetchone()[0]
        if digests and rows + count > room:
            break
        for table in ("attempts", "events", "runs"):
            commit.db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))  # noqa: S608 -- three constants
        commit.note(f"run:{run_id}")
        rows += count
        digests.append(digest)
    return rows, digests


def _forget_skip_lines(commit: Commit, limit: int) -> None:
    """Forget lines of the trail that tell of skips only: they name no schedule that they could go with."""
    before_ms = commit.now_ms - DEFAULT_RETENTION_S * 1_000
    found = commit.db.execute(_SKIP_LINES, (before_ms, limit)).fetchall()
    commit.db.executemany("DELETE FROM events WHERE revision = ? AND ordinal = ?", found)


def _mark(commit: Commit, schedule: Schedule, bound: Bound, skips: list[int]) -> int:
    """Write down up to where the past is gone; returns that instant.

    It never passes the watermark of a schedule that is planned, or instants not planned yet would be lost. One that is
    not planned has none to lose: its watermark comes along, so that nothing before the mark is planned afterwards.
    """
    reached_ms = min(bound.instant_ms, schedule.watermark_ms) if schedule.enabled else bound.instant_ms
    before = schedule.pruned_before_ms
    mark_ms = reached_ms if before is None else max(before, reached_ms)
    tail_ms = None if schedule.tail_skip_ms in skips else schedule.tail_skip_ms
    if (mark_ms, tail_ms) != (before, schedule.tail_skip_ms):
        commit.db.execute(_MARK, (mark_ms, tail_ms, commit.revision, schedule.schedule_id))
        commit.note(f"schedule:{schedule.schedule_id}")
    return mark_ms

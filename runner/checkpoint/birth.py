"""How a run begins: what it freezes of its schedule, and until when it may be launched."""

from dataclasses import dataclass
from typing import Final

from runner.checkpoint.commit import Commit
from runner.checkpoint.ops import ScheduleSpec
from runner.checkpoint.records import Run, RunState, Schedule
from runner.ids import manual_occurrence, occurrence_text, run_id

LATENESS_MS: Final = 60_000
"""Up to here an occurrence is late, and no policy of catching up keeps it from running."""


@dataclass(frozen=True, slots=True)
class Birth:
    """Where a run stands at first.

    Attributes:
        skipped: why it is on record and does not run, or None: it is Pending.
        holds_slot: it takes its schedule's overlap slot.
        beside: it runs beside that slot.
        apart: beside it, and counted by nothing.
        caught_up: the policy that lets it run although it is late, or None.
        start_ms: when it may start, where jitter delays it; None for at once.
        counts_from_ms: from when its window and its deadline count; None for from its instant.
    """

    skipped: str | None
    holds_slot: bool
    beside: bool = False
    apart: bool = False
    caught_up: str | None = None
    start_ms: int | None = None
    counts_from_ms: int | None = None


def window_ms(spec: ScheduleSpec) -> int:
    """Return how late an occurrence may still be launched for the first time, milliseconds; exactly as late still may.

    It is the catch-up window, but never less than the lateness that is no catch-up.
    """
    return max(spec.catch_up.window_s * 1000, LATENESS_MS)


def planned_run(commit: Commit, schedule: Schedule, instant_ms: int, birth: Birth) -> Run:
    """Return the run of a planned occurrence."""
    return _run(commit, schedule, occurrence_text(instant_ms), instant_ms, birth, scheduled_for_ms=instant_ms)


def manual_run(commit: Commit, schedule: Schedule, trigger_id: str, birth: Birth) -> Run:
    """Return the run of a trigger; its instant is now, and it can never stand in for a planned occurrence."""
    return _run(commit, schedule, manual_occurrence(trigger_id), commit.now_ms, birth, trigger_id=trigger_id)


def exit_codes(run: Run) -> frozenset[int] | None:
    """Return the exit codes after which a run is tried again, as it froze them; None for any failure."""
    if run.on_exit_codes is None:
        return None
    return frozenset(int(code) for code in run.on_exit_codes.split(",") if code)


def _run(
    commit: Commit,
    schedule: Schedule,
    occurrence: str,
    at_ms: int,
    birth: Birth,
    *,
    scheduled_for_ms: int | None = None,
    trigger_id: str | None = None,
) -> Run:
    spec, retry = schedule.spec, schedule.spec.retry
    lasts_s = spec.delivery_deadline_s
    skipped = birth.skipped is not None
    from_ms = at_ms if birth.counts_from_ms is None else birth.counts_from_ms
    return Run(
        run_id=run_id(commit.head.cluster_id, schedule.schedule_id, occurrence, at_ms),
        schedule_id=schedule.schedule_id,
        namespace=spec.namespace,
        schedule=spec.name,
        schedule_revision=schedule.definition_revision,
        scheduled_for_ms=scheduled_for_ms,
        trigger_id=trigger_id,
        triggered_ms=None if trigger_id is None else at_ms,
        occurrence=occurrence,
        state=RunState.SKIPPED if skipped else RunState.PENDING,
        reason=birth.skipped,
        pool=spec.pool,
        digest=schedule.digest,
        attempts_allowed=retry.attempts,
        backoff_ms=retry.backoff_ms,
        factor_milli=retry.factor_milli,
        max_backoff_ms=retry.max_ms,
        on_exit_codes=None if retry.on_exit_codes is None else ",".join(map(str, retry.on_exit_codes)),
        on_unknown=spec.on_unknown,
        not_before_ms=at_ms if birth.start_ms is None else birth.start_ms,
        closes_ms=from_ms + window_ms(spec) + 1,  # the first millisecond that is too late
        deadline_ms=None if lasts_s is None else from_ms + lasts_s * 1_000,
        reopened_after=0,
        cancelled=False,
        closed=skipped,
        beside=birth.beside,
        apart=birth.apart,
        caught_up=birth.caught_up,
        holds_slot=birth.holds_slot,
        created_ms=commit.now_ms,
        ended_ms=commit.now_ms if skipped else None,
        revision=commit.revision,
    )

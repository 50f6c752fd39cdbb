"""From rows of the checkpoint to the forms that people and programs read."""

from collections.abc import Sequence
from typing import TypedDict

from msgspec import UNSET, UnsetType

from runner.checkpoint.birth import exit_codes
from runner.checkpoint.ops import Retry
from runner.checkpoint.records import Attempt, Event, Run, SkipRange
from runner.ids import instant_text
from runner.management.forms import (
    AttemptForm,
    AttemptInFull,
    EventForm,
    RangeForm,
    RunForm,
    ShowForm,
    UnknownForm,
)
from runner.management.schedule_forms import RetryForm
from runner.management.schedule_rows import retry_form
from runner.management.words import unknown_because, why_uncertain


class _Occurrence(TypedDict):
    namespace: str
    schedule: str
    schedule_id: str
    scheduled_for: str | None
    triggered_at: str | UnsetType
    run_id: str
    state: str
    reason: str | None
    caught_up: str | None
    late_s: float | None
    beside: bool


class _Launch(TypedDict):
    n: int
    state: str
    worker: str
    incarnation: str
    epoch: int
    permit: int | None
    execution_id: str | None
    started_at: str | None
    ended_at: str | None
    exit_code: int | None


def run_form(run: Run, attempts: Sequence[Attempt]) -> RunForm:
    """Return a run as `runs` lists it."""
    return RunForm(**_occurrence(run), attempts=[AttemptForm(**_launch(attempt)) for attempt in attempts])


def range_form(row: SkipRange) -> RangeForm:
    """Return a skipped range as `runs` lists it."""
    return RangeForm(
        namespace=row.namespace,
        schedule=row.schedule,
        schedule_id=row.schedule_id,
        scheduled_for=instant_text(row.first_ms),
        scheduled_until=instant_text(row.last_ms),
        count=row.count,
        reason=row.reason,
    )


def show_form(run: Run, attempts: Sequence[Attempt], events: Sequence[Event], waits: str | None) -> ShowForm:
    """Return a run with all that is recorded of it, and what it waits for."""
    return ShowForm(
        **_occurrence(run),
        pool=run.pool,
        not_before=instant_text(run.not_before_ms),
        attempts_allowed=run.attempts_allowed,
        retry=_frozen_retry(run),
        holds_slot=run.holds_slot,
        created_at=instant_text(run.created_ms),
        ended_at=_text(run.ended_ms),
        attempts=[_in_full(attempt) for attempt in attempts],
        events=[event_form(event) for event in events],
        unknown_because=unknown_because(run, attempts),
        waits_for=waits,
    )


def unknown_form(run: Run, attempt: Attempt, since_ms: int | None) -> UnknownForm:
    """Return an attempt that a human may attest."""
    return UnknownForm(
        namespace=run.namespace,
        schedule=run.schedule,
        scheduled_for=_text(run.scheduled_for_ms),
        run_id=run.run_id,
        run_state=run.state.value,
        attempt=attempt.n,
        state=attempt.state.value,
        superseded=attempt.superseded,
        worker=attempt.worker or None,
        incarnation=attempt.incarnation or None,
        since=_text(since_ms),
        reason=attempt.reason,
        why=why_uncertain(attempt),
        permit=attempt.token,
        evidence=attempt.evidence,
        row_revision=attempt.revision,
    )


def event_form(event: Event) -> EventForm:
    """Return one line of the trail."""
    return EventForm(
        revision=event.revision,
        at=instant_text(event.at_ms),
        actor=event.actor,
        run_id=event.run_id,
        attempt=event.attempt,
        op=event.op,
        from_state=event.from_state,
        to_state=event.to_state,
        why=event.why,
        evidence=event.evidence,
    )


def _frozen_retry(run: Run) -> RetryForm:
    codes = exit_codes(run)
    kept = None if codes is None else tuple(sorted(codes))
    return retry_form(Retry(run.attempts_allowed, run.backoff_ms, run.factor_milli, run.max_backoff_ms, kept))


def _occurrence(run: Run) -> _Occurrence:
    return {
        "namespace": run.namespace,
        "schedule": run.schedule,
        "schedule_id": run.schedule_id,
        "scheduled_for": _text(run.scheduled_for_ms),
        "triggered_at": UNSET if run.triggered_ms is None else instant_text(run.triggered_ms),
        "run_id": run.run_id,
        "state": run.state.value,
        "reason": run.reason,
        "caught_up": run.caught_up,
        "late_s": None if run.scheduled_for_ms is None else (run.created_ms - run.scheduled_for_ms) / 1_000,
        "beside": run.beside,
    }


def _launch(attempt: Attempt) -> _Launch:
    return {
        "n": attempt.n,
        "state": attempt.state.value,
        "worker": attempt.worker,
        "incarnation": attempt.incarnation,
        "epoch": attempt.epoch,
        "permit": attempt.token,
        "execution_id": attempt.execution_id,
        "started_at": _text(attempt.started_ms),
        "ended_at": _text(attempt.ended_ms),
        "exit_code": attempt.exit_code,
    }


def _in_full(attempt: Attempt) -> AttemptInFull:
    return AttemptInFull(
        **_launch(attempt),
        reason=attempt.reason,
        unresolved=attempt.unresolved,
        superseded=attempt.superseded,
        claimed_at=instant_text(attempt.claimed_ms),
        admitted_at=_text(attempt.admitted_ms),
        tail=attempt.tail,
        evidence=attempt.evidence,
        row_revision=attempt.revision,
    )


def _text(ms: int | None) -> str | None:
    return None if ms is None else instant_text(ms)

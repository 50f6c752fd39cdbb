"""Carries decisions of the pure run table to the rows, and hands the overlap slot on; decides nothing itself."""

# ruff: noqa: S608 -- statements are put together from constants of this package; values are always bound

from dataclasses import replace
from typing import Final

from runner.checkpoint import queries
from runner.checkpoint import run as runs_of
from runner.checkpoint.birth import exit_codes
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.pause import pause_ms
from runner.checkpoint.records import Attempt, Run, RunState
from runner.checkpoint.run import Case, Standing
from runner.checkpoint.schema import IN_LINE

# What is uncertain without the slot (a restore leaves such runs) may be alive: it comes before what may be launched.
_NEXT_IN_LINE: Final = (
    f"SELECT run_id FROM runs WHERE schedule_id = ? AND {IN_LINE} ORDER BY state = 'Pending', run_id LIMIT 1"
)
_INSERT_RUN: Final = f"INSERT INTO runs VALUES ({', '.join('?' * 32)})"
_UPDATE_RUN: Final = (
    "UPDATE runs SET state = ?, reason = ?, not_before_ms = ?, closing_ms = ?, cancelled = ?, closed = ?,"
    " ended_ms = ?, revision = ? WHERE run_id = ?"
)


def case_of(run: Run, attempts: list[Attempt]) -> Case:
    """Return a stored, non-terminal run as its table sees it."""
    return Case(
        attempts=tuple(attempts),
        attempts_allowed=run.attempts_allowed,
        on_unknown=run.on_unknown,
        closes_ms=run.closes_ms,
        deadline_ms=run.deadline_ms,
        reopened_after=run.reopened_after,
        cancelled=run.cancelled,
        given_up=run.reason if run.state is RunState.SKIPPED else runs_of.MISSED_WINDOW if run.closed else None,
        retried_codes=exit_codes(run),
    )


def insert_run(commit: Commit, run: Run, cause: Cause) -> None:
    """Write a new run; it takes its schedule's slot if it says that it holds it."""
    closing_ms = run.closes_ms if run.state is RunState.PENDING else None
    values = (
        *(run.run_id, run.schedule_id, run.namespace, run.schedule, run.schedule_revision),
        *(run.scheduled_for_ms, run.trigger_id, run.triggered_ms, run.occurrence, run.state.value, run.reason),
        *(run.pool, run.digest, run.attempts_allowed, run.backoff_ms, run.factor_milli, run.max_backoff_ms),
        *(run.on_exit_codes, run.on_unknown, run.not_before_ms, run.closes_ms, run.deadline_ms, run.reopened_after),
        closing_ms,
        *(run.cancelled, run.closed, run.beside, run.apart, run.caught_up, run.created_ms, run.ended_ms, run.revision),
    )
    commit.db.execute(_INSERT_RUN, values)
    commit.note(f"run:{run.run_id}")
    commit.event(cause, run_id=run.run_id, to_state=run.state.value)
    if run.holds_slot:
        commit.take_slot(run.schedule_id, run.run_id)


def carry(commit: Commit, run: Run, before: Case, after: Case, cause: Cause) -> Standing:
    """Write what changed between two looks at a run: its attempts, its own row, and whose turn it is.

    Everything happens in the caller's transaction, so that the slot is never free while somebody waits in line.
    """
    old = {attempt.n: attempt for attempt in before.attempts}
    for attempt in after.attempts:
        if attempt != old.get(attempt.n):
            put_attempt(commit, old.get(attempt.n), attempt, cause)
    standing = runs_of.conclude(after)
    _put_run(commit, run, after, standing, cause)
    return standing


def put_attempt(commit: Commit, before: Attempt | None, after: Attempt, cause: Cause) -> None:
    """Write an attempt's row under this command's revision, and an event if its state moved."""
    commit.put_attempt(replace(after, revision=commit.revision))
    from_state = None if before is None else _shown(before)
    if from_state != _shown(after):
        commit.event(cause, run_id=after.run_id, attempt=after.n, from_state=from_state, to_state=_shown(after))


def pass_slot_on(commit: Commit, schedule_id: str) -> None:
    """Give a slot that was freed to the next run in line, in the same commit."""
    found = commit.db.execute(_NEXT_IN_LINE, (schedule_id,)).fetchone()
    commit.take_slot(schedule_id, None if found is None else found[0])


def _put_run(commit: Commit, run: Run, case: Case, standing: Standing, cause: Cause) -> None:
    closing_ms = runs_of.closing_ms(case) if standing.state is RunState.PENDING else None
    not_before_ms = run.not_before_ms
    if standing.state is RunState.PENDING and run.state is not RunState.PENDING:
        not_before_ms = max(not_before_ms, commit.now_ms + pause_ms(run, case.attempts))
    ended = standing.state in runs_of.TERMINAL
    ended_ms = (commit.now_ms if run.ended_ms is None else run.ended_ms) if ended else None
    closed = case.given_up is not None
    changes = (standing.state.value, standing.reason, not_before_ms, closing_ms, case.cancelled, closed, ended_ms)
    commit.db.execute(_UPDATE_RUN, (*changes, commit.revision, run.run_id))
    commit.note(f"run:{run.run_id}")
    if standing.state is not run.state:
        # Its evidence stands on the lines of its attempts, in this same revision.
        moved = replace(cause, evidence=None)
        commit.event(moved, run_id=run.run_id, from_state=run.state.value, to_state=standing.state.value)
    if ended and run.holds_slot:
        pass_slot_on(commit, run.schedule_id)


def _shown(attempt: Attempt) -> str:
    """Say the state as the trail shows it: the marks on it count as transitions too."""
    marks = ("unresolved" if attempt.unresolved else "", "superseded" if attempt.superseded else "")
    return " ".join((attempt.state.value, *filter(None, marks)))


def run_with_case(commit: Commit, run_id: str) -> tuple[Run, Case] | None:
    """Return a run and how its table sees it, or None."""
    run = queries.run(commit.db, run_id)
    return None if run is None else (run, case_of(run, queries.attempts(commit.db, run_id)))

"""Queries of a checkpoint as the forms that are answered; each sees only the principal's namespaces."""

import sqlite3
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Final

from cluster.bearer import Principal
from cluster.problem import Problem
from runner.checkpoint import queries, uncertain
from runner.checkpoint.freezing import freeze_of
from runner.checkpoint.records import Event, Run, RunState, SkipRange
from runner.management.authorization import may_touch
from runner.management.forms import EventForm, RangeForm, RunForm, ScheduleForm, ShowForm, UnknownForm
from runner.management.rows import event_form, range_form, run_form, schedule_form, show_form, unknown_form
from runner.management.words import waits_for, waits_for_unfreeze

MOST_ROWS: Final = 1_000


def schedules(db: sqlite3.Connection, principal: Principal) -> Iterator[ScheduleForm | None]:
    """Read every schedule now, by namespace and name, and work out each form only as it is taken.

    The next instant costs a look into the calendar; what may not be seen is None, so that each step is a short one.
    """
    now_ms = queries.head(db).now_ms
    return (
        schedule_form(row, now_ms) if may_touch(principal, row.spec.namespace) else None
        for row in queries.each_schedule(db)
    )


def runs(
    db: sqlite3.Connection, principal: Principal, named: tuple[str, str] | None, state: RunState | None, limit: int
) -> list[RunForm | RangeForm]:
    """Return runs and skipped ranges, newest first.

    Raises:
        Problem: 404: no schedule has this name.
    """
    if named is not None:
        rows = queries.runs(db, schedule_id=_schedule_id(db, principal, named), state=state, limit=limit)
    elif principal.namespaces is None:
        rows = queries.runs(db, schedule_id=None, state=state, limit=limit)
    else:
        rows = _runs_within(db, principal.namespaces, state, limit)
    return [
        range_form(row) if isinstance(row, SkipRange) else run_form(row, queries.attempts(db, row.run_id))
        for row in rows
    ]


def show(db: sqlite3.Connection, principal: Principal, run_id: str) -> ShowForm:
    """Return one run with its attempts and newest events.

    Raises:
        Problem: 404: there is no such run, or it is not of the principal's namespaces.
    """
    run = visible_run(db, principal, run_id)
    events = queries.events(db, run_id=run_id, limit=MOST_ROWS)
    return show_form(run, queries.attempts(db, run_id), events, _waits_for(db, run))


def unknown(
    db: sqlite3.Connection, principal: Principal, worker: str | None, incarnation: str | None, limit: int
) -> list[UnknownForm]:
    """Return what a human may attest, by worker and incarnation; of one worker or incarnation if they are named."""
    found: list[UnknownForm] = []
    for attempt in uncertain.each_attestable(db):
        if worker not in {None, attempt.worker} or incarnation not in {None, attempt.incarnation}:
            continue
        run = queries.run(db, attempt.run_id)
        if run is not None and may_touch(principal, run.namespace):
            found.append(unknown_form(run, attempt, uncertain.last_moved_ms(db, attempt)))
            if len(found) == limit:
                break
    return found


def events(db: sqlite3.Connection, principal: Principal, run_id: str | None, limit: int) -> list[EventForm]:
    """Return the trail, newest first; for a principal of some namespaces, what it may see of the newest 1,000.

    Raises:
        Problem: 404: a run is named, and there is no such run to see.
    """
    if run_id is not None:
        visible_run(db, principal, run_id)
    if principal.namespaces is None or run_id is not None:
        return [event_form(event) for event in queries.events(db, run_id=run_id, limit=limit)]
    newest = queries.events(db, run_id=None, limit=MOST_ROWS)
    return [event_form(event) for event in newest if _concerns(db, principal, event)][:limit]


def visible_run(db: sqlite3.Connection, principal: Principal, run_id: str) -> Run:
    """Return a run of the principal's namespaces.

    Raises:
        Problem: 404; the same for a run of another namespace, so that ids tell nothing.
    """
    run = queries.run(db, run_id)
    if run is None or not may_touch(principal, run.namespace):
        raise Problem(404, "Not Found", f"There is no run {run_id!r}; `fencepost runs` lists them.", "not_done")
    return run


def _waits_for(db: sqlite3.Connection, run: Run) -> str | None:
    if run.state is not RunState.PENDING:
        return None
    freeze = freeze_of(db)
    if freeze is not None:
        return waits_for_unfreeze(freeze)
    schedule = queries.schedule(db, run.schedule_id)
    line = queries.runs(db, schedule_id=run.schedule_id, state=RunState.PENDING, limit=MOST_ROWS)
    return waits_for(
        run,
        slot_run_id=None if schedule is None else schedule.slot_run_id,
        first_in_line=min(each.run_id for each in line if isinstance(each, Run)),
        pool=queries.pool(db, run.pool),
        now_ms=queries.head(db).now_ms,
    )


def _schedule_id(db: sqlite3.Connection, principal: Principal, named: tuple[str, str]) -> str:
    row = queries.schedule_named(db, *named) if may_touch(principal, named[0]) else None
    if row is None:
        detail = f"There is no schedule {'/'.join(named)!r}; `fencepost schedules` lists them."
        raise Problem(404, "Not Found", detail, "not_done")
    return row.schedule_id


def _runs_within(
    db: sqlite3.Connection, namespaces: Collection[str], state: RunState | None, limit: int
) -> list[Run | SkipRange]:
    each = (queries.runs(db, namespace=namespace, state=state, limit=limit) for namespace in sorted(namespaces))
    return sorted(chain.from_iterable(each), key=queries.instant_of, reverse=True)[:limit]


def _concerns(db: sqlite3.Connection, principal: Principal, event: Event) -> bool:
    run = None if event.run_id is None else queries.run(db, event.run_id)
    return run is not None and may_touch(principal, run.namespace)

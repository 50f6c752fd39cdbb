"""Queries of a checkpoint as the forms that are answered; each sees only the principal's namespaces."""

import sqlite3
from collections.abc import Iterator
from itertools import islice
from typing import Final

from cluster.bearer import Principal
from cluster.problem import Problem
from runner.calendar import BadExpression
from runner.checkpoint import lines, queries, uncertain
from runner.checkpoint.freezing import freeze_of
from runner.checkpoint.marks import EventMark, RunMark
from runner.checkpoint.overlap import beside_limit
from runner.checkpoint.records import Event, Run, RunState, Schedule, SkipRange
from runner.management.asked import Page
from runner.management.authorization import may_touch
from runner.management.foreseeing import of_schedule
from runner.management.forms import ShowForm, UnknownForm
from runner.management.replies import WORDS
from runner.management.rows import event_form, range_form, run_form, show_form, unknown_form
from runner.management.schedule_forms import PlannedForm
from runner.management.schedule_rows import schedule_form
from runner.management.words import waits_for, waits_for_unfreeze

MOST_ROWS: Final = 1_000


def schedules(db: sqlite3.Connection, principal: Principal, after: tuple[str, str], limit: int) -> Page:
    """Read schedules now, by namespace and name, and work out each form only as it is taken.

    The next instant costs a look into the calendar, so that each step is a short one.
    """
    now_ms = queries.head(db).now_ms
    rows = list(queries.each_schedule(db, namespaces=principal.namespaces, after=after, limit=limit))
    last = f"{rows[-1].spec.namespace}/{rows[-1].spec.name}" if len(rows) == limit else None
    return Page((schedule_form(row, now_ms) for row in rows), last)


def planned(
    db: sqlite3.Connection,
    principal: Principal,
    named: tuple[str, str],
    after_ms: int | None,
    count: int,
    explain: bool,  # noqa: FBT001 -- given by name, where the request is read
) -> Page:
    """Return the next instants of a schedule, enabled or not; each is worked out only as it is taken.

    Args:
        after_ms: strictly after this instant; None for after now and after what is planned already.

    Raises:
        Problem: 404 or 409: there is no such schedule, or it was deleted.
    """
    row, now_ms = visible_schedule(db, principal, named), queries.head(db).now_ms
    if row.deleted_ms is not None:
        raise Problem(409, "Conflict", f"Refused: {WORDS['schedule_deleted']}.", "not_done")
    planned_ms = max(row.watermark_ms, now_ms)
    from_ms = planned_ms if after_ms is None else after_ms
    return Page(islice(_planned(row, from_ms, planned_ms, explain=explain), count), None, at_once=1)


def _planned(row: Schedule, after_ms: int, planned_ms: int, *, explain: bool) -> Iterator[PlannedForm]:
    try:
        yield from of_schedule(row, after_ms, planned_ms, explain=explain)
    except BadExpression as fault:  # accepted under time zone data that this voter does not have
        raise Problem(409, "Conflict", f"This voter cannot tell: {fault}.", "not_done") from fault


def runs(
    db: sqlite3.Connection,
    principal: Principal,
    named: tuple[str, str] | None,
    state: RunState | None,
    before: RunMark | None,
    limit: int,
) -> Page:
    """Return runs and skipped ranges, newest first.

    Raises:
        Problem: 404: no schedule has this name.
    """
    schedule_id = None if named is None else visible_schedule(db, principal, named).schedule_id
    among = principal.namespaces if named is None else None
    rows = queries.runs(db, schedule_id=schedule_id, state=state, limit=limit, namespaces=among, before=before)
    forms = [
        range_form(row) if isinstance(row, SkipRange) else run_form(row, queries.attempts(db, row.run_id))
        for row in rows
    ]
    return Page(forms, str(RunMark.of(rows[-1])) if len(rows) == limit else None)


def show(db: sqlite3.Connection, principal: Principal, run_id: str) -> ShowForm:
    """Return one run with its attempts and newest events.

    Raises:
        Problem: 404: there is no such run, or it is not of the principal's namespaces.
    """
    run = visible_run(db, principal, run_id)
    events = queries.events(db, run_id=run_id, limit=MOST_ROWS)
    return show_form(run, queries.attempts(db, run_id), events, _waits_for(db, run))


def unknown(
    db: sqlite3.Connection,
    principal: Principal,
    worker: str | None,
    incarnation: str | None,
    after: uncertain.Place,
    limit: int,
) -> Page:
    """Return what a human may attest, by worker and incarnation; of one worker or incarnation if they are named."""
    found: list[UnknownForm] = []
    for attempt in uncertain.each_attestable(db, after):
        if worker not in {None, attempt.worker} or incarnation not in {None, attempt.incarnation}:
            continue
        run = queries.run(db, attempt.run_id)
        if run is not None and may_touch(principal, run.namespace):
            found.append(unknown_form(run, attempt, uncertain.last_moved_ms(db, attempt)))
            if len(found) == limit:
                return Page(found, "/".join(map(str, (attempt.worker, attempt.incarnation, attempt.run_id, attempt.n))))
    return Page(found, None)


def events(
    db: sqlite3.Connection, principal: Principal, run_id: str | None, before: EventMark | None, limit: int
) -> Page:
    """Return the trail, newest first; for a principal of some namespaces, what it may see of the next 1,000.

    Raises:
        Problem: 404: a run is named, and there is no such run to see.
    """
    if run_id is not None:
        visible_run(db, principal, run_id)
    if principal.namespaces is None or run_id is not None:
        rows = queries.events(db, run_id=run_id, limit=limit, before=before)
        return Page(map(event_form, rows), str(EventMark.of(rows[-1])) if len(rows) == limit else None)
    looked = queries.events(db, run_id=None, limit=MOST_ROWS, before=before)
    seen = [event for event in looked if _concerns(db, principal, event)][:limit]
    last = seen[-1] if len(seen) == limit else looked[-1] if len(looked) == MOST_ROWS else None
    return Page(map(event_form, seen), None if last is None else str(EventMark.of(last)))


def visible_run(db: sqlite3.Connection, principal: Principal, run_id: str) -> Run:
    """Return a run of the principal's namespaces.

    Raises:
        Problem: 404; the same for a run of another namespace, so that ids tell nothing.
    """
    run = queries.run(db, run_id)
    if run is None or not may_touch(principal, run.namespace):
        raise Problem(404, "Not Found", f"There is no run {run_id!r}; `fencepost runs` lists them.", "not_done")
    return run


def visible_schedule(db: sqlite3.Connection, principal: Principal, named: tuple[str, str]) -> Schedule:
    """Return a schedule of the principal's namespaces, a deleted one too.

    Raises:
        Problem: 404; the same for one of another namespace, so that names tell nothing.
    """
    row = queries.schedule_named(db, *named) if may_touch(principal, named[0]) else None
    if row is None:
        detail = f"There is no schedule {'/'.join(named)!r}; `fencepost schedules` lists them."
        raise Problem(404, "Not Found", detail, "not_done")
    return row


def _waits_for(db: sqlite3.Connection, run: Run) -> str | None:
    if run.state is not RunState.PENDING:
        return None
    freeze = freeze_of(db)
    if freeze is not None:
        return waits_for_unfreeze(freeze)
    schedule = queries.schedule(db, run.schedule_id)
    holder, first = (None, None) if run.beside or schedule is None else _ahead(db, schedule, run)
    return waits_for(
        run,
        slot_run_id=holder,
        first_in_line=first,
        pool=queries.pool(db, run.pool),
        now_ms=queries.head(db).now_ms,
    )


def _ahead(db: sqlite3.Connection, schedule: Schedule, run: Run) -> tuple[str | None, str | None]:
    """Return the run that holds this one up, with the slot or beside it, and the next in line."""
    holder = schedule.slot_run_id
    if holder in {None, run.run_id}:
        beside = lines.open_beside(db, schedule.schedule_id)
        holder = beside[0] if len(beside) >= beside_limit(schedule.spec) else holder
    return holder, next(iter(lines.line(db, schedule.schedule_id)), None)


def _concerns(db: sqlite3.Connection, principal: Principal, event: Event) -> bool:
    run = None if event.run_id is None else queries.run(db, event.run_id)
    return run is not None and may_touch(principal, run.namespace)

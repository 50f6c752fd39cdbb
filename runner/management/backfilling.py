"""Backfill: from a span of time to the op that makes runs of the past instants in it, or to what would become of each."""

import sqlite3
from dataclasses import dataclass
from functools import partial
from typing import Final

from cluster.problem import Problem
from runner.calendar import BadExpression, occurrences, timing_of
from runner.checkpoint import queries
from runner.checkpoint.backfilling import DELETED, left_alone
from runner.checkpoint.deleting import NO_SUCH_SCHEDULE
from runner.checkpoint.limits import MAX_WAITING
from runner.checkpoint.ops import Backfill, Operation, Unplanned
from runner.checkpoint.records import Schedule
from runner.ids import instant_text
from runner.management.asked import Asked, Change, DrawId, Read, Steps, Weighed
from runner.management.bodies import BackfillBody
from runner.management.parameters import bad, moment_of
from runner.management.replies import WORDS
from runner.management.schedule_forms import BackfillForm, LeftForm

STEP: Final = 20  # instants worked out before everything else has a turn


@dataclass(frozen=True, slots=True)
class Span:
    """Of which schedule, and from when to when, both inclusive; milliseconds since the epoch, UTC."""

    namespace: str
    name: str
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Found:
    """What one definition of a schedule plans in a span, oldest first."""

    schedule: Schedule
    instants: tuple[int, ...]
    unplanned: tuple[Unplanned, ...]


def asked(body: BackfillBody) -> Asked:
    """Return what a body asks for.

    Raises:
        Problem: 400: it names no span of time.
    """
    span = Span(body.namespace, body.name, moment_of(body.first, "from"), moment_of(body.last, "to"))
    if span.last_ms < span.first_ms:
        raise bad(f"to {body.last!r} is before from {body.first!r}; swap them.")
    if body.dry_run:
        return Read(partial(_rehearsed, span=span))
    nothing = Change(lambda operation, _: Backfill(operation, span.namespace, span.name, 0, ()))
    return Weighed(partial(_weighed, span=span), again=nothing)


def _weighed(db: sqlite3.Connection, span: Span) -> Steps[Change]:
    return _change(span, _schedule(db, span), queries.head(db).now_ms)


def _change(span: Span, schedule: Schedule, now_ms: int) -> Steps[Change]:
    found = yield from _planned(span, schedule, now_ms)

    def build(operation: Operation, _: DrawId) -> Backfill:
        revision = schedule.definition_revision
        return Backfill(operation, span.namespace, span.name, revision, found.instants, found.unplanned)

    return Change(build)


def _rehearsed(db: sqlite3.Connection, span: Span) -> Steps[Read]:
    return _rehearsal(span, _schedule(db, span), queries.head(db).now_ms)


def _rehearsal(span: Span, schedule: Schedule, now_ms: int) -> Steps[Read]:
    found = yield from _planned(span, schedule, now_ms)
    return Read(partial(_verdicts, span=span, found=found))


def _verdicts(db: sqlite3.Connection, span: Span, found: Found) -> BackfillForm:
    """Say of each instant what a backfill would do, by the rules that it goes by."""
    schedule, head = _schedule(db, span), queries.head(db)
    if schedule.definition_revision != found.schedule.definition_revision:
        raise Problem(409, "Conflict", f"Refused: {WORDS['stale_plan']}.", "not_done")
    creates: list[str] = []
    left: list[tuple[int, str]] = [(each.at_ms, each.why) for each in found.unplanned]
    for at_ms in found.instants:
        why = left_alone(db, head, schedule, at_ms)
        if why is None:
            creates.append(instant_text(at_ms))
        else:
            left.append((at_ms, why))
    return BackfillForm(creates=creates, left=[LeftForm(instant_text(at_ms), why) for at_ms, why in sorted(left)])


def _planned(span: Span, schedule: Schedule, now_ms: int) -> Steps[Found]:
    """Work out what the stored definition plans in a span.

    Raises:
        Problem: 422: there is more than one op takes, or some of it is not planned yet.
    """
    instants: list[int] = []
    unplanned: list[Unplanned] = []
    reached_ms = min(schedule.watermark_ms, now_ms)
    try:
        for each in occurrences(timing_of(schedule.spec, schedule.anchor_ms), span.first_ms - 1):
            if each.at_ms > span.last_ms:
                break
            if each.at_ms > reached_ms:
                raise _refused(f"{instant_text(each.at_ms)} is not planned yet: {_until(schedule, reached_ms)}")
            if len(instants) + len(unplanned) == MAX_WAITING:
                raise _too_many(span, each.at_ms)
            if each.skipped is None:
                instants.append(each.at_ms)
            else:
                unplanned.append(Unplanned(each.at_ms, each.skipped))
            if (len(instants) + len(unplanned)) % STEP == 0:
                yield
    except BadExpression as fault:
        raise _refused(str(fault)) from fault
    return Found(schedule, tuple(instants), tuple(unplanned))


def _schedule(db: sqlite3.Connection, span: Span) -> Schedule:
    row = queries.schedule_named(db, span.namespace, span.name)
    if row is None:
        raise Problem(404, "Not Found", f"Refused: {WORDS[NO_SUCH_SCHEDULE]}.", "not_done")
    if row.deleted_ms is not None:
        raise Problem(409, "Conflict", f"Refused: {WORDS[DELETED]}.", "not_done")
    return row


def _until(schedule: Schedule, reached_ms: int) -> str:
    until = f"end at or before {instant_text(reached_ms)}"
    return until if schedule.enabled else f"{until}, or enable the schedule first, which is disabled"


def _too_many(span: Span, at_ms: int) -> Problem:
    before, at, last = (instant_text(each) for each in (at_ms - 1, at_ms, span.last_ms))
    words = f"one backfill takes at most {MAX_WAITING} instants, and there are more; split it"
    return _refused(f"{words}: first to {before}, then from {at} to {last}")


def _refused(words: str) -> Problem:
    return Problem(422, "Unprocessable Content", f"Refused: {words}.", "not_done")

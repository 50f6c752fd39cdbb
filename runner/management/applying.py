"""From the body of an apply to the op that the checkpoint decides, and to what it would change."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from cluster.bearer import Principal
from cluster.problem import Problem
from runner.calendar import BadExpression, check_timing, timing_of
from runner.checkpoint import arming, queries
from runner.checkpoint.birth import window_ms
from runner.checkpoint.ops import AnyOf, Apply, At, Operation, PoolSpec, ScheduleSpec
from runner.checkpoint.records import Head, Schedule
from runner.management.asked import Change, DrawId, Read, Steps
from runner.management.authorization import demand
from runner.management.bodies import ApplyBody
from runner.management.defining import spec_of
from runner.management.policies import BadPolicy
from runner.management.replies import WORDS
from runner.management.schedule_forms import PreviewForm
from runner.management.triggering import BadCalendar, Calendars

MOST: Final = 2**31 - 1
_CALLED: Final = MappingProxyType(
    {
        "calendars": "calendar",
        "end_ms": "end",
        "jitter_ms": "jitter",
        "retention_s": "retention",
        "start_ms": "start",
        "target": "command",
    }
)


class Unusable(Exception):
    """A part of the body that cannot be meant: which thing, and what is wrong with it."""

    def __init__(self, thing: str, why: str) -> None:
        """Keep both as one line for a person."""
        super().__init__(f"{thing}: {why}.")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a body says that there should be, checked as far as the body alone tells; schedules still without an id."""

    pools: tuple[PoolSpec, ...]
    schedules: tuple[ScheduleSpec, ...]

    def op(self, operation: Operation, draw_id: DrawId) -> Apply:
        """Return the op, each schedule with a fresh id in case its name was never seen."""
        return Apply(operation, self.pools, tuple(replace(each, schedule_id=draw_id()) for each in self.schedules))


def check(body: ApplyBody, principal: Principal) -> None:
    """Return if a body is the principal's to apply, and fits together.

    Raises:
        Problem: 422 or 403, naming the first part that is not.
    """
    for each in body.schedules:
        demand(principal, each.namespace)
    if body.pools and principal.namespaces is not None:
        detail = "Pools are shared by all namespaces; only a credential for all namespaces may set them."
        raise Problem(403, "Forbidden", detail, "not_done")
    try:
        _something(body)
        _once("pool", [pool.name for pool in body.pools])
        _once("schedule", [f"{each.namespace}/{each.name}" for each in body.schedules])
        for pool in body.pools:
            _within(f"pool {pool.name}", "limit", pool.limit)
    except Unusable as unusable:
        raise _problem(unusable) from unusable


def preview(_: sqlite3.Connection, body: ApplyBody) -> Steps[Read]:
    """Return the steps to what an apply of a checked body would do to this checkpoint, `PreviewForm`.

    Raises:
        Problem: 422: a part of it cannot be meant, a schedule names a pool that neither the body nor the checkpoint
            has, or nothing of it would have run when the checkpoint last changed (an apply reads a clock, and may find
            more).
    """
    what = yield from _wanted(body)
    return Read(partial(_preview, what=what))


def ahead(_: sqlite3.Connection, body: ApplyBody) -> Steps[Read]:
    """Return the steps to the change that a checked body asks for: something of each schedule must be left to run.

    Raises:
        Problem: 422: a part of it cannot be meant, or nothing is left to run, of the first schedule of which that is so.
    """
    what = yield from _wanted(body)
    return Read(partial(_ahead, what=what))


def nothing(operation: Operation, _: DrawId) -> Apply:
    """Return an op for a key whose result is on record, which is what will be answered."""
    return Apply(operation, (), ())


def _wanted(body: ApplyBody) -> Steps[Wanted]:
    """Check every part of a body by itself, a calendar or a schedule at a time."""
    calendars = Calendars()
    found: list[ScheduleSpec] = []
    for i, calendar in enumerate(body.calendars):
        try:
            calendars.add(i, calendar)
        except BadCalendar as fault:
            raise _problem(Unusable(f"calendar {calendar.name}", _at(fault.keys, str(fault)))) from fault
        yield
    for each in body.schedules:
        try:
            found.append(spec_of(each, calendars, ""))
        except BadPolicy as fault:
            title = f"schedule {each.namespace}/{each.name}"
            raise _problem(Unusable(title, _at(fault.keys, str(fault)))) from fault
        yield
    return Wanted(tuple(PoolSpec(each.name, each.limit) for each in body.pools), tuple(found))


def _preview(db: sqlite3.Connection, what: Wanted) -> Steps[PreviewForm]:
    limits, head = queries.pool_limits(db), queries.head(db)
    return _previewed(what, limits, head, _rows(db, what))


def _ahead(db: sqlite3.Connection, what: Wanted) -> Steps[Change]:
    return _looked_ahead(what, queries.head(db), _rows(db, what))


def _previewed(what: Wanted, limits: dict[str, int], head: Head, rows: Sequence[Schedule | None]) -> Steps[PreviewForm]:
    known = limits.keys() | {pool.name for pool in what.pools}
    named: dict[str, list[str]] = {"creates": [], "changes": [], "revives": [], "unchanged": []}
    differences: dict[str, list[str]] = {}
    for spec, row in zip(what.schedules, rows, strict=True):
        title = _title(spec)
        if spec.pool not in known:
            right = f"add a [[pool]] or use one of: {', '.join(sorted(known))}"
            raise _problem(Unusable(title, f"pool {spec.pool!r} is unknown; {right}"))
        if arming.never_comes(spec, row, head):
            raise _problem(Unusable(title, WORDS[arming.AT_HAS_PASSED]))
        _demand_something_left(spec, row, head)
        outcome, name = _outcome(spec, row), f"{spec.namespace}/{spec.name}"
        named[outcome].append(name)
        if row is not None and outcome == "changes":
            differences[name] = _differences(spec, row.spec)
        yield
    pools = [pool.name for pool in what.pools if limits.get(pool.name) != pool.limit]
    return PreviewForm(
        creates=named["creates"],
        changes=named["changes"],
        differences=differences,
        revives=named["revives"],
        unchanged=named["unchanged"],
        pools=pools,
        new_pools=[name for name in pools if name not in limits],
    )


def _looked_ahead(what: Wanted, head: Head, rows: Sequence[Schedule | None]) -> Steps[Change]:
    for spec, row in zip(what.schedules, rows, strict=True):
        _demand_something_left(spec, row, head)
        yield
    return Change(what.op)


def _demand_something_left(spec: ScheduleSpec, row: Schedule | None, head: Head) -> None:
    """Return if something of a definition that is new is left to run; what stands already may have come to its end."""
    if _outcome(spec, row) == "unchanged":
        return
    # Of named instants those still run that are late within their window; the checkpoint refuses what is later.
    parts = spec.trigger.triggers if isinstance(spec.trigger, AnyOf) else (spec.trigger,)
    after_ms = head.now_ms - (window_ms(spec) + 1 if any(isinstance(part, At) for part in parts) else 0)
    try:
        check_timing(timing_of(spec, head.now_ms, head.now_ms), after_ms)
    except BadExpression as fault:
        raise _problem(Unusable(_title(spec), str(fault))) from fault


def _outcome(spec: ScheduleSpec, row: Schedule | None) -> str:
    if row is None:
        return "creates"
    if row.deleted_ms is not None:
        return "revives"
    return "unchanged" if replace(spec, schedule_id=row.schedule_id) == row.spec else "changes"


def _differences(new: ScheduleSpec, old: ScheduleSpec) -> list[str]:
    """Return the keys of which two definitions differ, in the words of a schedule file."""
    keys = [key for key in new.__struct_fields__ if getattr(new, key) != getattr(old, key)]
    return [_CALLED.get(key, key) for key in keys if key != "schedule_id"]


def _rows(db: sqlite3.Connection, what: Wanted) -> list[Schedule | None]:
    return [queries.schedule_named(db, each.namespace, each.name) for each in what.schedules]


def _title(spec: ScheduleSpec) -> str:
    return f"schedule {spec.namespace}/{spec.name}"


def _problem(unusable: Unusable) -> Problem:
    return Problem(422, "Unprocessable Content", str(unusable), "not_done")


def _something(body: ApplyBody) -> None:
    if not body.pools and not body.schedules:
        raise Unusable("the body", "names nothing to apply; write at least one schedule or pool")


def _once(kind: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise Unusable(f"{kind} {name}", "stands twice in one apply; remove or rename one")
        seen.add(name)


def _within(thing: str, key: str, value: int) -> None:
    if value > MOST:
        raise Unusable(thing, f"{key} {value} is too large; {MOST} is the most")


def _at(keys: Sequence[str | int], words: str) -> str:
    """Return what is wrong with the path of its key in front, unless the words begin with that."""
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")
    return words if not path or words.startswith(f"{path} ") else f"{path}: {words}"

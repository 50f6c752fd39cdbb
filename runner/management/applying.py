"""From the body of an apply to the op that the checkpoint decides, and to what it would change."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from cluster.bearer import Principal
from cluster.problem import Problem
from runner.calendar import BadExpression, check_trigger, moment_ms
from runner.checkpoint import arming, queries
from runner.checkpoint.ops import Apply, At, Cron, Every, Operation, PoolSpec, ScheduleSpec, TriggerSpec
from runner.management.authorization import demand
from runner.management.bodies import ApplyBody, ScheduleBody
from runner.management.forms import PreviewForm
from runner.management.policies import BadPolicy, retention_of, retry_of
from runner.management.replies import WORDS
from worker.protocol import CommandTarget

MAX_TARGET_BYTES: Final = 64 << 10
MOST: Final = 2**31 - 1
OURS: Final = "FENCEPOST_"


class Unusable(Exception):
    """A part of the body that cannot be meant: which thing, and what is wrong with it."""

    def __init__(self, thing: str, why: str) -> None:
        """Keep both as one line for a person."""
        super().__init__(f"{thing}: {why}.")


def apply_op(body: ApplyBody, operation: Operation, draw_id: Callable[[], str]) -> Apply:
    """Return the op for a checked body, each schedule with a fresh id in case its name was never seen."""
    pools = tuple(PoolSpec(each.name, each.limit) for each in body.pools)
    return Apply(operation, pools, tuple(_spec(each, draw_id()) for each in body.schedules))


def preview(db: sqlite3.Connection, body: ApplyBody) -> PreviewForm:
    """Return what an apply of a checked body would do to this checkpoint.

    Raises:
        Problem: 422: a schedule names a pool that neither the body nor the checkpoint has, or a one-shot's instant
            had passed when the checkpoint last changed (an apply reads a clock, and may find more).
    """
    limits = queries.pool_limits(db)
    known = limits.keys() | {pool.name for pool in body.pools}
    head = queries.head(db)
    creates, changes, revives, unchanged = [], [], [], []
    for each in body.schedules:
        title = f"{each.namespace}/{each.name}"
        if each.pool not in known:
            raise _problem(
                Unusable(
                    f"schedule {title}",
                    f"pool {each.pool!r} is unknown; add a [[pool]] or use one of: {', '.join(sorted(known))}",
                )
            )
        row = queries.schedule_named(db, each.namespace, each.name)
        spec = _spec(each, row.schedule_id if row else "")
        if arming.never_comes(spec, row, head):
            raise _problem(Unusable(f"schedule {title}", WORDS[arming.AT_HAS_PASSED]))
        if row is None:
            creates.append(title)
        elif row.deleted_ms is not None:
            revives.append(title)
        elif spec == row.spec:
            unchanged.append(title)
        else:
            changes.append(title)
    pools = [pool.name for pool in body.pools if limits.get(pool.name) != pool.limit]
    new_pools = [name for name in pools if name not in limits]
    return PreviewForm(
        creates=creates, changes=changes, revives=revives, unchanged=unchanged, pools=pools, new_pools=new_pools
    )


def check(body: ApplyBody, principal: Principal) -> None:
    """Return if every part can be meant and is the principal's to change.

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
        for each in body.schedules:
            _check_schedule(each)
    except Unusable as unusable:
        raise _problem(unusable) from unusable


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


def _check_schedule(each: ScheduleBody) -> None:
    thing = f"schedule {each.namespace}/{each.name}"
    try:
        check_trigger(_trigger(each), each.timezone)
    except BadExpression as fault:
        raise Unusable(thing, str(fault)) from fault
    _check_policies(thing, each)
    _check_command(thing, each.command)


def _check_policies(thing: str, each: ScheduleBody) -> None:
    try:
        retention_of(each.retention_s)
        retry_of(each.retry)
    except BadPolicy as fault:
        raise Unusable(thing, f"{'.'.join(fault.keys)}: {fault}") from fault


def _check_command(thing: str, command: CommandTarget) -> None:
    if not command.argv[0] or any("\0" in argument for argument in command.argv):
        raise Unusable(thing, "command.argv names no program or holds a NUL byte")
    for name, value in command.env.items():
        if not name or "=" in name or "\0" in name + value or name.startswith(OURS):
            raise Unusable(thing, "command.env: a name is empty, holds '=' or NUL, or begins with FENCEPOST_ (ours)")
    if command.cwd is not None and (not command.cwd or "\0" in command.cwd):
        raise Unusable(thing, "command.cwd is not a path")
    if command.timeout_ms is not None:
        _within(thing, "command.timeout_ms", command.timeout_ms)
    if len(msgspec.msgpack.encode(command)) > MAX_TARGET_BYTES:
        raise Unusable(thing, f"command is longer than {MAX_TARGET_BYTES} bytes; put what is long into a file")


def _trigger(each: ScheduleBody) -> TriggerSpec:
    match (each.cron, each.every_s, each.at):
        case (str(expression), None, None):
            return Cron(expression)
        case (None, int(interval_s), None):
            return Every(interval_s)
        case (None, None, str(text)):
            return At((moment_ms(text, each.timezone),))
        case _:
            raise Unusable(f"schedule {each.namespace}/{each.name}", "write exactly one of cron, every and at")


def _spec(each: ScheduleBody, schedule_id: str) -> ScheduleSpec:
    return ScheduleSpec(
        namespace=each.namespace,
        name=each.name,
        schedule_id=schedule_id,
        trigger=_trigger(each),
        timezone=each.timezone,
        overlap=each.overlap,
        pool=each.pool,
        on_unknown=each.on_unknown,
        retry=retry_of(each.retry),
        retention_s=each.retention_s,
        target=each.command,
    )

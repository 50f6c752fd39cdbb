"""What operators do to schedules and pools: apply, enable, disable, trigger."""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from runner.checkpoint import arming, overlap, queries
from runner.checkpoint.birth import Birth, manual_run
from runner.checkpoint.carrying import insert_run
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.deleting import NO_SUCH_SCHEDULE
from runner.checkpoint.freezing import FROZEN
from runner.checkpoint.limits import MAX_JITTER_MS, MAX_POOLS, MAX_SCHEDULES, MAX_WAITING, MAX_WINDOW_S
from runner.checkpoint.ops import Apply, Every, PoolSpec, ScheduleSpec, SetEnabled, Trigger
from runner.checkpoint.overlap import Place, make_way, turn_of
from runner.checkpoint.payload import MAX_TARGET_BYTES, digest_of, forget_unused, keep, target_bytes
from runner.checkpoint.records import Schedule
from runner.checkpoint.results import OpResult

DEFAULT_POOL: Final = "default"
DEFAULT_POOL_LIMIT: Final = 64
DELETED: Final = "schedule_deleted"
UNKNOWN_POOL: Final = "unknown_pool"

_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_INSERT_SCHEDULE: Final = (
    "INSERT INTO schedules (schedule_id, namespace, name, spec, digest,"
    " beside_limit, definition_revision, watermark_ms, anchor_ms, defined_ms, revision, enabled)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)"
)
_UPDATE_SCHEDULE: Final = (
    "UPDATE schedules SET spec = ?, digest = ?, beside_limit = ?, definition_revision = ?,"
    " watermark_ms = ?, anchor_ms = ?, defined_ms = ?, revision = ?, tail_skip_ms = NULL,"
    # What was deleted comes back as a new one would: enabled, and with all its runs ahead. Any other keeps both.
    " planned_runs = CASE WHEN deleted_ms IS NULL THEN planned_runs ELSE 0 END,"
    " enabled = enabled OR deleted_ms IS NOT NULL, deleted_ms = NULL WHERE schedule_id = ?"
)

_encoder = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class _Edit:
    """A schedule to be applied, the row that it finds, and its target in bytes."""

    spec: ScheduleSpec
    stored: Schedule | None
    target: bytes


def apply(commit: Commit, op: Apply) -> OpResult:
    """Create or change the named schedules and pools, all or none."""
    if len(op.pools) > MAX_POOLS or len(op.schedules) > MAX_SCHEDULES:
        return _refused("too_many")
    fault = _fault_in_pools(op.pools)
    if fault is not None:
        return fault
    limits = queries.pool_limits(commit.db)
    edits = _looked_at(commit, op, limits.keys() | {pool.name for pool in op.pools})
    if isinstance(edits, OpResult):
        return edits
    pools = [name for name in (_put_pool(commit, pool, limits) for pool in op.pools) if name is not None]
    outcomes = [_put_schedule(commit, edit, op.operation.principal) for edit in edits]
    return OpResult("done", detail={"pools": pools, "schedules": outcomes})


def set_enabled(commit: Commit, op: SetEnabled) -> OpResult:
    """Change future selection only; says how many open runs go on."""
    schedule = queries.schedule_named(commit.db, op.namespace, op.name)
    if schedule is None:
        return OpResult("refused", NO_SUCH_SCHEDULE)
    if schedule.deleted_ms is not None:
        return OpResult("refused", DELETED)
    open_runs = queries.open_runs(commit.db, schedule.schedule_id)
    detail = {"schedule_id": schedule.schedule_id, "enabled": op.enabled, "open_runs": open_runs}
    if schedule.enabled is op.enabled:
        return OpResult("done", detail={**detail, "unchanged": True})
    # A disabled schedule plans nothing: what would have been planned meanwhile never was, unless it is asked for.
    from_ms = (schedule.pruned_before_ms or 0) if op.catch_up or not op.enabled else commit.now_ms
    watermark_ms = max(schedule.watermark_ms, from_ms)
    commit.db.execute(
        "UPDATE schedules SET enabled = ?, watermark_ms = ?, tail_skip_ms = NULL, revision = ? WHERE schedule_id = ?",
        (op.enabled, watermark_ms, commit.revision, schedule.schedule_id),
    )
    commit.note(f"schedule:{schedule.schedule_id}")
    done = "enable" if op.enabled else "disable"
    why = f"{op.namespace}/{op.name}" + (", catching up" if op.enabled and op.catch_up else "")
    commit.event(Cause(op.operation.principal, done, why), to_state=f"{done}d")
    return OpResult("done", detail={**detail, "unchanged": False})


def trigger(commit: Commit, op: Trigger) -> OpResult:
    """Create a manual run now; its trigger id is the operation key. Overlap applies to it unless it is told otherwise."""
    if commit.head.frozen:
        return OpResult("refused", FROZEN)
    schedule = queries.schedule_named(commit.db, op.namespace, op.name)
    if schedule is None:
        return OpResult("refused", NO_SUCH_SCHEDULE)
    if schedule.deleted_ms is not None:
        return OpResult("refused", DELETED)
    key = op.operation.key
    used = "SELECT run_id FROM runs WHERE schedule_id = ? AND trigger_id = ?"
    if commit.db.execute(used, (schedule.schedule_id, key)).fetchone() is not None:
        return OpResult("refused", "trigger_exists")
    place, told = (Place(beside=True, apart=True), {}) if op.beside else _place(commit, schedule, op)
    birth = Birth(skipped=place.skipped, holds_slot=place.holds_slot, beside=place.beside, apart=place.apart)
    run = manual_run(commit, schedule, key, birth)
    insert_run(commit, run, Cause(op.operation.principal, "trigger", run.reason))
    detail: dict[str, Any] = {"run_id": run.run_id, "state": run.state.value, "reason": run.reason}
    return OpResult("done", detail=detail | told)


def _place(commit: Commit, schedule: Schedule, op: Trigger) -> tuple[Place, dict[str, list[str]]]:
    """Return where a manual run stands, and what was done to others for it."""
    turn, told = turn_of(commit, schedule), dict[str, list[str]]()
    if turn.stops_others:
        way = make_way(commit, schedule, op.operation.principal, f"triggered with key {op.operation.key}")
        turn, told = turn.cleared(way), way.detail
    return turn.place(caught_up=False), told


def _fault_in_pools(pools: Sequence[PoolSpec]) -> OpResult | None:
    names: set[str] = set()
    for pool in pools:
        if _NAME.fullmatch(pool.name) is None:
            return _refused("bad_name", pool=pool.name)
        if pool.name in names:
            return _refused("named_twice", pool=pool.name)
        names.add(pool.name)
    return None


def _looked_at(commit: Commit, op: Apply, pools: Container[str]) -> OpResult | list[_Edit]:
    """Look at every schedule once, and at its row once: what is found here is what gets written."""
    edits: list[_Edit] = []
    names: set[tuple[str, str]] = set()
    ids: set[str] = set()
    for spec in op.schedules:
        name = (spec.namespace, spec.name)
        edit = _Edit(spec, queries.schedule_named(commit.db, *name), target_bytes(spec.target))
        reason = _fault_in_names(spec, name in names, pools) or _fault_in_edit(commit, edit, ids)
        if reason is not None:
            named = {"pool": spec.pool} if reason == UNKNOWN_POOL else {}
            return _refused(reason, schedule="/".join(name), **named)
        names.add(name)
        ids.add(spec.schedule_id)
        edits.append(edit)
    return edits


def _fault_in_names(spec: ScheduleSpec, twice: bool, pools: Container[str]) -> str | None:  # noqa: FBT001 -- two calls
    if _NAME.fullmatch(spec.namespace) is None or _NAME.fullmatch(spec.name) is None:
        return "bad_name"
    if twice:
        return "named_twice"
    return None if spec.pool in pools else UNKNOWN_POOL


def _fault_in_edit(commit: Commit, edit: _Edit, ids: Container[str]) -> str | None:
    if len(edit.target) > MAX_TARGET_BYTES:
        return "target_too_large"
    if edit.spec.on_unknown == "retry" and edit.spec.delivery_deadline_s is None:
        return "retry_of_unknown"
    if arming.names_too_many(edit.spec):
        return arming.TOO_MANY_INSTANTS
    if not _is_within_limits(edit.spec):
        return "out_of_range"
    new_id = edit.spec.schedule_id
    taken = edit.stored is None and (new_id in ids or queries.has_schedule(commit.db, new_id))
    if taken:
        return "schedule_id_taken"
    return arming.AT_HAS_PASSED if arming.never_comes(edit.spec, edit.stored, commit.head) else None


def _is_within_limits(spec: ScheduleSpec) -> bool:
    return (
        spec.catch_up.window_s <= MAX_WINDOW_S
        and spec.catch_up.limit <= MAX_WAITING
        and spec.queue_limit <= MAX_WAITING
        and (spec.max_concurrent or 0) <= MAX_WAITING
        and spec.jitter_ms <= MAX_JITTER_MS
    )


def _refused(reason: str, **detail: str) -> OpResult:
    return OpResult("refused", reason, detail=dict(detail))


def _put_pool(commit: Commit, pool: PoolSpec, limits: Mapping[str, int]) -> str | None:
    if limits.get(pool.name) == pool.limit:
        return None
    commit.db.execute("INSERT OR REPLACE INTO pools VALUES (?, ?, ?)", (pool.name, pool.limit, commit.revision))
    commit.note(f"pool:{pool.name}")
    return pool.name


def _put_schedule(commit: Commit, edit: _Edit, principal: str) -> dict[str, Any]:
    spec, stored = edit.spec, edit.stored
    if stored is not None:
        spec = msgspec.structs.replace(spec, schedule_id=stored.schedule_id)
    outcome = _outcome(spec, stored)
    if outcome != "unchanged":
        _write_schedule(commit, spec, stored, edit.target)
        why = f"{spec.namespace}/{spec.name}"
        commit.event(Cause(principal, "apply", why), to_state=outcome)
    named = {"namespace": spec.namespace, "name": spec.name, "schedule_id": spec.schedule_id}
    return {**named, "outcome": outcome}


def _outcome(spec: ScheduleSpec, stored: Schedule | None) -> str:
    if stored is None:
        return "created"
    if stored.deleted_ms is not None:
        return "revived"
    return "unchanged" if stored.spec == spec else "changed"


def _write_schedule(commit: Commit, spec: ScheduleSpec, stored: Schedule | None, target: bytes) -> None:
    digest, now_ms = digest_of(target), commit.now_ms
    watermark_ms = arming.watermark_ms(spec, stored, commit.head)
    keeps_anchor = stored is not None and stored.deleted_ms is None and stored.spec.trigger == spec.trigger
    keeps_anchor = keeps_anchor and isinstance(spec.trigger, Every)
    anchor_ms = stored.anchor_ms if stored is not None and keeps_anchor else -(-now_ms // 1000) * 1000
    defined = (_encoder.encode(spec), digest, overlap.beside_limit(spec))
    planned = (commit.revision, watermark_ms, anchor_ms, now_ms, commit.revision)
    if stored is None:
        named = (spec.schedule_id, spec.namespace, spec.name)
        commit.db.execute(_INSERT_SCHEDULE, (*named, *defined, *planned))
    else:
        commit.db.execute(_UPDATE_SCHEDULE, (*defined, *planned, spec.schedule_id))
    if stored is None or stored.digest != digest:
        keep(commit.db, digest, target)
    if stored is not None and stored.digest != digest:
        forget_unused(commit.db, stored.digest)
    commit.note(f"schedule:{spec.schedule_id}")

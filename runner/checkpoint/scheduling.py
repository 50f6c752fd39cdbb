"""What operators do to schedules and pools: apply, enable, disable, trigger."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from runner.checkpoint import queries
from runner.checkpoint.carrying import WINDOW_MS, insert_run
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import Apply, Every, PoolSpec, ScheduleSpec, SetEnabled, Trigger
from runner.checkpoint.payload import MAX_TARGET_BYTES, target_bytes, target_digest
from runner.checkpoint.records import Run, RunState, Schedule
from runner.checkpoint.results import OpResult
from runner.ids import manual_occurrence, run_id

DEFAULT_POOL: Final = "default"
DEFAULT_POOL_LIMIT: Final = 64
NO_SUCH_SCHEDULE: Final = "no_such_schedule"

_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_SCHEDULE_COLUMNS: Final = 14

_encoder = msgspec.json.Encoder(order="deterministic")


def apply(commit: Commit, op: Apply) -> OpResult:
    """Create or change the named schedules and pools, all or none."""
    fault = _fault_in_pools(op.pools) or _fault_in_schedules(commit, op)
    if fault is not None:
        return fault
    pools = [name for name in (_put_pool(commit, pool) for pool in op.pools) if name is not None]
    outcomes = [_put_schedule(commit, spec, Cause(op.operation.principal, "apply")) for spec in op.schedules]
    return OpResult("done", detail={"pools": pools, "schedules": outcomes})


def set_enabled(commit: Commit, op: SetEnabled) -> OpResult:
    """Change future selection only; says how many open runs go on."""
    schedule = queries.schedule_named(commit.db, op.namespace, op.name)
    if schedule is None:
        return OpResult("refused", NO_SUCH_SCHEDULE)
    open_runs = commit.db.execute(
        "SELECT COUNT(*) FROM runs WHERE schedule_id = ? AND ended_ms IS NULL", (schedule.schedule_id,)
    ).fetchone()[0]
    detail = {"schedule_id": schedule.schedule_id, "enabled": op.enabled, "open_runs": open_runs}
    if schedule.enabled is op.enabled:
        return OpResult("done", detail={**detail, "unchanged": True})
    # A disabled schedule plans nothing: what would have been planned meanwhile never was.
    watermark_ms = max(schedule.watermark_ms, commit.now_ms) if op.enabled else schedule.watermark_ms
    commit.db.execute(
        "UPDATE schedules SET enabled = ?, watermark_ms = ?, tail_skip_ms = NULL, revision = ? WHERE schedule_id = ?",
        (op.enabled, watermark_ms, commit.revision, schedule.schedule_id),
    )
    commit.note(f"schedule:{schedule.schedule_id}")
    done = "enable" if op.enabled else "disable"
    commit.event(Cause(op.operation.principal, done, f"{op.namespace}/{op.name}"), to_state=f"{done}d")
    return OpResult("done", detail={**detail, "unchanged": False})


def trigger(commit: Commit, op: Trigger) -> OpResult:
    """Create a manual run now; its trigger id is the operation key. Overlap applies to it as to any other run."""
    schedule = queries.schedule_named(commit.db, op.namespace, op.name)
    if schedule is None:
        return OpResult("refused", NO_SUCH_SCHEDULE)
    key = op.operation.key
    used = "SELECT run_id FROM runs WHERE schedule_id = ? AND trigger_id = ?"
    if commit.db.execute(used, (schedule.schedule_id, key)).fetchone() is not None:
        return OpResult("refused", "trigger_exists")
    run = _manual_run(commit, schedule, key)
    insert_run(commit, run, Cause(op.operation.principal, "trigger", run.reason))
    return OpResult("done", detail={"run_id": run.run_id, "state": run.state.value, "reason": run.reason})


def _manual_run(commit: Commit, schedule: Schedule, trigger_id: str) -> Run:
    spec, now_ms = schedule.spec, commit.now_ms
    occurrence = manual_occurrence(trigger_id)
    free = schedule.slot_run_id is None
    return Run(
        run_id=run_id(commit.head.cluster_id, schedule.schedule_id, occurrence, now_ms),
        schedule_id=schedule.schedule_id,
        namespace=spec.namespace,
        schedule=spec.name,
        schedule_revision=schedule.definition_revision,
        scheduled_for_ms=None,
        trigger_id=trigger_id,
        triggered_ms=now_ms,
        occurrence=occurrence,
        state=RunState.PENDING if free else RunState.SKIPPED,
        reason=None if free else "overlap",
        pool=spec.pool,
        digest=target_digest(spec.target),
        attempts_allowed=spec.retry.attempts,
        not_before_ms=now_ms,
        closes_ms=now_ms + WINDOW_MS,
        cancelled=False,
        closed=not free,
        holds_slot=free,
        created_ms=now_ms,
        ended_ms=None if free else now_ms,
        revision=commit.revision,
    )


def _fault_in_pools(pools: Sequence[PoolSpec]) -> OpResult | None:
    for at, pool in enumerate(pools):
        if _NAME.fullmatch(pool.name) is None:
            return _refused("bad_name", pool=pool.name)
        if any(pool.name == other.name for other in pools[:at]):
            return _refused("named_twice", pool=pool.name)
    return None


def _fault_in_schedules(commit: Commit, op: Apply) -> OpResult | None:
    known = {pool.name for pool in queries.pools(commit.db)} | {pool.name for pool in op.pools}
    names: set[str] = set()
    ids: set[str] = set()
    for spec in op.schedules:
        name = f"{spec.namespace}/{spec.name}"
        stored = queries.schedule_named(commit.db, spec.namespace, spec.name)
        new_id = None if stored else spec.schedule_id
        faults = {
            "bad_name": any(_NAME.fullmatch(part) is None for part in (spec.namespace, spec.name)),
            "named_twice": name in names,
            "unknown_pool": spec.pool not in known,
            "target_too_large": len(target_bytes(spec.target)) > MAX_TARGET_BYTES,
            "schedule_id_taken": new_id is not None
            and (new_id in ids or queries.schedule(commit.db, new_id) is not None),
        }
        for reason, found in faults.items():
            if found:
                return _refused(reason, schedule=name, pool=spec.pool)
        names.add(name)
        ids.add(spec.schedule_id)
    return None


def _refused(reason: str, **detail: str) -> OpResult:
    return OpResult("refused", reason, detail=dict(detail))


def _put_pool(commit: Commit, pool: PoolSpec) -> str | None:
    stored = queries.pool(commit.db, pool.name)
    if stored is not None and stored.limit == pool.limit:
        return None
    commit.db.execute("INSERT OR REPLACE INTO pools VALUES (?, ?, ?)", (pool.name, pool.limit, commit.revision))
    commit.note(f"pool:{pool.name}")
    return pool.name


def _put_schedule(commit: Commit, spec: ScheduleSpec, cause: Cause) -> dict[str, Any]:
    stored = queries.schedule_named(commit.db, spec.namespace, spec.name)
    if stored is not None:
        spec = msgspec.structs.replace(spec, schedule_id=stored.schedule_id)
    outcome = "created" if stored is None else "unchanged" if stored.spec == spec else "changed"
    if outcome != "unchanged":
        _write_schedule(commit, spec, stored)
        why = f"{spec.namespace}/{spec.name}"
        commit.event(Cause(cause.actor, cause.op, why), to_state=outcome)
    named = {"namespace": spec.namespace, "name": spec.name, "schedule_id": spec.schedule_id}
    return {**named, "outcome": outcome}


def _write_schedule(commit: Commit, spec: ScheduleSpec, stored: Schedule | None) -> None:
    digest, now_ms = target_digest(spec.target), commit.now_ms
    # An instant counts only if it is later than the revision of the definition that plans it.
    watermark_ms = now_ms if stored is None else max(stored.watermark_ms, now_ms)
    keeps_anchor = stored is not None and isinstance(spec.trigger, Every) and stored.spec.trigger == spec.trigger
    anchor_ms = stored.anchor_ms if stored is not None and keeps_anchor else -(-now_ms // 1000) * 1000
    values = (
        *(spec.schedule_id, spec.namespace, spec.name, _encoder.encode(spec)),
        *(spec.pool, digest, spec.retry.attempts),
        *(True if stored is None else stored.enabled, commit.revision, watermark_ms, anchor_ms),
        *(None if stored is None else stored.slot_run_id, None, commit.revision),
    )
    places = ", ".join("?" * _SCHEDULE_COLUMNS)
    commit.db.execute(f"INSERT OR REPLACE INTO schedules VALUES ({places})", values)  # noqa: S608 -- only question marks
    commit.db.execute("INSERT OR IGNORE INTO payloads VALUES (?, ?)", (digest, target_bytes(spec.target)))
    commit.note(f"schedule:{spec.schedule_id}")

"""Records and messages with sensible values, of which a test names the ones it is about."""

from dataclasses import replace
from typing import Any

from runner.checkpoint.ops import Cron, Every, Retry, ScheduleSpec
from runner.checkpoint.records import Attempt, AttemptState, Pool, Run, RunState, Schedule
from runner.contacts import AttemptKey, Contact
from worker.protocol import CommandTarget, Held, Phase

MINUTE_MS = 60_000
NOON_MS = 1_774_785_600_000  # 2026-03-29T12:00:00Z


def spec(name: str = "tick", trigger: Cron | Every | None = None, **changes: Any) -> ScheduleSpec:
    values: dict[str, Any] = {
        "namespace": "demo",
        "name": name,
        "schedule_id": f"01900000-0000-7000-8000-{abs(hash(name)) % 10**12:012d}",
        "trigger": trigger or Every(1),
        "timezone": "UTC",
        "overlap": "skip",
        "pool": "default",
        "on_unknown": "hold",
        "retry": Retry(),
        "target": CommandTarget(argv=("true",)),
    }
    return ScheduleSpec(**(values | changes))


def schedule(schedule_id: str = "s1", trigger: Cron | Every | None = None, **changes: Any) -> Schedule:
    row = Schedule(
        spec=spec(schedule_id, trigger, timezone=changes.pop("timezone", "UTC")),
        schedule_id=schedule_id,
        enabled=True,
        definition_revision=5,
        watermark_ms=NOON_MS,
        anchor_ms=NOON_MS,
        slot_run_id=None,
        revision=5,
        digest="d" * 64,
    )
    return replace(row, **changes)


def attempt(run_id: str = "r1", n: int = 1, state: AttemptState = AttemptState.ACCEPTED, **changes: Any) -> Attempt:
    row = Attempt(
        run_id=run_id,
        n=n,
        state=state,
        reason=None,
        unresolved=False,
        superseded=False,
        won=False,
        worker="w1",
        incarnation="i1",
        ledger="l1",
        owner="node1",
        epoch=3,
        generation=1,
        authority="default",
        digest="d" * 64,
        reservation=None,
        token=None,
        fenced=False,
        execution_id=None,
        exit_code=None,
        claimed_ms=NOON_MS,
        admitted_ms=None,
        started_ms=None,
        ended_ms=None,
        cancelling_ms=None,
        tail="",
        evidence="",
        revision=7,
    )
    return replace(row, **changes)


def run(run_id: str = "r1", **changes: Any) -> Run:
    row = Run(
        run_id=run_id,
        schedule_id="s1",
        namespace="demo",
        schedule="tick",
        schedule_revision=5,
        scheduled_for_ms=NOON_MS,
        trigger_id=None,
        triggered_ms=None,
        occurrence="2026-03-29T12:00:00Z",
        state=RunState.PENDING,
        reason=None,
        pool="default",
        digest="d" * 64,
        attempts_allowed=1,
        backoff_ms=1_000,
        factor_milli=2_000,
        max_backoff_ms=300_000,
        on_exit_codes=None,
        on_unknown="hold",
        not_before_ms=NOON_MS,
        closes_ms=NOON_MS + 60 * MINUTE_MS,
        deadline_ms=None,
        reopened_after=0,
        cancelled=False,
        closed=False,
        beside=False,
        caught_up=None,
        holds_slot=True,
        created_ms=NOON_MS,
        ended_ms=None,
        revision=6,
    )
    return replace(row, **changes)


def pool(name: str = "default", limit: int = 64, held: int = 0) -> Pool:
    return Pool(name, limit, held)


def contact(worker: str = "w1", **changes: Any) -> Contact:
    row = Contact(
        worker=worker,
        pools=None,
        namespaces=None,
        incarnation="i1",
        ledger="l1",
        life=1,
        number=10,
        epoch=3,
        slots=4,
        held={},
        complete=True,
        served_s=0.0,
        mono_s=0.0,
    )
    return replace(row, **changes)


def held(
    run_id: str = "r1", n: int = 1, phase: Phase = "accepted", *, observable: bool = True
) -> dict[AttemptKey, Held]:
    return {(run_id, n): Held(run_id, n, phase, observable)}

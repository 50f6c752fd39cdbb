"""A checkpoint in memory that is driven one command at a time."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runner.checkpoint import ops, queries, results, waiting
from runner.checkpoint.admitting import binding_of
from runner.checkpoint.machine import Checkpoint
from runner.checkpoint.records import Attempt, Run
from runner.checkpoint.results import CommandResult, OpResult
from worker.protocol import Binding, CommandTarget

CLUSTER = "7a6e2f3c-0000-4000-8000-000000000001"
SCHEDULE = "0190a0a0-0000-7000-8000-00000000000a"
OTHER_SCHEDULE = "0190a0a0-0000-7000-8000-00000000000b"
HOUR_MS = 3_600_000


def spec(name: str = "tick", **changes: Any) -> ops.ScheduleSpec:
    values: dict[str, Any] = {
        "namespace": "demo",
        "name": name,
        "schedule_id": SCHEDULE if name == "tick" else OTHER_SCHEDULE,
        "trigger": ops.Every(interval_s=1),
        "timezone": "UTC",
        "overlap": "skip",
        "pool": "default",
        "on_unknown": "hold",
        "retry": ops.Retry(),
        "target": CommandTarget(argv=("true",)),
    }
    return ops.ScheduleSpec(**{**values, **changes})


@dataclass
class Book:
    db: sqlite3.Connection = field(default_factory=lambda: sqlite3.connect(":memory:", isolation_level=None))
    now_ms: int = 0
    voter: str = "node1"
    epoch: int = 0
    keys: int = 0
    machine: Checkpoint = field(default_factory=lambda: Checkpoint(CLUSTER))

    def __post_init__(self) -> None:
        self.machine.create(self.db)

    def send(self, *sent: ops.Op, epoch: int | None = None, revision: int | None = None) -> CommandResult:
        head = queries.head(self.db)
        command = ops.Command(
            version=ops.VERSION,
            expect_epoch=self.epoch if epoch is None else epoch,
            expect_revision=head.revision if revision is None else revision,
            now_ms=self.now_ms,
            actor=self.voter,
            ops=sent,
        )
        return results.from_builtins(self.machine.apply(self.db, ops.encode(command)))

    def do(self, op: ops.Op) -> OpResult:
        result = self.send(op)
        assert result.verdict == "applied", result
        return result.results[0]

    def acquire(self, voter: str = "node1") -> None:
        self.voter = voter
        result = self.send(ops.Acquire(owner=voter), epoch=queries.head(self.db).epoch)
        self.epoch = result.epoch

    def operation(self, key: str | None = None, *, principal: str = "alice", digest: str = "d") -> ops.Operation:
        self.keys += 1
        return ops.Operation(principal=principal, key=key or f"key-{self.keys}", digest=digest)

    def apply(self, *schedules: ops.ScheduleSpec, pools: tuple[ops.PoolSpec, ...] = ()) -> OpResult:
        return self.do(ops.Apply(operation=self.operation(), pools=pools, schedules=schedules))

    def claimable(self) -> list[str]:
        """Return the ids of the runs that could be claimed now, oldest first."""
        roomy: waiting.Served = {pool.name: None for pool in queries.pools(self.db) if pool.held < pool.limit}
        found, _ = waiting.claimable(self.db, roomy, self.now_ms, waiting.Walk())
        return sorted(one.run_id for one in found)

    def materialise(self, *due_ms: int, name: str = "tick", until_ms: int | None = None, **changes: Any) -> OpResult:
        schedule = queries.schedule_named(self.db, "demo", name)
        assert schedule is not None
        values: dict[str, Any] = {
            "schedule_id": schedule.schedule_id,
            "schedule_revision": schedule.definition_revision,
            "after_ms": schedule.watermark_ms,
            "until_ms": self.now_ms if until_ms is None else until_ms,
            "missed": (),
            "due": due_ms,
        }
        return self.do(ops.Materialise(**{**values, **changes}))

    def a_run(self, due_ms: int = 1_000) -> str:
        """Materialise one instant and return its run id."""
        self.now_ms = max(self.now_ms, due_ms)
        (run_id,) = self.materialise(due_ms).detail["runs"]
        assert isinstance(run_id, str)
        return run_id

    def claim(self, run_id: str, n: int = 1, worker: str = "w1/a", **changes: Any) -> OpResult:
        name, incarnation = worker.split("/")
        values = {"run_id": run_id, "attempt": n, "worker": name, "incarnation": incarnation, "ledger": f"{name}-disk"}
        return self.do(ops.ClaimOp(**{**values, "authorities": ("default",), **changes}))

    def binding(self, run_id: str, n: int = 1) -> Binding:
        return binding_of(queries.head(self.db), self.run(run_id), self.attempt(run_id, n))

    def admit(self, run_id: str, n: int = 1, reservation: str = "x1", worker: str = "w1") -> OpResult:
        return self.do(ops.AdmitOp(worker=worker, binding=self.binding(run_id, n), reservation=reservation))

    def admitted(self, due_ms: int = 1_000) -> str:
        run_id = self.a_run(due_ms)
        assert self.claim(run_id).kind == "claimed"
        assert self.admit(run_id).kind == "granted"
        return run_id

    def report(self, make: Callable[..., ops.Op], run_id: str, n: int = 1, **said: Any) -> OpResult:
        attempt = self.attempt(run_id, n)
        who = {"worker": attempt.worker, "incarnation": attempt.incarnation, "ledger": attempt.ledger}
        return self.do(make(**{"run_id": run_id, "attempt": n, **who, **said}))

    def finish(self, run_id: str, n: int = 1, *, succeeded: bool = True, **said: Any) -> OpResult:
        result = {"succeeded": succeeded, "reason": None if succeeded else "exit", "exit_code": 0 if succeeded else 1}
        return self.report(ops.FinishOp, run_id, n, **{**result, "ended_ms": self.now_ms, **said})

    def lose(self, run_id: str, n: int = 1, why: str = "worker_out_of_contact", **said: Any) -> OpResult:
        return self.do(ops.LoseOp(run_id=run_id, attempt=n, why=why, **said))

    def cancel(self, run_id: str, key: str | None = None) -> OpResult:
        return self.do(ops.CancelOp(operation=self.operation(key), run_id=run_id))

    def attest(self, run_id: str, n: int = 1, **changes: Any) -> OpResult:
        values: dict[str, Any] = {
            "operation": self.operation(principal="rita"),
            "run_id": run_id,
            "attempt": n,
            "attester": "Rita",
            "statement": "host is gone",
            "evidence": "ticket 7",
            "row_revision": self.attempt(run_id, n).revision,
        }
        return self.do(ops.AttestOp(**{**values, **changes}))

    def run(self, run_id: str) -> Run:
        found = queries.run(self.db, run_id)
        assert found is not None
        return found

    def attempt(self, run_id: str, n: int = 1) -> Attempt:
        return queries.attempts(self.db, run_id)[n - 1]

    def states(self, run_id: str) -> tuple[str, ...]:
        """Return the run's state and those of its attempts."""
        return (self.run(run_id).state.value, *(a.state.value for a in queries.attempts(self.db, run_id)))


def owned_book(*schedules: ops.ScheduleSpec) -> Book:
    """Return a book whose owner is node1, with one schedule (or the ones given) applied at instant 0."""
    book = Book()
    book.acquire()
    assert book.apply(*(schedules or (spec(),))).kind == "done"
    return book

"""A runner on virtual time over the fake node, a few words to operate it, and a worker that speaks the real protocol."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cluster.bearer import Principal
from runner.admission.service import Admission
from runner.checkpoint import ops, queries
from runner.checkpoint.records import Attempt, Run, SkipRange
from runner.service import Runner
from runner.settings import Timing
from tests.unit.runner.fake_node import FakeLog, FakeNode
from tests.unit.runner.rows import NOON_MS, spec
from tests.unit.runner.virtual_time import VirtualClock
from worker.protocol import (
    Answer,
    Answers,
    CannotTell,
    Claim,
    ConfirmStopped,
    Finish,
    Held,
    NotOwner,
    PermitRequest,
    Permits,
    Poll,
    PollReply,
    Reports,
)

URLS = ("http://127.0.0.1:7201", "http://127.0.0.1:7202")
VERSION = 1


@dataclass
class Voter:
    """One node with its runner and its admission handlers."""

    node: FakeNode
    clock: VirtualClock
    runner: Runner
    admission: Admission

    @property
    def log(self) -> FakeLog:
        return self.node.log

    def runs(self) -> list[Run | SkipRange]:
        """Return runs and ranges, oldest first."""
        return queries.runs(self.log.db, schedule_id=None, state=None, limit=10_000)[::-1]

    def states(self) -> list[str]:
        return [row.state.value for row in self.runs() if isinstance(row, Run)]

    def attempts(self) -> list[Attempt]:
        found = [row for row in self.runs() if isinstance(row, Run)]
        return [one for row in found for one in queries.attempts(self.log.db, row.run_id)]

    async def apply(self, *specs: ops.ScheduleSpec, key: str = "k1", pools: tuple[ops.PoolSpec, ...] = ()) -> Any:
        return await self.runner.submit(ops.Apply(operation(key), pools, specs))

    async def driving(self) -> None:
        """Wait until this voter owns the checkpoint."""
        async with asyncio.timeout(30):
            while not self.runner.drives:  # noqa: ASYNC110 -- virtual time: the runner has no hook only for tests
                await asyncio.sleep(0.001)


def operation(key: str) -> ops.Operation:
    return ops.Operation("operator", key, f"digest of {key}")


def voter(
    log: FakeLog | None = None, *, name: str = "node1", voters: int = 1, timing: Timing | None = None, **lengths: float
) -> Voter:
    timing = replace(timing or Timing(), **lengths)
    clock = VirtualClock(NOON_MS)
    node = FakeNode(log or FakeLog(), clock, name)
    runner = Runner(node=node, clock=clock, name=name, voters=voters, timing=timing)
    admission = Admission(runner=runner, node=node, clock=clock, urls=URLS, timing=timing)
    return Voter(node, clock, runner, admission)


@contextlib.asynccontextmanager
async def running(*voters: Voter) -> AsyncIterator[None]:
    """Run the runners; elect the first and wait until it owns."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.runner.run()) for one in voters]
        voters[0].node.elect()
        await voters[0].driving()
        yield
        for task in tasks:
            task.cancel()


class Door(Protocol):
    """Where a worker asks: a voter, as far as a worker can see it."""

    @property
    def admission(self) -> Admission: ...


@dataclass
class FakeWorker:
    """Speaks for one incarnation; what it holds is up to the test."""

    voter: Door
    name: str = "w1"
    incarnation: str = "i1"
    ledger: str = "l1"
    life: int = 1
    slots: int = 4
    number: int = 0
    epoch: int = 0
    held: dict[tuple[str, int], Held] = field(default_factory=dict)
    pools: frozenset[str] | None = None
    namespaces: frozenset[str] | None = None

    @property
    def principal(self) -> Principal:
        return Principal(self.name, "worker", pools=self.pools, namespaces=self.namespaces)

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def message(self, wait_s: float = 0.0) -> Poll:
        rows = list(self.held.values())
        return Poll(
            version=VERSION,
            incarnation=self.incarnation,
            ledger=self.ledger,
            life=self.life,
            number=self.next_number(),
            epoch=self.epoch,
            slots=self.slots,
            held=rows,
            wait_s=wait_s,
        )

    async def poll(self, wait_s: float = 0.0) -> PollReply:
        reply = await self.voter.admission.poll(self.principal, self.message(wait_s))
        assert isinstance(reply, PollReply), reply
        self.epoch = reply.epoch
        return reply

    async def not_owner(self) -> NotOwner:
        reply = await self.voter.admission.poll(self.principal, self.message())
        assert isinstance(reply, NotOwner), reply
        return reply

    def hold(self, claim: Claim, phase: Any = "reserved", *, observable: bool = True) -> None:
        row = Held(claim.binding.run_id, claim.binding.attempt, phase, observable)
        self.held[row.run_id, row.attempt] = row
        self.slots -= 1

    async def claim(self) -> Claim:
        """Poll until there is a claim that is not held yet."""
        async with asyncio.timeout(30):
            while True:
                for claim in (await self.poll(5.0)).claims:
                    if (claim.binding.run_id, claim.binding.attempt) not in self.held:
                        return claim

    async def permit(self, claim: Claim, reservation: str = "x1") -> Answer:
        request = PermitRequest(claim.binding, reservation)
        return only(await self.voter.admission.permits(self.principal, self.permits(request)))

    def permits(self, *requests: PermitRequest) -> Permits:
        return Permits(VERSION, self.next_number(), list(requests))

    async def launched(self, *, phase: Any = "accepted", observable: bool = True) -> Claim:
        """Claim, reserve and get the permit of one attempt."""
        claim = await self.claim()
        self.hold(claim, phase, observable=observable)
        answer = await self.permit(claim)
        assert answer.kind == "granted"
        return claim

    async def report(self, report: Any) -> Answer:
        message = Reports(VERSION, self.next_number(), [report])
        return only(await self.voter.admission.reports(self.principal, message))

    def finish(self, claim: Claim, *, succeeded: bool = True, tail: str = "") -> Finish:
        return self.finish_of(claim.binding.run_id, claim.binding.attempt, succeeded=succeeded, tail=tail)

    def finish_of(self, run_id: str, attempt: int = 1, *, succeeded: bool = True, tail: str = "") -> Finish:
        return Finish(
            **self._of(run_id, attempt),
            succeeded=succeeded,
            reason=None if succeeded else "exit",
            exit_code=0 if succeeded else 1,
            ended_ms=NOON_MS,
            tail=tail,
        )

    def stopped(self, claim: Claim) -> ConfirmStopped:
        return self.stopped_of(claim.binding.run_id, claim.binding.attempt)

    def stopped_of(self, run_id: str, attempt: int) -> ConfirmStopped:
        return ConfirmStopped(**self._of(run_id, attempt), consumed=True, exit_code=None, ended_ms=NOON_MS)

    def never_began(self, claim: Claim) -> ConfirmStopped:
        """Say that a stop was noted before the permission was consumed."""
        of = self._of(claim.binding.run_id, claim.binding.attempt)
        return ConfirmStopped(**of, consumed=False, exit_code=None, ended_ms=NOON_MS)

    def cannot_tell(self, claim: Claim) -> CannotTell:
        return self.cannot_tell_of(claim.binding.run_id, claim.binding.attempt)

    def cannot_tell_of(self, run_id: str, attempt: int) -> CannotTell:
        return CannotTell(**self._of(run_id, attempt), evidence="no row")

    def drop(self, claim: Claim) -> None:
        del self.held[claim.binding.run_id, claim.binding.attempt]
        self.slots += 1

    def _of(self, run_id: str, attempt: int) -> dict[str, Any]:
        return {"run_id": run_id, "attempt": attempt, "incarnation": self.incarnation, "ledger": self.ledger}


def only(reply: Answers | NotOwner) -> Answer:
    assert isinstance(reply, Answers), reply
    (answer,) = reply.items
    return answer


def tick(name: str = "tick", every_s: int = 1, **changes: Any) -> ops.ScheduleSpec:
    return spec(name, ops.Every(every_s), **changes)


async def triggered(one: Voter, key: str = "t1", name: str = "tick") -> str:
    result = await one.runner.submit(ops.Trigger(operation(key), "demo", name))
    run_id = result.detail["run_id"]
    assert isinstance(run_id, str)
    return run_id


async def cancel(one: Voter, run_id: str, key: str = "c1") -> None:
    assert (await one.runner.submit(ops.CancelOp(operation(key), run_id))).kind == "done"


def elapsed_s() -> float:
    return asyncio.get_running_loop().time()

"""What runs work on a simulated host: it outlives the worker's process, and remembers what it was asked.

How each piece of work behaves is drawn from the seed, its schedule, occurrence and attempt, so that it behaves the
same when other parts of a plan are left out.
"""

import asyncio
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.product.loop import Life
from worker.capability import LaunchCapability
from worker.engine.base import OutcomeUnknown, Refused, SubmissionUnknown, Trace
from worker.outcome import Outcome, Receipt
from worker.protocol import Claim

if TYPE_CHECKING:
    from tests.simulation.product.world import World

Key = tuple[str, int]
OUT_OF_SIGHT_S = 1.5  # after so long a stop that nothing obeys cannot be confirmed


@dataclass(frozen=True)
class Manner:
    """How one piece of work behaves."""

    accepts: str = "yes"  # or "refuses", "loses the answer", "loses the request"
    submit_s: float = 0.01
    lasts_s: float = 0.4
    exit_code: int = 0
    obeys_s: float | None = 0.05  # how long it takes to end once stopped; None: it ends when it would anyway
    obeys_with: int = -15
    dies_with_worker: bool = False
    addressable: bool = False  # a later life of the worker finds it again


def draw_manner(random: Random, *, wild: float) -> Manner:
    """Draw one; the larger `wild`, the less of it is plain."""
    if random.random() >= wild:
        plain = Manner(lasts_s=0.1 + 0.6 * random.random(), submit_s=0.02 * random.random())
        return replace(plain, addressable=random.random() < 0.3)
    return Manner(
        accepts=random.choices(("yes", "refuses", "loses the answer", "loses the request"), (80, 8, 8, 4))[0],
        submit_s=random.choice((0.0, 0.01, 0.1, 0.5)) * random.random(),
        lasts_s=random.choice((0.0, 0.3, 1.0, 3.0, 8.0)) * random.random(),
        exit_code=random.choices((0, 1, 3), (60, 25, 15))[0],
        obeys_s=random.choice((0.0, 0.05, 0.5, 2.5, None)),
        obeys_with=random.choice((-15, -9, 0, 1)),
        **random.choices(({}, {"dies_with_worker": True}, {"addressable": True}), (30, 40, 30))[0],
    )


@dataclass
class Work:
    """One piece of work on a host, from its submission to its end."""

    key: Key
    schedule: str
    manner: Manner
    host: str
    life: Life
    began_s: float
    started_ms: int
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    alive: bool = True
    exit_code: int | None = None  # None: it was cut off with its host
    ended_ms: int = 0
    stopped: bool = False
    watched: bool = True

    @property
    def execution_id(self) -> str:
        return f"{self.host}/{self.key[0]}.{self.key[1]}"


class Machine:
    """A host's engine: all work that was ever submitted to it."""

    def __init__(self, world: "World", name: str) -> None:
        self._world, self.name = world, name
        self.works: dict[Key, Work] = {}

    def start(self, claim: Claim, manner: Manner, life: Life) -> Work:
        """Start work; from here on it lives until it ends by itself, is stopped, or its host goes down."""
        world, key = self._world, (claim.binding.run_id, claim.binding.attempt)
        now_ms = world.clocks[self.name].wall_ms()
        work = Work(key, claim.binding.schedule_id, manner, self.name, life, world.loop.now_s, now_ms)
        self.works[key] = work
        world.note("work starts", host=self.name, run=key)
        world.checker.started(key)
        world.loop.after(manner.lasts_s, None, self.end, work, manner.exit_code)
        return work

    def end(self, work: Work, exit_code: int | None) -> None:
        """Work ends, unless it has ended before."""
        if work.alive:
            work.alive, work.exit_code = False, exit_code
            work.ended_ms = self._world.clocks[self.name].wall_ms()
            work.ended.set()
            self._world.note("work ends", host=self.name, run=work.key, exit=exit_code)

    def stop(self, work: Work) -> None:
        """Ask work to stop."""
        if not work.stopped:
            work.stopped = True
            if work.manner.obeys_s is not None:
                self._world.loop.after(work.manner.obeys_s, None, self.end, work, work.manner.obeys_with)

    def worker_died(self, life: Life, *, power: bool) -> None:
        """A worker's process has ended, or its host with all that ran on it."""
        for work in self.works.values():
            if work.life is life:
                work.watched = False
            if work.alive and (power or (work.life is life and work.manner.dies_with_worker)):
                self.end(work, None)


class SimulatedWork:
    """The worker's view of its work."""

    def __init__(self, machine: Machine, work: Work) -> None:
        self._machine, self._work = machine, work
        self.receipt = Receipt(work.execution_id, work.started_ms)
        self._lost = asyncio.Event()

    def stop(self) -> None:
        self._machine.stop(self._work)
        asyncio.get_running_loop().call_later(OUT_OF_SIGHT_S, self._lost.set)

    async def observe(self) -> Outcome:
        work = self._work
        waits = [asyncio.ensure_future(each.wait()) for each in (work.ended, self._lost)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        if work.alive:
            raise OutcomeUnknown(f"{work.execution_id} does not end")
        code = work.exit_code
        if code is None:
            raise OutcomeUnknown(f"{work.execution_id} is not there")
        return Outcome(
            succeeded=code == 0,
            reason=None if code == 0 else "exit",
            exit_code=code,
            ended_ms=work.ended_ms,
            tail="" if code == 0 else "it failed",
        )


class SimulatedEngine:
    """One process life's way to its host's engine."""

    def __init__(self, world: "World", machine: Machine, life: Life) -> None:
        self._world, self._machine, self._life = world, machine, life

    async def submit(self, capability: LaunchCapability, claim: Claim) -> SimulatedWork:
        key = (claim.binding.run_id, claim.binding.attempt)
        token = capability.spend(*key)
        manner = self._world.manner_of(claim)
        self._world.checker.submitted(self._machine.name, claim, token)
        if manner.accepts == "loses the request":
            await asyncio.sleep(manner.submit_s)
            raise SubmissionUnknown("the connection broke")
        if manner.accepts == "refuses":
            await asyncio.sleep(manner.submit_s)
            raise Refused("no such program")
        await asyncio.sleep(manner.submit_s / 2)
        work = self._machine.start(claim, manner, self._life)
        await asyncio.sleep(manner.submit_s / 2)
        if manner.accepts == "loses the answer":
            raise SubmissionUnknown("the connection broke")
        return SimulatedWork(self._machine, work)

    def reattach(self, trace: Trace) -> SimulatedWork | None:
        work = self._machine.works.get((trace.run_id, trace.attempt))
        if work is None or not work.manner.addressable:
            return None
        return SimulatedWork(self._machine, work)

    def prove(self, trace: Trace) -> str:
        work = self._machine.works.get((trace.run_id, trace.attempt))
        return "nothing of it is alive" if work is None or not work.alive else "it is alive"

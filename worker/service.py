"""The worker: contact, asks, reports and running invocations, as tasks of one group."""

import asyncio
from collections.abc import Collection, KeysView
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from worker import earlier_lives
from worker.asking import Asker
from worker.backoff import Backoff
from worker.client import Admission
from worker.engine.base import Engine
from worker.fault import LedgerBroken
from worker.forgetting import Forgetter
from worker.incarnation import Incarnation
from worker.invocation import Invocation, Means
from worker.ledger import Key, Ledger
from worker.ledger_row import NoteStop
from worker.lineage import Lineage
from worker.observation import Resumed, Watched
from worker.polling import Poller
from worker.ports import Clock, Randomness
from worker.protocol import MAX_ITEMS, Claim, Stop
from worker.reporting import Reporter
from worker.timing import Timing

_log = structlog.get_logger("worker.service")
_FAREWELL_S: Final = 1.0  # what nobody hears costs the next attempt a claim deadline, and no more


class Worker:
    """Launches what it is permitted to launch, each attempt at most once, and reports what it saw.

    Attributes:
        incarnation: this process life's id.
    """

    def __init__(
        self,
        *,
        slots: int,
        ledger: Ledger,
        engine: Engine,
        admission: Admission,
        clock: Clock,
        randomness: Randomness,
        timing: Timing,
        pools: Collection[str] | None = None,
    ) -> None:
        """Take over an open ledger, whose worker this is; the caller closes it after `run`.

        It serves `pools` of those that its credential is for (None: all), `slots` attempts at once.

        Raises:
            ValueError: slots is not between 1 and `MAX_ITEMS` (a configuration fault: stops start-up).
        """
        if not 1 <= slots <= MAX_ITEMS:
            raise ValueError(f"slots is {slots}: give a number between 1 and {MAX_ITEMS}")
        life = _life_of(ledger, randomness)
        self.incarnation = life.id
        self._ledger = ledger
        self._engine = engine
        self._clock = clock
        self._timing = timing
        self._live: dict[Key, Watched] = {}
        self._idle = asyncio.Event()
        self._drain_asked = asyncio.Event()
        self._drain_s: float | None = timing.drain_s
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        backoff = partial(Backoff, randomness, first_s=timing.backoff_first_s, most_s=timing.backoff_most_s)
        self._asker = Asker(admission, life, backoff())
        self._reporter = Reporter(
            ledger=ledger, admission=admission, life=life, backoff=backoff(), clock=clock, timing=timing
        )
        self._forgetter = Forgetter(ledger=ledger, admission=admission, life=life, clock=clock, timing=timing)
        self._poller = Poller(
            slots=slots,
            pools=pools,
            ledger=ledger,
            admission=admission,
            life=life,
            backoff=backoff(),
            clock=clock,
            timing=timing,
            hands=self,
        )
        self._means = Means(
            life=life,
            ledger=ledger,
            engine=engine,
            asker=self._asker,
            clock=clock,
            randomness=randomness,
            timing=timing,
            changed=self._reporter.wake,
        )

    @property
    def live(self) -> KeysView[Key]:
        """The attempts that this life is working on."""
        return self._live.keys()

    async def run(self) -> None:
        """Work until drained. Cancelled, it leaves running work running and its rows as they are.

        Raises:
            LedgerBroken: a write to the ledger failed; end the process, the next start reads what is on disk.
        """
        for row, work in earlier_lives.settle(self._ledger, self._engine, self.incarnation):
            resumed = Resumed(row, work, self._ledger, self._reporter.wake)
            self._live[resumed.key] = resumed  # before the first poll, which lists it as observable
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for watched in list(self._live.values()):
                    self._own(group.create_task(self._follow(watched)))
                for part in (self._poller.run(), self._asker.run(), self._reporter.run(), self._forgetter.run()):
                    self._own(group.create_task(part))
                await self._drain_asked.wait()
                await self._wind_down(group)
                for task in self._tasks:
                    task.cancel()
        except BaseExceptionGroup as faults:
            broken = _broken(faults)
            if broken is None:
                raise
            raise broken from None

    def drain(self) -> None:
        """Take no more claims, fence what was not consumed, wait a while for running work, then end `run`."""
        self._poller.close()
        self._drain_asked.set()

    def take(self, claim: Claim) -> bool:
        """Reserve a claim and start on it; False if the ledger knows the attempt already."""
        assert self._group is not None, "claims come while it runs"
        invocation = Invocation(claim, self._means)
        if not invocation.reserve():
            return False
        self._live[invocation.key] = invocation
        self._own(self._group.create_task(self._follow(invocation)))
        return True

    def decline(self, claim: Claim) -> None:
        """Have a claim fenced that came too late to be taken, else it would wait for its deadline."""
        Invocation(claim, self._means).decline("the worker is stopping")

    def stop(self, stop: Stop) -> None:
        """Stop an attempt of any life of this worker, or say what is known of it."""
        assert self._group is not None, "stops come while it runs"
        key = (stop.run_id, stop.attempt)
        watched = self._live.get(key)
        if watched is not None:
            self._own(self._group.create_task(watched.stop()))
        elif self._ledger.row(*key) is None:
            self._reporter.no_row(key)
        else:
            self._ledger.step(*key, NoteStop())  # counts for a fenced row; an end or a loss is reported as it is

    def adopt(self, lineage: Lineage) -> None:
        """Keep the lineage durably; fence what an earlier generation left unconsumed, in the same commit."""
        why = f"the checkpoint was restored (generation {lineage.generation}): no permit of an earlier one counts"
        fenced = self._ledger.adopt(lineage, why)
        for key in fenced:
            self._asker.withdraw(key)
        _log.info("lineage", cluster_id=lineage.cluster_id, generation=lineage.generation, fenced=len(fenced))
        self._reporter.wake()

    def retire(self) -> None:
        """End this life after its running work, without launching anything more: a fresh one may start."""
        if not self._drain_asked.is_set():
            _log.error("retired", incarnation=self.incarnation, why="a human attested that nothing of it runs")
            self._drain_s = None
            self.drain()

    async def _follow(self, watched: Watched) -> None:
        try:
            await watched.run()
        finally:
            del self._live[watched.key]
            if not self._live:
                self._idle.set()
            self._poller.slot_freed()

    async def _wind_down(self, group: asyncio.TaskGroup) -> None:
        """Let work end, then let the last reports be answered, each for a bounded time."""
        for watched in list(self._live.values()):
            self._own(group.create_task(watched.give_up("the worker is stopping")))
        with suppress(TimeoutError):
            async with asyncio.timeout(self._drain_s):
                while self._live:
                    self._idle.clear()
                    await self._idle.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                await self._poller.taken_leave()
        self._reporter.wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.flush_s):
                await self._reporter.quiet()
        _log.info("drained", left_running=len(self._live))

    def _own(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _life_of(ledger: Ledger, randomness: Randomness) -> Incarnation:
    return Incarnation(
        worker=ledger.worker, ledger=ledger.id, life=ledger.life, lineage=ledger.lineage, randomness=randomness
    )


def _broken(faults: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Return the LedgerBroken in a group, if there is one: it decides what becomes of the process."""
    for fault in faults.exceptions:
        found = _broken(fault) if isinstance(fault, BaseExceptionGroup) else fault
        if isinstance(found, LedgerBroken):
            return found
    return None

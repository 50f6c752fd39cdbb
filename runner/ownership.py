"""From leadership to ownership and back: barrier, read, acquire, only then drive (DESIGN 3.2: ownership)."""

import asyncio
import math
from typing import Final, NoReturn

import structlog

from cluster.outcome import NotApplied, OutcomeUnknown, Why
from cluster.ports import Clock
from runner.checkpoint import ops, queries
from runner.checkpoint.records import Head
from runner.checkpoint.results import from_builtins
from runner.contacts import ServedTime
from runner.loop import Loop
from runner.ports import Node
from runner.settings import Timing
from runner.succession import could_follow
from runner.tenure import Overtaken, Tenure

RETRY_S: Final = 0.05
DRAIN_LOOK_S: Final = 0.1
TRANSFER_S: Final = 2.0  # for another voter to take over from one that stops; it takes milliseconds when all is well
# The guard counts its own wakes within `stalled_s`: a stall of the whole process is not the loop's, and Raft sees it.
GUARD_CHECKS: Final = 4

_log = structlog.get_logger("runner.ownership")


class Ownership:
    """Acquires the checkpoint whenever this voter leads, and lets the loop drive until that ends."""

    def __init__(self, *, node: Node, loop: Loop, clock: Clock, name: str, timing: Timing) -> None:
        """Wire it; nothing happens before `run`."""
        self._node = node
        self._loop = loop
        self._clock = clock
        self._name = name
        self._timing = timing
        self._term: int | None = None  # the term in which this voter leads
        self._elected = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._standing = True

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            NotApplied: (in a group) the node was closed underneath.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._hold())
            group.create_task(self._guard())

    async def stand_down(self, why: str) -> None:
        """Stop driving for good: the turn under way finishes, then another voter is given leadership.

        If none could own once this voter is gone, nothing more is begun here, and reports, permits and cancellations
        go on until what runs has been observed to its end.

        Blocks: for one turn and `TRANSFER_S` at most, before that for `drain_s` at most. Idempotent.
        """
        was_standing, self._standing = self._standing, False
        self._elected.clear()
        if was_standing:
            await self._drain()
        self._loop.end()
        await self._idle.wait()
        if self._term is not None:
            leader = await self._node.transfer(TRANSFER_S)
            _log.info("stood down", why=why, leader=leader)

    async def _drain(self) -> None:
        """Wait while work can be observed here and by nobody after this voter."""
        tenure = self._loop.tenure
        if tenure is None or could_follow(self._node.status()):
            return
        self._loop.wind_down()
        is_said = False
        until_mono_s = self._clock.mono_s() + self._timing.drain_s
        while not (tenure.ended or tenure.waited_for == 0 or could_follow(self._node.status())):
            if tenure.waited_for is not None and not is_said:
                is_said = True
                _log.info("draining", why="no other voter could own", open=tenure.waited_for)
            if self._clock.mono_s() >= until_mono_s:
                _log.warning("not drained", open=tenure.waited_for, after_s=self._timing.drain_s)
                return
            await asyncio.sleep(DRAIN_LOOK_S)  # nothing tells of a link to another voter that comes up

    async def _follow(self) -> NoReturn:
        """Take in election news; news alone fences nobody, it only starts and ends attempts to drive."""
        async for news in self._node.leadership():
            term = news.term if news.role == "leader" else None
            if term == self._term:
                continue
            self._term = term
            self._loop.end()
            if term is None or not self._standing:
                self._elected.clear()
            else:
                self._elected.set()
        raise NotApplied(Why.CLOSED, "the node was closed while the runner was working")

    async def _hold(self) -> NoReturn:
        while True:
            await self._elected.wait()
            term = self._term
            tenure = await self._acquire(term)
            # No await between this test and `drive` taking the tenure over: news in between would be lost.
            if tenure is None or self._term != term or not self._standing:
                continue
            self._idle.clear()
            try:
                await self._drive(tenure)
            finally:
                self._idle.set()

    async def _acquire(self, term: int | None) -> Tenure | None:
        """Try until acquired, no longer leading in this term, or out of time; then step down."""
        try:
            async with asyncio.timeout(self._timing.acquire_s):
                while self._term == term and self._standing:
                    try:
                        return await self._attempt()
                    except (NotApplied, OutcomeUnknown, Overtaken) as fault:
                        _log.info("not acquired", term=term, fault=str(fault))
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            self._resign(f"the checkpoint was not acquired within {self._timing.acquire_s:g} s")
        return None

    async def _attempt(self) -> Tenure:
        """Acquire once: what the barrier makes visible is what the compare-and-set compares with.

        Raises:
            Overtaken: the checkpoint moved between the read and the commit.
            NotApplied: from the node.
            OutcomeUnknown: from the node; the epoch may have grown, so everything starts over from the barrier.
        """
        await self._node.barrier()
        head: Head = await self._node.read(queries.head)
        command = ops.Command(
            version=ops.VERSION,
            expect_epoch=head.epoch,
            expect_revision=head.revision,
            now_ms=self._loop.takeover_now_ms(head.now_ms),
            actor=self._name,
            ops=(ops.Acquire(self._name),),
        )
        applied = await self._node.propose(ops.encode(command), self._timing.acquire_s, ops.VERSION)
        result = from_builtins(applied.result)
        if result.verdict != "applied":
            raise Overtaken(f"{result.verdict}: epoch {result.epoch}, revision {result.revision}")
        # A turn comes at least once per pulse; twice that is the longest gap that still counts as served.
        served = ServedTime(most_s=2 * self._timing.pulse_s)
        return Tenure(result.epoch, result.revision, result.now_ms, served)

    async def _drive(self, tenure: Tenure) -> None:
        """Drive until the tenure ends; then everything starts over from the barrier."""
        _log.info("owner", epoch=tenure.epoch, revision=tenure.revision)
        fault: NotApplied | OutcomeUnknown | Overtaken | None = None
        try:
            await self._loop.drive(tenure)
        except (NotApplied, OutcomeUnknown, Overtaken) as ended:
            fault = ended
        why = str(fault) if fault else "the workers fell silent" if tenure.moves else "leadership moved"
        _log.info("no longer owner", epoch=tenure.epoch, why=why)
        if fault is not None:
            await asyncio.sleep(RETRY_S)
        elif tenure.moves and self._standing:
            leader = await self._node.transfer(TRANSFER_S)
            _log.warning("moved leadership, since most workers fell silent at once", leader=leader)

    def _resign(self, why: str) -> None:
        if self._term is not None:
            self._node.resign(why)

    async def _guard(self) -> NoReturn:
        """Step down when one turn of the loop does not end, or when none begins although a pulse has passed."""
        seen, checks = 0, 0
        every_s = self._timing.stalled_s / GUARD_CHECKS
        idle_checks = GUARD_CHECKS + math.ceil(self._timing.pulse_s / every_s)
        while True:
            await asyncio.sleep(every_s)
            stuck = self._loop.tenure is not None and self._loop.steps == seen
            checks = checks + 1 if stuck else 0
            seen = self._loop.steps
            if checks >= (GUARD_CHECKS if self._loop.turning else idle_checks):
                checks = 0
                self._resign(f"the runner's loop has not turned for {self._timing.stalled_s:g} s")

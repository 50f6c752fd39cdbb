"""Voters without a cluster: one real checkpoint in memory, one log, and leadership by decree.

Every proposal takes a moment of virtual time. A test elects and deposes, holds proposals back, or lets one fail in one
of the ways a real node may.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from cluster.outcome import Applied, NotApplied, OutcomeUnknown, Why
from cluster.ports import Leadership, PeerClock, PeerStatus, Status
from runner.checkpoint import ops
from runner.checkpoint.machine import Checkpoint
from tests.unit.runner.virtual_time import VirtualClock

T = TypeVar("T")

CLUSTER_ID = "0190b1a0-0000-7000-8000-000000000001"
ROUND_S = 0.004
HEALTHY = [PeerStatus("node2", True, 1, "d2", "voter"), PeerStatus("node3", True, 1, "d3", "voter")]


@dataclass
class FakeLog:
    """What a majority of voters holds: applied commands, and the one checkpoint they make."""

    machine: Checkpoint = field(default_factory=lambda: Checkpoint(CLUSTER_ID))
    db: sqlite3.Connection = field(default_factory=lambda: sqlite3.connect(":memory:", isolation_level=None))
    commands: list[ops.Command] = field(default_factory=list)
    term: int = 1

    def __post_init__(self) -> None:
        self.machine.create(self.db)

    def append(self, command: bytes) -> Applied:
        result = self.machine.apply(self.db, command)
        self.commands.append(ops.decode(command))
        return Applied(index=len(self.commands) + 1, term=self.term, result=result)


class FakeNode:
    """One voter.

    `fail` is consulted once, by the next proposal; a command with an `unbearable` operation fails its trial each time;
    proposals wait while they are not `flowing`; `others` are the voters that it sees.
    """

    def __init__(self, log: FakeLog, clock: VirtualClock, name: str = "node1") -> None:
        self.log = log
        self.clock = clock
        self.name = name
        self.leads: int | None = None
        self.leader: str | None = None
        self.peers: list[VirtualClock] = []
        self.others: list[PeerStatus] = []
        self.unbearable: Callable[[ops.Op], bool] = lambda _: False
        self.refused = 0
        self.resigned: list[str] = []
        self.transfers: list[float] = []
        self.ends = False
        self.fail: Callable[[bytes], Exception] | None = None
        self.flowing = asyncio.Event()
        self.flowing.set()
        self._changed = asyncio.Event()
        self._pending: set[asyncio.Future[None]] = set()

    def elect(self) -> None:
        self.log.term += 1
        self.leads, self.leader = self.log.term, self.name
        self._changed.set()

    def depose(self, leader: str | None = None) -> None:
        """End leadership; proposals in flight are unknown."""
        self.leads, self.leader = None, leader
        for pending in self._pending:
            pending.set_exception(OutcomeUnknown("leadership ended"))
        self._pending.clear()
        self._changed.set()

    async def propose(self, command: bytes, within_s: float, version: int) -> Applied:
        self._must_lead()
        assert version == ops.VERSION
        try:
            async with asyncio.timeout(within_s):
                await self._round()
        except TimeoutError:
            raise NotApplied(Why.EXPIRED) from None
        if self.fail is not None:
            fail, self.fail = self.fail, None
            raise fail(command)
        if any(self.unbearable(op) for op in ops.decode(command).ops):
            self.refused += 1
            raise NotApplied(Why.FAILED_TRIAL, "no such column")
        return self.log.append(command)

    def lose_reply(self, command: bytes) -> Exception:
        self.log.append(command)
        return OutcomeUnknown("the reply was lost")

    async def barrier(self) -> int:
        self._must_lead()
        await self._round()
        return len(self.log.commands) + 1

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        await asyncio.sleep(0)
        return query(self.log.db)

    async def leadership(self) -> AsyncIterator[Leadership]:
        while not self.ends:
            self._changed.clear()
            yield Leadership(self.log.term, "leader" if self.leads is not None else "follower")
            await self._changed.wait()

    def status(self) -> Status:
        role = "leader" if self.leads is not None else "follower"
        mine = PeerStatus(self.name, connected=True, applied_index=1)
        return Status(self.name, role, self.log.term, self.leader, 1, 1, 1, "", (mine, *self.others))

    def clocks(self) -> tuple[PeerClock, ...]:
        mono_s = self.clock.mono_s()
        return tuple(PeerClock(f"peer{n}", peer.wall_ms(), mono_s) for n, peer in enumerate(self.peers))

    def resign(self, why: str) -> None:
        if self.leads is not None:
            self.resigned.append(why)
            self.depose()

    async def transfer(self, within_s: float) -> str | None:
        self.transfers.append(within_s)
        await asyncio.sleep(ROUND_S)
        self.depose("node2")
        return self.leader

    def _must_lead(self) -> None:
        if self.leads is None:
            raise NotApplied(Why.NOT_LEADER)

    async def _round(self) -> None:
        pending = asyncio.get_running_loop().create_future()
        self._pending.add(pending)
        try:
            await asyncio.wait({pending}, timeout=ROUND_S)
            if not pending.done() and not self.flowing.is_set():
                async with asyncio.TaskGroup() as group:
                    flow = group.create_task(self.flowing.wait())
                    await asyncio.wait({pending, flow}, return_when=asyncio.FIRST_COMPLETED)
                    flow.cancel()
            if pending.done():
                pending.result()
        finally:
            self._pending.discard(pending)

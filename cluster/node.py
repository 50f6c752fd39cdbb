"""One voter in an asyncio loop: the shell around the step machine of `cluster/replica.py`."""

import asyncio
import contextlib
import math
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import Executor
from pathlib import Path
from typing import Final, Self, TypeVar

import structlog

from cluster.compaction import DEFAULT_BOUNDS, Bounds
from cluster.flushing import Flusher
from cluster.identity import FolderLock
from cluster.linked import Linked
from cluster.opening import open_folder
from cluster.outcome import Applied
from cluster.ports import Clock, Identity, Leadership, PeerClock, Randomness, StateMachine, Status, Timing
from cluster.proposals import Answer, Outcome
from cluster.replica import Replica
from cluster.room import FreeBytes

T = TypeVar("T")

_log = structlog.get_logger("cluster.node")


class Node(Linked):
    """One voter. All methods belong to the thread of one event loop.

    Attributes:
        identity: who this disk is.
    """

    def __init__(self, replica: Replica, lock: FolderLock, tick_s: float, executor: Executor, clock: Clock) -> None:
        """Take over an open replica, its executor and the lock of its folder; most callers want `open()`."""
        super().__init__(replica)
        self.identity: Final[Identity] = replica.identity
        self._lock = lock
        self._executor, self._flusher, self._ticking = executor, Flusher(clock), asyncio.Lock()
        self._tick_s = tick_s
        self._changed = asyncio.Event()
        self._seen = replica.leadership
        self._seen_leader: str | None = None
        self._refused = 0
        self._trouble: str | None = None
        self._closing = False

    @classmethod
    def open(
        cls,
        data_dir: Path,
        *,
        name: str,
        cluster_id: str,
        members: Collection[str],
        machine: StateMachine,
        clock: Clock,
        randomness: Randomness,
        timing: Timing,
        bounds: Bounds = DEFAULT_BOUNDS,
        free_bytes: FreeBytes | None = None,
    ) -> Self:
        """Open a voter's folder, checked and locked.

        Args:
            data_dir: made by `identity.create_disk`.
            name: this voter, as configured.
            cluster_id: its cluster, as configured.
            members: all voters' names as configured, this one's included.
            machine: what commands mean.
            clock: both clocks of this host.
            randomness: for election timeouts.
            timing: Raft's lengths of time.
            bounds: when to compact, what to keep, how fast to send a snapshot.
            free_bytes: how much may still be written; None asks the file system of the folder.

        Raises:
            Unfit: the folder, the configuration or the installed library cannot be used; nothing on disk was changed.
        """
        replica, lock, executor = open_folder(
            data_dir,
            name=name,
            cluster_id=cluster_id,
            members=members,
            machine=machine,
            clock=clock,
            randomness=randomness,
            timing=timing,
            bounds=bounds,
            free_bytes=free_bytes,
        )
        return cls(replica, lock, timing.tick_s, executor, clock)

    async def run(self) -> None:
        """Tick on every event and every `tick_s`, until `close()` or cancellation.

        Raises:
            FailStop: the process must end without answering anything more; no tick follows.
        """
        while not self._closing:
            again = await self._tick()
            self._publish()
            if again:
                self._wake.set()
            await self._pause()

    async def _tick(self) -> bool:
        async with self._ticking:
            step = self._replica.step()
            try:
                while True:
                    await self._flusher.run(next(step))
            except StopIteration as end:
                return bool(end.value)

    async def _pause(self) -> None:
        """Wait for an event, at most one tick; always gives other tasks a turn."""
        timer = asyncio.get_running_loop().call_later(self._tick_s, self._wake.set)
        try:
            if self._wake.is_set():
                await asyncio.sleep(0)
            await self._wake.wait()
        finally:
            timer.cancel()
        self._wake.clear()

    def _publish(self) -> None:
        """Tell of a new role or term, and of refused frames, once a tick is committed."""
        if self._replica.refused_frames != self._refused:
            self._refused = self._replica.refused_frames
            _log.warning("frames refused", since_start=self._refused)
        was, self._trouble = self._trouble, self._replica.trouble
        if (was is None) != (self._trouble is None):
            _log.error("not ready", why=self._trouble) if self._trouble else _log.info("no trouble any more")
        now, leader = self._replica.leadership, self._replica.leader
        if now != self._seen:
            _log.info("role", role=now.role, term=now.term, leader=leader)
        if (now, leader) != (self._seen, self._seen_leader):
            self._seen, self._seen_leader = now, leader
            self._ring()

    def _ring(self) -> None:
        """Wake everybody who waits for a change."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def close(self) -> None:
        """End `run()`, answer what is pending, close the stores, give up the folder. Idempotent.

        A proposal that was appended ends in `OutcomeUnknown`, one that was only queued in `NotApplied(CLOSED)`.
        """
        self._closing = True
        self._wake.set()
        self._ring()
        async with self._ticking:
            await self._flusher.close()  # a tick that was cancelled may have left its flush behind
            self._replica.close()
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)  # a copy under way still reads the folder
        self._lock.release()

    # ---- the callers' side

    async def propose(self, command: bytes, within_s: float = math.inf, version: int = 1) -> Applied:
        """Replicate a command and return what applying it said, once this voter has committed it too.

        Args:
            command: in the words of the state machine.
            within_s: how long to wait at most; if it passes before the command is appended, it never will be
                (`NotApplied(EXPIRED)`), and if after, the outcome is unknown.
            version: which cluster version it needs; a later one than `status()` tells is `NotApplied(NOT_YET)`.

        Blocks: until it is applied, `within_s` has passed, or leadership or this voter ends. If the caller is
        cancelled, the proposal is not taken back and its outcome is unknown.

        Raises:
            NotApplied: it is in no log and never will be; it is safe to repeat.
            OutcomeUnknown: it may be applied now, later or never.
        """
        return await self._answered(lambda answer: self._replica.propose(command, answer, within_s, version))

    async def barrier(self) -> int:
        """Commit a no-op in the current term and return the index applied with it.

        A read that follows sees every command that was acknowledged, anywhere, before this call.

        Blocks: as `propose`.

        Raises:
            NotApplied: this voter does not lead, or too much waits.
            OutcomeUnknown: leadership ended.
        """
        return (await self._answered(self._replica.barrier)).index

    async def replace(self, name: str, disk_id: str, within_s: float = math.inf) -> int:
        """Have a voter's disk replaced, and return the index of the entry that names the new one.

        From then on the old disk never counts again, and the new one does once it has caught up to that entry.

        Args:
            name: the voter.
            disk_id: its new disk, made by `identity.create_disk` and linked to this voter, which leads.
            within_s: as in `propose`.

        Blocks: as `propose`.
        Idempotent: a disk that is named already is answered with its index at once, by any voter.

        Raises:
            NotApplied: it cannot be replaced, or not now; the text says why and what to do.
            OutcomeUnknown: the entry may be committed now, later or never; ask again.
        """
        seat = self._replica.roll.seat(name)
        if seat is not None and seat.disk_id == disk_id:
            return seat.since
        _log.warning("replace a disk", voter=name, disk=disk_id)
        return (await self._answered(lambda answer: self._replica.replace(name, disk_id, answer, within_s))).index

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query on this voter's state of committed ticks, in one snapshot; it cannot write.

        Raises:
            NotApplied: the voter is closed.
        """
        return self._replica.read(query)

    async def leadership(self) -> AsyncIterator[Leadership]:
        """Yield the current term and role, then each change (several may become one), until `close()`."""
        told: Leadership | None = None
        while not self._closing:
            if self._seen == told:
                await self._changed.wait()
            else:
                told = self._seen
                yield told

    def status(self) -> Status:
        """Return this voter's own view; nothing in it is linearizable."""
        return self._replica.status()

    def clocks(self) -> tuple[PeerClock, ...]:
        """Return the newest wall clock of each peer heard."""
        return self._replica.clocks()

    def resign(self, why: str) -> None:
        """Step down if leading or standing, and let another voter win the next election.

        Args:
            why: for the log.
        """
        _log.warning("resign", why=why, role=self._seen.role, term=self._seen.term)
        self._replica.resign()
        self._wake.set()

    async def transfer(self, within_s: float) -> str | None:
        """Hand leadership, if this voter has it, to the most caught-up voter, and only then step down.

        From now on nothing is appended: what is pending is committed and answered, then the next leader is bidden
        stand at once. If none takes over in time, or too few voters are linked, this voter resigns all the same.

        Blocks: for at most `within_s` seconds. If cancelled, the handover may still happen.
        Idempotent.

        Returns:
            Which other voter leads now as far as this one knows, None for nobody.
        """
        _log.info("transfer", role=self._seen.role, term=self._seen.term)
        self._replica.hand_over()
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not self._closing and self._awaits_heir():
                    await self._changed.wait()
        self._replica.resign()
        self._wake.set()
        leader = self._replica.leader
        return None if leader == self.identity.name else leader

    def _awaits_heir(self) -> bool:
        """Whether this voter leads, or has just ceased to and enough voters are linked to elect another."""
        status = self._replica.status()
        linked = sum(voter.connected for voter in status.voters)  # this one included
        electable = 1 < linked > len(status.voters) // 2
        return status.role == "leader" or (status.leader is None and electable)

    async def _answered(self, ask: Callable[[Answer], None]) -> Applied:
        future: asyncio.Future[Applied] = asyncio.get_running_loop().create_future()

        def answer(outcome: Outcome) -> None:
            if future.done():
                return  # the caller was cancelled
            if isinstance(outcome, Applied):
                future.set_result(outcome)
            else:
                future.set_exception(outcome)

        ask(answer)
        self._wake.set()
        return await future

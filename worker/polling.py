"""The worker's contact with the owner: what it holds and has room for, against what it shall start and stop."""

import asyncio
from collections.abc import Collection
from typing import Protocol

import structlog

from worker.backoff import Backoff
from worker.client import Admission, NotAnswered
from worker.incarnation import Incarnation, lineage_of
from worker.ledger import Key, Ledger
from worker.ledger_row import LedgerRow
from worker.lineage import Kin, Lineage
from worker.ports import Clock
from worker.protocol import MAX_ITEMS, VERSION, Claim, Held, Poll, PollReply, Stop
from worker.timing import Timing
from worker.words import held

_log = structlog.get_logger("worker.polling")


class Hands(Protocol):
    """What acts on a reply."""

    @property
    def live(self) -> Collection[Key]:
        """The attempts that this life is working on."""
        ...

    def take(self, claim: Claim) -> bool:
        """Start on a claim; False if there is nothing to start."""
        ...

    def decline(self, claim: Claim) -> None:
        """Give back a claim that came too late to be taken. Idempotent."""
        ...

    def stop(self, stop: Stop) -> None:
        """Stop an attempt. Idempotent."""
        ...

    def adopt(self, lineage: Lineage) -> None:
        """Keep durably which lineage this ledger works for, and never launch what an earlier one left unconsumed."""
        ...

    def retire(self) -> None:
        """A human attested that this life is quiescent: launch nothing more, and end. Idempotent."""
        ...


class Poller:
    """Long polls, one at a time, for as long as the process lives."""

    def __init__(
        self,
        *,
        slots: int,
        pools: Collection[str] | None,
        ledger: Ledger,
        admission: Admission,
        life: Incarnation,
        backoff: Backoff,
        clock: Clock,
        timing: Timing,
        hands: Hands,
    ) -> None:
        self._slots = slots
        self._pools = None if pools is None else sorted(pools)
        self._ledger = ledger
        self._admission = admission
        self._life = life
        self._backoff = backoff
        self._clock = clock
        self._timing = timing
        self._hands = hands
        self._closed = False
        self._answered = True
        self._waiting: asyncio.Timeout | None = None
        self._offers = 0
        self._farewell = asyncio.Event()

    async def taken_leave(self) -> None:
        """Wait until the owner was told that there is no more room here, so that it claims nothing for a worker gone."""
        await self._farewell.wait()

    def close(self) -> None:
        """Take no more claims, and say so at once; contact goes on."""
        self._closed = True
        if self._offers > 0:
            self._cut_short()

    def slot_freed(self) -> None:
        """Cut short a poll that was sent without room for anything."""
        if self._offers == 0 and not self._closed:
            self._cut_short()

    def _cut_short(self) -> None:
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())
            self._waiting = None

    async def run(self) -> None:
        """Poll, until cancelled."""
        while True:
            message = self._message()
            sent_mono_s = self._clock.mono_s()
            try:
                reply = await self._ask(message)
            except NotAnswered as fault:
                self._note(answered=False, why=str(fault))
                await asyncio.sleep(max(self._backoff.pause_s(), fault.retry_after_s or 0.0))
                continue
            if reply is None:
                continue  # cut short
            kin = self._life.judge(reply)
            if kin is Kin.FOREIGN:
                self._note(answered=False, why=f"an owner of another cluster answered: {reply.cluster_id}")
                await asyncio.sleep(self._backoff.pause_s())
                continue
            self._note(answered=True, why="")
            if self._closed and message.slots == 0:
                self._farewell.set()
            self._backoff.reset()
            early = self._clock.mono_s() - sent_mono_s < message.wait_s
            if not self._act(reply, kin) and early:
                await asyncio.sleep(self._timing.poll_pause_s)

    def _message(self) -> Poll:
        """Draw a number and list what is held, with nothing in between."""
        rows = self._ledger.unanswered()
        room = min(self._slots - len(self._hands.live), MAX_ITEMS - len(rows))
        return Poll(
            version=VERSION,
            incarnation=self._life.id,
            ledger=self._life.ledger,
            life=self._life.life,
            number=self._life.next_number(),
            epoch=self._life.epoch,
            slots=0 if self._closed else max(0, room),
            held=[self._held(row) for row in rows[:MAX_ITEMS]],
            wait_s=0.0 if self._closed and not self._farewell.is_set() else self._timing.poll_wait_s,
            cluster_id=self._life.lineage.cluster_id,
            generation=self._life.lineage.generation,
            pools=self._pools,
        )

    def _held(self, row: LedgerRow) -> Held:
        live = (row.binding.run_id, row.binding.attempt) in self._hands.live
        return held(row, self._life.id, resumed=live)

    async def _ask(self, message: Poll) -> PollReply | None:
        """Send one poll; None if it was cut short because what it offers is out of date."""
        try:
            async with asyncio.timeout(None) as waiting:
                self._waiting, self._offers = waiting, message.slots
                return await self._admission.poll(message)
        except TimeoutError:
            return None
        finally:
            self._waiting = None

    def _act(self, reply: PollReply, kin: Kin) -> bool:
        """Hand a reply on; True if it brought something to start."""
        if kin is Kin.EARLIER:
            return False
        if kin is Kin.LATER:
            self._hands.adopt(lineage_of(reply))
        self._life.hear(reply)
        if reply.retired:
            self._hands.retire()
        for stop in reply.stops:
            self._hands.stop(stop)
        return sum(self._take(claim) for claim in reply.claims) > 0

    def _take(self, claim: Claim) -> bool:
        binding = claim.binding
        key = (binding.run_id, binding.attempt)
        if key in self._hands.live or (len(self._hands.live) >= self._slots and not self._closed):
            return False
        ours = (self._life.worker, self._life.id, self._life.ledger, self._life.lineage)
        bound = Lineage(binding.cluster_id, binding.generation)
        if (binding.worker, binding.incarnation, binding.ledger, bound) != ours:
            _log.warning("claim_of_another", run_id=key[0], attempt=key[1], worker=binding.worker)
            return False
        if not key[0].replace("-", "").isalnum():  # it becomes part of a file's name
            _log.error("bad_run_id", run_id=key[0])
            return False
        if self._closed:
            self._hands.decline(claim)
            return False
        return self._hands.take(claim)

    def _note(self, *, answered: bool, why: str) -> None:
        """Log when contact is lost or found, not each try."""
        if answered != self._answered:
            self._answered = answered
            _log.info("owner_found") if answered else _log.warning("owner_lost", why=why)

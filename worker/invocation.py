"""One attempt on this worker: reserve, ask, consume, submit, keep the receipt, observe, keep the result."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from worker.asking import Asker
from worker.capability import LaunchCapability
from worker.engine.base import Engine, Refused, SubmissionUnknown, Work
from worker.incarnation import Incarnation, draw_id
from worker.ledger import Ledger
from worker.ledger_row import Consume, Denied, End, Fence, KeepReceipt, Lose, NoteStop, Reserve
from worker.observation import end_of
from worker.outcome import Outcome
from worker.ports import Clock, Randomness
from worker.protocol import Answer, Claim, PermitRequest
from worker.timing import Timing

_log = structlog.get_logger("worker.invocation")
_REFUSED_TAIL: Final = 1024


@dataclass(frozen=True, slots=True)
class Means:
    """What every invocation of a worker works with.

    Attributes:
        changed: called after each step that gave the worker something to say.
    """

    life: Incarnation
    ledger: Ledger
    engine: Engine
    asker: Asker
    clock: Clock
    randomness: Randomness
    timing: Timing
    changed: Callable[[], None]


class Invocation:
    """The steps of one attempt, serialized under a lock of its own, cancellation included.

    Each step is durable before the next begins, and no step is taken twice: a process that dies between two leaves a
    row from which no later life can launch (`ledger_row.MOVES`).
    """

    def __init__(self, claim: Claim, means: Means) -> None:
        self.key = (claim.binding.run_id, claim.binding.attempt)
        self._claim = claim
        self._means = means
        self._reservation = draw_id(means.randomness)
        self._lock = asyncio.Lock()
        self._work: Work | None = None
        self._stopping = False

    def reserve(self) -> bool:
        """Note the attempt durably before anything is asked; False if the ledger knows it already."""
        decision = self._means.ledger.step(*self.key, Reserve(self._claim.binding, self._reservation))
        return not isinstance(decision, Denied)

    def decline(self, why: str) -> None:
        """Note the attempt durably as one that is never launched, so that its fence is asked for. Idempotent."""
        if self.reserve():
            self._fence(why)

    async def run(self) -> None:
        """Carry the reserved attempt to its recorded end.

        Blocks: until the work has ended, however long that takes. Cancelled while it observes, it leaves the work
            running and the row as it is: the next life observes it on, or reports that it cannot tell.
        """
        asked_mono_s = self._means.clock.mono_s()
        work = await self._launch(await self._permit(), asked_mono_s)
        if work is None:
            return
        end = await end_of(work, self.key)
        async with self._lock:
            self._means.ledger.step(*self.key, end)
            self._means.changed()

    async def stop(self) -> None:
        """Note a committed cancellation, and stop the work if there is any.

        Idempotent: the owner lists a stop until it is confirmed; only the first one counts.
        """
        if self._stopping:
            return
        self._stopping = True
        async with self._lock:
            self._means.ledger.step(*self.key, NoteStop())
            self._means.changed()
            self._means.asker.withdraw(self.key)
            if self._work is not None:
                self._work.stop()

    async def give_up(self, why: str) -> None:
        """Fence the attempt if its launch permission was not consumed; running work is left alone."""
        async with self._lock:
            self._fence(why)
            self._means.asker.withdraw(self.key)

    async def _permit(self) -> Answer | None:
        """Ask until answered; None if the ask was withdrawn, or not answered before a grant would be too old."""
        request = PermitRequest(binding=self._claim.binding, reservation=self._reservation)
        try:
            async with asyncio.timeout(self._means.timing.grant_expiry_s):
                return await self._means.asker.ask(request)
        except TimeoutError:
            return None

    async def _launch(self, answer: Answer | None, asked_mono_s: float) -> Work | None:
        """Consume the grant and submit, or fence; all under the lock, so that a stop comes before or after it all."""
        async with self._lock:
            capability = self._consume(answer, asked_mono_s)
            if capability is None:
                return None
            try:
                work = await self._means.engine.submit(capability, self._claim)
            except Refused as refusal:
                self._refused(str(refusal))
                return None
            except SubmissionUnknown as fault:
                self._lost(str(fault))
                return None
            self._means.ledger.step(*self.key, KeepReceipt(work.receipt))
            self._means.changed()
            self._work = work
            return work

    def _consume(self, answer: Answer | None, asked_mono_s: float) -> LaunchCapability | None:
        """Turn a grant into the capability to launch; anything else fences the attempt."""
        if answer is None:
            self._fence("no permit was seen in time")
            return None
        if answer.kind != "granted" or answer.token is None:
            self._fence(f"its permit was refused: {answer.reason or answer.kind}")
            return None
        waited_s = self._means.clock.mono_s() - asked_mono_s
        command = Consume(self._means.life.id, answer.token, waited_s, self._means.timing.grant_expiry_s)
        capability = self._means.ledger.consume(*self.key, command)
        if isinstance(capability, Denied):
            self._fence(f"its grant was dropped: {capability.reason.value}", permit_known=True)
            return None
        return capability

    def _fence(self, why: str, *, permit_known: bool = False) -> None:
        """Close the row locally; denied, and rightly so, if it was fenced by a stop or consumed before."""
        decision = self._means.ledger.step(*self.key, Fence(why, permit_known))
        if not isinstance(decision, Denied):
            _log.info("fenced", run_id=self.key[0], attempt=self.key[1], why=why)
            self._means.changed()

    def _refused(self, why: str) -> None:
        outcome = Outcome(
            succeeded=False,
            reason="refused",
            exit_code=None,
            ended_ms=self._means.clock.wall_ms(),
            tail=why.encode(errors="replace")[:_REFUSED_TAIL].decode(errors="ignore"),
            evidence="the engine refused it: nothing was started",
        )
        self._means.ledger.step(*self.key, End(outcome))
        self._means.changed()

    def _lost(self, why: str) -> None:
        self._means.ledger.step(*self.key, Lose(f"submission_unknown: {why}"))
        self._means.changed()

"""The outside of a worker, small and in memory: an owner with an attempt table, an engine, a fuse that kills.

The owner and the engine's work outlive the worker's process; the ledger is the real one, on disk.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.unit.worker.virtual_time import VirtualClock, VirtualLoop
from worker.capability import LaunchCapability
from worker.client import ReplyLost, Unreachable
from worker.engine.base import OutcomeUnknown, Refused, Trace
from worker.ledger import Key, Ledger
from worker.ledger_row import Command, Decision
from worker.lineage import Lineage
from worker.outcome import Outcome, Receipt
from worker.protocol import (
    Accept,
    Answer,
    AnyReport,
    Binding,
    CannotTell,
    Claim,
    CommandTarget,
    ConfirmStopped,
    Fences,
    Finish,
    Forfeit,
    Permits,
    Poll,
    PollReply,
    Reports,
    Stop,
)
from worker.service import Worker
from worker.timing import Timing

OPEN = frozenset({"Claimed", "Admitted", "Accepted"})
TERMINAL = frozenset({"Succeeded", "Failed", "Cancelled", "NotLaunched"})


class Killed(BaseException):
    """kill -9, here."""


class Fuse:
    """Counts the places where a process may die, and kills it at one of them; the dead do nothing more."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.passed: list[str] = []
        self.dead = False

    def pass_by(self, place: str) -> None:
        if self.dead:
            raise Killed(place)
        self.passed.append(place)
        if self.at is not None and len(self.passed) > self.at:
            self.dead = True
            raise Killed(place)


class FusedLedger(Ledger):
    """The real ledger, with a place to die before and after each commit."""

    fuse: Fuse

    def steps(self, commands: Iterable[tuple[Key, Command]]) -> list[Decision]:
        listed = list(commands)
        names = ",".join(type(command).__name__ for _, command in listed)
        self.fuse.pass_by(f"before commit of {names}")
        decisions = super().steps(listed)
        self.fuse.pass_by(f"after commit of {names}")
        return decisions

    def adopt(self, lineage: Lineage, why: str) -> list[Key]:
        self.fuse.pass_by("before commit of a lineage")
        fenced = super().adopt(lineage, why)
        self.fuse.pass_by("after commit of a lineage")
        return fenced


@dataclass
class Attempt:
    claim: Claim
    state: str = "Claimed"
    reason: str | None = None
    reservation: str | None = None
    token: int | None = None
    unresolved: bool = False
    heard: list[AnyReport] = field(default_factory=list)

    @property
    def key(self) -> Key:
        return self.claim.binding.run_id, self.claim.binding.attempt


@dataclass
class Owner:
    """The checkpoint's attempt table (DESIGN 4) as far as one worker meets it. `ready` runs wait for a slot."""

    attempts: dict[Key, Attempt] = field(default_factory=dict)
    ready: list[Key] = field(default_factory=list)
    incarnation: str = ""
    retired: bool = False
    number: int = 0
    tokens: int = 0
    denial: str | None = None
    before_permit: Callable[[Attempt], None] = lambda _: None
    before_report: Callable[[AnyReport], None] = lambda _: None
    after_report: Callable[[AnyReport], None] = lambda _: None
    alter: Callable[[PollReply], PollReply] = lambda reply: reply

    def poll(self, poll: Poll) -> PollReply:
        if poll.incarnation != self.incarnation:
            self._replace(poll)
        assert poll.number > self.number, "numbers grow"
        self.number = poll.number
        for key in self.ready[: poll.slots]:
            self.ready.remove(key)
            self.attempts[key] = Attempt(claim(key, incarnation=poll.incarnation, ledger=poll.ledger))
        return self.alter(self._reply())

    def differs(self, poll: Poll) -> bool:
        held = {(each.run_id, each.attempt) for each in poll.held}
        reply = self._reply()
        return (
            bool(reply.stops)
            or self.retired
            or any(claim.binding.run_id not in {run for run, _ in held} for claim in reply.claims)
        )

    def permit(self, binding: Binding, reservation: str) -> Answer:
        attempt = self.attempts[(binding.run_id, binding.attempt)]
        self.before_permit(attempt)
        if self.denial is not None:
            return Answer("denied", reason=self.denial)
        if attempt.claim.binding != binding or attempt.reservation not in {None, reservation}:
            return Answer("denied", reason="other_claim")
        if attempt.state == "Admitted":
            return Answer("granted", token=attempt.token)
        if attempt.state != "Claimed":
            return Answer("denied", reason=attempt.state.lower())
        self.tokens += 1
        attempt.state, attempt.reservation, attempt.token = "Admitted", reservation, self.tokens
        return Answer("granted", token=self.tokens)

    def fence(self, binding: Binding) -> Answer:
        attempt = self.attempts[(binding.run_id, binding.attempt)]
        if attempt.token is not None:
            return Answer("permit_exists")
        self._to(attempt, "NotLaunched")
        return Answer("fenced")

    def report(self, report: AnyReport) -> Answer:
        self.before_report(report)
        answer = self._record(report)
        self.after_report(report)
        return answer

    def _record(self, report: AnyReport) -> Answer:
        attempt = self.attempts.get((report.run_id, report.attempt))
        if attempt is None:
            return Answer("no_such_run")
        attempt.heard.append(report)
        if attempt.state == "Claimed":
            return Answer("denied", reason="claimed")
        if attempt.state in TERMINAL:
            return Answer("evidence")
        cancelling = attempt.state == "Cancelling"
        match report:
            case Accept():
                attempt.state = "Accepted" if attempt.state == "Admitted" else attempt.state
            case Finish(succeeded=succeeded, reason=reason):
                self._to(attempt, "Succeeded" if succeeded else "Failed", reason)
            case Forfeit():
                self._to(attempt, *(("Cancelled",) if cancelling else ("Failed", "not_consumed")))
            case ConfirmStopped():
                if not cancelling:
                    return Answer("denied", reason=attempt.state.lower())
                self._to(attempt, "Cancelled")
            case CannotTell():
                attempt.unresolved = cancelling
                attempt.state = attempt.state if cancelling else "Unknown"
        return Answer("recorded")

    def cancel(self, key: Key) -> None:
        attempt = self.attempts.get(key)
        if attempt is None:
            self.ready = [each for each in self.ready if each != key]
        elif attempt.state == "Claimed":
            self._to(attempt, "NotLaunched", again=False)
        elif attempt.state not in TERMINAL:
            attempt.unresolved = attempt.state == "Unknown"
            attempt.state = "Cancelling"

    @property
    def settled(self) -> bool:
        return not self.ready and all(
            each.state in TERMINAL or each.state == "Unknown" or each.unresolved for each in self.attempts.values()
        )

    def _replace(self, poll: Poll) -> None:
        seen = {(each.run_id, each.attempt) for each in poll.held if each.observable}
        self.incarnation, self.number, self.retired = poll.incarnation, 0, False
        for attempt in list(self.attempts.values()):
            if attempt.state == "Claimed":
                self._to(attempt, "NotLaunched")
            elif attempt.state in {"Admitted", "Accepted"} and attempt.key not in seen:
                attempt.state = "Unknown"
            elif attempt.state == "Cancelling" and attempt.key not in seen:
                attempt.unresolved = True

    def _to(self, attempt: Attempt, state: str, reason: str | None = None, *, again: bool = True) -> None:
        attempt.state, attempt.reason, attempt.unresolved = state, reason, False
        if again and (state == "NotLaunched" or reason == "not_consumed"):
            self.ready.append((attempt.key[0], attempt.key[1] + 1))

    def _reply(self) -> PollReply:
        mine = [each for each in self.attempts.values() if each.claim.binding.incarnation == self.incarnation]
        return PollReply(
            version=1,
            owner="node1",
            epoch=1,
            cluster_id="c",
            generation=1,
            claims=[each.claim for each in mine if each.state == "Claimed"],
            stops=[Stop(*each.key) for each in self.attempts.values() if each.state == "Cancelling"],
            retired=self.retired,
        )


def claim(key: Key, *, incarnation: str, ledger: str, target: CommandTarget | None = None) -> Claim:
    binding = Binding(
        cluster_id="c",
        generation=1,
        namespace="demo",
        schedule_id="s",
        occurrence="2026-01-01T00:00:00Z",
        run_id=key[0],
        attempt=key[1],
        owner="node1",
        epoch=1,
        worker="w1",
        incarnation=incarnation,
        ledger=ledger,
        digest="d",
        authority="default",
    )
    return Claim(
        binding=binding,
        schedule="close",
        scheduled_for="2026-01-01T00:00:00Z",
        idempotency_key="k" * 64,
        target=target if target is not None else CommandTarget(argv=("true",)),
        not_before_ms=0,
    )


@dataclass
class Work:
    world: "World"
    key: Key
    receipt: Receipt
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        self.stopped.set()
        if self.world.addressable:
            self.world.stopping.add(self.key)  # the engine knows, whoever observes it then

    async def observe(self) -> Outcome:
        world = self.world
        left_s = world.ends_at_s[self.key] - world.loop.time() if world.addressable else world.ends_after_s[self.key]
        if self.key in world.stopping:
            self.stopped.set()
        try:
            async with asyncio.timeout(max(left_s, 0.0)):
                await self.stopped.wait()
                await asyncio.sleep(world.stop_takes_s)
        except TimeoutError:
            pass
        if world.survives is not None:
            raise OutcomeUnknown(world.survives)
        killed = self.stopped.is_set()
        world.alive.discard(self.key)
        return Outcome(
            succeeded=not killed, reason="exit" if killed else None, exit_code=-15 if killed else 0, ended_ms=5
        )


class World:
    """Everything around the worker's process; one life after another goes through `life`."""

    def __init__(self, loop: VirtualLoop, data_dir: Path, *, seed: int = 1) -> None:
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.data_dir = data_dir
        self.owner = Owner()
        self.random = Random(seed)
        self.submitted: Counter[Key] = Counter()
        self.alive: set[Key] = set()
        self.ends_after_s: dict[Key, float] = {}
        self.ends_at_s: dict[Key, float] = {}
        self.work_s = 1.0
        self.stop_takes_s = 0.5
        self.addressable = False
        self.reattached: Counter[Key] = Counter()
        self.stopping: set[Key] = set()
        self.refuses: str | None = None
        self.survives: str | None = None
        self.submit_takes_s = 0.0
        self.fuse = Fuse()
        self.lose_reply: Callable[[object], bool] = lambda _: False
        self.down: Callable[[], bool] = lambda: False
        self.sent: list[object] = []

    # the engine

    async def submit(self, capability: LaunchCapability, claim: Claim) -> Work:
        key = (claim.binding.run_id, claim.binding.attempt)
        self.fuse.pass_by("before submit")
        capability.spend(*key)
        await asyncio.sleep(self.submit_takes_s)
        self.fuse.pass_by("inside submit")
        if self.refuses is not None:
            raise Refused(self.refuses)
        self.submitted[key] += 1
        assert self.submitted[key] == 1, f"{key} was submitted twice"
        self.alive.add(key)
        self.ends_after_s[key] = self.work_s
        self.ends_at_s[key] = self.loop.time() + self.work_s
        self.fuse.pass_by("after submit")
        return Work(self, key, Receipt(execution_id=f"x/{key[0]}", started_ms=1))

    def reattach(self, trace: Trace) -> Work | None:
        if not self.addressable:
            return None
        key = (trace.run_id, trace.attempt)
        assert trace.execution_id == f"x/{key[0]}", "only work with a receipt is addressed"
        self.reattached[key] += 1
        self.fuse.pass_by("reattach")
        return Work(self, key, Receipt(execution_id=trace.execution_id, started_ms=1))

    def prove(self, trace: Trace) -> str:
        return "alive" if (trace.run_id, trace.attempt) in self.alive else "nothing alive"

    # the admission port

    async def poll(self, message: Poll) -> PollReply:
        await self._send(message)
        reply = self.owner.poll(message)
        end_s = self.loop.time() + message.wait_s
        while not self.owner.differs(message) and self.loop.time() < end_s:
            await asyncio.sleep(0.1)
            if self.owner.incarnation == message.incarnation and self.owner.number == message.number:
                self.owner.number -= 1
                reply = self.owner.poll(message)
        self._reply(message)
        return reply

    async def permits(self, message: Permits) -> Sequence[Answer]:
        await self._send(message)
        answers = [self.owner.permit(item.binding, item.reservation) for item in message.items]
        self._reply(message)
        return answers

    async def fences(self, message: Fences) -> Sequence[Answer]:
        await self._send(message)
        answers = [self.owner.fence(item.binding) for item in message.items]
        self._reply(message)
        return answers

    async def reports(self, message: Reports) -> Sequence[Answer]:
        await self._send(message)
        answers = []
        for item in message.items:
            if isinstance(item, ConfirmStopped):
                assert (item.run_id, item.attempt) not in self.alive, "said stopped, and it is alive"
            answers.append(self.owner.report(item))
        self._reply(message)
        return answers

    async def _send(self, message: object) -> None:
        self.fuse.pass_by(f"before sending {type(message).__name__}")
        self.sent.append(message)
        if self.down():
            raise Unreachable("nobody owns")
        await asyncio.sleep(0.01)

    def _reply(self, message: object) -> None:
        self.fuse.pass_by(f"before hearing of {type(message).__name__}")
        if self.lose_reply(message):
            raise ReplyLost("lost on the way")

    # lives

    def open(self) -> Ledger:
        ledger = FusedLedger.open(self.data_dir, worker="w1", clock=self.clock, randomness=self.random)
        ledger.fuse = self.fuse
        return ledger

    @contextmanager
    def worker(
        self, *, slots: int = 4, timing: Timing | None = None, pools: set[str] | None = None
    ) -> Iterator[Worker]:
        ledger = self.open()
        try:
            yield Worker(
                slots=slots,
                ledger=ledger,
                engine=self,
                admission=self,
                clock=self.clock,
                randomness=self.random,
                timing=timing if timing is not None else Timing(),
                pools=pools,
            )
        finally:
            ledger.close()

    async def life(self, until: Callable[[], bool] | None = None, *, slots: int = 4) -> bool:
        """Run one process life until a condition holds and it has drained; False if the fuse killed it."""
        with self.worker(slots=slots) as worker:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(worker.run())
                    await self.holds(until if until is not None else lambda: self.owner.settled)
                    worker.drain()
            except BaseExceptionGroup as faults:
                _, rest = faults.split(Killed)
                if rest is not None:
                    raise rest from None
                return False
        return True

    async def holds(self, condition: Callable[[], bool], within_s: float = 600.0) -> None:
        """Wait, in virtual time, until a condition holds."""
        end_s = self.loop.time() + within_s
        while not condition():
            assert self.loop.time() < end_s, "it never came to pass"
            await asyncio.sleep(0.05)

    def rows_unanswered(self) -> int:
        ledger = self.open()
        try:
            return len(ledger.unanswered())
        finally:
            ledger.close()

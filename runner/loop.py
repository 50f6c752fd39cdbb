"""The one serialized loop: everything enqueues, each turn proposes one compare-and-set, each caller gets its result.

Nothing else in this voter proposes while the loop drives (the acquisition comes before it). A turn reads the checkpoint
at the revision that it expects, so what it decides and what it commits belong together; whatever came between makes the
command void as a whole.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from cluster.outcome import NotApplied, OutcomeUnknown, Why
from cluster.ports import Clock
from runner.aside import plan_of
from runner.checkpoint import ops
from runner.checkpoint.ops import Op
from runner.checkpoint.records import AttemptState
from runner.checkpoint.results import OpResult
from runner.deadlines import watch
from runner.draft import FORGET_EVERY_S, MAX_DRAINED, Circumstances, Draft, draft, edited_by
from runner.inbox import MAX_OP_BYTES, Entry, Inbox, answer_all, outcomes
from runner.ports import Node
from runner.proposing import Proposer
from runner.settings import Timing
from runner.succession import could_move
from runner.tenure import Overtaken, Tenure
from runner.trusted_time import Reckoning, accepted, fresh_clocks, look, state_of
from runner.view import View, Wants, read

# After these the voter cannot go on under this epoch; after the others (queue or store full) the next look tries again.
_ENDS_TENURE: Final = frozenset({Why.NOT_LEADER, Why.CLOSED})

_SCHEDULE: Final = "schedule:"  # how a result names a schedule's row that it changed

_log = structlog.get_logger("runner.loop")


class Loop:
    """The owner's loop; idle, and refusing everything, while this voter does not own the checkpoint."""

    def __init__(
        self,
        *,
        node: Node,
        clock: Clock,
        name: str,
        voters: int,
        timing: Timing,
        aim: Callable[[float | None], None],
    ) -> None:
        """Wire the loop.

        Args:
            node: where commands become durable.
            clock: this voter's clocks.
            name: this voter's name, the actor of its commands.
            voters: how many voters the cluster has.
            timing: the owner's deadlines.
            aim: told after each turn in how many seconds the next planned instant is; None if there is no telling.
        """
        self._node = node
        self._clock = clock
        self._voters = voters
        self._timing = timing
        self._proposer = Proposer(node=node, name=name, timing=timing, before_each=self._advance)
        self._inbox = Inbox()
        self._wake = asyncio.Event()
        self._tenure: Tenure | None = None
        self._steps = 0
        self._turning = False
        self._aim = aim

    @property
    def tenure(self) -> Tenure | None:
        """Return the tenure under which this voter drives, or None."""
        tenure = self._tenure
        return tenure if tenure is not None and not tenure.ended else None

    @property
    def steps(self) -> int:
        """Return a number that grows with each turn and with each command of one."""
        return self._steps

    @property
    def turning(self) -> bool:
        """Return whether a turn is under way."""
        return self._turning

    def look(self) -> None:
        """Ask for a turn: the clock, a poll or an operation may have something for it."""
        self._wake.set()

    def takeover_now_ms(self, committed_ms: int) -> int:
        """Return the now of a first command: what the clocks say, unless they are far behind the checkpoint."""
        return self._look(None, committed_ms).now_ms

    def wind_down(self) -> None:
        """Begin nothing more: no run, no claim, no edit; reports, permits and cancellations go on."""
        if self._tenure is not None:
            self._tenure.winding_down, self._tenure.waited_for = True, None  # what was claimed last is not in it yet
            self._inbox.close_ordinary(NotApplied(Why.CLOSED, "this voter is stopping and none could follow it"))
            self._wake.set()

    def end(self) -> None:
        """End the tenure once the turn under way is over."""
        if self._tenure is not None:
            self._tenure.end()
            self._wake.set()

    async def submit(self, batch: Sequence[Op]) -> tuple[OpResult, ...]:
        """Enqueue the operations of one caller and wait for their results, in order.

        Blocks: until they were proposed and answered; a turn takes a round of the cluster. Cancelled before its turn,
        nothing was proposed; in its turn, the outcome is unknown.

        Raises:
            NotApplied: of at least one; this voter does not own, has too much waiting, or its command changed nothing.
            OutcomeUnknown: of at least one; what became of it will show only in the checkpoint.
        """
        entries = self._inbox.put(batch)
        self._wake.set()
        return await outcomes(entries)

    async def drive(self, tenure: Tenure) -> None:
        """Turn until the tenure ends.

        Raises:
            Overtaken: a command of this owner was stale or conflicting.
            NotApplied: the node no longer leads or is closed.
            OutcomeUnknown: leadership ended with a command pending.
        """
        self._tenure = tenure
        self._inbox.open()
        self._wake.set()
        try:
            while not tenure.ended:
                await self._wake.wait()
                self._wake.clear()
                if await self._turn(tenure):
                    self._wake.set()
                await asyncio.sleep(0)  # a turn that proposed nothing has not let anything else run
        finally:
            self._tenure = None
            tenure.end()
            self._inbox.close(NotApplied(Why.NOT_LEADER, "ownership ended before this was proposed"))
            self._aim(None)

    async def _turn(self, tenure: Tenure) -> bool:
        """Propose what there is, once; returns whether another turn may have something to do."""
        self._advance()
        self._turning = True
        entries = unproposed = self._inbox.drain(MAX_DRAINED, MAX_OP_BYTES)
        could_commit = again = False
        try:
            found = await self._draft(tenure, entries)
            unproposed = found.put_back
            again = await self._commit(tenure, found)
            could_commit = True
        except NotApplied as why:
            answer_all(entries, why)
            if why.why in _ENDS_TENURE:
                raise
            _log.warning("command not applied", why=str(why), callers=len(entries))
        finally:
            # Whatever ended the turn, cancellation too: what was not proposed is not done, the rest is unknown.
            self._inbox.put_back(unproposed)
            waiting = {id(entry) for entry in unproposed}
            answer_all((entry for entry in entries if id(entry) not in waiting), _unknown())
            tenure.served.turned(self._clock.mono_s(), could_commit=could_commit)
            self._turning = False
        if tenure.moves and could_commit:
            tenure.end()
        self._point_pulse(tenure)
        return could_commit and (again or len(self._inbox) > 0 or not tenure.aims.complete)

    async def _draft(self, tenure: Tenure, entries: Sequence[Entry]) -> Draft:
        """Look at the clocks, read the checkpoint, and decide."""
        reckoning = self._reckon(tenure)
        view = await self._node.read(lambda db: read(db, self._wants(tenure, entries, reckoning.now_ms)))
        if (view.head.epoch, view.head.revision) != (tenure.epoch, tenure.revision):
            raise Overtaken(f"the checkpoint is at revision {view.head.revision}, not {tenure.revision}")
        self._derive(tenure, view)
        now = Circumstances(
            now_ms=reckoning.now_ms,
            stepped=reckoning.stepped,
            drained=len(self._inbox) == 0,
            could_move=could_move(self._node.status()),
        )
        return draft(entries, view, tenure, now, self._timing)

    def _reckon(self, tenure: Tenure) -> Reckoning:
        before = tenure.reckoning
        tenure.reckoning = found = self._look(before, tenure.now_ms)
        state = state_of(found, self._timing)
        if state is not state_of(before, self._timing):
            _log.warning("clock", state=state.value, median_ms=found.median_ms, now_ms=found.now_ms)
        return found

    def _look(self, before: Reckoning | None, committed_ms: int) -> Reckoning:
        mono_s = self._clock.mono_s()
        wall_ms, peers = self._clock.wall_ms(), self._node.clocks()
        clocks = fresh_clocks(wall_ms, peers, mono_s=mono_s, seen_s=self._timing.clock_seen_s)
        return look(before, clocks, mono_s=mono_s, committed_ms=committed_ms, voters=self._voters, timing=self._timing)

    def _wants(self, tenure: Tenure, entries: Sequence[Entry], now_ms: int) -> Wants:
        edited = [edited_by(entry.op) for entry in entries]
        served_s = tenure.served.served_s
        return Wants(
            now_ms=now_ms,
            edited=frozenset().union(*edited),
            enabled=not tenure.aims.listed,
            schedules=tenure.aims.wanted(now_ms, lambda one: tenure.aside.holds(plan_of(one), served_s)),
            roomy=tuple(one for one in tenure.contacts if one.slots > 0),
            served_s=served_s,
            poll_s=self._timing.poll_s,
            walk=tenure.walk,
            retention_after=tenure.retention_after,
        )

    @staticmethod
    def _derive(tenure: Tenure, view: View) -> None:
        """Bring what the tenure keeps in memory up to the view."""
        tenure.watches = watch(tenure.watches, view.attempts, tenure.served.served_s)
        tenure.walk = view.walk
        if view.expired is not None:
            tenure.sweep.take(view.expired, tenure.served.served_s)
        tenure.contacts.forget_asks(tenure.watches)
        tenure.waited_for = sum(
            attempt.state is not AttemptState.CANCELLING or not attempt.unresolved for attempt in view.attempts
        )
        if not tenure.aims.listed:
            tenure.aims.line_up(view.enabled)
        # What an edit waits for comes first, but never takes the whole turn.
        for rows in (view.edited.values(), view.schedules):
            for schedule_id, fault in tenure.aims.take(rows):
                _log.error("schedule cannot be planned", schedule_id=schedule_id, fault=fault)

    async def _commit(self, tenure: Tenure, found: Draft) -> bool:
        """Propose the draft; returns whether anything changed."""
        now_ms = tenure.reckoning.now_ms if tenure.reckoning else tenure.now_ms
        done = await self._proposer.propose(tenure, found.slots, now_ms) if found.slots else []
        for op, answer in done:
            self._notice(tenure, op, answer)
        tenure.moves = found.moves
        tenure.claimed(found.claimed)
        return any(answer.changed for _, answer in done)

    def _advance(self) -> None:
        self._steps += 1

    @staticmethod
    def _notice(tenure: Tenure, op: Op, answer: OpResult) -> None:
        """Let a committed operation take effect on what is held in memory."""
        if answer.detail.get("cancelled"):  # by overlap: a worker has something to stop
            tenure.contacts.ring_all()
        match op:
            case ops.ClaimOp():
                tenure.contacts.ring(op.worker)
            case ops.CancelOp() | ops.AttestOp() | ops.AttestIncarnationOp() | ops.Restore():
                tenure.contacts.ring_all()
            case ops.Apply() | ops.SetEnabled() | ops.Delete() | ops.Materialise():
                tenure.aims.forget(_schedules_in(answer.changed))
            case ops.AcceptClock() if not answer.again and tenure.reckoning is not None:
                tenure.reckoning = accepted(tenure.reckoning)
                _log.warning("clock accepted", by=op.operation.principal, median_ms=tenure.reckoning.median_ms)
            case ops.ForgetOperations():
                tenure.forget_at_s = tenure.served.served_s + FORGET_EVERY_S
            case _:
                pass

    def _point_pulse(self, tenure: Tenure) -> None:
        """Tell the pulse when the next planned instant is; one already reached and still there waits for a pulse."""
        reckoning = tenure.reckoning
        next_look_ms = tenure.aims.next_look_ms
        if reckoning is None or reckoning.stepped or next_look_ms is None:
            self._aim(None)
        else:
            ahead_ms = next_look_ms - reckoning.now_ms
            self._aim(ahead_ms / 1000 if ahead_ms > 0 else None)


def _schedules_in(changed: Sequence[str]) -> list[str]:
    return [key.removeprefix(_SCHEDULE) for key in changed if key.startswith(_SCHEDULE)]


def _unknown() -> OutcomeUnknown:
    return OutcomeUnknown("ownership ended while this was proposed")
